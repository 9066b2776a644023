// SPDX-License-Identifier: Apache-2.0
#include "data/idx.h"

#include <zlib.h>

#include "base/core/alloc.h"
#include "check.h"

static const plb_dataset_info ten = {.name = "test", .classes = 10};

// 2 images of 2 x 3.
static const uint8_t images_bytes[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0,  0,
                                       0, 3, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255};
static const uint8_t labels_bytes[] = {0, 0, 8, 1, 0, 0, 0, 2, 9, 3};

static size_t gzip(const uint8_t *from, size_t size_bytes, uint8_t *to, size_t room_bytes) {
    z_stream stream = {.next_in = (z_const Bytef *)from,
                       .avail_in = (uInt)size_bytes,
                       .next_out = to,
                       .avail_out = (uInt)room_bytes};
    if (deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 9, Z_DEFAULT_STRATEGY)) return 0;
    deflate(&stream, Z_FINISH);
    deflateEnd(&stream);
    return stream.total_out;
}

static plb_status pair(const void *images, size_t images_size, const void *labels,
                       size_t labels_size, plb_dataset **out) {
    plb_idx x = {0}, y = {0};
    plb_status status = plb_idx_decode(images, images_size, "x.idx", &x);
    if (!status) status = plb_idx_decode(labels, labels_size, "y.idx", &y);
    if (!status) status = plb_idx_dataset_new(&ten, &x, "x.idx", &y, "y.idx", out);
    plb_free(x.data);
    plb_free(y.data);
    return status;
}

static void a_plain_pair_becomes_a_dataset(void) {
    plb_dataset *set = NULL;
    CHECK_OK(pair(images_bytes, sizeof images_bytes, labels_bytes, sizeof labels_bytes, &set));
    CHECK(set && set->info.count == 2 && set->info.channels == 1);
    CHECK(set->info.height == 2 && set->info.width == 3 && set->info.dtype == PLB_U8);
    uint8_t sample[6];
    int64_t label = -1;
    CHECK_OK(plb_dataset_get(set, 1, NULL, sample, &label));
    CHECK(label == 3 && sample[0] == 6 && sample[5] == 255);
    CHECK_FAILS(PLB_EINVAL, "sample 2: expected one of 0 to 1",
                plb_dataset_get(set, 2, NULL, sample, &label));
    CHECK_FAILS(PLB_EINVAL, "sample -1", plb_dataset_get(set, -1, NULL, sample, &label));
    plb_dataset_free(set);
}

static void gzip_gives_the_same_in_one_or_several_members(void) {
    uint8_t packed[256];
    plb_idx idx;
    size_t size = gzip(images_bytes, sizeof images_bytes, packed, sizeof packed);
    CHECK_OK(plb_idx_decode(packed, size, "x.gz", &idx));
    CHECK(memcmp(idx.data, images_bytes + 16, 12) == 0);
    plb_free(idx.data);
    size = gzip(images_bytes, 10, packed, sizeof packed); // the header itself is split
    size += gzip(images_bytes + 10, sizeof images_bytes - 10, packed + size, sizeof packed - size);
    CHECK_OK(plb_idx_decode(packed, size, "x.gz", &idx));
    CHECK(memcmp(idx.data, images_bytes + 16, 12) == 0);
    plb_free(idx.data);
}

static void every_truncation_is_refused(void) {
    uint8_t packed[256];
    size_t packed_size = gzip(images_bytes, sizeof images_bytes, packed, sizeof packed);
    plb_idx idx;
    for (size_t n = 0; n < sizeof images_bytes; n++)
        CHECK(plb_idx_decode(images_bytes, n, "x", &idx) == PLB_EINVAL && !idx.data);
    for (size_t n = 0; n < packed_size; n++)
        CHECK(plb_idx_decode(packed, n, "x", &idx) == PLB_EINVAL && !idx.data);
    CHECK_FAILS(PLB_EINVAL, "x: ends early: expected 4 bytes, found 3",
                plb_idx_decode(images_bytes, 3, "x", &idx));
    CHECK_FAILS(PLB_EINVAL, "ends before its checksum",
                plb_idx_decode(packed, packed_size - 1, "x", &idx));
}

static void trailing_bytes_and_damage_are_refused(void) {
    uint8_t bytes[256];
    plb_idx idx;
    memcpy(bytes, images_bytes, sizeof images_bytes);
    bytes[sizeof images_bytes] = 0;
    CHECK_FAILS(PLB_EINVAL, "found more",
                plb_idx_decode(bytes, sizeof images_bytes + 1, "x", &idx));
    size_t size = gzip(images_bytes, sizeof images_bytes, bytes, sizeof bytes);
    bytes[size - 6] ^= 1; // in the checksum
    CHECK_FAILS(PLB_EINVAL, "x: gzip: damaged", plb_idx_decode(bytes, size, "x", &idx));
}

static void hostile_headers_are_refused_before_memory_is_taken(void) {
    uint8_t header[36] = {0, 0, 8, 3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1};
    plb_idx idx;
    CHECK_FAILS(PLB_EINVAL, "", plb_idx_decode(header, 16, "x", &idx));
    header[4] = header[5] = header[8] = header[9] = header[10] = 0; // 65535 x 255 x 1
    CHECK_FAILS(PLB_EINVAL, "can hold at most 0", plb_idx_decode(header, 16, "x", &idx));
    uint8_t packed[128];
    size_t size = gzip(header, 16, packed, sizeof packed);
    CHECK_FAILS(PLB_EINVAL, "16711425 bytes, but the file can hold at most",
                plb_idx_decode(packed, size, "x", &idx));
    header[3] = 9;
    CHECK_FAILS(PLB_EINVAL, "rank of 1 to 8, found 9", plb_idx_decode(header, 36, "x", &idx));
    header[3] = 0;
    CHECK_FAILS(PLB_EINVAL, "rank of 1 to 8, found 0", plb_idx_decode(header, 36, "x", &idx));
    header[2] = 0x0D;
    CHECK_FAILS(PLB_EUNSUPPORTED, "expected elements of u8, found f32",
                plb_idx_decode(header, 36, "x", &idx));
    header[2] = 0x07;
    CHECK_FAILS(PLB_EINVAL, "expected the IDX magic", plb_idx_decode(header, 36, "x", &idx));
}

static void pairs_must_fit_each_other(void) {
    plb_dataset *set = NULL;
    uint8_t labels[11] = {0, 0, 8, 1, 0, 0, 0, 3, 1, 2, 3};
    CHECK_FAILS(PLB_EINVAL, "y.idx: expected 2 labels as x.idx has images, found 3",
                pair(images_bytes, sizeof images_bytes, labels, 11, &set));
    labels[7] = 2, labels[9] = 10;
    CHECK_FAILS(PLB_EINVAL, "y.idx: label of image 1: expected below 10, found 10",
                pair(images_bytes, sizeof images_bytes, labels, 10, &set));
    CHECK_FAILS(PLB_EINVAL, "expected images [N,H,W], found [2]",
                pair(labels_bytes, sizeof labels_bytes, labels_bytes, sizeof labels_bytes, &set));
    CHECK_FAILS(PLB_EINVAL, "expected labels [N], found [2, 2, 3]",
                pair(images_bytes, sizeof images_bytes, images_bytes, sizeof images_bytes, &set));
    static const uint8_t empty_images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3};
    CHECK_FAILS(PLB_EINVAL, "no pixels",
                pair(empty_images, sizeof empty_images, labels_bytes, sizeof labels_bytes, &set));
}

static void an_empty_pair_is_an_empty_dataset(void) {
    static const uint8_t x[] = {0, 0, 8, 3, 0, 0, 0, 0, 0, 0, 0, 28, 0, 0, 0, 28};
    static const uint8_t y[] = {0, 0, 8, 1, 0, 0, 0, 0};
    plb_dataset *set = NULL;
    double share = -1;
    CHECK_OK(pair(x, sizeof x, y, sizeof y, &set));
    CHECK(set->info.count == 0);
    CHECK_OK(plb_dataset_majority(set, 0, &share, NULL));
    CHECK(share == 0);
    plb_dataset_free(set);
}

static bool fail_nth(void *context, size_t size_bytes) {
    (void)size_bytes;
    return --*(int *)context != 0;
}

static void every_failed_allocation_is_a_status(void) {
    uint8_t packed[256];
    size_t size = gzip(images_bytes, sizeof images_bytes, packed, sizeof packed);
    plb_status status = PLB_ENOMEM;
    int n = 0;
    while (status == PLB_ENOMEM && n < 100) {
        int countdown = ++n;
        plb_dataset *set = NULL;
        plb_alloc_set_hook(fail_nth, &countdown);
        status = pair(packed, size, labels_bytes, sizeof labels_bytes, &set);
        plb_alloc_set_hook(NULL, NULL);
        plb_dataset_free(set);
    }
    CHECK_OK(status);
    CHECK(n > 5 && n < 100);
}

static void missing_files_are_named(void) {
    plb_idx idx;
    CHECK_FAILS(PLB_EIO, "/no/such/file.idx", plb_idx_read("/no/such/file.idx", &idx));
}

// Counts of the labels, and the sum of pixels, from MNIST's own files through numpy.
static void real_mnist_is_read(void) {
    const char *root = getenv("PLUMB_TEST_DATA");
    char images[512], labels[512];
    if (!root) root = "../shared/data";
    snprintf(images, sizeof images, "%s/mnist/t10k-images-idx3-ubyte.gz", root);
    snprintf(labels, sizeof labels, "%s/mnist/t10k-labels-idx1-ubyte.gz", root);
    FILE *file = fopen(images, "rb");
    if (!file) SKIP("no MNIST under PLUMB_TEST_DATA");
    fclose(file);
    plb_dataset *set = NULL;
    CHECK_OK(plb_idx_dataset_open(&ten, images, labels, &set));
    if (!set) return;
    CHECK(set->info.count == 10000 && set->info.height == 28 && set->info.width == 28);
    static const int64_t expected[10] = {980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009};
    int64_t found[10] = {0}, sum = 0;
    for (int64_t i = 0; i < 10000; i++) {
        const uint8_t *pixels = set->ops->peek(set, i);
        for (int k = 0; k < 784; k++) sum += pixels[k];
        found[set->ops->label(set, i)]++;
    }
    CHECK(memcmp(expected, found, sizeof found) == 0);
    CHECK_SAY(sum == 264923200, "found %lld", (long long)sum);
    double share;
    int64_t class;
    CHECK_OK(plb_dataset_majority(set, 0, &share, &class));
    CHECK(share == 0.1135 && class == 1);
    plb_dataset_free(set);
}

static const check_test tests[] = {
    {"a plain pair becomes a dataset", a_plain_pair_becomes_a_dataset},
    {"gzip gives the same in one or several members",
     gzip_gives_the_same_in_one_or_several_members},
    {"every truncation is refused", every_truncation_is_refused},
    {"trailing bytes and damage are refused", trailing_bytes_and_damage_are_refused},
    {"hostile headers are refused before memory is taken",
     hostile_headers_are_refused_before_memory_is_taken},
    {"pairs must fit each other", pairs_must_fit_each_other},
    {"an empty pair is an empty dataset", an_empty_pair_is_an_empty_dataset},
    {"every failed allocation is a status", every_failed_allocation_is_a_status},
    {"missing files are named", missing_files_are_named},
    {"real MNIST is read", real_mnist_is_read},
};
CHECK_MAIN(tests)
