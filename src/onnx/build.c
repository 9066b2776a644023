// SPDX-License-Identifier: Apache-2.0
// From messages to a graph: names get values, nodes go through their mapping functions.
#include "onnx/build.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "onnx/dtype.h"

enum { MAX_NODES = 1 << 20 };

// ---------------------------------------------------------------------------- names
plb_status plb_onnx_scope_open(plb_onnx_scope *scope, const plb_onnx_scope *from) {
    *scope = (plb_onnx_scope){.b = from->b,
                              .graph = from->graph,
                              .evaluator = from->evaluator,
                              .opset = from->opset,
                              .values = plb_map_new()};
    return scope->values ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for names");
}

void plb_onnx_scope_close(plb_onnx_scope *scope) {
    plb_map_free(scope->values);
    scope->values = NULL;
}

plb_status plb_onnx_define(plb_onnx_scope *scope, const char *name, plb_value value) {
    if (plb_map_get(scope->values, name, -1) >= 0 ||
        (scope->top && plb_map_get(scope->b->file->weights, name, -1) >= 0)) {
        return plb_fail(PLB_EINVAL, "%s: there is a value of that name already", name);
    }
    return plb_map_set(scope->values, name, value);
}

plb_status plb_onnx_tensor_constant(plb_onnx_scope *scope, const Onnx__TensorProto *tensor,
                                    plb_value *out) {
    plb_onnx_values v;
    PLB_TRY(plb_onnx_values_of(scope->b->file, scope->b->arena, tensor, &v));
    *out = plb_constant(scope->graph, v.type.dtype, &v.type.shape, v.bytes ? v.bytes : "");
    return plb_graph_status(scope->graph);
}

enum { PATTERN_BYTES = 256 };

static bool matches(const char *patterns, const char *name) {
    char one[PATTERN_BYTES];
    while (patterns && *patterns) {
        size_t length = strcspn(patterns, ",");
        snprintf(one, sizeof one, "%.*s", (int)length, patterns);
        if (length < sizeof one && fnmatch(one, name, 0) == 0) return true;
        patterns += length + (patterns[length] == ',');
    }
    return false;
}

// Running statistics are weights that are not trained, and neither are those that are frozen.
static plb_role role_of(const plb_onnx_builder *b, const char *name) {
    const Onnx__GraphProto *graph = b->file->graph;
    const plb_onnx_options *o = b->options;
    if ((o->only && !matches(o->only, name)) || matches(o->freeze, name)) return PLB_ROLE_BUFFER;
    for (size_t i = 0; i < graph->n_node; i++) {
        const Onnx__NodeProto *n = graph->node[i];
        if (strcmp(plb_onnx_string(n->op_type), "BatchNormalization") != 0) continue;
        for (size_t k = 3; k < n->n_input && k < 5; k++) {
            if (strcmp(plb_onnx_string(n->input[k]), name) == 0) return PLB_ROLE_BUFFER;
        }
    }
    return PLB_ROLE_PARAMETER;
}

// Float weights become variables, filled from the file when they are first needed; what is small
// or of integers is part of the program.
static plb_status make_weight(plb_onnx_scope *scope, const char *name, int64_t index,
                              plb_value *out) {
    plb_onnx *file = scope->b->file;
    plb_onnx_values v;
    if ((size_t)index < file->graph->n_initializer) {
        const Onnx__TensorProto *tensor = file->graph->initializer[index];
        PLB_TRY(plb_onnx_values_of(file, file->arena, tensor, &v));
    } else {
        PLB_TRY(plb_onnx_values_of_sparse(
            file, file->arena,
            file->graph->sparse_initializer[(size_t)index - file->graph->n_initializer], &v));
    }
    if (!plb_dtype_is_float(v.type.dtype) || v.type.shape.rank == 0 || v.size_bytes == 0) {
        *out = plb_constant(scope->graph, v.type.dtype, &v.type.shape, v.bytes ? v.bytes : "");
    } else {
        int variable;
        PLB_TRY(plb_model_variable(scope->b->model, name, &v.type, role_of(scope->b, name),
                                   (plb_init){0}, &variable));
        plb_model_set_source(scope->b->model, variable, v.bytes);
        *out = plb_read(scope->graph, variable);
    }
    PLB_TRY(plb_graph_status(scope->graph));
    return plb_map_set(scope->values, name, *out);
}

plb_status plb_onnx_lookup(plb_onnx_scope *scope, const char *name, plb_value *out) {
    for (plb_onnx_scope *s = scope; s; s = s->outer) {
        *out = (plb_value)plb_map_get(s->values, name, -1);
        if (*out >= 0) return PLB_OK;
        int64_t weight = s->top ? plb_map_get(s->b->file->weights, name, -1) : -1;
        if (weight >= 0) return make_weight(s, name, weight, out);
    }
    *out = PLB_NONE;
    return plb_fail(PLB_EINVAL, "'%s' is no input, no initializer and made by no earlier node",
                    name);
}

// ---------------------------------------------------------------------------- nodes
static bool is_running(const plb_onnx_scope *scope, const Onnx__FunctionProto *function) {
    while (scope) {
        if (scope->function == function) return true;
        scope = scope->caller ? scope->caller->scope : scope->outer ? scope->outer : scope->around;
    }
    return false;
}

static plb_status call_function(plb_onnx_node *n, const Onnx__FunctionProto *function) {
    plb_onnx_scope scope;
    if (is_running(n->scope, function)) return plb_fail(PLB_EINVAL, "the function calls itself");
    PLB_TRY(plb_onnx_scope_open(&scope, n->scope));
    scope.caller = n;
    scope.function = function;
    plb_status status = PLB_OK;
    for (size_t i = 0; i < function->n_opset_import; i++) {
        const char *domain = plb_onnx_string(function->opset_import[i]->domain);
        if (!*domain || strcmp(domain, "ai.onnx") == 0) {
            scope.opset = function->opset_import[i]->version;
        }
    }
    for (size_t i = 0; i < function->n_input && !status; i++) {
        if (!plb_onnx_given_in(n, (int)i)) continue; // optional, and absent
        status = plb_onnx_define(&scope, plb_onnx_string(function->input[i]), n->in[i]);
    }
    if (!status) status = plb_onnx_build_nodes(&scope, function->node, function->n_node);
    for (int i = 0; i < n->n_out && !status; i++) {
        if ((size_t)i >= function->n_output) {
            status = plb_fail(PLB_EINVAL, "the function has %zu outputs", function->n_output);
        } else if (*plb_onnx_string(n->proto->output[i])) {
            status = plb_onnx_lookup(&scope, plb_onnx_string(function->output[i]), &n->out[i]);
        }
    }
    plb_onnx_scope_close(&scope);
    return status;
}

static plb_status map_node(plb_onnx_node *n) {
    const char *domain = plb_onnx_string(n->proto->domain);
    plb_onnx_builder *b = n->scope->b;
    char key[512];
    snprintf(key, sizeof key, "%s:%s", domain, n->op);
    int64_t function = plb_map_get(b->functions, key, -1);
    if (function >= 0) return call_function(n, b->file->model->functions[function]);
    if (*domain && strcmp(domain, "ai.onnx") != 0) {
        return plb_onnx_refuse("ops of the domain %s are not served", domain);
    }
    if (n->opset < 1) {
        return plb_fail(PLB_EINVAL, "the file imports no version of ONNX's own operator set");
    }
    const plb_onnx_op *op = plb_onnx_find_op(n->op, n->opset);
    if (!op) {
        return plb_onnx_refuse("there is no mapping for it at version %lld of the operator set",
                               (long long)n->opset);
    }
    PLB_TRY(plb_onnx_check_inputs(n));
    return op->map(n);
}

static plb_status gather_inputs(plb_onnx_scope *scope, const Onnx__NodeProto *proto,
                                plb_value *in) {
    for (size_t i = 0; i < proto->n_input; i++) {
        const char *name = plb_onnx_string(proto->input[i]);
        in[i] = PLB_NONE;
        if (*name) PLB_TRY(plb_onnx_lookup(scope, name, &in[i]));
        // What no count travels with would be taken for whole.
        plb_value count = plb_value_count(scope->graph, in[i]);
        if (count == PLB_NONE) continue;
        bool known;
        plb_tensor t;
        PLB_TRY(plb_evaluate(scope->evaluator, count, &known, &t));
        if (!known) {
            return plb_onnx_refuse("the extent of input %s depends on data", name);
        }
        in[i] = plb_slice_axis(scope->graph, in[i], 0, 0, plb_load_i64(t.data, t.dtype, 0));
    }
    return PLB_OK;
}

static plb_status build_node(plb_onnx_scope *scope, const Onnx__NodeProto *proto) {
    plb_value out[PLB_ONNX_MAX_OUT];
    if (proto->n_output > PLB_ONNX_MAX_OUT) {
        return plb_onnx_refuse("%zu outputs, more than %d", proto->n_output, PLB_ONNX_MAX_OUT);
    }
    for (size_t i = 0; i < proto->n_output; i++) out[i] = PLB_NONE;
    size_t slots = proto->n_input + PLB_ONNX_SPARE_IN;
    plb_value *in = plb_arena_alloc(scope->b->arena, slots * sizeof *in);
    if (!in) return plb_fail(PLB_ENOMEM, "out of memory for a node");
    for (size_t i = proto->n_input; i < slots; i++) in[i] = PLB_NONE;
    PLB_TRY(gather_inputs(scope, proto, in));
    plb_onnx_node n = {.scope = scope,
                       .graph = scope->graph,
                       .proto = proto,
                       .op = plb_onnx_string(proto->op_type),
                       .opset = scope->opset,
                       .n_in = (int)proto->n_input,
                       .n_out = (int)proto->n_output,
                       .in = in,
                       .out = out};
    PLB_TRY(plb_onnx_check_attrs(&n));
    PLB_TRY(map_node(&n));
    PLB_TRY(plb_graph_status(scope->graph));
    for (size_t i = 0; i < proto->n_output; i++) {
        const char *name = plb_onnx_string(proto->output[i]);
        if (!*name) continue;
        if (out[i] == PLB_NONE) return plb_onnx_refuse("output %zu (%s) is not served", i, name);
        PLB_TRY(plb_onnx_define(scope, name, out[i]));
    }
    return PLB_OK;
}

static const char *label_of(const Onnx__NodeProto *n) {
    if (*plb_onnx_string(n->name)) return n->name;
    return n->n_output && *plb_onnx_string(n->output[0]) ? n->output[0] : "?";
}

plb_status plb_onnx_build_nodes(plb_onnx_scope *scope, Onnx__NodeProto *const *nodes, size_t n) {
    plb_status status = PLB_OK;
    if (++scope->b->depth > PLB_ONNX_MAX_DEPTH) {
        return plb_fail(PLB_EINVAL, "functions or subgraphs are nested more than %d deep",
                        PLB_ONNX_MAX_DEPTH);
    }
    for (size_t i = 0; i < n && !status; i++) {
        if (++scope->b->n_nodes > MAX_NODES) {
            return plb_fail(PLB_EINVAL, "more than %d nodes, functions expanded", MAX_NODES);
        }
        plb_scope_push(scope->graph, "%s", label_of(nodes[i]));
        status = build_node(scope, nodes[i]);
        plb_scope_pop(scope->graph);
        if (!status) continue;
        status = plb_fail_context(status, "node %s (%s)", label_of(nodes[i]),
                                  plb_onnx_string(nodes[i]->op_type));
    }
    scope->b->depth--;
    return status;
}

plb_status plb_onnx_build_body(plb_onnx_scope *scope, const Onnx__GraphProto *body) {
    for (size_t i = 0; i < body->n_initializer; i++) {
        plb_value value;
        PLB_TRY(plb_onnx_tensor_constant(scope, body->initializer[i], &value));
        PLB_TRY(plb_onnx_define(scope, plb_onnx_string(body->initializer[i]->name), value));
    }
    return plb_onnx_build_nodes(scope, body->node, body->n_node);
}

// ---------------------------------------------------------------------------- inputs
static const plb_onnx_given *given_of(const plb_onnx_options *o, const char *name) {
    for (int i = 0; i < o->n_given; i++) {
        if (strcmp(o->given[i].name, name) == 0) return &o->given[i];
    }
    return NULL;
}

static int64_t extent_of(const plb_onnx_options *o, const char *symbol) {
    for (int i = 0; i < o->n_dims && *symbol; i++) {
        if (strcmp(o->dims[i].name, symbol) == 0) return o->dims[i].extent;
    }
    return o->open_extent;
}

static plb_status check_given(const plb_onnx_input_info *info, const plb_tensor *given) {
    char s[160], t[160];
    bool same =
        given->dtype == info->dtype && (!info->ranked || given->shape.rank == info->shape.rank);
    for (int i = 0; same && info->ranked && i < info->shape.rank; i++) {
        same = info->shape.dim[i] < 0 || info->shape.dim[i] == given->shape.dim[i];
    }
    if (same) return PLB_OK;
    return plb_fail(PLB_EINVAL, "input %s: expected %s %s, found %s %s", info->name,
                    plb_dtype_name(info->dtype),
                    info->ranked ? plb_shape_format(&info->shape, s, sizeof s) : "of any shape",
                    plb_dtype_name(given->dtype), plb_shape_format(&given->shape, t, sizeof t));
}

static plb_status input_shape(const plb_onnx_builder *b, const plb_onnx_input_info *info,
                              plb_shape *out) {
    const plb_onnx_given *given = given_of(b->options, info->name);
    if (given) {
        PLB_TRY(check_given(info, &given->tensor));
        *out = given->tensor.shape;
        return PLB_OK;
    }
    if (!info->ranked) {
        return plb_fail(PLB_EINVAL, "input %s: the file leaves its shape open: give one",
                        info->name);
    }
    *out = info->shape;
    for (int i = 0; i < out->rank; i++) {
        if (out->dim[i] >= 0) continue;
        out->dim[i] = extent_of(b->options, info->symbol[i]);
        if (out->dim[i] > 0) continue;
        return plb_fail(PLB_EINVAL, "input %s: extent %d%s%s is open: give it one", info->name, i,
                        *info->symbol[i] ? ", " : "", info->symbol[i]);
    }
    return PLB_OK;
}

static plb_status add_inputs(plb_onnx_builder *b, plb_onnx_scope *top) {
    for (int i = 0; i < b->file->n_inputs; i++) {
        plb_onnx_input_info info;
        plb_shape shape;
        PLB_TRY(plb_onnx_input(b->file, i, &info));
        PLB_TRY(input_shape(b, &info, &shape));
        const plb_onnx_given *given = given_of(b->options, info.name);
        b->input[i] = given && given->made ? given->value
                                           : plb_input(top->graph, info.name, info.dtype, &shape);
        PLB_TRY(plb_graph_status(top->graph));
        PLB_TRY(plb_onnx_define(top, info.name, b->input[i]));
    }
    return PLB_OK;
}

// `--dim NAME=N` of an integer input of one element.
static bool number_of_input(plb_onnx_builder *b, int index, plb_tensor *out) {
    plb_onnx_input_info info;
    if (plb_onnx_input(b->file, index, &info) || plb_dtype_is_float(info.dtype)) return false;
    if (!info.ranked || plb_shape_count(&info.shape) != 1) return false;
    for (int i = 0; i < b->options->n_dims; i++) {
        if (strcmp(b->options->dims[i].name, info.name) != 0) continue;
        void *place = plb_arena_alloc(b->arena, 8);
        if (!place) return false;
        plb_store_i64(place, info.dtype, 0, b->options->dims[i].extent);
        *out = plb_tensor_dense(place, info.dtype, &info.shape, (plb_layout){0});
        b->fixed[index] = true;
        return true;
    }
    return false;
}

static bool value_of_input(void *context, plb_value input, plb_tensor *out) {
    plb_onnx_builder *b = context;
    for (int i = 0; i < b->file->n_inputs; i++) {
        if (b->input[i] != input) continue;
        const plb_onnx_given *given = given_of(b->options, b->file->inputs[i]->name);
        if (!given || !given->tensor.data) return number_of_input(b, i, out);
        b->fixed[i] = true;
        *out = given->tensor;
        return true;
    }
    return false;
}

// ---------------------------------------------------------------------------- outputs
static plb_status add_outputs(plb_onnx_scope *top) {
    const Onnx__GraphProto *g = top->b->file->graph;
    if (!g->n_output) return plb_fail(PLB_EINVAL, "the graph has no outputs");
    for (size_t i = 0; i < g->n_output; i++) {
        const char *name = plb_onnx_string(g->output[i]->name);
        plb_value value;
        char count[512];
        plb_status status = plb_onnx_lookup(top, name, &value);
        if (status) return plb_fail_context(status, "output %s", name);
        plb_output(top->graph, name, value);
        if (plb_value_count(top->graph, value) == PLB_NONE) continue;
        snprintf(count, sizeof count, "%s:count", name);
        plb_output(top->graph, count, plb_value_count(top->graph, value));
    }
    return plb_graph_status(top->graph);
}

static plb_status index_functions(plb_onnx_builder *b) {
    const Onnx__ModelProto *m = b->file->model;
    for (size_t i = 0; i < m->n_functions; i++) {
        char key[512];
        snprintf(key, sizeof key, "%s:%s", plb_onnx_string(m->functions[i]->domain),
                 plb_onnx_string(m->functions[i]->name));
        if (plb_map_get(b->functions, key, -1) >= 0) {
            return plb_onnx_refuse("function %s: several of that name", key);
        }
        PLB_TRY(plb_map_set(b->functions, key, (int64_t)i));
    }
    return PLB_OK;
}

static plb_status build(plb_onnx_builder *b, plb_graph *graph, plb_evaluator *evaluator) {
    plb_onnx_scope top = {.b = b,
                          .graph = graph,
                          .evaluator = evaluator,
                          .opset = b->file->opset,
                          .top = true,
                          .values = plb_map_new()};
    if (!top.values) return plb_fail(PLB_ENOMEM, "out of memory for names");
    plb_status status = index_functions(b);
    if (!status) status = add_inputs(b, &top);
    if (!status) {
        status = plb_onnx_build_nodes(&top, b->file->graph->node, b->file->graph->n_node);
    }
    if (!status) status = add_outputs(&top);
    plb_onnx_scope_close(&top);
    return status;
}

static plb_status name_fixed(const plb_onnx_builder *b, char **fixed) {
    plb_strbuf text = {0};
    if (!fixed) return PLB_OK;
    plb_strbuf_append(&text, "", 0);
    for (int i = 0; i < b->file->n_inputs; i++) {
        if (!b->fixed[i]) continue;
        plb_strbuf_printf(&text, "%s%s", text.length ? " " : "", b->file->inputs[i]->name);
    }
    *fixed = text.text;
    if (!text.failed) return PLB_OK;
    plb_strbuf_free(&text);
    *fixed = NULL;
    return plb_fail(PLB_ENOMEM, "out of memory for names");
}

static bool matches_any(const Onnx__GraphProto *graph, const char *pattern) {
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (matches(pattern, plb_onnx_string(graph->initializer[i]->name))) return true;
    for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
        const Onnx__TensorProto *values = graph->sparse_initializer[i]->values;
        if (values && matches(pattern, plb_onnx_string(values->name))) return true;
    }
    return false;
}

// A pattern without a weight is a slip of the pen: what it means would be trained, or not, unsaid.
static plb_status check_patterns(const Onnx__GraphProto *graph, const char *patterns) {
    while (patterns && *patterns) {
        char one[PATTERN_BYTES];
        size_t length = strcspn(patterns, ",");
        if (length >= PATTERN_BYTES) {
            return plb_fail(PLB_EINVAL,
                            "%.32s...: names of weights: expected at most %d bytes, "
                            "found %zu",
                            patterns, PATTERN_BYTES - 1, length);
        }
        snprintf(one, sizeof one, "%.*s", (int)length, patterns);
        if (length && !matches_any(graph, one))
            return plb_fail(PLB_EINVAL, "names of weights: \"%s\" is the name of none", one);
        patterns += length + (patterns[length] == ',');
    }
    return PLB_OK;
}

plb_status plb_onnx_build(const plb_onnx *file, const plb_onnx_options *options, plb_graph *graph,
                          char **fixed) {
    static const plb_onnx_options none = {0};
    size_t n = (size_t)file->n_inputs + 1;
    plb_onnx_builder b = {.file = (plb_onnx *)(uintptr_t)file, // external data is mapped on demand
                          .options = options ? options : &none,
                          .model = plb_graph_model(graph),
                          .arena = plb_arena_new(),
                          .functions = plb_map_new()};
    if (fixed) *fixed = NULL;
    plb_evaluator *evaluator = plb_evaluator_new(graph, value_of_input, &b);
    b.fixed = b.arena ? plb_arena_alloc(b.arena, n * sizeof *b.fixed) : NULL;
    b.input = b.arena ? plb_arena_alloc(b.arena, n * sizeof *b.input) : NULL;
    plb_status status = PLB_OK;
    if (!b.functions || !evaluator || !b.fixed || !b.input) {
        status = plb_fail(PLB_ENOMEM, "out of memory for a model");
    }
    if (!status) status = check_patterns(file->graph, b.options->only);
    if (!status) status = check_patterns(file->graph, b.options->freeze);
    if (!status) status = build(&b, graph, evaluator);
    if (!status) status = name_fixed(&b, fixed);
    plb_evaluator_free(evaluator);
    plb_map_free(b.functions);
    plb_arena_free(b.arena);
    return status ? plb_fail_context(status, "%s", file->path) : PLB_OK;
}

bool plb_onnx_needs_interp(const plb_graph *graph) {
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].region[0]) return true;
    }
    return false;
}
