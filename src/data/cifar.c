// SPDX-License-Identifier: Apache-2.0
#include "data/cifar.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/file.h"

enum { PIXEL_BYTES = 3 * 32 * 32 };
static const size_t file_limit_bytes = (size_t)1 << 30;

const char *const plb_cifar10_names[10] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                           "dog",      "frog",       "horse", "ship", "truck"};
// Of the 50,000 training pictures, as fractions.
const float plb_cifar10_mean[3] = {0.4914f, 0.4822f, 0.4465f};
const float plb_cifar10_std[3] = {0.2470f, 0.2435f, 0.2616f};

static const char *const fine_names[100] = {
    "apple",       "aquarium_fish", "baby",      "bear",       "beaver",       "bed",
    "bee",         "beetle",        "bicycle",   "bottle",     "bowl",         "boy",
    "bridge",      "bus",           "butterfly", "camel",      "can",          "castle",
    "caterpillar", "cattle",        "chair",     "chimpanzee", "clock",        "cloud",
    "cockroach",   "couch",         "crab",      "crocodile",  "cup",          "dinosaur",
    "dolphin",     "elephant",      "flatfish",  "forest",     "fox",          "girl",
    "hamster",     "house",         "kangaroo",  "keyboard",   "lamp",         "lawn_mower",
    "leopard",     "lion",          "lizard",    "lobster",    "man",          "maple_tree",
    "motorcycle",  "mountain",      "mouse",     "mushroom",   "oak_tree",     "orange",
    "orchid",      "otter",         "palm_tree", "pear",       "pickup_truck", "pine_tree",
    "plain",       "plate",         "poppy",     "porcupine",  "possum",       "rabbit",
    "raccoon",     "ray",           "road",      "rocket",     "rose",         "sea",
    "seal",        "shark",         "shrew",     "skunk",      "skyscraper",   "snail",
    "snake",       "spider",        "squirrel",  "streetcar",  "sunflower",    "sweet_pepper",
    "table",       "tank",          "telephone", "television", "tiger",        "tractor",
    "train",       "trout",         "tulip",     "turtle",     "wardrobe",     "whale",
    "willow_tree", "wolf",          "woman",     "worm"};

typedef struct edition {
    size_t label_bytes; // before the pixels; the last of them is the label
    const char *train[6], *test[2];
    plb_dataset_info info;
} edition;

static const edition cifar10 = {.label_bytes = 1,
                                .train = {"data_batch_1.bin", "data_batch_2.bin",
                                          "data_batch_3.bin", "data_batch_4.bin",
                                          "data_batch_5.bin"},
                                .test = {"test_batch.bin"},
                                .info = {.name = "cifar10",
                                         .kind = "cifar",
                                         .classes = 10,
                                         .class_names = plb_cifar10_names,
                                         .mean = {0.4914f, 0.4822f, 0.4465f},
                                         .std = {0.2470f, 0.2435f, 0.2616f}}};
static const edition cifar100 = {.label_bytes = 2,
                                 .train = {"train.bin"},
                                 .test = {"test.bin"},
                                 .info = {.name = "cifar100",
                                          .kind = "cifar",
                                          .classes = 100,
                                          .class_names = fine_names,
                                          .mean = {0.5071f, 0.4865f, 0.4409f},
                                          .std = {0.2673f, 0.2564f, 0.2762f}}};

typedef struct records {
    const edition *of;
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
    size_t label_bytes = to->of->label_bytes, record_bytes = label_bytes + PIXEL_BYTES;
    if (size_bytes == 0 || size_bytes % record_bytes)
        return plb_fail(PLB_EINVAL, "%s: expected records of %zu bytes, found %zu bytes", path,
                        record_bytes, size_bytes);
    size_t more = size_bytes / record_bytes;
    PLB_TRY(reserve(to, more, path));
    for (size_t i = 0; i < more; i++, bytes += record_bytes, to->count++) {
        uint8_t label = bytes[label_bytes - 1];
        if (label >= to->of->info.classes)
            return plb_fail(PLB_EINVAL, "%s: label of record %zu: expected below %d, found %d",
                            path, i, (int)to->of->info.classes, label);
        to->labels[to->count] = label;
        memcpy(to->pixels + to->count * PIXEL_BYTES, bytes + label_bytes, PIXEL_BYTES);
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

static plb_status open_edition(const edition *of, const char *folder, plb_data_split split,
                               plb_dataset **out) {
    plb_status status = PLB_OK;
    records all = {.of = of};
    const char *const *names = split == PLB_TRAIN ? of->train : of->test;
    for (int i = 0; names[i]; i++) PLB_TRY_OUT(read_file(&all, folder, names[i]));
    plb_dataset_info info = of->info;
    info.count = (int64_t)all.count;
    info.channels = 3, info.height = info.width = 32, info.dtype = PLB_U8;
    PLB_TRY_OUT(plb_memory_dataset_new(&info, all.pixels, all.labels, out));
    all = (records){0};
out:
    plb_free(all.pixels);
    plb_free(all.labels);
    return status;
}

plb_status plb_cifar10_open(const char *folder, plb_data_split split, plb_dataset **out) {
    return open_edition(&cifar10, folder, split, out);
}

plb_status plb_cifar100_open(const char *folder, plb_data_split split, plb_dataset **out) {
    return open_edition(&cifar100, folder, split, out);
}
