// SPDX-License-Identifier: Apache-2.0
// A picture of a set: a row for each class, its name, and some of its samples. A swapped split, a
// colour plane that is missing, columns read as rows: one look shows them, no statistic does.
#ifndef PLB_DATA_CONTACT_SHEET_H
#define PLB_DATA_CONTACT_SHEET_H

#include "data/dataset.h"
#include "io/image.h"

typedef struct plb_contact_options {
    const char *title; // NULL: the set's name
    int64_t columns;   // samples of a class; 0: 10
    int64_t rows;      // classes at most, spread over all; 0: 20
    uint64_t seed;     // of which samples are shown
} plb_contact_options;

// Draws the sheet. f32 samples are shown from 0 to 1. out is the caller's to plb_image_free.
PLB_API PLB_MUST_USE plb_status plb_contact_sheet(const plb_dataset *set,
                                                  const plb_contact_options *options,
                                                  plb_image *out);

#endif
