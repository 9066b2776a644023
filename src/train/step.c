// SPDX-License-Identifier: Apache-2.0
// A training step as graph. A parameter may be read at several places (shared weights); its
// gradient is the sum over all of them.
#include "plumb/step.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "engine/graph/graph.h"

plb_status plb_step_options_for(const char *optimizer, plb_step_options *out) {
    static const char *const names[] = {"sgd", "adam", "adamw"};
    plb_step_options o = {.lr = 1e-3, .adam = {.beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8}};
    if (strcmp(optimizer, "sgd") == 0) {
        o.optimizer = PLB_OPTIMIZER_SGD, o.lr = 0.01;
    } else if (strcmp(optimizer, "adam") == 0) {
        o.optimizer = PLB_OPTIMIZER_ADAM;
    } else if (strcmp(optimizer, "adamw") == 0) {
        o.optimizer = PLB_OPTIMIZER_ADAM;
        o.adam.decoupled = 1, o.adam.weight_decay = 0.01;
    } else {
        const char *nearest = plb_nearest_name(optimizer, names, 3);
        return plb_fail(PLB_EINVAL, "no optimizer %s; did you mean %s?", optimizer,
                        nearest ? nearest : "sgd, adam or adamw");
    }
    *out = o;
    return PLB_OK;
}

typedef struct step {
    plb_graph *graph;
    const plb_step_options *options;
    plb_value lr, count;
    plb_value scale, unscale, finite; // of loss scaling; PLB_NONE without it
    int n;                            // reads of parameters
    int *variable;
    plb_value *read, *gradient;
} step;

static bool in_scope(const char *name, const char *scope) {
    const size_t n = scope ? strlen(scope) : 0;
    return n == 0 || (strncmp(name, scope, n) == 0 && (name[n] == '.' || name[n] == '\0'));
}

static bool reads_parameter(const step *s, const plb_node *node) {
    if (node->op != PLB_OP_read) return false;
    const plb_variable_attrs *attrs = node->attrs;
    const plb_variable *v = &s->graph->model->variables[attrs->variable];
    return v->role == PLB_ROLE_PARAMETER && in_scope(v->name, s->options->scope);
}

static plb_status collect_reads(step *s) {
    const plb_graph *graph = s->graph;
    for (int i = 0; i < graph->n_nodes; i++) s->n += reads_parameter(s, &graph->nodes[i]);
    if (!s->n) {
        const char *scope = s->options->scope;
        return plb_fail(PLB_EINVAL, "train step: the program reads no parameter%s%s",
                        scope ? " of scope " : "", scope ? scope : "");
    }
    s->variable = plb_alloc_array((size_t)s->n, sizeof *s->variable);
    s->read = plb_alloc_array((size_t)s->n, sizeof *s->read);
    s->gradient = plb_alloc_array((size_t)s->n, sizeof *s->gradient);
    if (!s->variable || !s->read || !s->gradient) {
        return plb_fail(PLB_ENOMEM, "out of memory for %d gradients", s->n);
    }
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        if (!reads_parameter(s, node)) continue;
        s->variable[n] = ((const plb_variable_attrs *)node->attrs)->variable;
        s->read[n++] = node->out;
    }
    return PLB_OK;
}

enum { NAME_BYTES = 512 };

// "first.second", or "second" where there is no first. What were cut might be another's name.
static plb_status join(const char *first, const char *second, char name[NAME_BYTES]) {
    const bool both = first && *first;
    int length = snprintf(name, NAME_BYTES, "%s%s%s", both ? first : "", both ? "." : "", second);
    if (length < NAME_BYTES) return PLB_OK;
    return plb_fail(PLB_EINVAL, "%.40s...: a name of %d bytes, at most %d", name, length,
                    NAME_BYTES - 1);
}

// Two programs may share it, but not begin with two values.
static plb_status declare_state(step *s, const char *kind, double first, int *variable) {
    const plb_type type = {PLB_F32, plb_scalar_shape};
    plb_model *model = s->graph->model;
    char name[NAME_BYTES];
    PLB_TRY(join(s->options->prefix, kind, name));
    PLB_TRY(plb_model_variable(model, name, &type, PLB_ROLE_STATE,
                               (plb_init){PLB_INIT_CONSTANT, first, 0}, variable));
    const double before = model->variables[*variable].init.a;
    if (before == first || (isnan(before) && isnan(first))) return PLB_OK;
    return plb_fail(PLB_EINVAL,
                    "train step: %s begins with %g in another program of the model, here with %g; "
                    "the option prefix keeps them apart",
                    name, before, first);
}

static plb_value state(step *s, const char *kind, double first, int *variable) {
    plb_status status = declare_state(s, kind, first, variable);
    return status ? plb_graph_fail(s->graph, status) : plb_read(s->graph, *variable);
}

static plb_status declare_moment(step *s, const char *kind, int parameter, int *variable) {
    const plb_variable_info info = plb_model_variable_info(s->graph->model, parameter);
    char kind_name[NAME_BYTES], name[NAME_BYTES];
    PLB_TRY(join(s->options->prefix, kind, kind_name));
    PLB_TRY(join(kind_name, info.name, name));
    return plb_model_variable(s->graph->model, name, &info.type, PLB_ROLE_OPTIMIZER, (plb_init){0},
                              variable);
}

// The optimizer's variable "kind.<parameter>", like the parameter and 0 at first.
static plb_value moment(step *s, const char *kind, int parameter, int *variable) {
    plb_status status = declare_moment(s, kind, parameter, variable);
    return status ? plb_graph_fail(s->graph, status) : plb_read(s->graph, *variable);
}

static void step_sgd(step *s, int parameter, plb_value w, plb_value g) {
    const plb_sgd_attrs *attrs = &s->options->sgd;
    int m_variable = -1;
    plb_value m = PLB_NONE;
    if (attrs->momentum != 0) m = moment(s, "sgd.momentum", parameter, &m_variable);
    plb_value out = s->unscale == PLB_NONE
                        ? plb_sgd(s->graph, w, g, m, s->lr, attrs)
                        : plb_sgd_scaled(s->graph, w, g, m, s->lr, s->unscale, attrs);
    plb_assign(s->graph, parameter, out);
    if (m != PLB_NONE) plb_assign(s->graph, m_variable, out + 1);
}

static void step_adam(step *s, int parameter, plb_value w, plb_value g) {
    int m_variable = -1, v_variable = -1;
    plb_value m = moment(s, "adam.mean", parameter, &m_variable);
    plb_value v = moment(s, "adam.square", parameter, &v_variable);
    const plb_adam_attrs *attrs = &s->options->adam;
    plb_value out = s->unscale == PLB_NONE
                        ? plb_adam(s->graph, w, g, m, v, s->lr, s->count, attrs)
                        : plb_adam_scaled(s->graph, w, g, m, v, s->lr, s->count, s->unscale, attrs);
    plb_assign(s->graph, parameter, out);
    plb_assign(s->graph, m_variable, out + 1);
    plb_assign(s->graph, v_variable, out + 2);
}

static void output_gradient(step *s, int parameter, plb_value g) {
    char name[NAME_BYTES];
    plb_status status =
        join("grad", plb_model_variable_info(s->graph->model, parameter).name, name);
    if (status) {
        plb_graph_fail(s->graph, status);
        return;
    }
    if (s->scale != PLB_NONE) g = plb_div(s->graph, g, s->scale);
    plb_output(s->graph, name, g);
}

// All that happens to one parameter. Its reads are few, so looking through all of them is fine.
static void step_parameter(step *s, int parameter, int first) {
    plb_value w = s->read[first], g = s->gradient[first];
    for (int i = first + 1; i < s->n; i++) {
        if (s->variable[i] != parameter || s->gradient[i] == PLB_NONE) continue;
        g = g == PLB_NONE ? s->gradient[i] : plb_add(s->graph, g, s->gradient[i]);
    }
    if (g == PLB_NONE) return;
    if (s->options->output_gradients) output_gradient(s, parameter, g);
    if (s->options->optimizer == PLB_OPTIMIZER_SGD) {
        step_sgd(s, parameter, w, g);
    } else {
        step_adam(s, parameter, w, g);
    }
}

static plb_status step_all(step *s) {
    const int n_variables = plb_model_variable_count(s->graph->model);
    int *first = plb_alloc_array((size_t)n_variables, sizeof *first);
    if (!first) return plb_fail(PLB_ENOMEM, "out of memory for a training step");
    for (int v = 0; v < n_variables; v++) first[v] = -1;
    for (int i = s->n - 1; i >= 0; i--) first[s->variable[i]] = i;
    for (int v = 0; v < n_variables && !s->graph->status; v++) {
        if (first[v] >= 0) step_parameter(s, v, first[v]);
    }
    plb_free(first);
    return plb_graph_status(s->graph);
}

// ---------------------------------------------------------------------------- loss scaling
// The sum of all gradients' sizes is finite where all of them are. (A norm is computed in f32 under
// mixed precision, from the same copies that the optimizer reads.)
static plb_value all_finite(step *s) {
    plb_graph *g = s->graph;
    plb_value *size = plb_arena_alloc(g->arena, (size_t)s->n * sizeof *size);
    int n = 0;
    if (!size) return plb_graph_fail(g, plb_fail(PLB_ENOMEM, "out of memory for a training step"));
    for (int i = 0; i < s->n; i++) {
        if (s->gradient[i] == PLB_NONE) continue;
        plb_value one = plb_norm(g, s->gradient[i], 0, false, 1);
        size[n++] = plb_reshape(g, one, &plb_shape_of(1));
    }
    if (!n) return PLB_NONE;
    plb_value sum = plb_sum(g, n == 1 ? size[0] : plb_concat(g, size, n, 0), 0, false);
    plb_value zero = plb_affine(g, sum, 0, 0); // NaN otherwise
    return plb_eq(g, zero, plb_scalar(g, PLB_F32, 0));
}

// As PyTorch's GradScaler: Micikevicius et al., "Mixed precision training", 2018, section 3.2.
static void follow_scale(step *s, int scale_variable) {
    enum { USUAL_GROWTH = 2000 };
    plb_graph *g = s->graph;
    const int64_t growth = s->options->scale_growth ? s->options->scale_growth : USUAL_GROWTH;
    int steps_variable;
    s->finite = all_finite(s);
    if (s->finite == PLB_NONE) return;
    plb_value zero = plb_scalar(g, PLB_F32, 0);
    s->unscale = plb_where(g, s->finite, plb_reciprocal(g, s->scale), zero);
    plb_value steps = plb_affine(g, state(s, "loss_scale.steps", 0, &steps_variable), 1, 1);
    plb_value grows = plb_ge(g, steps, plb_scalar(g, PLB_F32, (double)growth));
    plb_value larger = plb_where(g, grows, plb_affine(g, s->scale, 2, 0), s->scale);
    plb_value next = plb_where(g, s->finite, larger, plb_affine(g, s->scale, 0.5, 0));
    plb_value counts = plb_and(g, s->finite, plb_not(g, grows));
    // Where it and its reciprocal are normal numbers: from 0 and infinity no halving leads back.
    plb_assign(g, scale_variable, plb_clamp(g, next, 0x1p-126, 0x1p126));
    plb_assign(g, steps_variable, plb_where(g, counts, steps, zero));
}

plb_status plb_train_step(plb_graph *graph, plb_value loss, const plb_step_options *options) {
    step s = {.graph = graph,
              .options = options,
              .scale = PLB_NONE,
              .unscale = PLB_NONE,
              .finite = PLB_NONE};
    int lr_variable, count_variable, scale_variable = -1;
    plb_status status;
    PLB_TRY_OUT(plb_graph_status(graph));
    if ((unsigned)options->optimizer > PLB_OPTIMIZER_ADAM) {
        PLB_TRY_OUT(plb_fail(PLB_EINVAL, "train step: expected an optimizer from 0 to %d, found %d",
                             PLB_OPTIMIZER_ADAM, (int)options->optimizer));
    }
    if (options->optimizer == PLB_OPTIMIZER_SGD && options->sgd.momentum != 0 &&
        options->sgd.dampening != 0) {
        // PyTorch's first step ignores dampening, which the op cannot tell from later ones.
        PLB_TRY_OUT(plb_fail(PLB_EUNSUPPORTED, "sgd: dampening with momentum"));
    }
    PLB_TRY_OUT(collect_reads(&s));
    if (options->loss_scale > 0) {
        s.scale = state(&s, "loss_scale", options->loss_scale, &scale_variable);
        loss = plb_mul(graph, loss, s.scale);
    }
    plb_gradients(graph, loss, s.read, s.n, s.gradient);
    plb_scope_push(graph, "optimizer");
    if (s.scale != PLB_NONE) follow_scale(&s, scale_variable);
    s.lr = state(&s, "lr", options->lr, &lr_variable);
    plb_value before = state(&s, "step", 0, &count_variable);
    s.count = plb_affine(graph, before, 1, 1);
    if (s.finite != PLB_NONE) s.count = plb_where(graph, s.finite, s.count, before);
    PLB_TRY_OUT(step_all(&s));
    plb_assign(graph, count_variable, s.count);
    plb_scope_pop(graph);
    PLB_TRY_OUT(plb_graph_status(graph));
out:
    plb_free(s.variable);
    plb_free(s.read);
    plb_free(s.gradient);
    return status;
}
