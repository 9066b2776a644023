// SPDX-License-Identifier: Apache-2.0
// CIFAR-10, "binary version" (https://www.cs.toronto.edu/~kriz/cifar.html): files of records, each
// a label byte and 3 x 32 x 32 pixels, planes red, green, blue.
#ifndef PLB_DATA_CIFAR_H
#define PLB_DATA_CIFAR_H

#include "data/dataset.h"

// Reads data_batch_1.bin to data_batch_5.bin, or test_batch.bin, of `folder`. Every file must be
// whole records with labels below 10.
PLB_API PLB_MUST_USE plb_status plb_cifar10_open(const char *folder, plb_data_split split,
                                                 plb_dataset **out);

PLB_API extern const char *const plb_cifar10_names[10];
PLB_API extern const float plb_cifar10_mean[3], plb_cifar10_std[3];

#endif
