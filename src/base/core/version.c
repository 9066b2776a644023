// SPDX-License-Identifier: Apache-2.0
#include "plumb/version.h"

const char *plb_version(void) {
    return PLUMB_VERSION;
}
