// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"
#include "check.h"
#include "faults.h"
#include "golden.h"
#include "io/image.h"

static int inexact; // JPEGs that differ from PIL's by one step somewhere

// PNG must be equal; another build of libjpeg may round otherwise, by 1.
static void check_decode(const golden *g) {
    plb_image image;
    CHECK_OK(plb_image_read(g->path, NULL, &image));
    if (!image.pixels) return;
    CHECK_SAY(image.height == g->height && image.width == g->width, "%s", g->name);
    if (golden_image_crc(&image) != g->crc) {
        CHECK_SAY(!strstr(g->name, ".png"), "%s differs", g->name);
        inexact++;
    }
    int64_t size = image.height * image.width * 3;
    for (int i = 0; i < 16; i++) {
        int found = image.pixels[i * size / 16];
        CHECK_SAY(abs(found - g->samples[i]) <= 1, "%s, sample %d: %d", g->name, i, found);
    }
    plb_image_free(&image);
}

static void small_files_decode_as_in_pil(void) {
    inexact = 0;
    CHECK(golden_for_each(NULL, check_decode) == 40);
    if (inexact) printf("%d small JPEGs differ from PIL's by 1 somewhere\n", inexact);
}

static void photos_decode_as_in_pil(void) {
    const char *folder = golden_unpack();
    if (!folder) SKIP("images/*.tar are not among the test data");
    inexact = 0;
    CHECK(golden_for_each(folder, check_decode) == 46);
    if (inexact) printf("%d photos differ from PIL's by 1 somewhere\n", inexact);
    golden_remove(folder);
}

static uint8_t *load(const char *path, size_t *size) {
    uint8_t *bytes = NULL;
    CHECK_OK(plb_file_read(path, 100000, &bytes, size));
    return bytes;
}

// A file that ends early is refused wherever it ends, though only its end marker may be missing.
// PIL does the same for JPEG.
static void truncated_files_are_refused(void) {
    static const char *const paths[] = {"fuzz/corpus/jpeg/420.jpg",
                                        "fuzz/corpus/jpeg/420-progressive.jpg",
                                        "fuzz/corpus/jpeg/cmyk.jpg", "fuzz/corpus/png/rgb8.png",
                                        "fuzz/corpus/png/palette4-adam7.png"};
    for (int i = 0; i < 5; i++) {
        size_t size = 0;
        uint8_t *bytes = load(paths[i], &size);
        for (size_t cut = 0; bytes && cut < size; cut++) {
            plb_image image;
            uint8_t *exact = plb_alloc(cut);
            memcpy(exact, bytes, cut);
            plb_status status = plb_image_decode(exact, cut, "cut", NULL, &image);
            CHECK_SAY(status == PLB_EINVAL || (cut < 8 && status == PLB_EUNSUPPORTED), "%s at %zu",
                      paths[i], cut);
            CHECK(!image.pixels && strstr(plb_error_text(), "cut"));
            plb_free(exact);
        }
        plb_free(bytes);
    }
}

static void changed_bytes_do_no_harm(void) {
    static const char *const paths[] = {"fuzz/corpus/jpeg/420-progressive.jpg",
                                        "fuzz/corpus/png/palette4-adam7.png"};
    for (int i = 0; i < 2; i++) {
        size_t size = 0;
        uint8_t *bytes = load(paths[i], &size);
        plb_image_limits limits = {10000, size};
        int refused = 0;
        for (size_t at = 2; bytes && at < size; at++) {
            bytes[at] ^= 0x11;
            plb_image image;
            plb_status status = plb_image_decode(bytes, size, "changed", &limits, &image);
            CHECK(!status == !!image.pixels);
            refused += status != PLB_OK;
            plb_image_free(&image);
            bytes[at] ^= 0x11;
        }
        CHECK(refused > 50);
        plb_free(bytes);
    }
}

static void limits_hold(void) {
    plb_image image;
    const char *jpeg = "fuzz/corpus/jpeg/420.jpg", *png = "fuzz/corpus/png/rgb8.png";
    plb_image_limits enough = {17 * 23, 100000}, few = {17 * 23 - 1, 100000}, small = {400, 100};
    CHECK_OK(plb_image_read(jpeg, &enough, &image));
    plb_image_free(&image);
    CHECK_OK(plb_image_read(png, &enough, &image));
    plb_image_free(&image);
    CHECK_FAILS(PLB_EINVAL, "1 to 390 pixels, found 17 rows of 23",
                plb_image_read(jpeg, &few, &image));
    CHECK_FAILS(PLB_EINVAL, "1 to 390 pixels, found 17 rows of 23",
                plb_image_read(png, &few, &image));
    CHECK_FAILS(PLB_EINVAL, "at most 100 bytes", plb_image_read(jpeg, &small, &image));
    CHECK_FAILS(PLB_EUNSUPPORTED, "neither", plb_image_read("CMakeLists.txt", NULL, &image));
    CHECK_FAILS(PLB_EIO, "/nowhere", plb_image_read("/nowhere/x", NULL, &image));
    CHECK_FAILS(PLB_EINVAL, "cannot be", plb_image_new(0, 5, &image));
    CHECK_FAILS(PLB_EINVAL, "cannot be", plb_image_new(INT64_MAX / 4, 5, &image));
}

// A JPEG header that states 65,500 x 65,500 pixels is refused before anything is allocated.
static void a_bomb_is_refused(void) {
    size_t size = 0;
    uint8_t *bytes = load("fuzz/corpus/jpeg/420.jpg", &size);
    for (size_t i = 2; bytes && i + 9 < size; i += 2 + (size_t)(bytes[i + 2] << 8 | bytes[i + 3])) {
        if (bytes[i + 1] != 0xc0) continue;
        memcpy(bytes + i + 5, "\xff\xdc\xff\xdc", 4);
        break;
    }
    plb_image image;
    CHECK_FAILS(PLB_EINVAL, "found 65500 rows of 65500",
                plb_image_decode(bytes, size, "bomb", NULL, &image));
    plb_free(bytes);
}

// 12 bits a sample: libjpeg and PIL refuse them as well.
static void other_kinds_are_refused_by_name(void) {
    size_t size = 0;
    uint8_t *bytes = load("fuzz/corpus/jpeg/grey.jpg", &size);
    for (size_t i = 2; bytes && i + 9 < size; i += 2 + (size_t)(bytes[i + 2] << 8 | bytes[i + 3])) {
        if (bytes[i + 1] == 0xc0) bytes[i + 4] = 12;
    }
    plb_image image;
    CHECK_FAILS(PLB_EUNSUPPORTED, "precision 12",
                plb_image_decode(bytes, size, "deep", NULL, &image));
    plb_free(bytes);
}

static plb_status decode_all(void *context) {
    (void)context;
    static const char *const paths[] = {"fuzz/corpus/jpeg/cmyk.jpg", "fuzz/corpus/png/rgb8.png",
                                        "fuzz/corpus/png/grey4-adam7.png"};
    for (int i = 0; i < 3; i++) {
        plb_image image;
        plb_status status = plb_image_read(paths[i], NULL, &image);
        CHECK(!status == !!image.pixels);
        plb_image_free(&image);
        if (status) return status;
    }
    return PLB_OK;
}

static void no_memory_is_an_answer(void) {
    CHECK(fault_every_allocation(decode_all, NULL) >= 20);
}

static const check_test tests[] = {
    {"small files decode as in pil", small_files_decode_as_in_pil},
    {"photos decode as in pil", photos_decode_as_in_pil},
    {"truncated files are refused", truncated_files_are_refused},
    {"changed bytes do no harm", changed_bytes_do_no_harm},
    {"limits hold", limits_hold},
    {"a bomb is refused", a_bomb_is_refused},
    {"other kinds are refused by name", other_kinds_are_refused_by_name},
    {"no memory is an answer", no_memory_is_an_answer},
};
CHECK_MAIN(tests)
