// SPDX-License-Identifier: Apache-2.0
// The table of models and the programs made of them.
#include "plumb/zoo.h"

#include <string.h>

#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "engine/ops/op.h"
#include "zoo/layers.h"

#define ZOO(name, family, ...) plb_value plb_zoo_##family(plb_layers *, plb_value, int);
#include "zoo/zoo.def"
#undef ZOO

typedef struct zoo_entry {
    plb_zoo_info info;
    plb_zoo_family build;
    int variant;
} zoo_entry;

static const zoo_entry entries[] = {
#define ZOO(name, family, variant, task, domain, infer, train, c, h, w, classes, peer) \
    {{#name, task, domain, infer, train, c, h, w, classes, peer}, plb_zoo_##family, variant},
#include "zoo/zoo.def"
#undef ZOO
};
enum { COUNT = sizeof entries / sizeof *entries };

int plb_zoo_count(void) {
    return COUNT;
}

const plb_zoo_info *plb_zoo_at(int index) {
    return index >= 0 && index < COUNT ? &entries[index].info : NULL;
}

static plb_status find_entry(const char *name, const zoo_entry **out) {
    const char *names[COUNT];
    for (int i = 0; i < COUNT; i++) {
        names[i] = entries[i].info.name;
        if (strcmp(names[i], name) == 0) {
            *out = &entries[i];
            return PLB_OK;
        }
    }
    const char *nearest = plb_nearest_name(name, names, COUNT);
    if (nearest) return plb_fail(PLB_EINVAL, "no model %s; did you mean %s?", name, nearest);
    return plb_fail(PLB_EINVAL, "no model %s", name);
}

plb_status plb_zoo_find(const char *name, const plb_zoo_info **out) {
    const zoo_entry *entry = NULL;
    PLB_TRY(find_entry(name, &entry));
    *out = &entry->info;
    return PLB_OK;
}

bool plb_zoo_log_probabilities(const plb_zoo_info *info) {
    return strcmp(info->name, "mnist_cnn") == 0;
}

// ---------------------------------------------------------------------------- forward
static plb_status check_input(const plb_zoo_info *info, const plb_graph *graph, plb_value x) {
    plb_type type = plb_value_type(graph, x);
    if (type.dtype == PLB_F32 && type.shape.rank == 4 && type.shape.dim[1] == info->channels) {
        return PLB_OK;
    }
    char text[160];
    return plb_fail(PLB_EINVAL, "%s: expected an input f32 [N, %lld, H, W], found %s %s",
                    info->name, (long long)info->channels, plb_dtype_name(type.dtype),
                    plb_shape_format(&type.shape, text, sizeof text));
}

plb_status plb_zoo_forward(plb_graph *graph, const char *name, plb_value x,
                           const plb_zoo_options *options, plb_zoo_result *out) {
    const zoo_entry *entry = NULL;
    PLB_TRY(plb_graph_status(graph));
    PLB_TRY(find_entry(name, &entry));
    PLB_TRY(check_input(&entry->info, graph, x));
    const plb_zoo_options defaults = {0};
    if (!options) options = &defaults;
    *out = (plb_zoo_result){.logits = PLB_NONE};
    plb_layers net = {
        .graph = graph,
        .options = options,
        .classes = options->classes ? options->classes : entry->info.classes,
        .conv = {.rule = PLB_WEIGHT_FAN_IN},
        .linear = {.rule = PLB_WEIGHT_FAN_IN},
        .norm_eps = 1e-5,
        .norm_momentum = 0.1,
        .result = out,
    };
    out->logits = entry->build(&net, x, entry->variant);
    plb_status status = plb_graph_status(graph);
    return status ? plb_fail_context(status, "%s", name) : PLB_OK;
}

// ---------------------------------------------------------------------------- programs
typedef struct program {
    const plb_zoo_info *info;
    const plb_zoo_options *options;
    plb_graph *graph;
    plb_value x, y;
    plb_zoo_result result;
} program;

static plb_value channel_constant(plb_graph *graph, const float *numbers, int64_t channels) {
    return plb_constant(graph, PLB_F32, &plb_shape_of(1, channels, 1, 1), numbers);
}

// In f32 and in this order: bit for bit what torchvision's ToTensor and Normalize make.
static plb_value normalised(plb_graph *graph, plb_value pixels, const plb_zoo_pixels *how) {
    const float full = 255;
    int64_t channels = plb_value_shape(graph, pixels).dim[1];
    plb_scope_push(graph, "pixels");
    plb_value x = plb_cast(graph, pixels, PLB_F32);
    x = plb_div(graph, x, plb_constant(graph, PLB_F32, &plb_scalar_shape, &full));
    x = plb_sub(graph, x, channel_constant(graph, how->mean, channels));
    x = plb_div(graph, x, channel_constant(graph, how->std, channels));
    plb_scope_pop(graph);
    return x;
}

// A program of the model with its input and its forward pass.
static plb_status open_program(plb_model *model, const char *name, const char *title, bool training,
                               const plb_zoo_options *options, program *p) {
    PLB_TRY(plb_zoo_find(name, &p->info));
    const plb_zoo_info *info = p->info;
    const plb_zoo_options o = options ? *options : (plb_zoo_options){0};
    if (o.batch < 0 || o.size < 0 || o.classes < 0) {
        return plb_fail(PLB_EINVAL, "%s: batch %lld, size %lld, classes %lld: none may be negative",
                        name, (long long)o.batch, (long long)o.size, (long long)o.classes);
    }
    int64_t batch = o.batch ? o.batch : training ? info->batch_train : info->batch_infer;
    int64_t height = o.size ? o.size : info->height, width = o.size ? o.size : info->width;
    PLB_TRY(plb_model_program(model, o.program ? o.program : title, &p->graph));
    plb_graph_set_training(p->graph, training);
    p->options = options;
    const plb_shape shape = plb_shape_of(batch, info->channels, height, width);
    p->x = plb_input(p->graph, "x", o.pixels ? PLB_U8 : PLB_F32, &shape);
    if (o.pixels) p->x = normalised(p->graph, p->x, o.pixels);
    return plb_zoo_forward(p->graph, name, p->x, options, &p->result);
}

static plb_value loss_of(const program *p, plb_value logits, plb_reduction how) {
    plb_loss_attrs attrs = plb_loss_default();
    attrs.reduction = how;
    if (plb_zoo_log_probabilities(p->info)) {
        return plb_nll(p->graph, logits, p->y, PLB_NONE, &attrs);
    }
    attrs.smoothing = p->options ? p->options->smoothing : 0;
    return plb_cross_entropy(p->graph, logits, p->y, PLB_NONE, &attrs);
}

// The loss of all heads, and the outputs "loss" and "correct".
static plb_value append_loss(program *p, plb_reduction how) {
    plb_graph *graph = p->graph;
    const plb_zoo_result *r = &p->result;
    plb_shape logits = plb_value_shape(graph, r->logits);
    plb_scope_push(graph, "loss");
    p->y = plb_input(graph, "y", PLB_I64, &plb_shape_of(logits.dim[0]));
    plb_value loss = loss_of(p, r->logits, how);
    for (int i = 0; i < r->n_aux; i++) {
        plb_value aux = plb_affine(graph, loss_of(p, r->aux[i], how), r->aux_weight, 0);
        loss = plb_add(graph, loss, aux);
    }
    plb_scope_pop(graph);
    plb_scope_push(graph, "metrics");
    plb_value hit = plb_eq(graph, plb_arg_max(graph, r->logits, 1, false), p->y);
    plb_value correct = plb_sum(graph, plb_cast(graph, hit, PLB_F32), 0, false);
    plb_scope_pop(graph);
    plb_output(graph, "loss", loss);
    plb_output(graph, "correct", correct);
    return loss;
}

plb_status plb_zoo_build_infer(plb_model *model, const char *name, const plb_zoo_options *options) {
    program p;
    PLB_TRY(open_program(model, name, "infer", false, options, &p));
    plb_output(p.graph, "logits", p.result.logits);
    return plb_graph_status(p.graph);
}

plb_status plb_zoo_build_eval(plb_model *model, const char *name, const plb_zoo_options *options) {
    program p;
    PLB_TRY(open_program(model, name, "eval", false, options, &p));
    append_loss(&p, PLB_REDUCE_SUM);
    return plb_graph_status(p.graph);
}

plb_status plb_zoo_build_train(plb_model *model, const char *name, const plb_zoo_options *options,
                               plb_graph **out_graph, plb_value *out_loss) {
    program p;
    PLB_TRY(open_program(model, name, "train", true, options, &p));
    *out_loss = append_loss(&p, PLB_REDUCE_MEAN);
    plb_output(p.graph, "logits", p.result.logits);
    *out_graph = p.graph;
    return plb_graph_status(p.graph);
}
