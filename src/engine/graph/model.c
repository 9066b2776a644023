// SPDX-License-Identifier: Apache-2.0
// A model: its programs and the variables that they share. Variables are declared while programs
// are built and get their storage, one slab for all that are new, when the first plan needs it.
#include <math.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/philox.h"
#include "base/core/status.h"
#include "base/core/stop.h"
#include "engine/graph/graph.h"
#include "engine/graph/home.h"
#include "engine/ops/random.h"

plb_model *plb_model_new(void) {
    plb_model *model = plb_alloc(sizeof *model);
    if (model) model->by_name = plb_map_new();
    if (model) model->version = 1; // a plan that has computed nothing yet is at 0
    if (model && !model->by_name) {
        plb_free(model);
        return NULL;
    }
    return model;
}

void plb_model_free(plb_model *model) {
    if (!model) return;
    plb_homes_free(model);
    for (int i = 0; i < model->n_programs; i++) plb_graph_free(model->programs[i]);
    for (int i = 0; i < model->n_variables; i++) plb_free(model->variables[i].name);
    for (int i = 0; i < model->n_slabs; i++) plb_free(model->slabs[i]);
    plb_free(model->programs);
    plb_free(model->variables);
    plb_free(model->slabs);
    plb_map_free(model->by_name);
    plb_free(model);
}

plb_graph *plb_model_find_program(const plb_model *model, const char *name) {
    for (int i = 0; i < model->n_programs; i++) {
        if (strcmp(model->programs[i]->name, name) == 0) return model->programs[i];
    }
    return NULL;
}

plb_status plb_model_program(plb_model *model, const char *name, plb_graph **out) {
    *out = NULL;
    if (plb_model_find_program(model, name)) {
        return plb_fail(PLB_EINVAL, "program %s: there is one of that name already", name);
    }
    PLB_TRY(plb_reserve(&model->programs, &model->programs_capacity, model->n_programs + 1,
                        sizeof *model->programs));
    plb_graph *graph = plb_graph_new(model, name);
    if (!graph) return plb_fail(PLB_ENOMEM, "out of memory for program %s", name);
    model->programs[model->n_programs++] = graph;
    *out = graph;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- variables
static plb_status check_same(const plb_variable *v, const plb_type *type, plb_role role) {
    char s[160], t[160];
    if (v->type.dtype != type->dtype || !plb_shape_equal(&v->type.shape, &type->shape)) {
        return plb_fail(PLB_EINVAL, "variable %s: declared as %s %s before, now as %s %s", v->name,
                        plb_dtype_name(v->type.dtype),
                        plb_shape_format(&v->type.shape, s, sizeof s), plb_dtype_name(type->dtype),
                        plb_shape_format(&type->shape, t, sizeof t));
    }
    if (v->role != role) return plb_fail(PLB_EINVAL, "variable %s: another role before", v->name);
    return PLB_OK;
}

plb_status plb_model_variable(plb_model *model, const char *name, const plb_type *type,
                              plb_role role, plb_init init, int *out_index) {
    int index = plb_model_find_variable(model, name);
    *out_index = index;
    if ((unsigned)role >= PLB_ROLE_COUNT || (unsigned)init.kind > PLB_INIT_SEED) {
        return plb_fail(PLB_EINVAL,
                        "variable %s: expected roles below %d and kinds of first value "
                        "up to %d, found %d and %d",
                        name, PLB_ROLE_COUNT, PLB_INIT_SEED, (int)role, (int)init.kind);
    }
    if (index >= 0) return check_same(&model->variables[index], type, role);
    plb_status status = plb_shape_check(&type->shape);
    if (status) return plb_fail_context(status, "variable %s", name);
    if (!plb_dtype_size(type->dtype)) {
        return plb_fail(PLB_EUNSUPPORTED, "variable %s: dtype %s is reserved", name,
                        plb_dtype_name(type->dtype));
    }
    PLB_TRY(plb_reserve(&model->variables, &model->variables_capacity, model->n_variables + 1,
                        sizeof *model->variables));
    char *copy = plb_strdup(name);
    if (!copy) return plb_fail(PLB_ENOMEM, "out of memory for variable %s", name);
    status = plb_map_set(model->by_name, name, model->n_variables);
    if (status) {
        plb_free(copy);
        return status;
    }
    model->variables[model->n_variables] =
        (plb_variable){.name = copy, .type = *type, .role = role, .init = init};
    *out_index = model->n_variables++;
    return PLB_OK;
}

int plb_model_variable_count(const plb_model *model) {
    return model->n_variables;
}

plb_variable_info plb_model_variable_info(const plb_model *model, int index) {
    const plb_variable *v = &model->variables[index];
    return (plb_variable_info){v->name, v->type, v->role};
}

int plb_model_find_variable(const plb_model *model, const char *name) {
    return (int)plb_map_get(model->by_name, name, -1);
}

// ---------------------------------------------------------------------------- first values
static double normal_of(plb_philox_block block) { // Box, Muller 1958
    double radius = sqrt(-2 * log(plb_uniform_open(block.word[0])));
    return radius * cos(6.283185307179586 * plb_uniform_open(block.word[1]));
}

static double first_value(plb_init init, uint64_t key, uint64_t i) {
    plb_philox_block block = plb_philox(key, i, 0);
    switch (init.kind) {
    case PLB_INIT_CONSTANT: return init.a;
    case PLB_INIT_UNIFORM: return init.a + (init.b - init.a) * plb_uniform_f32(block.word[0]);
    case PLB_INIT_NORMAL: return init.a + init.b * normal_of(block);
    case PLB_INIT_SEED:
    case PLB_INIT_TRUNCATED_NORMAL: break;
    }
    double z = normal_of(block);
    for (uint64_t again = 1; fabs(z) > 2; again++) z = normal_of(plb_philox(key, i, again));
    return init.a + init.b * z;
}

// Uniform numbers that the dtype's rounding took to their upper bound.
static void keep_below(const plb_variable *v, int64_t count) {
    const plb_dtype dtype = v->type.dtype;
    const double most = plb_uniform_most(dtype, v->init.a, v->init.b);
    if (!plb_uniform_reaches(dtype, v->init.a, v->init.b)) return;
    for (int64_t i = 0; i < count; i++) {
        if (plb_load_f64(v->data, dtype, i) > most) plb_store_f64(v->data, dtype, i, most);
    }
}

static size_t padded_bytes(const plb_type *type) {
    size_t size = plb_layout_bytes(&type->shape, type->dtype, (plb_layout){0});
    return (size + PLB_CACHE_LINE - 1) & ~(size_t)(PLB_CACHE_LINE - 1);
}

// The host wrote this variable, and no other copy is true any more.
static void host_wrote(plb_model *model, plb_variable *v) {
    v->valid = 1u << PLB_HOST_HOME;
    model->copies++;
}

// PLB_ECANCELLED between parts of a large one, which then holds no weights.
static plb_status initialise(plb_variable *v, uint64_t seed) {
    enum { PART = 1 << 20 };
    uint64_t key = plb_hash_string(PLB_HASH_SEED, v->name) ^ seed * UINT64_C(0x9E3779B97F4A7C15);
    int64_t count = plb_shape_count(&v->type.shape);
    if (v->source) {
        memcpy(v->data, v->source,
               plb_layout_bytes(&v->type.shape, v->type.dtype, (plb_layout){0}));
        return PLB_OK;
    }
    if (v->init.kind == PLB_INIT_SEED) {
        memset(v->data, 0, padded_bytes(&v->type));
        if (count) plb_store_i64(v->data, v->type.dtype, 0, (int64_t)seed);
        return PLB_OK;
    }
    for (int64_t begin = 0; begin < count; begin += PART) {
        const int64_t end = count - begin < PART ? count : begin + PART;
        PLB_TRY(plb_stop_check());
#pragma omp parallel for if (count > 10000)
        for (int64_t i = begin; i < end; i++) {
            plb_store_f64(v->data, v->type.dtype, i, first_value(v->init, key, (uint64_t)i));
        }
    }
    if (v->init.kind == PLB_INIT_UNIFORM) keep_below(v, count);
    return PLB_OK;
}

void plb_model_set_source(plb_model *model, int index, const void *source) {
    model->variables[index].source = source;
}

plb_status plb_model_allocate_but(plb_model *model, const bool *unset) {
    size_t total = 0;
    for (int i = 0; i < model->n_variables; i++) {
        const plb_variable *v = &model->variables[i];
        if (!v->data) total += padded_bytes(&v->type) + PLB_CACHE_LINE; // empty ones differ too
    }
    if (!total) return PLB_OK;
    PLB_TRY(plb_reserve(&model->slabs, &model->slabs_capacity, model->n_slabs + 1,
                        sizeof *model->slabs));
    char *slab = plb_alloc_slab(total);
    if (!slab) return plb_fail(PLB_ENOMEM, "out of memory for %zu bytes of variables", total);
    model->slabs[model->n_slabs++] = slab;
    for (int i = 0; i < model->n_variables; i++) {
        plb_variable *v = &model->variables[i];
        if (v->data) continue;
        v->data = slab;
        slab += padded_bytes(&v->type) + PLB_CACHE_LINE;
        model->slab_bytes[v->role] += padded_bytes(&v->type) + PLB_CACHE_LINE;
        host_wrote(model, v);
        plb_status status = unset && unset[i] ? PLB_OK : initialise(v, model->seed);
        if (!status) continue;
        v->data = NULL; // as those after it: none of them has weights
        return status;
    }
    plb_model_touch(model);
    return PLB_OK;
}

plb_status plb_model_allocate(plb_model *model) {
    return plb_model_allocate_but(model, NULL);
}

plb_status plb_model_init(plb_model *model, uint64_t seed) {
    model->seed = seed;
    for (int i = 0; i < model->n_variables; i++) {
        if (!model->variables[i].data) continue;
        PLB_TRY(initialise(&model->variables[i], seed));
        host_wrote(model, &model->variables[i]);
    }
    PLB_TRY(plb_model_allocate(model));
    plb_model_touch(model);
    return PLB_OK;
}

static plb_tensor whole(const plb_variable *v) {
    return plb_tensor_dense(v->data, v->type.dtype, &v->type.shape, (plb_layout){0});
}

plb_status plb_variable_read(plb_model *model, int index, plb_tensor *to) {
    PLB_TRY(plb_model_allocate(model));
    PLB_TRY(plb_home_fetch(model, index));
    plb_tensor from = whole(&model->variables[index]);
    plb_status status = plb_tensor_copy(to, &from);
    return status ? plb_fail_context(status, "variable %s", model->variables[index].name) : PLB_OK;
}

plb_status plb_variable_write(plb_model *model, int index, const plb_tensor *from) {
    PLB_TRY(plb_model_allocate(model));
    plb_tensor to = whole(&model->variables[index]);
    plb_status status = plb_tensor_copy(&to, from);
    if (status) return plb_fail_context(status, "variable %s", model->variables[index].name);
    host_wrote(model, &model->variables[index]);
    plb_model_touch(model);
    return PLB_OK;
}

void *plb_variable_data(plb_model *model, int index) {
    plb_variable *v = &model->variables[index];
    if (plb_home_fetch(model, index) != PLB_OK) return NULL;
    v->exposed = v->data != NULL;
    model->copies++;
    return v->data;
}

void plb_model_touch(plb_model *model) {
    for (int i = 0; i < model->n_variables; i++) {
        plb_variable *v = &model->variables[i];
        if (v->exposed) host_wrote(model, v);
    }
    model->version++;
}
