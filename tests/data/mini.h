// SPDX-License-Identifier: Apache-2.0
// Mini editions of the stored sets, made byte by byte in a folder of the test's own, so that every
// right value is known.
#ifndef PLB_TESTS_DATA_MINI_H
#define PLB_TESTS_DATA_MINI_H

#include <png.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "base/folder.h"
#include "check.h"
#include "data/dataset.h"
#include "faults.h"

static char root[128];

static inline void make_root(void) {
    snprintf(root, sizeof root, "%s", fault_folder());
}

static inline void shell(const char *format, ...) {
    char command[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    CHECK_SAY(system(command) == 0, "%s", command);
}

static inline const char *at(const char *name) {
    static char path[4][320];
    static int next;
    next = (next + 1) % 4;
    snprintf(path[next], sizeof path[next], "%s/%s", root, name);
    return path[next];
}

static inline void write_file(const char *name, const void *bytes, size_t size_bytes) {
    char folder[320];
    snprintf(folder, sizeof folder, "%s", at(name));
    *strrchr(folder, '/') = '\0';
    CHECK_OK(plb_folder_make(folder));
    FILE *file = fopen(at(name), "wb");
    CHECK(file && fwrite(bytes, 1, size_bytes, file) == size_bytes);
    if (file) fclose(file);
}

static inline void write_text(const char *name, const char *text) {
    write_file(name, text, strlen(text));
}

// A PNG of one colour: red = value.
static inline void write_png(const char *name, int side, int value) {
    uint8_t pixels[16 * 16 * 3] = {0}, packed[4000];
    for (int i = 0; i < side * side; i++) pixels[3 * i] = (uint8_t)value;
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)side,
                       .height = (png_uint_32)side,
                       .format = PNG_FORMAT_RGB};
    png_alloc_size_t size = sizeof packed;
    CHECK(png_image_write_to_memory(&image, packed, &size, 0, pixels, 0, NULL));
    write_file(name, packed, size);
}

static inline void check_reds(const plb_dataset *set, const int *reds, const int *labels,
                              int count) {
    CHECK_SAY(set->info.count == count, "found %d", (int)set->info.count);
    for (int i = 0; i < count && i < set->info.count; i++) {
        uint8_t sample[3 * 16 * 16];
        int64_t label;
        CHECK_OK(plb_dataset_get(set, i, NULL, sample, &label));
        CHECK_SAY(sample[0] == reds[i] && label == labels[i], "sample %d: red %d, label %d", i,
                  sample[0], (int)label);
    }
}

#endif
