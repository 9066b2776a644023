// SPDX-License-Identifier: Apache-2.0
// The header is Python, of which this parser takes what numpy's own writers produce: quoted words
// without escapes, True and False, a tuple of numbers (with Python 2's L), keys in any order.
#include "io/npy.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/file.h"
#include "io/text.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "values in the machine's order are taken to be little-endian"
#endif

enum {
    MAGIC_BYTES = 8,  // with the version
    ALIGN_BYTES = 64, // where numpy's writers put the values
    MAX_WORD = 32,
};

typedef struct parser {
    const char *label;
    const uint8_t *bytes;
    size_t at, end; // of the header
} parser;

typedef struct header {
    bool has_descr, has_order, has_shape;
    plb_dtype dtype;
    bool swapped; // big-endian
    bool fortran;
    plb_shape shape;
} header;

typedef struct type_code {
    const char *code; // kind and size, after the byte order
    plb_dtype dtype;
} type_code;

static const type_code codes[] = {
    {"f8", PLB_F64}, {"f4", PLB_F32}, {"f2", PLB_F16}, {"i1", PLB_I8},
    {"i2", PLB_I16}, {"i4", PLB_I32}, {"i8", PLB_I64}, {"u1", PLB_U8},
    {"u2", PLB_U16}, {"u4", PLB_U32}, {"u8", PLB_U64}, {"b1", PLB_BOOL},
};
enum { CODES = sizeof codes / sizeof *codes };

static plb_status expected(const parser *p, const char *what) {
    plb_shown found = plb_show((const char *)p->bytes + p->at, p->end - p->at);
    return plb_fail(PLB_EINVAL, "%s: header, byte %zu: expected %s, found \"%s\"", p->label, p->at,
                    what, found.text);
}

static void skip_blanks(parser *p) {
    while (p->at < p->end && strchr(" \t\r\n", p->bytes[p->at]) && p->bytes[p->at]) p->at++;
}

// Takes `c` after blanks, if it is there.
static bool take(parser *p, char c) {
    skip_blanks(p);
    if (p->at == p->end || p->bytes[p->at] != (uint8_t)c) return false;
    p->at++;
    return true;
}

static bool take_word(parser *p, const char *word) {
    skip_blanks(p);
    size_t length = strlen(word);
    if (p->end - p->at < length || memcmp(p->bytes + p->at, word, length) != 0) return false;
    p->at += length;
    return true;
}

static plb_status take_quoted(parser *p, char word[MAX_WORD]) {
    char quote = take(p, '\'') ? '\'' : take(p, '"') ? '"' : '\0';
    if (!quote) return expected(p, "a quoted word");
    size_t n = 0;
    for (; p->at < p->end && p->bytes[p->at] != (uint8_t)quote; p->at++) {
        if (n == MAX_WORD - 1 || p->bytes[p->at] == '\\' || !p->bytes[p->at]) break;
        word[n++] = (char)p->bytes[p->at];
    }
    word[n] = '\0';
    return p->at < p->end && p->bytes[p->at] == (uint8_t)quote ? (p->at++, PLB_OK)
                                                               : expected(p, "a closing quote");
}

static plb_status take_number(parser *p, int64_t *out) {
    skip_blanks(p);
    size_t digits = 0;
    int64_t value = 0;
    for (; p->at + digits < p->end; digits++) {
        uint8_t c = p->bytes[p->at + digits];
        if (c < '0' || c > '9') break;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, c - '0', &value)) {
            return expected(p, "an extent below 2^63");
        }
    }
    if (!digits) return expected(p, "an extent of 0 or more");
    p->at += digits;
    if (p->at < p->end && p->bytes[p->at] == 'L') p->at++;
    *out = value;
    return PLB_OK;
}

static plb_status parse_descr(parser *p, header *h) {
    skip_blanks(p);
    if (p->at < p->end && p->bytes[p->at] == '[') {
        return plb_fail(PLB_EUNSUPPORTED, "%s: arrays of records are not supported", p->label);
    }
    char word[MAX_WORD];
    PLB_TRY(take_quoted(p, word));
    bool ordered = word[0] && strchr("<>|=", word[0]);
    for (int i = 0; i < CODES; i++) {
        if (strcmp(word + ordered, codes[i].code) != 0) continue;
        h->dtype = codes[i].dtype;
        h->swapped = word[0] == '>' && plb_dtype_size(h->dtype) > 1;
        return PLB_OK;
    }
    plb_shown shown = plb_show(word, strlen(word));
    return plb_fail(PLB_EUNSUPPORTED, "%s: dtype '%s' is not supported", p->label, shown.text);
}

static plb_status parse_order(parser *p, header *h) {
    h->fortran = take_word(p, "True");
    return h->fortran || take_word(p, "False") ? PLB_OK : expected(p, "True or False");
}

static plb_status parse_shape(parser *p, header *h) {
    if (!take(p, '(')) return expected(p, "'(' of a shape");
    while (!take(p, ')')) {
        if (h->shape.rank == PLB_MAX_RANK) return expected(p, "')' after up to 8 extents");
        PLB_TRY(take_number(p, &h->shape.dim[h->shape.rank++]));
        if (take(p, ',')) continue;
        if (h->shape.rank == 1) return expected(p, "',' after a single extent");
        if (!take(p, ')')) return expected(p, "',' or ')'");
        break;
    }
    plb_status status = plb_shape_check(&h->shape);
    return status ? plb_fail_context(status, "%s: header", p->label) : PLB_OK;
}

static plb_status parse_member(parser *p, header *h) {
    size_t at = p->at;
    char key[MAX_WORD];
    PLB_TRY(take_quoted(p, key));
    bool *has = strcmp(key, "descr") == 0           ? &h->has_descr
                : strcmp(key, "fortran_order") == 0 ? &h->has_order
                : strcmp(key, "shape") == 0         ? &h->has_shape
                                                    : NULL;
    if (!has || *has) {
        p->at = at;
        return expected(p, "'descr', 'fortran_order' and 'shape', each once");
    }
    *has = true;
    if (!take(p, ':')) return expected(p, "':'");
    if (has == &h->has_descr) return parse_descr(p, h);
    return has == &h->has_order ? parse_order(p, h) : parse_shape(p, h);
}

static plb_status parse_header(parser *p, header *h) {
    if (!take(p, '{')) return expected(p, "'{'");
    while (!take(p, '}')) {
        PLB_TRY(parse_member(p, h));
        if (take(p, ',')) continue;
        if (!take(p, '}')) return expected(p, "',' or '}'");
        break;
    }
    skip_blanks(p);
    if (p->at != p->end) return expected(p, "the header's end");
    if (!h->has_descr || !h->has_order || !h->has_shape) {
        return expected(p, "'descr', 'fortran_order' and 'shape' before");
    }
    return PLB_OK;
}

// Sets p->at and p->end to the header's first byte and the one after its last.
static plb_status find_header(parser *p, size_t size_bytes) {
    const uint8_t *b = p->bytes;
    if (size_bytes < MAGIC_BYTES || memcmp(b, "\x93NUMPY", 6) != 0) {
        return plb_fail(PLB_EINVAL, "%s: expected a file that begins with \\x93NUMPY", p->label);
    }
    if (b[6] < 1 || b[6] > 3 || b[7] != 0) {
        return plb_fail(PLB_EINVAL, "%s: byte 6: expected version 1.0 to 3.0, found %d.%d",
                        p->label, b[6], b[7]);
    }
    size_t length_bytes = b[6] == 1 ? 2 : 4, length = 0;
    p->at = MAGIC_BYTES + length_bytes;
    size_t room = size_bytes < p->at ? 0 : size_bytes - p->at;
    for (size_t i = 0; room && i < length_bytes; i++) {
        length |= (size_t)b[MAGIC_BYTES + i] << 8 * i;
    }
    if (!length || length > room) {
        return plb_fail(PLB_EINVAL, "%s: byte 8: expected a header of 1 to %zu bytes, found %zu",
                        p->label, room, length);
    }
    p->end = p->at + length;
    return PLB_OK;
}

static void swap_bytes(uint8_t *bytes, size_t count, size_t width) {
    for (size_t i = 0; i < count; i++, bytes += width) {
        for (size_t a = 0, z = width - 1; a < z; a++, z--) {
            uint8_t byte = bytes[a];
            bytes[a] = bytes[z];
            bytes[z] = byte;
        }
    }
}

// Copies count elements whose width is known, so that the copy is a load and a store; `step` is in
// elements of `from`. Returns the end of what was written.
static uint8_t *gather(uint8_t *to, const uint8_t *from, int64_t count, int64_t step,
                       size_t width) {
    for (int64_t i = 0; i < count; i++, to += width, from += (size_t)step * width) {
        switch (width) {
        case 1: *to = *from; break;
        case 2: memcpy(to, from, 2); break;
        case 4: memcpy(to, from, 4); break;
        default: memcpy(to, from, 8); break;
        }
    }
    return to;
}

// From column-major to row-major: walks the rows of the result; in the file the first index runs
// fastest. The shape has no zero extent.
static void transpose(uint8_t *to, const uint8_t *from, const plb_shape *shape, size_t width) {
    int64_t stride[PLB_MAX_RANK], index[PLB_MAX_RANK] = {0}, step = 1;
    for (int i = 0; i < shape->rank; i++) stride[i] = step, step *= shape->dim[i];
    int last = shape->rank - 1;
    for (int axis = last; axis >= 0;) {
        int64_t offset = 0;
        for (int i = 0; i < last; i++) offset += index[i] * stride[i];
        to = gather(to, from + (size_t)offset * width, shape->dim[last], stride[last], width);
        for (axis = last - 1; axis >= 0 && ++index[axis] == shape->dim[axis]; axis--) {
            index[axis] = 0;
        }
    }
}

static plb_status read_values(const parser *p, size_t size_bytes, const header *h,
                              plb_tensor *out) {
    size_t width = plb_dtype_size(h->dtype), count = (size_t)plb_shape_count(&h->shape);
    if (size_bytes - p->end != count * width) {
        char text[200];
        return plb_fail(PLB_EINVAL, "%s: %s of %s: expected %zu bytes of values, found %zu",
                        p->label, plb_shape_format(&h->shape, text, sizeof text),
                        plb_dtype_name(h->dtype), count * width, size_bytes - p->end);
    }
    uint8_t *data = plb_alloc_slab(count * width);
    if (!data) return plb_fail(PLB_ENOMEM, "%s: no memory for its values", p->label);
    if (count && h->fortran && h->shape.rank > 1) {
        transpose(data, p->bytes + p->end, &h->shape, width);
    } else if (count) {
        memcpy(data, p->bytes + p->end, count * width);
    }
    if (h->swapped) swap_bytes(data, count, width);
    *out = plb_tensor_dense(data, h->dtype, &h->shape, (plb_layout){0});
    return PLB_OK;
}

plb_status plb_npy_parse(const void *bytes, size_t size_bytes, const char *label, plb_tensor *out) {
    *out = (plb_tensor){0};
    parser p = {.label = label, .bytes = bytes};
    header h = {0};
    PLB_TRY(find_header(&p, size_bytes));
    PLB_TRY(parse_header(&p, &h));
    return read_values(&p, size_bytes, &h, out);
}

plb_status plb_npy_read(const char *path, plb_tensor *out) {
    *out = (plb_tensor){0};
    uint8_t *bytes;
    size_t size;
    PLB_TRY(plb_file_read(path, SIZE_MAX / 4, &bytes, &size));
    plb_status status = plb_npy_parse(bytes, size, path, out);
    plb_free(bytes);
    return status;
}

// Everything before the values; returns its length. 8 extents of up to 19 digits fit.
static size_t format_header(const plb_tensor *t, const char *code, char text[512]) {
    memcpy(text, "\x93NUMPY\x01\x00", MAGIC_BYTES);
    size_t size = MAGIC_BYTES + 2;
    size += (size_t)snprintf(text + size, 512 - size,
                             "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                             plb_dtype_size(t->dtype) > 1 ? '<' : '|', code);
    for (int i = 0; i < t->shape.rank; i++) {
        const char *after = t->shape.rank == 1 ? "," : i + 1 < t->shape.rank ? ", " : "";
        size +=
            (size_t)snprintf(text + size, 512 - size, "%lld%s", (long long)t->shape.dim[i], after);
    }
    size += (size_t)snprintf(text + size, 512 - size, "), }");
    size_t total = (size + 1 + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    memset(text + size, ' ', total - size);
    text[total - 1] = '\n';
    size_t length = total - MAGIC_BYTES - 2;
    text[MAGIC_BYTES] = (char)(length & 255), text[MAGIC_BYTES + 1] = (char)(length >> 8);
    return total;
}

static plb_status write_file(const char *path, const char *text, size_t header_bytes,
                             const void *values, size_t values_bytes) {
    plb_atomic_file *file;
    PLB_TRY(plb_atomic_open(path, &file));
    plb_status status = plb_atomic_write(file, text, header_bytes);
    if (!status) status = plb_atomic_write(file, values, values_bytes);
    if (!status) return plb_atomic_commit(file);
    plb_atomic_abort(file);
    return status;
}

plb_status plb_npy_write(const char *path, const plb_tensor *tensor) {
    const char *code = NULL;
    for (int i = 0; i < CODES; i++) {
        if (codes[i].dtype == tensor->dtype) code = codes[i].code;
    }
    if (!code) {
        return plb_fail(PLB_EUNSUPPORTED, "%s: dtype %s cannot be written", path,
                        plb_dtype_name(tensor->dtype));
    }
    plb_status status = plb_shape_check(&tensor->shape);
    if (status) return plb_fail_context(status, "%s", path);
    char text[512];
    size_t header_bytes = format_header(tensor, code, text);
    size_t size = plb_layout_bytes(&tensor->shape, tensor->dtype, (plb_layout){0});
    if (tensor->layout.kind == PLB_LAYOUT_PLAIN && plb_tensor_is_dense(tensor)) {
        return write_file(path, text, header_bytes, tensor->data, size);
    }
    void *copy = plb_alloc_slab(size);
    if (!copy) return plb_fail(PLB_ENOMEM, "%s: no memory for %zu bytes", path, size);
    plb_tensor dense = plb_tensor_dense(copy, tensor->dtype, &tensor->shape, (plb_layout){0});
    status = plb_tensor_copy(&dense, tensor);
    if (!status) status = write_file(path, text, header_bytes, copy, size);
    plb_free(copy);
    return status;
}
