// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"
#include "check.h"
#include "faults.h"
#include "io/safetensors.h"
#include "peer.h"

// A file in memory: the header's length, the header, and `values` bytes 0, 1, 2, …
typedef struct image {
    uint8_t bytes[4096] __attribute__((aligned(16)));
    size_t size;
} image;

static image make(const char *header, size_t values) {
    image m = {.size = 8 + strlen(header) + values};
    uint64_t length = strlen(header);
    memcpy(m.bytes, &length, 8);
    memcpy(m.bytes + 8, header, length);
    for (size_t i = 0; i < values; i++) m.bytes[8 + length + i] = (uint8_t)i;
    return m;
}

static plb_status parse(const image *m) {
    plb_safetensors *file;
    // A copy of the exact size lets the address sanitizer see a read past the end.
    void *exact = plb_alloc(m->size);
    memcpy(exact, m->bytes, m->size);
    plb_status status = plb_safetensors_parse(exact, m->size, "file", &file);
    CHECK(!status == !!file);
    plb_safetensors_free(file);
    plb_free(exact);
    return status;
}

#define REFUSED(words, header, values)                 \
    do {                                               \
        image m_ = make(header, values);               \
        CHECK_FAILS(PLB_EINVAL, "file: ", parse(&m_)); \
        CHECK_FAILS(PLB_EINVAL, words, parse(&m_));    \
    } while (0)
#define ENTRY(dtype, shape, offsets) \
    "{\"a\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void a_file_is_read(void) {
    image m = make("{\"__metadata__\":{\"k\":\"v\"},"
                   "\"b\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]},"
                   "\"a\":{\"data_offsets\":[0,8],\"shape\":[2,2],\"dtype\":\"I16\"},"
                   "\"none\":{\"dtype\":\"F64\",\"shape\":[0,7],\"data_offsets\":[8,8]}}   ",
                   11);
    plb_safetensors *file;
    CHECK_OK(plb_safetensors_parse(m.bytes, m.size, "file", &file));
    CHECK(plb_safetensors_count(file) == 3);
    CHECK(strcmp(plb_safetensors_at(file, 0)->name, "a") == 0);
    CHECK(strcmp(plb_safetensors_at(file, 2)->name, "b") == 0);
    const plb_named_tensor *a = plb_safetensors_find(file, "a");
    CHECK(a == plb_safetensors_at(file, 0) && a->tensor.dtype == PLB_I16);
    CHECK(plb_shape_equal(&a->tensor.shape, &plb_shape_of(2, 2)) &&
          plb_tensor_is_dense(&a->tensor));
    CHECK(plb_load_i64(a->tensor.data, PLB_I16, 3) == 0x0706);
    CHECK(plb_shape_count(&plb_safetensors_find(file, "none")->tensor.shape) == 0);
    CHECK(!plb_safetensors_find(file, "c") && !plb_safetensors_find(file, ""));
    CHECK(strcmp(plb_safetensors_metadata(file, "k"), "v") == 0);
    CHECK(!plb_safetensors_metadata(file, "a"));
    plb_safetensors_free(file);
    m = make("{}", 0);
    CHECK_OK(plb_safetensors_parse(m.bytes, m.size, "file", &file));
    CHECK(plb_safetensors_count(file) == 0 && !plb_safetensors_find(file, "a"));
    CHECK(!plb_safetensors_metadata(file, "k"));
    plb_safetensors_free(file);
}

// The values begin at an odd address, as in files whose writer did not pad the header.
static void misaligned_values_are_copied(void) {
    for (int pad = 0; pad < 8; pad++) {
        char header[128];
        snprintf(header, sizeof header, "%s",
                 "{\"a\":{\"dtype\":\"U64\",\"shape\":[1],\"data_offsets\":[0,8]}}");
        for (int i = 0; i < pad; i++) strcat(header, " ");
        image m = make(header, 8);
        plb_safetensors *file;
        CHECK_OK(plb_safetensors_parse(m.bytes, m.size, "file", &file));
        const plb_tensor *a = &plb_safetensors_find(file, "a")->tensor;
        CHECK((uintptr_t)a->data % 8 == 0 && *(const uint64_t *)a->data == 0x0706050403020100u);
        plb_safetensors_free(file);
    }
}

static void lengths_are_checked(void) {
    image m = {.size = 0};
    CHECK_FAILS(PLB_EINVAL, "found a file of 0", parse(&m));
    m.size = 7;
    CHECK_FAILS(PLB_EINVAL, "found a file of 7", parse(&m));
    m = make("{}", 0);
    m.bytes[7] = 0x80; // 2^63 and 2 bytes
    CHECK_FAILS(PLB_EINVAL, "expected 2 to 2, found 9223372036854775810", parse(&m));
    memset(m.bytes, 0xff, 8);
    CHECK_FAILS(PLB_EINVAL, "found 18446744073709551615", parse(&m));
    image whole = make(ENTRY("F32", "[2]", "[0,8]"), 8);
    CHECK_OK(parse(&whole));
    for (size_t size = 0; size < whole.size; size++) {
        image cut = whole;
        cut.size = size;
        CHECK_FAILS(PLB_EINVAL, "file: ", parse(&cut));
    }
    whole.size++;
    CHECK_FAILS(PLB_EINVAL, "found it at byte", parse(&whole));
}

static void json_is_checked(void) {
    REFUSED("expected '{', found ' '", " {}", 0);
    REFUSED("expected '{', found '['", "[]", 0);
    REFUSED("expected JSON", "{\"a\":", 0);
    REFUSED("expected JSON", "{}x", 0);
    REFUSED("duplicate", "{\"a\":1,\"a\":1}", 0);
    REFUSED("expected JSON", "{\"\xff\":1}", 0);
    REFUSED("expected JSON", "{\"\\u0000\":1}", 0);
    REFUSED("expected nesting up to 3", "{\"a\":[[[[[[[[]]]]]]]]}", 0);
    REFUSED("expected an object", "{\"a\":\"[[[[[[[[\\\"[\"}", 0); // not nested: in a string
    REFUSED("__metadata__: expected an object", "{\"__metadata__\":[]}", 0);
    REFUSED("'k': expected a string", "{\"__metadata__\":{\"k\":1}}", 0);
    image m = make("{}", 0);
    m.bytes[8] = m.bytes[9] = 0;
    CHECK_FAILS(PLB_EINVAL, "expected '{', found '?'", parse(&m));
}

static void entries_are_checked(void) {
    REFUSED("'a': expected an object", "{\"a\":[]}", 0);
    REFUSED("string as dtype", "{\"a\":{\"shape\":[],\"data_offsets\":[0,0]}}", 0);
    REFUSED("array as shape", "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1);
    REFUSED("as data_offsets", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", 1);
    REFUSED("found 'F33'", ENTRY("F33", "[1]", "[0,4]"), 4);
    REFUSED("up to 8 dimensions, found 9", ENTRY("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1);
    REFUSED("integers of 0 or more", ENTRY("U8", "[-1]", "[0,1]"), 1);
    REFUSED("integers of 0 or more", ENTRY("U8", "[1.0]", "[0,1]"), 1);
    REFUSED("too large", ENTRY("U8", "[4294967296,4294967296]", "[0,0]"), 0);
    REFUSED("too large", ENTRY("U8", "[0,9223372036854775807,3]", "[0,0]"), 0);
    REFUSED("expected JSON", ENTRY("U8", "[18446744073709551617]", "[0,1]"), 1);
    REFUSED("as data_offsets", ENTRY("U8", "[1]", "[-1,0]"), 1);
    REFUSED("as data_offsets", ENTRY("U8", "[1]", "[1,0]"), 1);
    REFUSED("as data_offsets", ENTRY("U8", "[1]", "[0]"), 1);
    REFUSED("as data_offsets", ENTRY("U8", "[1]", "[0,1,1]"), 1);
    REFUSED("where the file ends, found 9223372036854775807",
            ENTRY("U8", "[1]", "[0,9223372036854775807]"), 1);
    REFUSED("[2, 3] of f32: expected 24 bytes, found data_offsets of 23",
            ENTRY("F32", "[2,3]", "[0,23]"), 24);
    image m = make(ENTRY("F8_E4M3", "[1]", "[0,1]"), 1);
    CHECK_FAILS(PLB_EUNSUPPORTED, "dtype F8_E4M3", parse(&m));
}

#define TWO(first, second)                                                \
    "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" first "}," \
    "\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":" second "}}"

static void places_are_checked(void) {
    image m = make(TWO("[2,4]", "[0,2]"), 4);
    CHECK_OK(parse(&m));
    REFUSED("'b': expected data_offsets from 2", TWO("[0,2]", "[1,3]"), 4); // overlap
    REFUSED("'b': expected data_offsets from 2", TWO("[0,2]", "[0,2]"), 2);
    REFUSED("'b': expected data_offsets from 2", TWO("[0,2]", "[3,5]"), 5); // a hole
    REFUSED("'a': expected data_offsets from 0", TWO("[1,3]", "[3,5]"), 5);
    REFUSED("found it at byte", TWO("[0,2]", "[2,4]"), 5);
}

// Every single byte changed to some others: taken or refused, never a crash.
static void changed_bytes_do_no_harm(void) {
    image whole = make(TWO("[0,2]", "[2,4]"), 4);
    int refused = 0;
    for (size_t i = 0; i < whole.size; i++) {
        for (int change = 1; change < 256; change *= 2) {
            image m = whole;
            m.bytes[i] ^= (uint8_t)change;
            plb_status status = parse(&m);
            CHECK(status == PLB_OK || status == PLB_EINVAL);
            refused += status != PLB_OK;
        }
    }
    CHECK(refused > 100);
}

static void a_real_file_is_read(void) {
    const char *path = test_data("models/silero-vad-16k.safetensors");
    if (access(path, R_OK) != 0) SKIP("models/silero-vad-16k.safetensors is not there");
    plb_safetensors *file;
    CHECK_OK(plb_safetensors_open(path, &file));
    if (!file) return;
    CHECK(plb_safetensors_count(file) == 15);
    const plb_named_tensor *first = plb_safetensors_at(file, 0);
    CHECK(strcmp(first->name, "stft_conv.weight") == 0 && first->tensor.dtype == PLB_F32);
    CHECK(plb_shape_equal(&first->tensor.shape, &plb_shape_of(258, 1, 256)));
    const plb_named_tensor *bias = plb_safetensors_find(file, "conv1.bias");
    CHECK(bias && plb_shape_equal(&bias->tensor.shape, &plb_shape_of(128)));
    // Reference: sums by numpy in f64.
    double sum = 0, bias_sum = 0;
    for (int64_t i = 0; i < 258 * 256; i++) sum += plb_load_f64(first->tensor.data, PLB_F32, i);
    for (int64_t i = 0; i < 128; i++) bias_sum += plb_load_f64(bias->tensor.data, PLB_F32, i);
    CHECK_NEAR(sum, 63.99999985052273, 1e-9);
    CHECK_NEAR(bias_sum, 18.7985673956573, 1e-9);
    plb_safetensors_free(file);
}

// The tensors of peer_safetensors.py.
typedef struct peer_tensors {
    float weight[24], transposed[24];
    int64_t size[2];
    uint8_t flags[3];
    uint16_t half;
    plb_named_tensor list[5];
} peer_tensors;

static const plb_name_value peer_metadata[] = {{"format", "plumb"},
                                               {"quote\"d\\", "line\nbreak é"}};

// `transposed`: weight lies with its axes reversed, so that writing must gather it.
static void fill_tensors(peer_tensors *p, bool transposed) {
    plb_layout plain = {0};
    *p = (peer_tensors){.size = {INT64_MIN, INT64_MAX}, .flags = {1, 0, 1}, .half = 0x3e00};
    plb_tensor weight = plb_tensor_dense(p->weight, PLB_F32, &plb_shape_of(2, 3, 4), plain);
    for (int i = 0; i < 24; i++) p->weight[i] = (float)i / 8 - 1;
    if (transposed) {
        plb_tensor view = weight;
        view.data = p->transposed;
        view.stride[0] = 1, view.stride[1] = 2, view.stride[2] = 6;
        CHECK_OK(plb_tensor_copy(&view, &weight));
        weight = view;
    }
    plb_tensor half = plb_tensor_dense(&p->half, PLB_F16, &plb_scalar_shape, plain);
    p->list[0] = (plb_named_tensor){"half", half};
    p->list[1] = (plb_named_tensor){"weight", weight};
    p->list[2] =
        (plb_named_tensor){"flags", plb_tensor_dense(p->flags, PLB_BOOL, &plb_shape_of(3), plain)};
    p->list[3] =
        (plb_named_tensor){"größe", plb_tensor_dense(p->size, PLB_I64, &plb_shape_of(2), plain)};
    p->list[4] =
        (plb_named_tensor){"empty", plb_tensor_dense(NULL, PLB_U8, &plb_shape_of(0, 3), plain)};
}

static plb_status write_peer(const char *path, const peer_tensors *p) {
    return plb_safetensors_write(path, p->list, 5, peer_metadata, 2);
}

static void check_peer_file(const char *path) {
    peer_tensors p;
    fill_tensors(&p, false);
    plb_safetensors *file;
    CHECK_OK(plb_safetensors_open(path, &file));
    if (!file) return;
    CHECK(plb_safetensors_count(file) == 5);
    for (int i = 0; i < 5; i++) {
        const plb_tensor *expected = &p.list[i].tensor;
        const plb_named_tensor *found = plb_safetensors_find(file, p.list[i].name);
        CHECK_SAY(found != NULL, "%s", p.list[i].name);
        if (!found) continue;
        CHECK(found->tensor.dtype == expected->dtype);
        CHECK(plb_shape_equal(&found->tensor.shape, &expected->shape));
        size_t size = plb_layout_bytes(&expected->shape, expected->dtype, (plb_layout){0});
        CHECK(!size || memcmp(found->tensor.data, expected->data, size) == 0);
    }
    for (int i = 0; i < 2; i++) {
        const char *value = plb_safetensors_metadata(file, peer_metadata[i].name);
        CHECK(value && strcmp(value, peer_metadata[i].value) == 0);
    }
    plb_safetensors_free(file);
}

static void what_is_written_is_read(void) {
    const char *folder = fault_folder();
    char path[128];
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    for (int transposed = 0; transposed < 2; transposed++) {
        peer_tensors p;
        fill_tensors(&p, transposed);
        CHECK_OK(write_peer(path, &p));
        check_peer_file(path);
    }
    plb_safetensors *file;
    CHECK_OK(plb_safetensors_open(path, &file));
    static const char *const order[] = {"größe", "weight", "half", "flags", "empty"};
    for (size_t i = 0; i < 5; i++) { // widths 8, 4, 2, 1, else as given
        CHECK(strcmp(plb_safetensors_at(file, i)->name, order[i]) == 0);
    }
    plb_safetensors_free(file);
    CHECK_OK(plb_safetensors_write(path, NULL, 0, NULL, 0));
    CHECK_OK(plb_safetensors_open(path, &file));
    CHECK(plb_safetensors_count(file) == 0);
    plb_safetensors_free(file);
    CHECK(fault_count_files(folder) == 1);
    fault_folder_remove(folder);
}

static void bad_lists_are_not_written(void) {
    const char *folder = fault_folder();
    char path[128];
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    peer_tensors p;
    fill_tensors(&p, false);
    plb_name_value bad[] = {{"k", "\xff"}, {"k", "v"}, {"k", "w"}};
    CHECK_FAILS(PLB_EINVAL, "not UTF-8", plb_safetensors_write(path, p.list, 5, bad, 1));
    CHECK_FAILS(PLB_EINVAL, "'k' is there twice",
                plb_safetensors_write(path, p.list, 5, bad + 1, 2));
    p.list[0].name = "weight";
    CHECK_FAILS(PLB_EINVAL, "'weight' is there twice", write_peer(path, &p));
    p.list[0].name = "__metadata__";
    CHECK_FAILS(PLB_EINVAL, "__metadata__", write_peer(path, &p));
    p.list[0].name = "\xc3";
    CHECK_FAILS(PLB_EINVAL, "not UTF-8", write_peer(path, &p));
    p.list[0].name = "half";
    p.list[0].tensor.dtype = PLB_C64;
    CHECK_FAILS(PLB_EUNSUPPORTED, "dtype c64", write_peer(path, &p));
    p.list[0].tensor.dtype = PLB_F16;
    p.list[0].tensor.shape = plb_shape_of(-1);
    CHECK_FAILS(PLB_EINVAL, "'half'", write_peer(path, &p));
    CHECK(fault_count_files(folder) == 0);
    fault_folder_remove(folder);
}

static void the_reference_reads_and_writes_the_same(void) {
    if (!peer_present()) SKIP("PLB_PYTHON names no Python with safetensors");
    const char *folder = fault_folder(), *script = "tests/io/peer_safetensors.py";
    char path[128];
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    CHECK(peer_run(script, "write", path) == 0);
    check_peer_file(path);
    peer_tensors p;
    fill_tensors(&p, true);
    CHECK_OK(write_peer(path, &p));
    CHECK(peer_run(script, "check", path) == 0);
    p.weight[0] = 7, p.transposed[0] = 7; // and it would notice a wrong value
    CHECK_OK(write_peer(path, &p));
    CHECK(peer_run(script, "check", path) != 0);
    fault_folder_remove(folder);
}

static plb_status write_and_open(void *path) {
    peer_tensors p;
    fill_tensors(&p, false);
    p.list[1].tensor.stride[2] = 0; // not dense, so that writing allocates
    plb_safetensors *file;
    plb_status status = write_peer(path, &p);
    if (status) return status;
    status = plb_safetensors_open(path, &file);
    CHECK(!status == !!file);
    plb_safetensors_free(file);
    return status;
}

static void no_memory_is_an_answer(void) {
    const char *folder = fault_folder();
    char path[128];
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    CHECK(fault_every_allocation(write_and_open, path) >= 8);
    CHECK(fault_count_files(folder) == 1);
    fault_folder_remove(folder);
}

static void a_full_disk_keeps_the_old_file(void) {
    const char *folder = fault_folder();
    if (!fault_small_disk(folder, "64k")) {
        rmdir(folder);
        SKIP("mounting a small disk is not permitted");
    }
    char path[128];
    snprintf(path, sizeof path, "%s/x.safetensors", folder);
    peer_tensors p;
    fill_tensors(&p, false);
    CHECK_OK(write_peer(path, &p));
    static float large[1 << 18];
    plb_named_tensor list[] = {
        {"large", plb_tensor_dense(large, PLB_F32, &plb_shape_of(1 << 18), (plb_layout){0})}};
    CHECK_FAILS(PLB_EFULL, "x.safetensors", plb_safetensors_write(path, list, 1, NULL, 0));
    check_peer_file(path);
    CHECK(fault_count_files(folder) == 1);
    umount(folder);
    rmdir(folder);
}

static const check_test tests[] = {
    {"a file is read", a_file_is_read},
    {"misaligned values are copied", misaligned_values_are_copied},
    {"lengths are checked", lengths_are_checked},
    {"json is checked", json_is_checked},
    {"entries are checked", entries_are_checked},
    {"places are checked", places_are_checked},
    {"changed bytes do no harm", changed_bytes_do_no_harm},
    {"a real file is read", a_real_file_is_read},
    {"what is written is read", what_is_written_is_read},
    {"bad lists are not written", bad_lists_are_not_written},
    {"the reference reads and writes the same", the_reference_reads_and_writes_the_same},
    {"no memory is an answer", no_memory_is_an_answer},
    {"a full disk keeps the old file", a_full_disk_keeps_the_old_file}, // last: it unshares
};
CHECK_MAIN(tests)
