// SPDX-License-Identifier: Apache-2.0
// Opening a model: map, decode, and what can be checked before a graph is built.
#include "onnx/file.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "onnx/dtype.h"
#include "onnx/wire.h"

static plb_status check_names(plb_onnx *file) {
    const Onnx__GraphProto *g = file->graph;
    for (size_t i = 0; i < g->n_initializer; i++) {
        const char *name = plb_onnx_string(g->initializer[i]->name);
        if (!*name) return plb_fail(PLB_EINVAL, "initializer %zu has no name", i);
        if (plb_map_get(file->weights, name, -1) >= 0) {
            return plb_fail(PLB_EINVAL, "initializer %s: there is one of that name already", name);
        }
        PLB_TRY(plb_map_set(file->weights, name, (int64_t)i));
    }
    for (size_t i = 0; i < g->n_sparse_initializer; i++) {
        const Onnx__TensorProto *values = g->sparse_initializer[i]->values;
        const char *name = values ? plb_onnx_string(values->name) : "";
        if (plb_map_get(file->weights, name, -1) >= 0) {
            return plb_fail(PLB_EINVAL, "initializer %s: there is one of that name already", name);
        }
        PLB_TRY(plb_map_set(file->weights, name, (int64_t)(g->n_initializer + i)));
    }
    return PLB_OK;
}

static plb_status find_inputs(plb_onnx *file) {
    const Onnx__GraphProto *g = file->graph;
    file->inputs = plb_arena_alloc(file->arena, (g->n_input + 1) * sizeof *file->inputs);
    if (!file->inputs) return plb_fail(PLB_ENOMEM, "out of memory for inputs");
    for (size_t i = 0; i < g->n_input; i++) {
        const char *name = plb_onnx_string(g->input[i]->name);
        if (!*name) return plb_fail(PLB_EINVAL, "input %zu has no name", i);
        if (plb_map_get(file->weights, name, -1) >= 0) continue; // a default that we keep
        file->inputs[file->n_inputs++] = g->input[i];
    }
    return PLB_OK;
}

static plb_status find_opset(plb_onnx *file) {
    const Onnx__ModelProto *m = file->model;
    file->opset = m->ir_version < 3 ? 1 : 0; // the first files did not say
    for (size_t i = 0; i < m->n_opset_import; i++) {
        const char *domain = plb_onnx_string(m->opset_import[i]->domain);
        if (*domain && strcmp(domain, "ai.onnx") != 0) continue;
        file->opset = m->opset_import[i]->version;
        if (file->opset < 1) {
            return plb_fail(PLB_EINVAL, "operator set %lld", (long long)file->opset);
        }
    }
    return PLB_OK;
}

static plb_status load(plb_onnx *file) {
    void *message;
    PLB_TRY(plb_wire_decode(file->arena, &onnx__model_proto__descriptor, file->map.bytes,
                            file->map.size_bytes, &message));
    file->model = message;
    if (!file->model->has_ir_version || !file->model->graph) {
        return plb_fail(PLB_EINVAL, "not an ONNX model: it has no %s",
                        file->model->graph ? "IR version" : "graph");
    }
    file->graph = file->model->graph;
    PLB_TRY(find_opset(file));
    PLB_TRY(check_names(file));
    return find_inputs(file);
}

static plb_status new_file(const char *label, plb_onnx **out) {
    plb_onnx *file = *out = plb_alloc(sizeof *file);
    if (!file) return plb_fail(PLB_ENOMEM, "out of memory for a model");
    file->path = plb_strdup(label);
    file->arena = plb_arena_new();
    file->weights = plb_map_new();
    if (file->path && file->arena && file->weights) return PLB_OK;
    return plb_fail(PLB_ENOMEM, "out of memory for a model");
}

static plb_status finish(plb_onnx **out, const char *label, plb_status status) {
    if (!status) return PLB_OK;
    plb_onnx_free(*out);
    *out = NULL;
    return plb_fail_context(status, "%s", label);
}

plb_status plb_onnx_open(const char *path, plb_onnx **out) {
    plb_status status = new_file(path, out);
    if (!status) status = plb_file_map_open(path, &(*out)->map);
    if (status) {
        plb_onnx_free(*out);
        *out = NULL;
        return status;
    }
    return finish(out, path, load(*out));
}

plb_status plb_onnx_parse(const void *bytes, size_t size_bytes, const char *label, plb_onnx **out) {
    plb_status status = new_file(label, out);
    if (!status) {
        (*out)->from_memory = true;
        (*out)->map = (plb_file_map){bytes, size_bytes};
        status = load(*out);
    }
    return finish(out, label, status);
}

void plb_onnx_free(plb_onnx *file) {
    if (!file) return;
    for (int i = 0; i < file->n_external; i++) plb_file_map_close(&file->external[i].map);
    if (!file->from_memory) plb_file_map_close(&file->map);
    plb_map_free(file->weights);
    plb_arena_free(file->arena);
    plb_free(file->path);
    plb_free(file);
}

// ---------------------------------------------------------------------------- questions
int plb_onnx_input_count(const plb_onnx *file) {
    return file->n_inputs;
}

static plb_status read_dims(const Onnx__TensorShapeProto *shape, plb_onnx_input_info *out) {
    if (shape->n_dim > PLB_MAX_RANK) {
        return plb_fail(PLB_EUNSUPPORTED, "%zu axes, more than %d", shape->n_dim, PLB_MAX_RANK);
    }
    out->ranked = true;
    out->shape.rank = (int)shape->n_dim;
    for (size_t i = 0; i < shape->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *d = shape->dim[i];
        out->symbol[i] = "";
        out->shape.dim[i] = -1;
        if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) {
            out->shape.dim[i] = d->dim_value < 0 ? -1 : d->dim_value;
        } else if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM) {
            out->symbol[i] = plb_onnx_string(d->dim_param);
        }
    }
    return PLB_OK;
}

static plb_status describe_input(const Onnx__ValueInfoProto *info, plb_onnx_input_info *out) {
    const Onnx__TypeProto *type = info->type;
    if (!type || type->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET) {
        return plb_fail(PLB_EINVAL, "the file does not tell its type");
    }
    if (type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
        return plb_fail(PLB_EUNSUPPORTED, "a sequence, map, optional or sparse tensor");
    }
    PLB_TRY(plb_onnx_dtype(type->tensor_type->elem_type, &out->dtype));
    return type->tensor_type->shape ? read_dims(type->tensor_type->shape, out) : PLB_OK;
}

plb_status plb_onnx_input(const plb_onnx *file, int index, plb_onnx_input_info *out) {
    const Onnx__ValueInfoProto *info = file->inputs[index];
    *out = (plb_onnx_input_info){.name = info->name};
    plb_status status = describe_input(info, out);
    return status ? plb_fail_context(status, "input %s", info->name) : PLB_OK;
}

int plb_onnx_output_count(const plb_onnx *file) {
    return (int)file->graph->n_output;
}

const char *plb_onnx_output_name(const plb_onnx *file, int index) {
    return plb_onnx_string(file->graph->output[index]->name);
}

int64_t plb_onnx_opset(const plb_onnx *file) {
    return file->opset;
}

const char *plb_onnx_producer(const plb_onnx *file) {
    return plb_onnx_string(file->model->producer_name);
}

// ---------------------------------------------------------------------------- a file of one tensor
static plb_status read_tensor(plb_arena *arena, const plb_file_map *map, plb_tensor *out,
                              void **memory) {
    void *message;
    plb_onnx_values values;
    PLB_TRY(plb_wire_decode(arena, &onnx__tensor_proto__descriptor, map->bytes, map->size_bytes,
                            &message));
    PLB_TRY(plb_onnx_values_of(NULL, arena, message, &values));
    *memory = plb_alloc(values.size_bytes);
    if (!*memory) return plb_fail(PLB_ENOMEM, "out of memory for a tensor");
    if (values.size_bytes) memcpy(*memory, values.bytes, values.size_bytes);
    *out = plb_tensor_dense(*memory, values.type.dtype, &values.type.shape, (plb_layout){0});
    return PLB_OK;
}

plb_status plb_onnx_read_tensor(const char *path, plb_tensor *out, void **memory) {
    plb_file_map map;
    *memory = NULL;
    PLB_TRY(plb_file_map_open(path, &map));
    plb_arena *arena = plb_arena_new();
    plb_status status = arena ? read_tensor(arena, &map, out, memory)
                              : plb_fail(PLB_ENOMEM, "out of memory for a tensor");
    if (status) status = plb_fail_context(status, "%s", path);
    plb_arena_free(arena);
    plb_file_map_close(&map);
    return status;
}
