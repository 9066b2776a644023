// SPDX-License-Identifier: Apache-2.0
// What could be saved, at most, and why: sentences with seconds, the most first. No sentence
// without a number, and no number that was not measured.
#ifndef PLB_PROBE_ADVICE_H
#define PLB_PROBE_ADVICE_H

#include "probe/profile.h"

enum { PLB_ADVICE_MAX = 16, PLB_ADVICE_BYTES = 320 };

typedef struct plb_advice {
    double seconds; // that it could save at most
    char text[PLB_ADVICE_BYTES];
} plb_advice;

// Returns how many there are.
int plb_advice_of(const plb_profile *profile, plb_advice out[PLB_ADVICE_MAX]);

#endif
