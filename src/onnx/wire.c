// SPDX-License-Identifier: Apache-2.0
#include "onnx/wire.h"

#include <stdbool.h>
#include <string.h>

#include "base/core/status.h"

enum { MAX_DEPTH = 100, LEAST_BUDGET = 64 << 20 };
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

typedef struct reader {
    const uint8_t *begin, *at;
    plb_arena *arena;
    size_t budget; // bytes that may still be taken from the arena
    int depth;
} reader;

static plb_status bad(const reader *r, const char *what) {
    return plb_fail(PLB_EINVAL, "offset %zu: %s", (size_t)(r->at - r->begin), what);
}

static plb_status take(reader *r, size_t size_bytes, void **out) {
    *out = NULL;
    if (size_bytes > r->budget) return bad(r, "the message asks for far more memory than it holds");
    r->budget -= size_bytes;
    *out = plb_arena_alloc(r->arena, size_bytes);
    return *out ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a message");
}

static plb_status varint(reader *r, const uint8_t *end, uint64_t *out) {
    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (r->at >= end) return bad(r, "expected a number, found the end");
        uint8_t byte = *r->at++;
        *out |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) return PLB_OK;
    }
    return bad(r, "expected a number of at most 10 bytes");
}

static plb_status length(reader *r, const uint8_t *end, size_t *out) {
    uint64_t n;
    PLB_TRY(varint(r, end, &n));
    if (n > (uint64_t)(end - r->at)) return bad(r, "a length reaches past the end");
    *out = (size_t)n;
    return PLB_OK;
}

static plb_status skip(reader *r, const uint8_t *end, int wire) {
    uint64_t ignored;
    size_t n = wire == WIRE_64 ? 8 : 4;
    if (wire == WIRE_VARINT) return varint(r, end, &ignored);
    if (wire == WIRE_BYTES) PLB_TRY(length(r, end, &n));
    if (wire != WIRE_BYTES && wire != WIRE_64 && wire != WIRE_32) return bad(r, "bad wire type");
    if ((size_t)(end - r->at) < n) return bad(r, "a field reaches past the end");
    r->at += n;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- one field
static size_t element_bytes(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_FLOAT: return 4;
    case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    default: return 0; // types that the schema does not use
    }
}

static int wire_of(ProtobufCType type) {
    switch (type) {
    case PROTOBUF_C_TYPE_FLOAT: return WIRE_32;
    case PROTOBUF_C_TYPE_DOUBLE: return WIRE_64;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return WIRE_BYTES;
    default: return WIRE_VARINT;
    }
}

// A number, at `to`.
static plb_status scalar(reader *r, const uint8_t *end, ProtobufCType type, void *to) {
    size_t size = element_bytes(type);
    int wire = wire_of(type);
    if (wire != WIRE_VARINT) {
        if ((size_t)(end - r->at) < size) return bad(r, "a number reaches past the end");
        memcpy(to, r->at, size);
        r->at += size;
        return PLB_OK;
    }
    uint64_t value;
    PLB_TRY(varint(r, end, &value));
    int32_t narrow = (int32_t)(uint32_t)value;
    protobuf_c_boolean flag = value != 0;
    if (size == 8)
        memcpy(to, &value, 8);
    else if (type == PROTOBUF_C_TYPE_BOOL)
        memcpy(to, &flag, sizeof flag);
    else
        memcpy(to, &narrow, 4);
    return PLB_OK;
}

static plb_status message(reader *r, const ProtobufCMessageDescriptor *kind, const uint8_t *end,
                          void **out);

static plb_status text(reader *r, size_t n, char **out) {
    if (memchr(r->at, 0, n)) return bad(r, "a string holds a zero byte");
    void *copy;
    PLB_TRY(take(r, n + 1, &copy));
    memcpy(copy, r->at, n);
    *out = copy;
    r->at += n;
    return PLB_OK;
}

static plb_status value(reader *r, const uint8_t *end, const ProtobufCFieldDescriptor *field,
                        void *to) {
    if (wire_of(field->type) != WIRE_BYTES) return scalar(r, end, field->type, to);
    size_t n;
    PLB_TRY(length(r, end, &n));
    if (field->type == PROTOBUF_C_TYPE_STRING) return text(r, n, to);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        return message(r, field->descriptor, r->at + n, to);
    }
    *(ProtobufCBinaryData *)to = (ProtobufCBinaryData){n, (uint8_t *)r->at};
    r->at += n;
    return PLB_OK;
}

// Room for one more element of a repeated field. Capacities are 0, 4, 8, 16, …, so that the count
// tells when an array is full.
static plb_status grow(reader *r, const ProtobufCFieldDescriptor *field, char *base, void **out) {
    size_t *count = (size_t *)(base + field->quantifier_offset);
    char **array = (char **)(base + field->offset);
    size_t size = element_bytes(field->type), n = *count;
    if (n == 0 || (n >= 4 && (n & (n - 1)) == 0)) {
        void *wider;
        PLB_TRY(take(r, (n ? 2 * n : 4) * size, &wider));
        if (n) memcpy(wider, *array, n * size);
        *array = wider;
    }
    *out = *array + n * size;
    return PLB_OK;
}

static plb_status repeated(reader *r, const uint8_t *end, const ProtobufCFieldDescriptor *field,
                           int wire, char *base) {
    size_t *count = (size_t *)(base + field->quantifier_offset);
    const uint8_t *stop = end;
    void *to;
    bool packed = wire == WIRE_BYTES && wire_of(field->type) != WIRE_BYTES;
    if (packed) {
        size_t n;
        PLB_TRY(length(r, end, &n));
        stop = r->at + n;
        if (n == 0) return PLB_OK;
    }
    do {
        PLB_TRY(grow(r, field, base, &to));
        PLB_TRY(value(r, stop, field, to));
        ++*count;
    } while (packed && r->at < stop);
    return PLB_OK;
}

static plb_status one_field(reader *r, const uint8_t *end, const ProtobufCFieldDescriptor *field,
                            int wire, char *base) {
    bool list = field->label == PROTOBUF_C_LABEL_REPEATED;
    bool packed = list && wire == WIRE_BYTES;
    if (!element_bytes(field->type)) return skip(r, end, wire);
    if (wire != wire_of(field->type) && !packed) return bad(r, "a field of the wrong kind");
    if (list) return repeated(r, end, field, wire, base);
    if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        *(int *)(base + field->quantifier_offset) = (int)field->id;
    } else if (field->quantifier_offset) {
        *(protobuf_c_boolean *)(base + field->quantifier_offset) = 1;
    }
    return value(r, end, field, base + field->offset);
}

// ---------------------------------------------------------------------------- messages
static const ProtobufCFieldDescriptor *find(const ProtobufCMessageDescriptor *kind, uint64_t id) {
    unsigned low = 0, high = kind->n_fields; // fields stand in the order of their ids
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (kind->fields[middle].id == id) return &kind->fields[middle];
        if (kind->fields[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static plb_status message(reader *r, const ProtobufCMessageDescriptor *kind, const uint8_t *end,
                          void **out) {
    if (++r->depth > MAX_DEPTH) return bad(r, "messages are nested more than 100 deep");
    void *base;
    PLB_TRY(take(r, kind->sizeof_message, &base));
    kind->message_init(base);
    while (r->at < end) {
        uint64_t tag;
        PLB_TRY(varint(r, end, &tag));
        const ProtobufCFieldDescriptor *field = find(kind, tag >> 3);
        PLB_TRY(field ? one_field(r, end, field, (int)(tag & 7), base)
                      : skip(r, end, (int)(tag & 7)));
    }
    r->depth--;
    *out = base;
    return PLB_OK;
}

plb_status plb_wire_decode(plb_arena *arena, const ProtobufCMessageDescriptor *kind,
                           const void *bytes, size_t size_bytes, void **out) {
    *out = NULL;
    static const uint8_t nothing[1];
    const uint8_t *begin = bytes ? bytes : nothing;
    size_t budget = size_bytes > SIZE_MAX / 32 ? SIZE_MAX : size_bytes * 16 + LEAST_BUDGET;
    reader r = {.begin = begin, .at = begin, .arena = arena, .budget = budget};
    return message(&r, kind, begin + size_bytes, out);
}
