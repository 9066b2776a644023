// SPDX-License-Identifier: Apache-2.0
// Every pixel of a picture that is taken was set: the sum looks at each (for the memory sanitizer).
// The middle of what can be decoded can be decoded alone.
#include <stdlib.h>

#include "fuzz.h"
#include "io/image.h"

static plb_image_part choose_middle(void *context, int64_t height, int64_t width) {
    (void)context;
    return (plb_image_part){height / 3, width / 3, (height + 2) / 3, (width + 2) / 3};
}

static void add_up(const plb_image *image) {
    unsigned sum = 0;
    for (int64_t i = 0; i < image->height * image->width * 3; i++) sum += image->pixels[i];
    if (sum > 255u * 3u << 18) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    const plb_image_limits limits = {1 << 18, size_bytes};
    plb_image image;
    if (plb_jpeg_decode(bytes, size_bytes, "input", &limits, &image)) return 0;
    if (image.height * image.width > limits.max_pixels) abort();
    const plb_image_sink sink = {.choose = choose_middle};
    plb_image_part at;
    plb_image part;
    add_up(&image);
    if (plb_jpeg_decode_part(bytes, size_bytes, "input", &limits, &sink, &at, &part)) abort();
    if (at.top > image.height / 3 || at.left > image.width / 3 || at.height != part.height) abort();
    add_up(&part);
    plb_image_free(&part);
    plb_image_free(&image);
    return 0;
}
