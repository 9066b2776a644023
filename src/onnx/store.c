// SPDX-License-Identifier: Apache-2.0
// Two files cannot be put in place in one step. So values get a name that no file has yet, then the
// model that names it takes the old one's place, and only then the old values go. Messages are
// packed straight into the file, so that no value is copied.
#include "onnx/store.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/core/alloc.h"
#include "base/core/status.h"

enum { ALIGN = 64, NAMES = 9 };
#define MESSAGE_LIMIT ((size_t)1900 << 20)

// ---------------------------------------------------------------------------- values beside it
static Onnx__StringStringEntryProto *entry(plb_arena *arena, const char *key, const char *value) {
    Onnx__StringStringEntryProto *made = plb_arena_alloc(arena, sizeof *made);
    char *name = plb_arena_strdup(arena, key);
    if (!made || !name || !value) return NULL;
    onnx__string_string_entry_proto__init(made);
    made->key = name;
    made->value = (char *)(uintptr_t)value;
    return made;
}

static plb_status move_out(plb_arena *arena, Onnx__TensorProto *t, const char *location,
                           plb_atomic_file *file, size_t *at) {
    static const uint8_t zeros[ALIGN];
    size_t pad = (ALIGN - *at % ALIGN) % ALIGN;
    if (pad) PLB_TRY(plb_atomic_write(file, zeros, pad));
    *at += pad;
    PLB_TRY(plb_atomic_write(file, t->raw_data.data, t->raw_data.len));
    Onnx__StringStringEntryProto **list = plb_arena_alloc(arena, 3 * sizeof(*list));
    if (!list) return plb_fail(PLB_ENOMEM, "out of memory for a message");
    list[0] = entry(arena, "location", location);
    list[1] = entry(arena, "offset", plb_arena_printf(arena, "%zu", *at));
    list[2] = entry(arena, "length", plb_arena_printf(arena, "%zu", t->raw_data.len));
    for (int i = 0; i < 3; i++) {
        if (!list[i]) return plb_fail(PLB_ENOMEM, "out of memory for a message");
    }
    t->external_data = list, t->n_external_data = 3;
    *at += t->raw_data.len;
    t->has_raw_data = 0, t->raw_data = (ProtobufCBinaryData){0};
    t->has_data_location = 1;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    return PLB_OK;
}

// The names that values may have: "F.onnx.data", then "F.onnx.2.data" and so on.
static const char *data_path(plb_arena *arena, const char *path, int number) {
    if (number == 1) return plb_arena_printf(arena, "%s.data", path);
    return plb_arena_printf(arena, "%s.%d.data", path, number);
}

static plb_status free_name(plb_arena *arena, const char *path, const char **out) {
    struct stat info;
    for (int i = 1; i <= NAMES; i++) {
        *out = data_path(arena, path, i);
        if (!*out) return plb_fail(PLB_ENOMEM, "out of memory for a path");
        if (lstat(*out, &info)) return PLB_OK;
    }
    return plb_fail(PLB_EINVAL, "%s: that file and those numbered before it are there already",
                    *out);
}

static void remove_others(plb_arena *arena, const char *path, const char *data) {
    for (int i = 1; i <= NAMES; i++) {
        const char *other = data_path(arena, path, i);
        if (other && strcmp(other, data) != 0) (void)unlink(other);
    }
}

static plb_status write_values(Onnx__GraphProto *graph, plb_arena *arena, const char *data) {
    enum { SMALL = 1024 }; // bytes: shapes and axes stay where readers look for them
    const char *slash = strrchr(data, '/');
    plb_atomic_file *file;
    size_t at = 0;
    plb_status status = PLB_OK;
    PLB_TRY(plb_atomic_open(data, &file));
    for (size_t i = 0; i < graph->n_initializer && !status; i++) {
        Onnx__TensorProto *t = graph->initializer[i];
        if (t->raw_data.len < SMALL) continue;
        status = move_out(arena, t, slash ? slash + 1 : data, file, &at);
    }
    if (!status) return plb_atomic_commit(file);
    plb_atomic_abort(file);
    return status;
}

// ---------------------------------------------------------------------------- the model
// Collects what the packer hands over in small pieces.
typedef struct sink {
    ProtobufCBuffer base;
    plb_atomic_file *file;
    plb_status status;
    size_t used, total;
    uint8_t bytes[1 << 16];
} sink;

static void flush(sink *s) {
    if (!s->status && s->used) s->status = plb_atomic_write(s->file, s->bytes, s->used);
    s->used = 0;
}

static void append(ProtobufCBuffer *buffer, size_t length, const uint8_t *data) {
    sink *s = (sink *)buffer;
    s->total += length;
    if (length > sizeof s->bytes - s->used) flush(s);
    if (length >= sizeof s->bytes) {
        if (!s->status) s->status = plb_atomic_write(s->file, data, length);
        return;
    }
    if (length) memcpy(s->bytes + s->used, data, length);
    s->used += length;
}

static plb_status pack(const Onnx__ModelProto *model, const char *path, size_t *size_bytes) {
    sink *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a file");
    *s = (sink){.base.append = append};
    plb_status status = plb_atomic_open(path, &s->file);
    if (!status) {
        onnx__model_proto__pack_to_buffer(model, &s->base);
        flush(s);
        status = s->status;
        if (!status)
            status = plb_atomic_commit(s->file);
        else
            plb_atomic_abort(s->file);
    }
    *size_bytes = s->total;
    plb_free(s);
    return status;
}

// ---------------------------------------------------------------------------- both
plb_status plb_onnx_store(const Onnx__ModelProto *model, Onnx__GraphProto *graph, plb_arena *arena,
                          const char *path, bool external, plb_onnx_written *out) {
    size_t values_bytes = 0, model_bytes = 0;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        values_bytes += graph->initializer[i]->raw_data.len;
    }
    const char *data = NULL;
    out->external = external || values_bytes > MESSAGE_LIMIT;
    if (out->external) {
        PLB_TRY(free_name(arena, path, &data));
        PLB_TRY(write_values(graph, arena, data));
    }
    plb_status status = pack(model, path, &model_bytes);
    if (data && status) (void)unlink(data);
    if (status) return status;
    if (data) remove_others(arena, path, data);
    out->size_bytes = model_bytes + (data ? values_bytes : 0);
    return PLB_OK;
}
