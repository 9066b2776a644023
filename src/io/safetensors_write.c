// SPDX-License-Identifier: Apache-2.0
// The writer. Like the reference implementation it puts the widest dtypes first and pads the header
// with spaces to a multiple of 8, so that every value is aligned for its dtype.
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "io/safetensors.h"
#include "io/safetensors_dtype.h"
#include "io/text.h"

enum { HEADER_ALIGN = 8 };

typedef struct writer {
    const char *path;
    const plb_named_tensor **order; // widest dtype first
    size_t count;
    json_t *header;
    char *text; // of the header, from jansson
} writer;

static plb_status no_memory(const writer *w) {
    return plb_fail(PLB_ENOMEM, "%s: no memory for its header", w->path);
}

static size_t size_of(const plb_tensor *t) {
    return plb_layout_bytes(&t->shape, t->dtype, (plb_layout){0});
}

static plb_status check_tensor(const writer *w, const plb_named_tensor *named) {
    plb_shown name = plb_show(named->name, strlen(named->name));
    if (strcmp(named->name, "__metadata__") == 0) {
        return plb_fail(PLB_EINVAL, "%s: a tensor may not be called __metadata__", w->path);
    }
    if (!plb_safetensors_dtype_name(named->tensor.dtype)) {
        return plb_fail(PLB_EUNSUPPORTED, "%s: tensor '%s': dtype %s cannot be written", w->path,
                        name.text, plb_dtype_name(named->tensor.dtype));
    }
    plb_status status = plb_shape_check(&named->tensor.shape);
    return status ? plb_fail_context(status, "%s: tensor '%s'", w->path, name.text) : PLB_OK;
}

// Stable: widths are few, so one sweep a width keeps the given order within each.
static plb_status sort_tensors(writer *w, const plb_named_tensor *tensors, size_t count) {
    w->order = plb_alloc_array(count, sizeof(plb_named_tensor *));
    if (!w->order) return no_memory(w);
    for (size_t i = 0; i < count; i++) PLB_TRY(check_tensor(w, &tensors[i]));
    for (size_t width = 8; width; width /= 2) {
        for (size_t i = 0; i < count; i++) {
            bool has = plb_dtype_size(tensors[i].tensor.dtype) == width;
            if (has) w->order[w->count++] = &tensors[i];
        }
    }
    return PLB_OK;
}

// Adds key: value and takes over `value`; NULL stands for a failed allocation.
static plb_status add(const writer *w, json_t *object, const char *key, json_t *value) {
    plb_shown shown = plb_show(key, strlen(key));
    plb_status status = PLB_OK;
    json_error_t error;
    json_t *probe = json_pack_ex(&error, 0, "s", key); // tells a bad key from a lack of memory
    if (json_object_get(object, key)) {
        status = plb_fail(PLB_EINVAL, "%s: the name '%s' is there twice", w->path, shown.text);
    } else if (!probe && json_error_code(&error) == json_error_invalid_utf8) {
        status = plb_fail(PLB_EINVAL, "%s: the name '%s' is not UTF-8", w->path, shown.text);
    } else if (!probe || !value || json_object_set(object, key, value) != 0) {
        status = no_memory(w);
    }
    json_decref(probe);
    json_decref(value);
    return status;
}

static plb_status add_metadata(const writer *w, const plb_name_value *metadata, size_t count) {
    if (!count) return PLB_OK;
    json_t *object = json_object();
    PLB_TRY(add(w, w->header, "__metadata__", object));
    for (size_t i = 0; i < count; i++) {
        json_error_t error;
        json_t *value = json_pack_ex(&error, 0, "s", metadata[i].value);
        if (!value && json_error_code(&error) == json_error_invalid_utf8) {
            return plb_fail(PLB_EINVAL, "%s: a value of __metadata__ is not UTF-8", w->path);
        }
        PLB_TRY(add(w, object, metadata[i].name, value));
    }
    return PLB_OK;
}

static plb_status add_tensors(const writer *w) {
    json_int_t begin = 0;
    for (size_t i = 0; i < w->count; i++) {
        const plb_tensor *t = &w->order[i]->tensor;
        json_int_t end;
        if (__builtin_add_overflow(begin, (json_int_t)size_of(t), &end)) {
            return plb_fail(PLB_EINVAL, "%s: the tensors are too large for a file", w->path);
        }
        json_t *shape = json_array();
        for (int d = 0; d < t->shape.rank; d++) {
            if (json_array_append_new(shape, json_integer(t->shape.dim[d])) != 0) {
                json_decref(shape);
                return no_memory(w);
            }
        }
        json_t *info =
            json_pack("{s:s, s:o, s:[I, I]}", "dtype", plb_safetensors_dtype_name(t->dtype),
                      "shape", shape, "data_offsets", begin, end);
        PLB_TRY(add(w, w->header, w->order[i]->name, info));
        begin = end;
    }
    return PLB_OK;
}

static plb_status write_header(writer *w, plb_atomic_file *file) {
    w->text = json_dumps(w->header, JSON_COMPACT);
    if (!w->text) return no_memory(w);
    size_t length = strlen(w->text);
    size_t padding = (HEADER_ALIGN - length % HEADER_ALIGN) % HEADER_ALIGN;
    uint64_t total = length + padding;
    PLB_TRY(plb_atomic_write(file, &total, sizeof total));
    PLB_TRY(plb_atomic_write(file, w->text, length));
    return plb_atomic_write(file, "        ", padding);
}

static plb_status write_values(const writer *w, plb_atomic_file *file, const plb_tensor *t) {
    size_t size = size_of(t);
    if (t->layout.kind == PLB_LAYOUT_PLAIN && plb_tensor_is_dense(t)) {
        return plb_atomic_write(file, t->data, size);
    }
    void *copy = plb_alloc_slab(size);
    if (!copy) return plb_fail(PLB_ENOMEM, "%s: no memory for %zu bytes", w->path, size);
    plb_tensor dense = plb_tensor_dense(copy, t->dtype, &t->shape, (plb_layout){0});
    plb_status status = plb_tensor_copy(&dense, t);
    if (!status) status = plb_atomic_write(file, copy, size);
    plb_free(copy);
    return status;
}

plb_status plb_safetensors_write(const char *path, const plb_named_tensor *tensors, size_t count,
                                 const plb_name_value *metadata, size_t metadata_count) {
    writer w = {.path = path};
    plb_atomic_file *file = NULL;
    plb_status status;
    PLB_TRY_OUT(sort_tensors(&w, tensors, count));
    w.header = json_object();
    if (!w.header) {
        status = no_memory(&w);
        goto out;
    }
    PLB_TRY_OUT(add_metadata(&w, metadata, metadata_count));
    PLB_TRY_OUT(add_tensors(&w));
    PLB_TRY_OUT(plb_atomic_open(path, &file));
    PLB_TRY_OUT(write_header(&w, file));
    for (size_t i = 0; i < count; i++) PLB_TRY_OUT(write_values(&w, file, &w.order[i]->tensor));
    plb_atomic_file *ready = file;
    file = NULL;
    status = plb_atomic_commit(ready);
out:
    plb_atomic_abort(file);
    json_decref(w.header);
    free(w.text);
    plb_free(w.order);
    return status;
}
