// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"
#include "check.h"
#include "faults.h"
#include "io/npy.h"
#include "peer.h"

typedef struct image {
    uint8_t bytes[1024];
    size_t size;
} image;

// A file in memory: `values` bytes 0, 1, 2, … after a header of version `major`.
static image make(int major, const char *header, size_t values) {
    image m = {.size = 8};
    memcpy(m.bytes, "\x93NUMPY", 6);
    m.bytes[6] = (uint8_t)major;
    size_t length = strlen(header), length_bytes = major == 1 ? 2 : 4;
    memcpy(m.bytes + m.size, &length, length_bytes);
    m.size += length_bytes;
    memcpy(m.bytes + m.size, header, length);
    m.size += length;
    for (size_t i = 0; i < values; i++) m.bytes[m.size++] = (uint8_t)i;
    return m;
}

static plb_status parse(const image *m) {
    plb_tensor t;
    void *exact = plb_alloc(m->size); // lets the address sanitizer see a read past the end
    memcpy(exact, m->bytes, m->size);
    plb_status status = plb_npy_parse(exact, m->size, "file", &t);
    CHECK(!status == !!t.data);
    plb_free(t.data);
    plb_free(exact);
    return status;
}

#define REFUSED(code, words, header, values)  \
    do {                                      \
        image m_ = make(1, header, values);   \
        CHECK_FAILS(code, words, parse(&m_)); \
    } while (0)
#define WITH(descr, order, shape) \
    "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }   \n"

static void headers_of_all_kinds_are_read(void) {
    static const char *const headers[] = {
        WITH("'<i2'", "False", "(2, 3)"), WITH("'<i2'", "False", "(2, 3,)"),
        WITH("'<i2'", "False", "(2L, 3L)"),
        "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"<i2\"}"};
    for (int i = 0; i < 12; i++) {
        image m = make(1 + i % 3, headers[i / 3], 12);
        plb_tensor t;
        CHECK_OK(plb_npy_parse(m.bytes, m.size, "file", &t));
        CHECK(t.dtype == PLB_I16 && plb_shape_equal(&t.shape, &plb_shape_of(2, 3)));
        CHECK(plb_tensor_is_dense(&t) && plb_load_i64(t.data, PLB_I16, 4) == 0x0908);
        plb_free(t.data);
    }
}

// x[i, j] of shape [2, 3] lies at i + 2 j in column-major order.
static void order_and_endianness_are_undone(void) {
    image m = make(1, WITH("'>i2'", "True", "(2, 3)"), 12);
    plb_tensor t;
    CHECK_OK(plb_npy_parse(m.bytes, m.size, "file", &t));
    for (int i = 0; i < 2; i++) {
        for (int j = 0; j < 3; j++) {
            int place = 2 * (i + 2 * j);
            CHECK(plb_load_i64(t.data, PLB_I16, i * 3 + j) == place * 256 + place + 1);
        }
    }
    plb_free(t.data);
}

static void bad_files_are_refused(void) {
    image whole = make(1, WITH("'<f4'", "False", "(2,)"), 8);
    CHECK_OK(parse(&whole));
    for (size_t size = 0; size < whole.size; size++) {
        image cut = whole;
        cut.size = size;
        CHECK_FAILS(PLB_EINVAL, "file: ", parse(&cut));
    }
    whole.size++;
    CHECK_FAILS(PLB_EINVAL, "[2] of f32: expected 8 bytes of values, found 9", parse(&whole));
    whole.size--;
    whole.bytes[6] = 4;
    CHECK_FAILS(PLB_EINVAL, "found 4.0", parse(&whole));
    whole = make(2, WITH("'<f4'", "False", "(2,)"), 8);
    memset(whole.bytes + 8, 0xff, 4);
    CHECK_FAILS(PLB_EINVAL, "found 4294967295", parse(&whole));
    REFUSED(PLB_EINVAL, "expected '{', found \"[]\"", "[]", 0);
    REFUSED(PLB_EINVAL, "and 'shape' before", "{'descr': '<f4', 'fortran_order': False}", 0);
    REFUSED(PLB_EINVAL, "each once", "{'descr': '<f4', 'descr': '<f4'}", 0);
    REFUSED(PLB_EINVAL, "each once", "{'other': '<f4'}", 0);
    REFUSED(PLB_EINVAL, "closing quote", "{'descr", 0);
    REFUSED(PLB_EINVAL, "closing quote", "{'a word that is longer than any legal one': 1}", 0);
    REFUSED(PLB_EINVAL, "True or False", WITH("'<f4'", "1", "()"), 4);
    REFUSED(PLB_EINVAL, "extent of 0 or more", WITH("'<f4'", "True", "(-1,)"), 4);
    REFUSED(PLB_EINVAL, "below 2^63", WITH("'<f4'", "True", "(9223372036854775808,)"), 4);
    REFUSED(PLB_EINVAL, "too large", WITH("'<f4'", "True", "(4294967296,4294967296)"), 4);
    REFUSED(PLB_EINVAL, "after a single extent", WITH("'<f4'", "True", "(1)"), 4);
    REFUSED(PLB_EINVAL, "up to 8 extents", WITH("'|u1'", "True", "(1,1,1,1,1,1,1,1,1)"), 1);
    REFUSED(PLB_EINVAL, "the header's end", WITH("'|u1'", "True", "(1,)") "x", 1);
    REFUSED(PLB_EINVAL, "found 4", WITH("'<f4'", "True", "(1099511627776,)"), 4);
    REFUSED(PLB_EUNSUPPORTED, "dtype '<c8'", WITH("'<c8'", "True", "(1,)"), 8);
    REFUSED(PLB_EUNSUPPORTED, "dtype '|O'", WITH("'|O'", "True", "(1,)"), 8);
    REFUSED(PLB_EUNSUPPORTED, "dtype ''", WITH("''", "True", "(1,)"), 8);
    REFUSED(PLB_EUNSUPPORTED, "records", WITH("[('a', '<f4')]", "True", "(1,)"), 4);
}

static void changed_bytes_do_no_harm(void) {
    image whole = make(1, WITH("'<f4'", "True", "(2, 1)"), 8);
    int refused = 0;
    for (size_t i = 0; i < whole.size; i++) {
        for (int change = 1; change < 256; change *= 2) {
            image m = whole;
            m.bytes[i] ^= (uint8_t)change;
            plb_status status = parse(&m);
            CHECK(!status || status == PLB_EINVAL || status == PLB_EUNSUPPORTED);
            refused += status != PLB_OK;
        }
    }
    CHECK(refused > 100);
}

static void what_is_written_is_read(void) {
    const char *folder = fault_folder();
    char path[128];
    snprintf(path, sizeof path, "%s/x.npy", folder);
    float values[24], back[24];
    for (int i = 0; i < 24; i++) values[i] = (float)i;
    plb_tensor nhwc = plb_tensor_dense(values, PLB_F32, &plb_shape_of(1, 4, 2, 3),
                                       (plb_layout){.kind = PLB_LAYOUT_NHWC});
    plb_tensor plain = plb_tensor_dense(back, PLB_F32, &nhwc.shape, (plb_layout){0}), read;
    CHECK_OK(plb_tensor_copy(&plain, &nhwc));
    CHECK_OK(plb_npy_write(path, &nhwc));
    CHECK_OK(plb_npy_read(path, &read));
    CHECK(read.dtype == PLB_F32 && plb_shape_equal(&read.shape, &plain.shape));
    CHECK(read.data && memcmp(read.data, back, sizeof back) == 0);
    plb_free(read.data);
    plb_file_map map; // values begin at a multiple of 64, as numpy's do
    CHECK_OK(plb_file_map_open(path, &map));
    CHECK(map.size_bytes == 128 + sizeof back && map.bytes[127] == '\n');
    plb_file_map_close(&map);
    plb_tensor widest = {.data = NULL, .dtype = PLB_F32, .shape = {.rank = 8}};
    for (int i = 0; i < 7; i++) widest.shape.dim[i] = 200; // a long header, no values
    widest = plb_tensor_dense(NULL, PLB_F32, &widest.shape, (plb_layout){0});
    CHECK_OK(plb_npy_write(path, &widest));
    CHECK_OK(plb_npy_read(path, &read));
    CHECK(plb_shape_equal(&read.shape, &widest.shape));
    plb_free(read.data);
    plain.dtype = PLB_BF16;
    CHECK_FAILS(PLB_EUNSUPPORTED, "bf16", plb_npy_write(path, &plain));
    CHECK_FAILS(PLB_EIO, "/nowhere", plb_npy_write("/nowhere/x", &nhwc));
    CHECK_FAILS(PLB_EIO, "/nowhere", plb_npy_read("/nowhere/x", &read));
    CHECK(fault_count_files(folder) == 1);
    fault_folder_remove(folder);
}

// Every array that numpy wrote is read and written back for numpy to compare.
static void numpy_reads_and_writes_the_same(void) {
    if (!peer_present()) SKIP("PLB_PYTHON names no Python with numpy");
    const char *folder = fault_folder(), *script = "tests/io/peer_npy.py";
    CHECK(peer_run(script, "write", folder) == 0);
    int count = 0;
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        size_t length = strlen(entry->d_name);
        if (length < 4 || strcmp(entry->d_name + length - 4, ".npy") != 0) continue;
        char path[512], back[512];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        snprintf(back, sizeof back, "%s/%s.back", folder, entry->d_name);
        plb_tensor t;
        CHECK_OK(plb_npy_read(path, &t));
        if (t.data) CHECK_OK(plb_npy_write(back, &t));
        plb_free(t.data);
        count++;
    }
    if (dir) closedir(dir);
    CHECK(count == 12 * 2 * 6 * 2);
    CHECK(peer_run(script, "check", folder) == 0);
    fault_folder_remove(folder);
}

static plb_status write_and_read(void *path) {
    float values[4] = {0};
    plb_tensor t = plb_tensor_dense(values, PLB_F32, &plb_shape_of(2, 2), (plb_layout){0}), back;
    t.stride[0] = 0; // not dense, so that writing allocates
    plb_status status = plb_npy_write(path, &t);
    if (status) return status;
    status = plb_npy_read(path, &back);
    CHECK(!status == !!back.data);
    plb_free(back.data);
    return status;
}

static void no_memory_is_an_answer(void) {
    const char *folder = fault_folder();
    char path[128];
    snprintf(path, sizeof path, "%s/x.npy", folder);
    CHECK(fault_every_allocation(write_and_read, path) == 6);
    CHECK(fault_count_files(folder) == 1);
    fault_folder_remove(folder);
}

static const check_test tests[] = {
    {"headers of all kinds are read", headers_of_all_kinds_are_read},
    {"order and endianness are undone", order_and_endianness_are_undone},
    {"bad files are refused", bad_files_are_refused},
    {"changed bytes do no harm", changed_bytes_do_no_harm},
    {"what is written is read", what_is_written_is_read},
    {"numpy reads and writes the same", numpy_reads_and_writes_the_same},
    {"no memory is an answer", no_memory_is_an_answer},
};
CHECK_MAIN(tests)
