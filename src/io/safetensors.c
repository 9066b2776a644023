// SPDX-License-Identifier: Apache-2.0
// The reader. First the header's place and nesting, then its JSON (jansson), then entry by entry;
// last, sorted by place, that entries follow each other without gap or overlap to the very end.
#include "io/safetensors.h"

#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/arena.h"
#include "base/core/status.h"
#include "base/file.h"
#include "io/safetensors_dtype.h"
#include "io/text.h"

enum {
    LENGTH_BYTES = 8,
    MAX_HEADER_BYTES = 100 * 1000 * 1000, // the reference implementation's limit
    MAX_DEPTH = 3,                        // {"name": {"shape": [
};

typedef struct entry {
    plb_named_tensor named;
    size_t begin, end; // bytes from the start of the values
} entry;

struct plb_safetensors {
    const char *label; // of messages; borrowed while opening
    const uint8_t *bytes;
    size_t size_bytes;
    plb_file_map map; // {0} when the bytes are the caller's
    json_t *header;   // owns names and metadata
    size_t values_at; // byte where the values begin
    entry *entries;   // by place
    const entry **by_name;
    size_t count;
    plb_arena *arena; // copies of values that lie misaligned
};

static const char *const metadata_key = "__metadata__";

static plb_status no_memory(const plb_safetensors *f) {
    return plb_fail(PLB_ENOMEM, "%s: no memory for its header", f->label);
}

// jansson recurses as deep as the text nests; a legal header nests to 3.
static plb_status check_depth(const plb_safetensors *f, const char *text, size_t length) {
    int depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (in_string) {
            if (c == '\\') i++;
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > MAX_DEPTH) {
                return plb_fail(PLB_EINVAL,
                                "%s: header, byte %zu: expected nesting up to %d, found deeper",
                                f->label, LENGTH_BYTES + i, MAX_DEPTH);
            }
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return PLB_OK;
}

static plb_status parse_json(plb_safetensors *f, const char *text, size_t length) {
    if (text[0] != '{') {
        plb_shown found = plb_show(text, 1);
        return plb_fail(PLB_EINVAL, "%s: header, byte %d: expected '{', found '%s'", f->label,
                        LENGTH_BYTES, found.text);
    }
    PLB_TRY(check_depth(f, text, length));
    json_error_t error;
    f->header = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (f->header) return PLB_OK;
    if (json_error_code(&error) == json_error_out_of_memory) return no_memory(f);
    plb_shown words = plb_show(error.text, strlen(error.text));
    return plb_fail(PLB_EINVAL, "%s: header, byte %d: expected JSON, found: %s", f->label,
                    LENGTH_BYTES + error.position, words.text);
}

static plb_status read_header(plb_safetensors *f) {
    if (f->size_bytes < LENGTH_BYTES) {
        return plb_fail(PLB_EINVAL, "%s: expected 8 bytes of header length, found a file of %zu",
                        f->label, f->size_bytes);
    }
    uint64_t length;
    memcpy(&length, f->bytes, sizeof length);
    size_t room = f->size_bytes - LENGTH_BYTES;
    size_t limit = room < MAX_HEADER_BYTES ? room : MAX_HEADER_BYTES;
    if (length < 2 || length > limit) {
        return plb_fail(PLB_EINVAL,
                        "%s: header length, byte 0: expected 2 to %zu, found %llu (truncated, or "
                        "not a safetensors file)",
                        f->label, limit, (unsigned long long)length);
    }
    f->values_at = LENGTH_BYTES + (size_t)length;
    return parse_json(f, (const char *)f->bytes + LENGTH_BYTES, (size_t)length);
}

static plb_status check_metadata(const plb_safetensors *f) {
    json_t *metadata = json_object_get(f->header, metadata_key), *value;
    if (!metadata) return PLB_OK;
    if (!json_is_object(metadata)) {
        return plb_fail(PLB_EINVAL,
                        "%s: __metadata__: expected an object of strings, found another type",
                        f->label);
    }
    const char *key;
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value)) {
            plb_shown shown = plb_show(key, strlen(key));
            return plb_fail(PLB_EINVAL,
                            "%s: __metadata__, '%s': expected a string, found another type",
                            f->label, shown.text);
        }
    }
    return PLB_OK;
}

// An integer of 0 or more, or -1.
static int64_t natural(const json_t *value) {
    return json_is_integer(value) && json_integer_value(value) >= 0 ? json_integer_value(value)
                                                                    : -1;
}

static plb_status bad_entry(const plb_safetensors *f, const entry *e, const char *what) {
    plb_shown name = plb_show(e->named.name, strlen(e->named.name));
    return plb_fail(PLB_EINVAL, "%s: tensor '%s': expected %s", f->label, name.text, what);
}

static plb_status read_dtype(const plb_safetensors *f, const json_t *info, entry *e) {
    const char *text = json_string_value(json_object_get(info, "dtype"));
    if (!text) return bad_entry(f, e, "a string as dtype, found another type");
    bool known;
    e->named.tensor.dtype = plb_safetensors_dtype(text, &known);
    if (e->named.tensor.dtype != PLB_DTYPE_COUNT) return PLB_OK;
    plb_shown name = plb_show(e->named.name, strlen(e->named.name));
    plb_shown found = plb_show(text, strlen(text));
    if (known) {
        return plb_fail(PLB_EUNSUPPORTED, "%s: tensor '%s': dtype %s is not supported", f->label,
                        name.text, found.text);
    }
    return plb_fail(PLB_EINVAL, "%s: tensor '%s': expected a dtype such as F32, found '%s'",
                    f->label, name.text, found.text);
}

static plb_status read_shape(const plb_safetensors *f, const json_t *info, plb_shape *shape,
                             const entry *e) {
    const json_t *dims = json_object_get(info, "shape");
    if (!json_is_array(dims)) return bad_entry(f, e, "an array as shape, found another type");
    plb_shown name = plb_show(e->named.name, strlen(e->named.name));
    if (json_array_size(dims) > PLB_MAX_RANK) {
        return plb_fail(PLB_EINVAL, "%s: tensor '%s': expected up to %d dimensions, found %zu",
                        f->label, name.text, PLB_MAX_RANK, json_array_size(dims));
    }
    shape->rank = (int)json_array_size(dims);
    for (int i = 0; i < shape->rank; i++) {
        shape->dim[i] = natural(json_array_get(dims, (size_t)i));
        if (shape->dim[i] < 0) return bad_entry(f, e, "integers of 0 or more as shape");
    }
    plb_status status = plb_shape_check(shape);
    return status ? plb_fail_context(status, "%s: tensor '%s'", f->label, name.text) : PLB_OK;
}

static plb_status read_offsets(const plb_safetensors *f, const json_t *info, entry *e) {
    const json_t *pair = json_object_get(info, "data_offsets");
    int64_t begin = natural(json_array_get(pair, 0)), end = natural(json_array_get(pair, 1));
    if (json_array_size(pair) != 2 || begin < 0 || end < begin) {
        return bad_entry(f, e, "[begin, end] with 0 <= begin <= end as data_offsets");
    }
    size_t values_bytes = f->size_bytes - f->values_at;
    plb_shown name = plb_show(e->named.name, strlen(e->named.name));
    if ((uint64_t)end > values_bytes) {
        return plb_fail(PLB_EINVAL,
                        "%s: tensor '%s': expected data_offsets up to %zu, where the file ends, "
                        "found %lld",
                        f->label, name.text, values_bytes, (long long)end);
    }
    e->begin = (size_t)begin, e->end = (size_t)end;
    const plb_tensor *t = &e->named.tensor;
    size_t bytes = plb_layout_bytes(&t->shape, t->dtype, (plb_layout){0});
    if (bytes != e->end - e->begin) {
        char text[200];
        return plb_fail(PLB_EINVAL,
                        "%s: tensor '%s', %s of %s: expected %zu bytes, found data_offsets of %zu",
                        f->label, name.text, plb_shape_format(&t->shape, text, sizeof text),
                        plb_dtype_name(t->dtype), bytes, e->end - e->begin);
    }
    return PLB_OK;
}

static plb_status read_entry(const plb_safetensors *f, const char *name, const json_t *info,
                             entry *e) {
    e->named.name = name;
    if (!json_is_object(info)) return bad_entry(f, e, "an object, found another type");
    PLB_TRY(read_dtype(f, info, e));
    plb_shape shape = {0};
    PLB_TRY(read_shape(f, info, &shape, e));
    e->named.tensor = plb_tensor_dense(NULL, e->named.tensor.dtype, &shape, (plb_layout){0});
    return read_offsets(f, info, e);
}

static plb_status read_entries(plb_safetensors *f) {
    size_t members = json_object_size(f->header);
    f->entries = plb_alloc_array(members, sizeof *f->entries);
    f->by_name = plb_alloc_array(members, sizeof *f->by_name);
    if (!f->entries || !f->by_name) return no_memory(f);
    const char *key;
    json_t *value;
    json_object_foreach(f->header, key, value) {
        if (strcmp(key, metadata_key) == 0) continue;
        PLB_TRY(read_entry(f, key, value, &f->entries[f->count]));
        f->count++;
    }
    return PLB_OK;
}

static int compare_places(const void *left, const void *right) {
    const entry *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    if (a->end != b->end) return a->end < b->end ? -1 : 1;
    return strcmp(a->named.name, b->named.name);
}

static int compare_names(const void *left, const void *right) {
    const entry *const *a = left, *const *b = right;
    return strcmp((*a)->named.name, (*b)->named.name);
}

static int compare_key(const void *key, const void *item) {
    const entry *const *e = item;
    return strcmp(key, (*e)->named.name);
}

static plb_status check_places(const plb_safetensors *f) {
    size_t end = 0;
    for (size_t i = 0; i < f->count; i++) {
        const entry *e = &f->entries[i];
        if (e->begin != end) {
            plb_shown name = plb_show(e->named.name, strlen(e->named.name));
            return plb_fail(PLB_EINVAL,
                            "%s: tensor '%s': expected data_offsets from %zu, where the tensor "
                            "before it ends, found %zu",
                            f->label, name.text, end, e->begin);
        }
        end = e->end;
    }
    if (f->values_at + end != f->size_bytes) {
        return plb_fail(PLB_EINVAL, "%s: expected its end at byte %zu, found it at byte %zu",
                        f->label, f->values_at + end, f->size_bytes);
    }
    return PLB_OK;
}

// Values lie where the header's length puts them. Writers pad the header so that they are aligned;
// values of a file that does not are copied, for nobody may read an f32 at an odd address.
static plb_status place_values(plb_safetensors *f) {
    for (size_t i = 0; i < f->count; i++) {
        entry *e = &f->entries[i];
        const uint8_t *at = f->bytes + f->values_at + e->begin;
        if ((uintptr_t)at % plb_dtype_size(e->named.tensor.dtype)) {
            at = plb_arena_copy(f->arena, at, e->end - e->begin);
            if (!at) return plb_fail(PLB_ENOMEM, "%s: no memory to align its values", f->label);
        }
        e->named.tensor.data = (void *)(uintptr_t)at;
    }
    return PLB_OK;
}

static plb_status read_file(plb_safetensors *f) {
    PLB_TRY(read_header(f));
    PLB_TRY(check_metadata(f));
    PLB_TRY(read_entries(f));
    qsort(f->entries, f->count, sizeof *f->entries, compare_places);
    PLB_TRY(check_places(f));
    for (size_t i = 0; i < f->count; i++) f->by_name[i] = &f->entries[i];
    qsort(f->by_name, f->count, sizeof *f->by_name, compare_names);
    return place_values(f);
}

// Takes over the map, also on failure.
static plb_status read_bytes(plb_file_map map, const void *bytes, size_t size_bytes,
                             const char *label, plb_safetensors **out) {
    *out = NULL;
    plb_safetensors *f = plb_alloc(sizeof *f);
    if (!f) {
        plb_file_map_close(&map);
        return plb_fail(PLB_ENOMEM, "%s: no memory to open it", label);
    }
    *f = (plb_safetensors){.label = label, .bytes = bytes, .size_bytes = size_bytes, .map = map};
    f->arena = plb_arena_new();
    plb_status status = f->arena ? read_file(f) : no_memory(f);
    if (status) {
        plb_safetensors_free(f);
    } else {
        f->label = NULL;
        *out = f;
    }
    return status;
}

plb_status plb_safetensors_open(const char *path, plb_safetensors **out) {
    *out = NULL;
    plb_file_map map;
    PLB_TRY(plb_file_map_open(path, &map));
    return read_bytes(map, map.bytes, map.size_bytes, path, out);
}

plb_status plb_safetensors_parse(const void *bytes, size_t size_bytes, const char *label,
                                 plb_safetensors **out) {
    return read_bytes((plb_file_map){0}, bytes, size_bytes, label, out);
}

void plb_safetensors_free(plb_safetensors *file) {
    if (!file) return;
    json_decref(file->header);
    plb_free(file->entries);
    plb_free(file->by_name);
    plb_arena_free(file->arena);
    plb_file_map_close(&file->map);
    plb_free(file);
}

size_t plb_safetensors_count(const plb_safetensors *file) {
    return file->count;
}

const plb_named_tensor *plb_safetensors_at(const plb_safetensors *file, size_t i) {
    return &file->entries[i].named;
}

const plb_named_tensor *plb_safetensors_find(const plb_safetensors *file, const char *name) {
    if (!file->count) return NULL;
    const entry *const *found =
        bsearch(name, file->by_name, file->count, sizeof *file->by_name, compare_key);
    return found ? &(*found)->named : NULL;
}

const char *plb_safetensors_metadata(const plb_safetensors *file, const char *key) {
    return json_string_value(json_object_get(json_object_get(file->header, metadata_key), key));
}
