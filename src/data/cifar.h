// SPDX-License-Identifier: Apache-2.0
// CIFAR-10 and CIFAR-100 in their binary editions (https://www.cs.toronto.edu/~kriz/cifar.html):
// records without gaps, each one label byte (CIFAR-100: a coarse one, then the fine one, which is
// the label here) and 3 x 32 x 32 pixels, red plane first, row by row.
#ifndef PLB_DATA_CIFAR_H
#define PLB_DATA_CIFAR_H

#include "data/dataset.h"

PLB_API extern const char *const plb_cifar10_names[10];
PLB_API extern const float plb_cifar10_mean[3], plb_cifar10_std[3];

// Reads the split's files in `folder` into memory: data_batch_1.bin to _5.bin and test_batch.bin,
// or train.bin and test.bin. PLB_EINVAL: a file that is not made of whole records, an illegal
// label.
PLB_API PLB_MUST_USE plb_status plb_cifar10_open(const char *folder, plb_data_split split,
                                                 plb_dataset **out);
PLB_API PLB_MUST_USE plb_status plb_cifar100_open(const char *folder, plb_data_split split,
                                                  plb_dataset **out);

#endif
