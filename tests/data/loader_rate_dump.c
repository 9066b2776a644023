// SPDX-License-Identifier: Apache-2.0
// How fast the loader is beside libjpeg-turbo alone, on one core: processor time of decoding every
// picture of a set, with nothing but libjpeg-turbo and through the loader, least of several rounds.
//
//     loader_rate_dump FOLDER-OR-TAR [SIZE]     SIZE: resized to it; 0: as they are
#include <stdio.h>

#include <jpeglib.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "data/archive.h"
#include "data/loader.h"
#include "data/registry.h"

enum { ROUNDS = 7, MOST = 8192, ROW_BYTES = 1 << 16 };

static struct {
    uint8_t *bytes;
    size_t size_bytes;
} pictures[MOST];
static int count;

static double processor_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static plb_status keep(void *context, const char *name, const uint8_t *bytes, size_t size_bytes) {
    (void)context, (void)name;
    if (count == MOST) return PLB_OK;
    pictures[count].bytes = memcpy(plb_alloc(size_bytes), bytes, size_bytes);
    pictures[count++].size_bytes = size_bytes;
    return PLB_OK;
}

// Four rows a call, which is more than libjpeg-turbo hands out at once.
static void decode(const uint8_t *bytes, size_t size_bytes, uint8_t *rows) {
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr errors;
    d.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&d);
    jpeg_mem_src(&d, bytes, size_bytes);
    jpeg_read_header(&d, TRUE);
    d.out_color_space = JCS_RGB;
    jpeg_start_decompress(&d);
    while (d.output_scanline < d.output_height) {
        JSAMPROW row[4];
        for (int i = 0; i < 4; i++) row[i] = rows + i * ROW_BYTES;
        jpeg_read_scanlines(&d, row, 4);
    }
    jpeg_finish_decompress(&d);
    jpeg_destroy_decompress(&d);
}

static double alone_s(void) {
    uint8_t *rows = plb_alloc(4 * ROW_BYTES);
    double best = 1e9;
    for (int r = 0; r < ROUNDS; r++) {
        double begin = processor_s();
        for (int i = 0; i < count; i++) decode(pictures[i].bytes, pictures[i].size_bytes, rows);
        double spent = processor_s() - begin;
        best = spent < best ? spent : best;
    }
    plb_free(rows);
    return best;
}

static plb_status loaded_s(const char *path, int64_t size, double *out) {
    plb_dataset *set = NULL;
    plb_loader *loader = NULL;
    plb_dataset_options options = {.size = size};
    plb_loader_options load = {.batch = 32, .limit = count, .shuffle = true, .flip = true};
    plb_status status;
    PLB_TRY_OUT(plb_dataset_open(path, PLB_TRAIN, &options, &set));
    PLB_TRY_OUT(plb_loader_new(set, &load, &loader));
    *out = 1e9;
    for (int r = 0; r < ROUNDS; r++) {
        double begin = processor_s();
        for (int64_t b = 0; b < plb_loader_batches(loader); b++) {
            plb_batch batch;
            PLB_TRY_OUT(plb_loader_next(loader, &batch));
        }
        double spent = processor_s() - begin;
        *out = spent < *out ? spent : *out;
    }
out:
    plb_loader_free(loader);
    plb_dataset_free(set);
    return status;
}

int main(int argc, char **argv) {
    double loaded = 0;
    int64_t size = argc > 2 ? atoll(argv[2]) : 0;
    plb_status status =
        argc > 1 ? plb_archive_walk(argv[1], 1 << 26, NULL, keep, NULL) : PLB_EINVAL;
    if (!status) status = loaded_s(argv[1], size, &loaded);
    if (status) {
        fprintf(stderr, "%s\n", argc > 1 ? plb_error_text() : "expected a tar file of JPEGs");
        return 2;
    }
    double alone = alone_s();
    printf("%d pictures: libjpeg-turbo alone %.1f/s, loader %.1f/s: %.2f of it\n", count,
           count / alone, count / loaded, alone / loaded);
    for (int i = 0; i < count; i++) plb_free(pictures[i].bytes);
    return 0;
}
