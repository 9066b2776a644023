// SPDX-License-Identifier: Apache-2.0
// Loading checks everything first and copies then, in parallel and in pieces of about equal size: a
// model's largest variable may hold most of its values.
#include "plumb/weights.h"

#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/machine.h"
#include "base/thread.h"
#include "engine/graph/graph.h"
#include "engine/graph/home.h"
#include "engine/graph/plan.h"
#include "io/safetensors.h"
#include "io/text.h"

enum { PIECE_ELEMENTS = 1 << 20 };

typedef struct piece {
    int variable;
    const plb_named_tensor *from;
    int64_t first, count; // elements
} piece;

typedef struct loader {
    const char *path;
    plb_model *model;
    plb_safetensors *file;
    bool *given;    // of each variable: the file has it
    bool *required; // of each variable
    piece *pieces;
    int64_t n_pieces;
    int wrong;        // variables and tensors that do not fit
    plb_strbuf first; // what is wrong with the first
} loader;

static bool is_weight(const plb_variable_info *info) {
    return info->role == PLB_ROLE_PARAMETER || info->role == PLB_ROLE_BUFFER;
}

static bool ends_in(const char *name, const char *ending) {
    size_t n = strlen(name), m = strlen(ending);
    return n >= m && strcmp(name + n - m, ending) == 0;
}

static bool counts_batches(const char *name) {
    return ends_in(name, "num_batches_tracked"); // PyTorch's; says nothing about results
}

// What a checkpoint of a training run holds beside the weights.
static bool of_training(const char *name) {
    static const char *const whole[] = {"lr", "step", "random", "loss_scale", "loss_scale.steps"};
    static const char *const begin[] = {"sgd.momentum.", "adam.mean.", "adam.square."};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (strcmp(name, whole[i]) == 0) return true;
    for (size_t i = 0; i < sizeof begin / sizeof *begin; i++)
        if (strncmp(name, begin[i], strlen(begin[i])) == 0) return true;
    return false;
}

// ---------------------------------------------------------------------------- checking
// Heads that only training runs are declared, and so read, but nothing is made of them.
static plb_status find_required(loader *l, const plb_graph *program) {
    for (int i = 0; i < l->model->n_variables; i++) l->required[i] = !program;
    if (!program) return PLB_OK;
    bool *used = plb_alloc_array((size_t)program->n_values + 1, sizeof *used);
    if (!used) return plb_fail(PLB_ENOMEM, "%s: out of memory", l->path);
    for (int i = 0; i < program->n_outputs; i++) used[program->outputs[i].value] = true;
    for (int i = 0; i < program->n_nodes; i++) {
        const plb_node *node = &program->nodes[i];
        for (int k = 0; k < node->n_in; k++) {
            if (node->in[k] >= 0) used[node->in[k]] = true;
        }
    }
    for (int i = 0; i < program->n_nodes; i++) {
        const plb_node *node = &program->nodes[i];
        if (node->op != PLB_OP_read || !used[node->out]) continue;
        l->required[((const plb_variable_attrs *)node->attrs)->variable] = true;
    }
    plb_free(used);
    return PLB_OK;
}

static bool same_kind(plb_dtype a, plb_dtype b) {
    if (a == PLB_BOOL || b == PLB_BOOL) return a == b;
    return plb_dtype_is_float(a) == plb_dtype_is_float(b);
}

static void check_variable(loader *l, int index) {
    const plb_variable_info info = plb_model_variable_info(l->model, index);
    if (!is_weight(&info)) return;
    const plb_named_tensor *found = plb_safetensors_find(l->file, info.name);
    char expected[160], shape[160];
    plb_shape_format(&info.type.shape, expected, sizeof expected);
    if (!found) {
        if (!l->required[index] || counts_batches(info.name)) return;
        if (!l->wrong++) {
            plb_strbuf_printf(&l->first, "expected %s %s %s, found no tensor of that name",
                              info.name, plb_dtype_name(info.type.dtype), expected);
        }
        return;
    }
    const plb_tensor *t = &found->tensor;
    l->given[index] = true;
    if (plb_shape_equal(&t->shape, &info.type.shape) && same_kind(t->dtype, info.type.dtype)) {
        return;
    }
    if (!l->wrong++) {
        plb_strbuf_printf(&l->first, "%s: expected %s %s, found %s %s", info.name,
                          plb_dtype_name(info.type.dtype), expected, plb_dtype_name(t->dtype),
                          plb_shape_format(&t->shape, shape, sizeof shape));
    }
}

static void check_stranger(loader *l, const plb_named_tensor *named) {
    int index = plb_model_find_variable(l->model, named->name);
    if (index >= 0 || counts_batches(named->name) || of_training(named->name)) return;
    if (!l->wrong++) {
        plb_strbuf_printf(&l->first, "the model has no variable %s",
                          plb_show(named->name, strlen(named->name)).text);
    }
}

static plb_status check(loader *l) {
    for (int i = 0; i < l->model->n_variables; i++) check_variable(l, i);
    for (size_t i = 0; i < plb_safetensors_count(l->file); i++) {
        check_stranger(l, plb_safetensors_at(l->file, i));
    }
    if (!l->wrong) return PLB_OK;
    if (l->first.failed) return plb_fail(PLB_ENOMEM, "%s: out of memory", l->path);
    if (l->wrong == 1) return plb_fail(PLB_EINVAL, "%s: %s", l->path, l->first.text);
    return plb_fail(PLB_EINVAL, "%s: %s; and %d more %s wrong", l->path, l->first.text,
                    l->wrong - 1, l->wrong == 2 ? "is" : "are");
}

// ---------------------------------------------------------------------------- copying
static plb_status cut(loader *l) {
    int64_t most = 0;
    for (int i = 0; i < l->model->n_variables; i++) {
        most += plb_shape_count(&l->model->variables[i].type.shape) / PIECE_ELEMENTS + 1;
    }
    l->pieces = plb_alloc_array((size_t)most, sizeof *l->pieces);
    if (!l->pieces) return plb_fail(PLB_ENOMEM, "%s: out of memory", l->path);
    for (int i = 0; i < l->model->n_variables; i++) {
        if (!l->given[i]) continue;
        const plb_variable *v = &l->model->variables[i];
        const plb_named_tensor *from = plb_safetensors_find(l->file, v->name);
        int64_t count = plb_shape_count(&v->type.shape);
        for (int64_t first = 0; first < count; first += PIECE_ELEMENTS) {
            int64_t n = count - first < PIECE_ELEMENTS ? count - first : PIECE_ELEMENTS;
            l->pieces[l->n_pieces++] = (piece){i, from, first, n};
        }
    }
    return PLB_OK;
}

static plb_status copy_piece(void *context, int64_t index, int thread) {
    (void)thread;
    const loader *l = context;
    const piece *p = &l->pieces[index];
    const plb_variable *v = &l->model->variables[p->variable];
    size_t to_size = plb_dtype_size(v->type.dtype);
    size_t from_size = plb_dtype_size(p->from->tensor.dtype);
    char *to = (char *)v->data + (size_t)p->first * to_size;
    char *from = (char *)p->from->tensor.data + (size_t)p->first * from_size;
    if (v->type.dtype == p->from->tensor.dtype) {
        memcpy(to, from, (size_t)p->count * to_size);
        return PLB_OK;
    }
    const plb_shape line = plb_shape_of(p->count);
    const plb_layout plain = {0};
    plb_tensor target = plb_tensor_dense(to, v->type.dtype, &line, plain);
    const plb_tensor source = plb_tensor_dense(from, p->from->tensor.dtype, &line, plain);
    return plb_tensor_copy(&target, &source);
}

plb_status plb_weights_load(const char *path, plb_model *model, const plb_graph *program,
                            int threads) {
    loader l = {.path = path, .model = model};
    plb_status status;
    PLB_TRY_OUT(plb_safetensors_open(path, &l.file));
    size_t n = (size_t)model->n_variables + 1;
    l.given = plb_alloc_array(n, sizeof *l.given);
    l.required = plb_alloc_array(n, sizeof *l.required);
    if (!l.given || !l.required) {
        status = plb_fail(PLB_ENOMEM, "%s: out of memory", path);
        goto out;
    }
    PLB_TRY_OUT(find_required(&l, program));
    PLB_TRY_OUT(check(&l));
    PLB_TRY_OUT(cut(&l));
    PLB_TRY_OUT(plb_model_allocate_but(model, l.given));
    for (int i = 0; i < model->n_variables; i++) { // written through their storage, then touched
        if (l.given[i]) plb_variable_data(model, i);
    }
    if (threads <= 0) threads = plb_machine_threads();
    status = plb_thread_for(l.n_pieces, threads, copy_piece, &l);
    plb_model_touch(model);
out:
    plb_safetensors_free(l.file);
    plb_free(l.given);
    plb_free(l.required);
    plb_free(l.pieces);
    plb_strbuf_free(&l.first);
    return status;
}

// ---------------------------------------------------------------------------- writing
plb_status plb_weights_write(const char *path, plb_model *model) {
    PLB_TRY(plb_model_allocate(model));
    plb_named_tensor *tensors = plb_alloc_array((size_t)model->n_variables + 1, sizeof *tensors);
    if (!tensors) return plb_fail(PLB_ENOMEM, "%s: out of memory", path);
    plb_status status = PLB_OK;
    size_t count = 0;
    for (int i = 0; i < model->n_variables; i++) {
        const plb_variable_info info = plb_model_variable_info(model, i);
        if (!is_weight(&info)) continue;
        status = plb_home_fetch(model, i); // from the device that trained it
        if (status) break;
        tensors[count++] = (plb_named_tensor){
            info.name, plb_tensor_dense(plb_variable_data(model, i), info.type.dtype,
                                        &info.type.shape, (plb_layout){0})};
    }
    const plb_name_value metadata = {"format", "pt"}; // readers for PyTorch look for it
    if (!status) status = plb_safetensors_write(path, tensors, count, &metadata, 1);
    plb_free(tensors);
    return status;
}
