// SPDX-License-Identifier: Apache-2.0
#include "cli/onnx_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/arena.h"
#include "base/core/status.h"
#include "cli/cli.h"
#include "cli/units.h"

bool plb_cli_is_onnx(const char *name) {
    size_t length = strlen(name);
    return length > 5 && strcmp(name + length - 5, ".onnx") == 0;
}

plb_status plb_cli_onnx_check(const char *name, const char *of_zoo, const char *dims) {
    plb_onnx_dims list;
    bool file = plb_cli_is_onnx(name);
    if (file && of_zoo)
        return plb_fail(PLB_EINVAL, "--%s is for models of the zoo; %s has its own", of_zoo, name);
    if (!file && dims) return plb_fail(PLB_EINVAL, "--dim is for ONNX files, and %s is none", name);
    return plb_onnx_dims_read(dims, &list);
}

// What --dim may name: open extents, and integer inputs, which may have one element.
typedef struct dim_names {
    plb_arena *arena;
    const char *name[256];
    size_t count;
} dim_names;

static plb_status add_name(dim_names *names, const char *name) {
    if (!*name || names->count == sizeof names->name / sizeof *names->name) return PLB_OK;
    const char *copy = plb_arena_strdup(names->arena, name);
    if (!copy) return plb_fail(PLB_ENOMEM, "out of memory for names of extents");
    names->name[names->count++] = copy;
    return PLB_OK;
}

static plb_status add_names(dim_names *names, const plb_onnx *file) {
    for (int i = 0; i < plb_onnx_input_count(file); i++) {
        plb_onnx_input_info info;
        PLB_TRY(plb_onnx_input(file, i, &info));
        if (!plb_dtype_is_float(info.dtype)) PLB_TRY(add_name(names, info.name));
        for (int k = 0; info.ranked && k < info.shape.rank; k++)
            if (info.shape.dim[k] < 0) PLB_TRY(add_name(names, info.symbol[k]));
    }
    return PLB_OK;
}

static plb_status check_names(const dim_names *names, const plb_onnx_dims *dims) {
    for (int i = 0; i < dims->n; i++) {
        bool known = false;
        for (size_t k = 0; k < names->count; k++)
            known |= strcmp(names->name[k], dims->list[i].name) == 0;
        if (known) continue;
        const char *nearest = plb_nearest_name(dims->list[i].name, names->name, names->count);
        if (!nearest && names->count) nearest = names->name[0];
        return plb_fail(PLB_EINVAL, "--dim %s: no input has an extent of that name; %s%s%s",
                        dims->list[i].name, nearest ? "did you mean " : "none has a name",
                        nearest ? nearest : "", nearest ? "?" : "");
    }
    return PLB_OK;
}

plb_status plb_cli_onnx_check_dims(char *const *names, int count, const char *dims) {
    plb_onnx_dims list;
    dim_names known = {.arena = plb_arena_new()};
    plb_onnx *file = NULL;
    plb_status status;
    if (!known.arena) return plb_fail(PLB_ENOMEM, "out of memory for names of extents");
    PLB_TRY_OUT(plb_onnx_dims_read(dims, &list));
    int files = 0;
    for (int i = 0; i < count; i++) {
        if (!plb_cli_is_onnx(names[i])) continue;
        files++;
        PLB_TRY_OUT(plb_onnx_open(names[i], &file));
        PLB_TRY_OUT(add_names(&known, file));
        plb_onnx_free(file);
        file = NULL;
    }
    status = files ? check_names(&known, &list)
                   : plb_fail(PLB_EINVAL, "--dim is for ONNX files, and %s is none", names[0]);
out:
    plb_onnx_free(file);
    plb_arena_free(known.arena);
    return status;
}

// ---------------------------------------------------------------------------- loading
plb_status plb_cli_onnx_load(const char *path, const char *dims, plb_onnx_model *out) {
    plb_onnx_dims list;
    *out = (plb_onnx_model){0};
    plb_status status = plb_onnx_dims_read(dims, &list);
    if (!status && dims) status = plb_cli_onnx_check_dims((char *const[]){(char *)path}, 1, dims);
    if (!status) status = plb_onnx_open(path, &out->file);
    if (!status) {
        out->model = plb_model_new();
        status = out->model ? plb_model_program(out->model, "infer", &out->graph)
                            : plb_fail(PLB_ENOMEM, "out of memory for a model");
    }
    const plb_onnx_options options = {.dims = list.list, .n_dims = list.n, .open_extent = 1};
    if (!status) status = plb_onnx_build(out->file, &options, out->graph, NULL);
    return status;
}

void plb_cli_onnx_free(plb_onnx_model *model) {
    plb_model_free(model->model); // before the file, which holds its weights
    plb_onnx_free(model->file);
    *model = (plb_onnx_model){0};
}

// ---------------------------------------------------------------------------- describing
static void tell_type(plb_json *json, const char *name, plb_type type) {
    char shape[160];
    plb_shape_format(&type.shape, shape, sizeof shape);
    if (!json) {
        plb_print("  %-24s %-5s %s\n", name, plb_dtype_name(type.dtype), shape);
        return;
    }
    plb_json_begin_object(json, NULL);
    plb_json_string(json, "name", name);
    plb_json_string(json, "dtype", plb_dtype_name(type.dtype));
    plb_json_begin_array(json, "shape");
    for (int i = 0; i < type.shape.rank; i++) plb_json_int(json, NULL, type.shape.dim[i]);
    plb_json_end(json);
    plb_json_end(json);
}

static void tell_ends(const plb_onnx_model *m, plb_json *json) {
    for (int outputs = 0; outputs < 2; outputs++) {
        const char *name, *what = outputs ? "outputs" : "inputs";
        plb_type type;
        if (json)
            plb_json_begin_array(json, what);
        else
            plb_print("%s\n", what);
        for (int i = 0; plb_onnx_end(m->graph, outputs, i, &name, &type); i++) {
            tell_type(json, name, type);
        }
        if (json) plb_json_end(json);
    }
}

static void tell_uses(const plb_onnx_use *uses, int n, plb_json *json) {
    if (json)
        plb_json_begin_array(json, "ops");
    else
        plb_print("ops\n");
    for (int i = 0; i < n; i++) {
        const plb_onnx_use *u = &uses[i];
        if (!json) {
            plb_print("  %-24s %6" PRId64 "%s%s%s\n", u->op, u->count,
                      u->served ? "" : "  not served", *u->domain ? ", domain " : "", u->domain);
            continue;
        }
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "op", u->op);
        plb_json_string(json, "domain", u->domain);
        plb_json_int(json, "count", u->count);
        plb_json_bool(json, "served", u->served);
        plb_json_end(json);
    }
    if (json) plb_json_end(json);
}

plb_status plb_cli_onnx_describe(const char *path, const char *dims, plb_json *json) {
    plb_onnx_use *uses = plb_alloc_array(PLB_ONNX_MAX_USES, sizeof *uses);
    plb_onnx_model m = {0};
    int n = 0;
    plb_onnx *file = NULL;
    plb_status status = uses ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for ops");
    if (!status) status = plb_onnx_open(path, &file);
    if (!status) status = plb_onnx_uses(file, uses, &n);
    if (!status && !json) {
        plb_print("%s: operator set %" PRId64 ", made by %s\n", path, plb_onnx_opset(file),
                  *plb_onnx_producer(file) ? plb_onnx_producer(file) : "an unknown program");
        tell_uses(uses, n, NULL); // before building, which may refuse
    }
    if (!status) status = plb_cli_onnx_load(path, dims, &m);
    if (!status && json) {
        plb_json_string(json, "name", path);
        plb_json_int(json, "opset", plb_onnx_opset(file));
        tell_uses(uses, n, json);
    }
    if (!status) {
        plb_onnx_costs c = plb_onnx_costs_of(m.graph);
        uint64_t digest = 0;
        char hash[24];
        bool hashed = !plb_onnx_needs_interp(m.graph);
        if (hashed) status = plb_onnx_digest(m.graph, &digest);
        snprintf(hash, sizeof hash, "%016" PRIx64, digest);
        tell_ends(&m, json);
        if (json) {
            plb_json_int(json, "parameters", c.parameters);
            plb_json_double(json, "forward_flops", c.flops);
            if (hashed) plb_json_string(json, "graph", hash);
            plb_json_string(json, "level", plb_onnx_needs_interp(m.graph) ? "interp" : "plan");
        } else {
            plb_print("parameters   %" PRId64 "\nforward      %s\n", c.parameters,
                      plb_show_flops(c.flops).text);
            if (hashed) plb_print("graph        %s\n", hash);
            if (plb_onnx_needs_interp(m.graph)) {
                plb_print("It branches or loops on data, which only level interp runs.\n");
            }
        }
    }
    plb_cli_onnx_free(&m);
    plb_onnx_free(file);
    plb_free(uses);
    return status;
}
