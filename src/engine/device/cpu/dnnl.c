// SPDX-License-Identifier: Apache-2.0
// The one file that talks to oneDNN. Its versions 2 and 3 differ in how primitives are described;
// everything above this file sees neither.
#include <stdio.h>

#include "engine/device/cpu/cpu.h"

#ifdef PLB_HAVE_DNNL
#include <oneapi/dnnl/dnnl.h>

const char *plb_dnnl_version(void) {
    static char text[48];
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "dnnl%d.%d.%d", v->major, v->minor, v->patch);
    return text;
}
#else
const char *plb_dnnl_version(void) {
    return "no-dnnl";
}
#endif
