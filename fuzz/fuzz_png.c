// SPDX-License-Identifier: Apache-2.0
// Every pixel of a picture that is taken was set: the sum looks at each (for the memory sanitizer).
#include <stdlib.h>

#include "fuzz.h"
#include "io/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    const plb_image_limits limits = {1 << 18, size_bytes};
    plb_image image;
    if (plb_png_decode(bytes, size_bytes, "input", &limits, &image)) return 0;
    if (image.height * image.width > limits.max_pixels) abort();
    unsigned sum = 0;
    for (int64_t i = 0; i < image.height * image.width * 3; i++) sum += image.pixels[i];
    if (sum > 255u * 3u << 18) abort();
    plb_image_free(&image);
    return 0;
}
