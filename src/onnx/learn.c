// SPDX-License-Identifier: Apache-2.0
// A file's graph between a data set's pictures and a loss. The file knows of neither: its input is
// fitted to the pictures, and the loss is told by what its outputs are, unless the caller says.
#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "engine/graph/graph.h"
#include "onnx/file.h"
#include "onnx/map.h"

typedef struct learning {
    const plb_onnx *file;
    const plb_onnx_learning *how;
    plb_graph *graph;
    plb_value x, y;
    plb_onnx_given given[2];
    int n_given;
    bool has_labels;  // the file takes them
    plb_value source; // the output that the loss is made of
    plb_value scores; // [N,K] f32; PLB_NONE: there are none
} learning;

static const char *const losses[] = {"cross-entropy", "nll", "mse", "output"};

static bool loss_is(const learning *l, const char *name) {
    return l->how->loss && strcmp(l->how->loss, name) == 0;
}

static plb_status check_loss(const char *name) {
    for (int i = 0; i < 4 && name; i++) {
        if (strcmp(losses[i], name) == 0) return PLB_OK;
    }
    if (!name) return PLB_OK;
    const char *nearest = plb_nearest_name(name, losses, 4);
    return plb_fail(PLB_EINVAL, "no loss %s; did you mean %s?", name,
                    nearest ? nearest : "cross-entropy, nll, mse or output");
}

// ---------------------------------------------------------------------------- inputs
static plb_status misfit(const learning *l, const plb_onnx_input_info *info) {
    const plb_onnx_learning *h = l->how;
    char text[160];
    return plb_fail(PLB_EINVAL,
                    "input %s: the data has pictures [%lld, %lld, %lld, %lld], which "
                    "do not fit %s (extents of -1 are open)",
                    info->name, (long long)h->batch, (long long)h->channels, (long long)h->height,
                    (long long)h->width, plb_shape_format(&info->shape, text, sizeof text));
}

static bool fits(const plb_shape *open, const plb_shape *found) {
    bool same = open->rank == found->rank;
    for (int i = 0; same && i < open->rank; i++) {
        same = open->dim[i] < 0 || open->dim[i] == found->dim[i];
    }
    return same;
}

// The file's shape with its one open extent, if any, made such that it holds the pictures.
static bool flattened(const plb_onnx_input_info *info, const plb_shape *pictures, plb_shape *out) {
    int64_t rest = plb_shape_count(pictures) / pictures->dim[0];
    int open = 0;
    *out = info->shape;
    if (out->rank < 2) return false;
    out->dim[0] = pictures->dim[0];
    for (int i = 1; i < out->rank; i++) {
        if (out->dim[i] < 0) {
            if (open) return false;
            open = i;
        } else if (out->dim[i] == 0 || rest % out->dim[i] != 0) {
            return false;
        } else {
            rest /= out->dim[i];
        }
    }
    if (open) out->dim[open] = rest;
    return open || rest == 1;
}

static plb_status add_given(learning *l, const char *name, plb_value value) {
    plb_type type = plb_value_type(l->graph, value);
    PLB_TRY(plb_graph_status(l->graph));
    l->given[l->n_given++] =
        (plb_onnx_given){.name = name,
                         .tensor = plb_tensor_dense(NULL, type.dtype, &type.shape, (plb_layout){0}),
                         .made = true,
                         .value = value};
    return PLB_OK;
}

static plb_status fit_picture(learning *l, const plb_onnx_input_info *info) {
    const plb_onnx_learning *h = l->how;
    plb_graph *g = l->graph;
    const plb_shape nchw = plb_shape_of(h->batch, h->channels, h->height, h->width);
    const plb_shape nhwc = plb_shape_of(h->batch, h->height, h->width, h->channels);
    static const int last[] = {0, 2, 3, 1};
    plb_shape flat;
    plb_value x = l->x;
    if (info->ranked && info->shape.rank && info->shape.dim[0] >= 0 &&
        info->shape.dim[0] != h->batch) {
        return plb_fail(PLB_EINVAL, "input %s: the file has batches of %lld, not of %lld",
                        info->name, (long long)info->shape.dim[0], (long long)h->batch);
    }
    if (info->ranked && !fits(&info->shape, &nchw)) {
        if (fits(&info->shape, &nhwc))
            x = plb_permute(g, x, last, 4);
        else if (flattened(info, &nchw, &flat))
            x = plb_reshape(g, x, &flat);
        else
            return misfit(l, info);
    }
    if (info->dtype != PLB_F32) x = plb_cast(g, x, info->dtype);
    return add_given(l, info->name, x);
}

static plb_status fit_labels(learning *l, const plb_onnx_input_info *info) {
    plb_shape flat;
    const plb_shape n = plb_shape_of(l->how->batch);
    plb_value y = l->y;
    if (info->ranked && !fits(&info->shape, &n)) {
        const plb_shape column = plb_shape_of(l->how->batch, 1);
        if (!flattened(info, &column, &flat)) {
            return plb_fail(PLB_EINVAL, "input %s: one class a picture does not fit it",
                            info->name);
        }
        y = plb_reshape(l->graph, y, &flat);
    }
    if (info->dtype != PLB_I64) y = plb_cast(l->graph, y, info->dtype);
    l->has_labels = true;
    return add_given(l, info->name, y);
}

static plb_status fit_inputs(learning *l) {
    const plb_onnx_learning *h = l->how;
    plb_onnx_input_info info[2];
    int floats = 0, n = plb_onnx_input_count(l->file);
    for (int i = 0; i < n && n <= 2; i++) {
        PLB_TRY(plb_onnx_input(l->file, i, &info[i]));
        floats += plb_dtype_is_float(info[i].dtype);
    }
    if (floats != 1) {
        return plb_fail(PLB_EUNSUPPORTED,
                        "expected one input of pictures, and at most one of their classes, found "
                        "%d inputs%s",
                        n,
                        n > 2    ? ""
                        : floats ? " of floats"
                                 : ", none of floats");
    }
    l->x = plb_input(l->graph, "x", PLB_F32,
                     &plb_shape_of(h->batch, h->channels, h->height, h->width));
    l->y = plb_input(l->graph, "y", PLB_I64, &plb_shape_of(h->batch));
    PLB_TRY(plb_graph_status(l->graph));
    for (int i = 0; i < n; i++) {
        bool picture = plb_dtype_is_float(info[i].dtype);
        PLB_TRY(picture ? fit_picture(l, &info[i]) : fit_labels(l, &info[i]));
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- outputs
// [N,K] of an output [N,K,1,…]; PLB_NONE: it is none.
static plb_value scores_of(const learning *l, plb_value value) {
    plb_type type = plb_value_type(l->graph, value);
    const plb_shape *s = &type.shape;
    bool good = plb_dtype_is_float(type.dtype) && s->rank >= 2 && s->dim[0] == l->how->batch &&
                s->dim[1] >= 2;
    for (int i = 2; i < s->rank; i++) good &= s->dim[i] == 1;
    if (!good) return PLB_NONE;
    if (type.dtype != PLB_F32) value = plb_cast(l->graph, value, PLB_F32);
    return s->rank == 2 ? value : plb_reshape(l->graph, value, &plb_shape_of(s->dim[0], s->dim[1]));
}

static bool is_loss(const learning *l, plb_value value) {
    plb_type type = plb_value_type(l->graph, value);
    return plb_dtype_is_float(type.dtype) && plb_shape_count(&type.shape) == 1;
}

static bool like_picture(const learning *l, plb_value value) {
    const plb_type type = plb_value_type(l->graph, value);
    const plb_shape x = plb_value_shape(l->graph, l->given[0].value);
    const plb_shape other = plb_value_shape(l->graph, l->given[l->n_given - 1].value);
    return plb_dtype_is_float(type.dtype) &&
           (plb_shape_equal(&type.shape, &x) || plb_shape_equal(&type.shape, &other));
}

// Whether an output can be what the loss is made of.
static bool serves(const learning *l, plb_value value) {
    bool own = loss_is(l, "output") || (!l->how->loss && l->has_labels);
    if (own) return is_loss(l, value);
    if (scores_of(l, value) != PLB_NONE) return true;
    return loss_is(l, "mse") && like_picture(l, value);
}

static plb_status choose_output(learning *l, int n_outputs) {
    plb_strbuf names = {0};
    for (int i = 0; i < n_outputs; i++) {
        const plb_graph_output *o = &l->graph->outputs[i];
        plb_strbuf_printf(&names, "%s%s", i ? ", " : "", o->name);
        bool named = l->how->output && strcmp(o->name, l->how->output) == 0;
        if (l->source == PLB_NONE && (named || (!l->how->output && serves(l, o->value)))) {
            l->source = o->value;
        }
        if (l->scores == PLB_NONE) l->scores = scores_of(l, o->value);
    }
    plb_status status = PLB_OK;
    if (l->source == PLB_NONE || !serves(l, l->source)) {
        const char *all = names.text ? names.text : "";
        bool named = l->how->output != NULL;
        status = plb_fail(PLB_EUNSUPPORTED,
                          "no loss can be made of %s%s: expected %s (the outputs are %s)",
                          named ? "output " : "the outputs", named ? l->how->output : "",
                          loss_is(l, "output") ? "a scalar of floats" : "scores [N, classes]", all);
    }
    if (!status && scores_of(l, l->source) != PLB_NONE) l->scores = scores_of(l, l->source);
    plb_strbuf_free(&names);
    return status;
}

static plb_status check_classes(const learning *l) {
    int64_t found = l->scores == PLB_NONE ? 0 : plb_value_shape(l->graph, l->scores).dim[1];
    if (!found || found >= l->how->classes) return PLB_OK;
    return plb_fail(PLB_EINVAL, "the file has scores of %lld classes, the data has %lld",
                    (long long)found, (long long)l->how->classes);
}

// The parameters that there are must be what the optimizers step.
static plb_status check_weights(const plb_graph *graph) {
    const plb_model *model = plb_graph_model(graph);
    for (int i = 0; i < plb_model_variable_count(model); i++) {
        plb_variable_info info = plb_model_variable_info(model, i);
        if (info.role != PLB_ROLE_PARAMETER || info.type.dtype == PLB_F32) continue;
        return plb_fail(PLB_EUNSUPPORTED, "weight %s: values of %s are not trained, f32 are",
                        info.name, plb_dtype_name(info.type.dtype));
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- the loss
// What a softmax, or the logarithm of one, over classes was made of; PLB_NONE: it is none.
static plb_value before_softmax(const learning *l, plb_value scores, plb_op_id op) {
    const plb_graph *g = l->graph;
    int64_t classes = plb_value_shape(g, scores).dim[1];
    const plb_node *node = &g->nodes[g->values[scores].node];
    while (node->op == PLB_OP_reshape || node->op == PLB_OP_cast) {
        node = &g->nodes[g->values[node->in[0]].node];
    }
    if (node->op != op) return PLB_NONE;
    const plb_shape shape = plb_value_shape(g, node->in[0]);
    int64_t axis = ((const plb_axis_attrs *)node->attrs)->axis;
    if (axis < 0) axis += shape.rank;
    if (shape.dim[axis] != classes || plb_shape_count(&shape) != l->how->batch * classes) {
        return PLB_NONE;
    }
    return node->in[0];
}

static plb_value class_loss(learning *l) {
    plb_loss_attrs attrs = plb_loss_default();
    plb_graph *g = l->graph;
    plb_value scores = scores_of(l, l->source);
    attrs.reduction = l->how->eval ? PLB_REDUCE_SUM : PLB_REDUCE_MEAN;
    bool logs = loss_is(l, "nll") ||
                (!l->how->loss && before_softmax(l, scores, PLB_OP_log_softmax) != PLB_NONE);
    if (logs) return plb_nll(g, scores, l->y, PLB_NONE, &attrs);
    plb_value logits = l->how->loss ? PLB_NONE : before_softmax(l, scores, PLB_OP_softmax);
    if (logits != PLB_NONE) {
        const plb_shape shape = plb_value_shape(g, scores);
        if (plb_value_type(g, logits).dtype != PLB_F32) logits = plb_cast(g, logits, PLB_F32);
        scores = plb_reshape(g, logits, &shape);
    }
    return plb_cross_entropy(g, scores, l->y, PLB_NONE, &attrs);
}

static plb_value squares(learning *l) {
    plb_graph *g = l->graph;
    plb_value target, from = scores_of(l, l->source);
    if (like_picture(l, l->source)) {
        from = l->source, target = l->given[0].value;
        if (!plb_dtype_is_float(plb_value_type(g, target).dtype)) target = l->given[1].value;
        l->scores = PLB_NONE;
    } else {
        const plb_shape shape = plb_value_shape(g, from);
        plb_value column = plb_reshape(g, l->y, &plb_shape_of(shape.dim[0], 1));
        target = plb_onnx_one_hot(g, column, 1, shape.dim[1], PLB_F32);
    }
    return plb_mse(g, from, target, PLB_REDUCE_MEAN);
}

static plb_value append_loss(learning *l) {
    plb_graph *g = l->graph;
    bool own = loss_is(l, "output") || (!l->how->loss && l->has_labels);
    if (!own && !loss_is(l, "mse")) return class_loss(l);
    plb_value mean = own ? plb_reshape(g, l->source, &plb_scalar_shape) : squares(l);
    if (plb_value_type(g, mean).dtype != PLB_F32) mean = plb_cast(g, mean, PLB_F32);
    return l->how->eval ? plb_affine(g, mean, (double)l->how->batch, 0) : mean;
}

static void append_results(learning *l, plb_value *out_loss) {
    plb_graph *g = l->graph;
    plb_scope_push(g, "loss");
    *out_loss = append_loss(l);
    plb_scope_pop(g);
    plb_scope_push(g, "metrics");
    plb_value correct = plb_scalar(g, PLB_F32, NAN);
    if (l->scores != PLB_NONE) {
        plb_value hit = plb_eq(g, plb_arg_max(g, l->scores, 1, false), l->y);
        correct = plb_sum(g, plb_cast(g, hit, PLB_F32), 0, false);
    }
    plb_scope_pop(g);
    // Beside these the graph keeps no outputs: what nobody reads need not live to the end.
    g->n_outputs = 0;
    plb_output(g, "loss", *out_loss);
    plb_output(g, "correct", correct);
}

plb_status plb_onnx_build_learning(const plb_onnx *file, const plb_onnx_learning *how,
                                   plb_graph *graph, plb_value *out_loss) {
    learning l = {.file = file, .how = how, .graph = graph, .source = PLB_NONE, .scores = PLB_NONE};
    *out_loss = PLB_NONE;
    PLB_TRY(check_loss(how->loss));
    plb_graph_set_training(graph, !how->eval);
    plb_status status = fit_inputs(&l);
    const plb_onnx_options options = {.given = l.given,
                                      .n_given = l.n_given,
                                      .open_extent = 1,
                                      .mode = how->eval ? PLB_ONNX_EVAL : PLB_ONNX_TRAIN,
                                      .only = how->only,
                                      .freeze = how->freeze};
    if (status) return plb_fail_context(status, "%s", file->path);
    PLB_TRY(plb_onnx_build(file, &options, graph, NULL));
    status = check_weights(graph);
    if (!status) status = choose_output(&l, graph->n_outputs);
    if (!status) status = check_classes(&l);
    if (!status) append_results(&l, out_loss);
    if (!status) status = plb_graph_status(graph);
    return status ? plb_fail_context(status, "%s", file->path) : PLB_OK;
}
