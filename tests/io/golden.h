// SPDX-License-Identifier: Apache-2.0
// tests/golden/images.txt, what PIL and torchvision make of images: tools/golden_images.py says
// what a line holds. Paths under fuzz/corpus/ are in the repository; the others lie in archives of
// the test data, which are unpacked once.
#ifndef PLB_TESTS_IO_GOLDEN_H
#define PLB_TESTS_IO_GOLDEN_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "io/image.h"
#include "peer.h"

typedef struct golden {
    char name[256], path[512];
    int64_t height, width, short_height, short_width;
    uint32_t crc, short_crc, square_crc, crop_crc, values_crc;
    int samples[16];
} golden;

static inline uint32_t golden_crc(const void *bytes, size_t size) {
    return (uint32_t)crc32_z(0, bytes, size);
}

static inline uint32_t golden_image_crc(const plb_image *image) {
    return golden_crc(image->pixels, (size_t)(image->height * image->width * 3));
}

// A folder with the photos of the test data, or NULL where they are not there.
static inline const char *golden_unpack(void) {
    static char folder[] = "/tmp/plumb-golden-XXXXXX";
    if (!mkdtemp(folder)) return NULL;
    const char *const archives[] = {"images/imagenet-samples.tar", "images/voc-samples.tar.gz"};
    for (int i = 0; i < 2; i++) {
        char line[2048];
        snprintf(line, sizeof line, "tar xf '%s' -C %s 2>/dev/null", test_data(archives[i]),
                 folder);
        if (system(line) != 0) return NULL;
    }
    return folder;
}

static inline void golden_remove(const char *folder) {
    char line[128];
    snprintf(line, sizeof line, "rm -r -- '%s'", folder);
    if (system(line) != 0) fprintf(stderr, "could not remove %s\n", folder);
}

// Calls `each` for every line of photos in `folder`, or, with NULL, of files in the repository.
// Returns the number of lines.
static inline int golden_for_each(const char *folder, void (*each)(const golden *)) {
    FILE *file = fopen("tests/golden/images.txt", "r");
    char line[1024];
    int count = 0;
    while (file && fgets(line, sizeof line, file)) {
        golden g;
        long long size[4];
        int at = 0;
        if (sscanf(line, "%255s %lld %lld %x %lld %lld %x %x %x %x%n", g.name, &size[0], &size[1],
                   &g.crc, &size[2], &size[3], &g.short_crc, &g.square_crc, &g.crop_crc,
                   &g.values_crc, &at) != 10) {
            continue; // the comment
        }
        g.height = size[0], g.width = size[1], g.short_height = size[2], g.short_width = size[3];
        const char *rest = line + at;
        for (int i = 0; i < 16; i++) g.samples[i] = (int)strtol(rest, (char **)&rest, 10);
        bool ours = strncmp(g.name, "fuzz/", 5) == 0;
        if (ours == (folder != NULL)) continue;
        snprintf(g.path, sizeof g.path, "%s%s%s", folder ? folder : "", folder ? "/" : "", g.name);
        each(&g);
        count++;
    }
    if (file) fclose(file);
    return count;
}

#endif
