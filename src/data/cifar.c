// SPDX-License-Identifier: Apache-2.0
#include "data/cifar.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/file.h"

enum { PIXEL_BYTES = 3 * 32 * 32, RECORD_BYTES = 1 + PIXEL_BYTES, CLASSES = 10 };
static const size_t file_limit_bytes = (size_t)1 << 30;

const char *const plb_cifar10_names[10] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                           "dog",      "frog",       "horse", "ship", "truck"};
// Of the 50,000 training pictures, as fractions.
const float plb_cifar10_mean[3] = {0.4914f, 0.4822f, 0.4465f};
const float plb_cifar10_std[3] = {0.2470f, 0.2435f, 0.2616f};

typedef struct records {
    uint8_t *pixels; // [count,3,32,32]
    int64_t *labels;
    size_t count;
} records;

static plb_status reserve(records *to, size_t more, const char *path) {
    size_t count = to->count + more;
    uint8_t *pixels = plb_realloc_array(to->pixels, count, PIXEL_BYTES);
    if (pixels) to->pixels = pixels;
    int64_t *labels = pixels ? plb_realloc_array(to->labels, count, sizeof *labels) : NULL;
    if (labels) to->labels = labels;
    if (labels) return PLB_OK;
    return plb_fail(PLB_ENOMEM, "%s: no memory for %zu pictures", path, count);
}

static plb_status append(records *to, const uint8_t *bytes, size_t size_bytes, const char *path) {
    if (size_bytes == 0 || size_bytes % RECORD_BYTES)
        return plb_fail(PLB_EINVAL, "%s: expected records of %d bytes, found %zu bytes", path,
                        RECORD_BYTES, size_bytes);
    size_t more = size_bytes / RECORD_BYTES;
    PLB_TRY(reserve(to, more, path));
    for (size_t i = 0; i < more; i++, bytes += RECORD_BYTES, to->count++) {
        if (bytes[0] >= CLASSES)
            return plb_fail(PLB_EINVAL, "%s: label of record %zu: expected below %d, found %d",
                            path, i, CLASSES, bytes[0]);
        to->labels[to->count] = bytes[0];
        memcpy(to->pixels + to->count * PIXEL_BYTES, bytes + 1, PIXEL_BYTES);
    }
    return PLB_OK;
}

static plb_status read_file(records *to, const char *folder, const char *name) {
    char path[PATH_MAX];
    uint8_t *bytes;
    size_t size_bytes;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    PLB_TRY(plb_file_read(path, file_limit_bytes, &bytes, &size_bytes));
    plb_status status = append(to, bytes, size_bytes, path);
    plb_free(bytes);
    return status;
}

plb_status plb_cifar10_open(const char *folder, plb_data_split split, plb_dataset **out) {
    plb_status status = PLB_OK;
    records all = {0};
    int files = split == PLB_TRAIN ? 5 : 1;
    for (int i = 1; i <= files; i++) {
        char name[32] = "test_batch.bin";
        if (split == PLB_TRAIN) snprintf(name, sizeof name, "data_batch_%d.bin", i);
        PLB_TRY_OUT(read_file(&all, folder, name));
    }
    plb_dataset_info info = {.name = "cifar10",
                             .kind = "cifar",
                             .count = (int64_t)all.count,
                             .classes = CLASSES,
                             .channels = 3,
                             .height = 32,
                             .width = 32,
                             .dtype = PLB_U8,
                             .class_names = plb_cifar10_names};
    memcpy(info.mean, plb_cifar10_mean, sizeof plb_cifar10_mean);
    memcpy(info.std, plb_cifar10_std, sizeof plb_cifar10_std);
    PLB_TRY_OUT(plb_memory_dataset_new(&info, all.pixels, all.labels, out));
    all = (records){0};
out:
    plb_free(all.pixels);
    plb_free(all.labels);
    return status;
}
