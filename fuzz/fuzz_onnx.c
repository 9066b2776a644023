// SPDX-License-Identifier: Apache-2.0
// A model that is taken is described and built; what is refused says why. Open extents become 2.
//
// Changes to bytes mostly break the lengths that messages stand behind, and the reader ends there.
// So inputs are changed as messages too: a field, at any depth, goes, comes twice, moves, gets
// another number or other bytes, and all lengths around it are made right again.
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "fuzz.h"
#include "plumb/onnx.h"

static void build(const plb_onnx *file) {
    plb_model *model = plb_model_new();
    plb_graph *graph;
    char *fixed = NULL;
    const plb_onnx_options options = {.open_extent = 2};
    if (model && !plb_model_program(model, "main", &graph)) {
        plb_status status = plb_onnx_build(file, &options, graph, &fixed);
        if (status && !*plb_error_text()) abort();
    }
    plb_free(fixed);
    plb_model_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    plb_onnx *file;
    if (plb_onnx_parse(bytes, size_bytes, "input", &file)) return 0;
    plb_onnx_use *uses = plb_alloc_array(PLB_ONNX_MAX_USES, sizeof *uses);
    int count;
    if (uses && plb_onnx_uses(file, uses, &count) && !*plb_error_text()) abort();
    plb_free(uses);
    build(file);
    plb_onnx_free(file);
    return 0;
}

#ifdef PLB_FUZZ
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size_bytes, size_t max_bytes);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size_bytes, size_t max_bytes, unsigned seed);

enum { MAX_DEPTH = 12 };

typedef struct field {
    size_t begin, body, end; // its key; its number or bytes; behind it
    int wire;
} field;

static uint32_t draw(unsigned *seed, uint32_t below) {
    *seed = *seed * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)(*seed ^ *seed >> 15) * below) >> 32);
}

static bool varint(const uint8_t *bytes, size_t size, size_t *at, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64 && *at < size; shift += 7) {
        uint8_t byte = bytes[(*at)++];
        *out |= (uint64_t)(byte & 127) << shift;
        if (!(byte & 128)) return true;
    }
    return false;
}

static size_t put_varint(uint8_t *to, uint64_t value) {
    size_t n = 0;
    for (; value > 127; value >>= 7) to[n++] = (uint8_t)(value | 128);
    to[n++] = (uint8_t)value;
    return n;
}

static bool next_field(const uint8_t *bytes, size_t size, size_t at, field *f) {
    uint64_t key, length = 0;
    f->begin = at;
    if (!varint(bytes, size, &at, &key)) return false;
    f->wire = (int)(key & 7);
    if (f->wire == 2 && !varint(bytes, size, &at, &length)) return false;
    f->body = at;
    if (f->wire == 0 && !varint(bytes, size, &at, &key)) return false;
    if (f->wire == 1 || f->wire == 5) length = f->wire == 1 ? 8 : 4;
    if ((f->wire > 2 && f->wire != 5) || length > size - at) return false;
    f->end = f->wire == 0 ? at : at + (size_t)length;
    return true;
}

// How many fields; 0: it is no message.
static uint32_t count_fields(const uint8_t *bytes, size_t size) {
    uint32_t n = 0;
    field f;
    for (size_t at = 0; at < size; at = f.end, n++) {
        if (!next_field(bytes, size, at, &f)) return 0;
    }
    return n;
}

static field field_at(const uint8_t *bytes, size_t size, uint32_t index) {
    field f = {0};
    for (uint32_t i = 0; i <= index; i++) {
        if (!next_field(bytes, size, f.end, &f)) break;
    }
    return f;
}

// Appends what is between; false where it does not fit.
static bool put(uint8_t *to, size_t max, size_t *n, const uint8_t *from, size_t size) {
    if (size > max - *n) return false;
    memcpy(to + *n, from, size);
    *n += size;
    return true;
}

static size_t mutate(const uint8_t *bytes, size_t size, uint8_t *to, size_t max, unsigned *seed,
                     int depth);

// Another body of a field, at `to`; 0: none fits.
static size_t new_body(const uint8_t *bytes, const field *f, uint8_t *to, size_t max,
                       unsigned *seed, int depth) {
    static const uint64_t numbers[] = {0,
                                       1,
                                       2,
                                       3,
                                       7,
                                       16,
                                       127,
                                       255,
                                       1u << 31,
                                       UINT64_MAX,
                                       (uint64_t)INT64_MAX,
                                       UINT64_MAX - 1,
                                       (uint64_t)1 << 40};
    size_t length = f->end - f->body;
    if (f->wire == 0) {
        uint64_t number = numbers[draw(seed, sizeof numbers / sizeof *numbers)];
        return max >= 10 ? put_varint(to, draw(seed, 2) ? number : draw(seed, 40)) : 0;
    }
    bool message = f->wire == 2 && depth < MAX_DEPTH && length > 1 &&
                   count_fields(bytes + f->body, length) > 0;
    if (message && draw(seed, 8)) {
        return mutate(bytes + f->body, length, to, max, seed, depth + 1);
    }
    if (length > max) return 0;
    memcpy(to, bytes + f->body, length);
    if (f->wire != 2) {
        if (length) to[draw(seed, (uint32_t)length)] ^= (uint8_t)(1u << draw(seed, 8));
        return length;
    }
    return length && length < 256 ? LLVMFuzzerMutate(to, length, max < 256 ? max : 256) : length;
}

// The key, and the length where it needs one, then the new body.
static bool put_changed(const uint8_t *bytes, const field *f, uint8_t *to, size_t max, size_t *n,
                        unsigned *seed, int depth) {
    uint8_t head[20];
    uint64_t key;
    size_t at = f->begin, used;
    uint8_t *body = malloc(max);
    if (!body || !varint(bytes, f->end, &at, &key)) {
        free(body);
        return false;
    }
    size_t length = new_body(bytes, f, body, max, seed, depth);
    used = put_varint(head, key);
    if (f->wire == 2) used += put_varint(head + used, length);
    bool good = put(to, max, n, head, used) && put(to, max, n, body, length);
    free(body);
    return good;
}

// The message with one field changed, at `to`; 0: it did not fit.
static size_t mutate(const uint8_t *bytes, size_t size, uint8_t *to, size_t max, unsigned *seed,
                     int depth) {
    uint32_t count = count_fields(bytes, size);
    if (!count) return 0;
    uint32_t how = draw(seed, 16);
    field f = field_at(bytes, size, draw(seed, count));
    field other = field_at(bytes, size, draw(seed, count));
    const uint8_t *rest = bytes + f.end;
    size_t n = 0;
    if (!put(to, max, &n, bytes, f.begin)) return 0;
    bool good = true;
    if (how == 1 || how == 2) good = put(to, max, &n, bytes + other.begin, other.end - other.begin);
    if (how == 2) good = good && put(to, max, &n, bytes + f.begin, f.end - f.begin);
    if (how > 2) good = put_changed(bytes, &f, to, max, &n, seed, depth);
    return good && put(to, max, &n, rest, size - f.end) ? n : 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size_bytes, size_t max_bytes, unsigned seed) {
    uint8_t *to = draw(&seed, 8) ? malloc(max_bytes) : NULL;
    size_t n = to ? mutate(bytes, size_bytes, to, max_bytes, &seed, 0) : 0;
    if (n) memcpy(bytes, to, n);
    free(to);
    return n ? n : LLVMFuzzerMutate(bytes, size_bytes, max_bytes);
}
#endif
