// SPDX-License-Identifier: Apache-2.0
// The colours of all figures and pages. A paint is a role, which becomes another colour on a dark
// page, or a fixed colour (cells of heat maps). Series colours keep apart for readers who do not
// see red or green, by lightness as well as hue (tests/report/test_report.c), and no figure tells
// series apart by colour alone.
#ifndef PLB_REPORT_PALETTE_H
#define PLB_REPORT_PALETTE_H

#include <stdint.h>

#include "plumb/status.h"

enum { PLB_PALETTE = 11 }; // colours of series, counted from 1

typedef uint32_t plb_ink;
enum {
    PLB_INK_NONE,
    PLB_INK_TEXT,
    PLB_INK_FAINT, // text beside the point
    PLB_INK_GRID,
    PLB_INK_WASH,  // the ground of what has no value
    PLB_INK_PAPER, // the page
    PLB_INK_SERIES // + 1 … + PLB_PALETTE
};
#define PLB_INK_RGB(rgb) ((plb_ink)(UINT32_C(0x1000000) | (uint32_t)(rgb)))

// The colour as 0xRRGGBB on a light or a dark page.
PLB_API uint32_t plb_ink_rgb(plb_ink ink, int dark);
// The class of CSS that fills with it: "f1"; static. NULL for a fixed colour.
PLB_API const char *plb_ink_class(plb_ink ink);

// share in [0, 1]: from light to dark, readable in grey too.
PLB_API uint32_t plb_ramp(double share);
// share in [-1, 1]: blue below 0, orange above, pale at 0.
PLB_API uint32_t plb_ramp_ratio(double share);
// Black or white, whichever is read better on this colour.
PLB_API plb_ink plb_ink_over(uint32_t rgb);

#endif
