// SPDX-License-Identifier: Apache-2.0
// Pictures in a build without cairo: each call says what is missing.
#include "base/core/status.h"
#include "report/drawing.h"

static plb_status absent(void) {
    return plb_fail(PLB_EMISSING,
                    "this build of Plumb draws no PNG and no PDF (it was made without "
                    "cairo: install libcairo2-dev and build anew, or ask for svg)");
}

plb_status plb_drawing_png(const plb_drawing *drawing, double scale, plb_strbuf *out) {
    (void)drawing, (void)scale, (void)out;
    return absent();
}

plb_status plb_drawings_pdf(const plb_drawing *const *drawing, size_t count, plb_strbuf *out) {
    (void)drawing, (void)count, (void)out;
    return absent();
}
