// SPDX-License-Identifier: Apache-2.0
// STL-10 in its binary edition (https://cs.stanford.edu/~acoates/stl10/): train_X.bin and
// test_X.bin hold 3 x 96 x 96 bytes a picture, red plane first, each plane COLUMN by column;
// train_y.bin and test_y.bin one byte a label, counted from 1. Read row by row, every picture is
// mirrored on its diagonal, which is how this set is misread.
#ifndef PLB_DATA_STL10_H
#define PLB_DATA_STL10_H

#include "data/dataset.h"

// The 5,000 labelled pictures to train or the 8,000 to test, in memory, transposed to rows.
// PLB_EINVAL: a file that does not hold whole pictures, another number of labels than pictures, an
// illegal label.
PLB_API PLB_MUST_USE plb_status plb_stl10_open(const char *folder, plb_data_split split,
                                               plb_dataset **out);

#endif
