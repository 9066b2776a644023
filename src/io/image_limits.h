// SPDX-License-Identifier: Apache-2.0
// What the decoders share.
#ifndef PLB_IO_IMAGE_LIMITS_H
#define PLB_IO_IMAGE_LIMITS_H

#include "io/image.h"

// Refuses a picture of more pixels than allowed. `limits` may be NULL.
PLB_MUST_USE plb_status plb_image_check_size(const char *label, uint64_t height, uint64_t width,
                                             const plb_image_limits *limits);

#endif
