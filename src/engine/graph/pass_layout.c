// SPDX-License-Identifier: Apache-2.0
// Layout choice. Spatial ops run in the layout that the device likes; pointwise ops and those that
// follow their input take what comes; everything else gets plain values. A reorder stands where
// two of them meet, one for each value and layout, however many nodes read it.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "engine/ops/conv_shape.h"
#include "plumb/ops.h"

typedef struct layouts {
    plb_rewrite rw;
    const plb_pass_context *context;
    plb_value *plain, *last; // of each old value: its copy in plain layout, in the spatial one
    bool first;              // channels first, whatever the device likes otherwise
    int reorders;
} layouts;

static plb_layout layout_of(const layouts *l, plb_value old) {
    return l->rw.to->values[l->rw.map[old]].layout;
}

// The layouts of a value differ in name only when all but the channels, or the channels, are 1.
static bool interchangeable(const plb_shape *shape, plb_dtype dtype, plb_layout a, plb_layout b) {
    plb_tensor dense = plb_tensor_dense(NULL, dtype, shape, a);
    dense.layout = b;
    return plb_tensor_is_dense(&dense);
}

static plb_value append_reorder(layouts *l, plb_value value, const plb_type *type,
                                plb_layout layout) {
    plb_graph *to = l->rw.to;
    const plb_node *maker = &to->nodes[to->values[value].node];
    plb_node node = {.op = PLB_OP_reorder,
                     .n_in = 1,
                     .n_out = 1,
                     .in = &value,
                     .attrs = &layout,
                     .scope = maker->scope,
                     .backward = maker->backward};
    plb_value made = plb_append_node(to, &node, type);
    if (made < 0) return made;
    to->values[made].layout = layout;
    if (!interchangeable(&type->shape, type->dtype, to->values[value].layout, layout)) {
        l->reorders++;
    }
    return made;
}

// The new value that holds `old` in `layout`.
static plb_value in_layout(layouts *l, plb_value old, plb_layout layout) {
    if (old < 0) return PLB_NONE;
    plb_value now = l->rw.map[old];
    if (l->rw.to->status || plb_layout_equal(layout_of(l, old), layout)) return now;
    plb_value *kept = layout.kind == PLB_LAYOUT_PLAIN ? &l->plain[old] : &l->last[old];
    if (*kept == PLB_NONE) {
        *kept = append_reorder(l, now, &l->rw.from->values[old].type, layout);
    }
    return *kept;
}

static bool is_norm(plb_op_id op) {
    return op == PLB_OP_batch_norm || op == PLB_OP_batch_norm_grad || op == PLB_OP_batch_norm_infer;
}

// The shape of a convolution, or of what a gradient is one of; false for other nodes.
static bool conv_of(const plb_graph *g, const plb_node *node, plb_conv_shape *out) {
    const bool weights = node->op == PLB_OP_conv_weight_grad;
    if (!weights && node->op != PLB_OP_conv && node->op != PLB_OP_conv_input_grad) return false;
    const plb_shape *first = &g->values[node->in[0]].type.shape;
    const plb_shape *second = &g->values[node->in[1]].type.shape;
    return plb_conv_shape_of(node->op, first, second, node->attrs, out) == PLB_OK;
}

// Filters of several pixels that move by one, as Winograd's and Fourier's transforms take them.
static bool transformable(const plb_conv_shape *s) {
    int64_t taps = 1;
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        if (s->stride[i] != 1 || s->dilation[i] != 1) return false;
        taps *= s->kernel[i];
    }
    return taps > 1;
}

// Where products have no tensor cores, the fastest convolutions are transforms, which compute
// channels first; others, and norms, are better off with channels last. So a program without norms
// that has hardly any others is channels first as a whole; a small one is bound by launches, which
// transforms need more of.
static const double small_flops = 1e9;

static bool transforms(const plb_graph *g, const plb_pass_context *context) {
    double transformed = 0, other = 0;
    if (!context->backend->transforms_channels_first || context->math == PLB_MATH_TF32) {
        return false;
    }
    for (int i = 0; i < g->n_nodes; i++) {
        const plb_node *node = &g->nodes[i];
        plb_conv_shape s;
        if (is_norm(node->op)) return false;
        if (!conv_of(g, node, &s)) continue;
        if (g->values[node->out].type.dtype != PLB_F32 || s.groups > 1) return false;
        *(transformable(&s) ? &transformed : &other) += plb_conv_flops(&s);
    }
    return transformed > small_flops && transformed > 8 * other;
}

static plb_layout spatial_choice(const layouts *l, const plb_node *node) {
    if (l->first) return (plb_layout){0};
    plb_tensor in[16] = {0}, out[PLB_MAX_OUTPUTS] = {0};
    for (int k = 0; k < node->n_in && k < 16; k++) {
        if (node->in[k] < 0) continue;
        plb_type type = l->rw.from->values[node->in[k]].type;
        in[k] = plb_tensor_dense(NULL, type.dtype, &type.shape, (plb_layout){0});
    }
    for (int k = 0; k < node->n_out; k++) {
        plb_type type = l->rw.from->values[node->out + k].type;
        out[k] = plb_tensor_dense(NULL, type.dtype, &type.shape, (plb_layout){0});
    }
    plb_query q = {.op = node->op,
                   .attrs = node->attrs,
                   .n_in = node->n_in,
                   .n_out = node->n_out,
                   .in = in,
                   .out = out,
                   .threads = l->context->threads};
    return l->context->backend->spatial_layout(&q);
}

// The first input that is as wide as the output decides.
static plb_layout followed(const layouts *l, const plb_node *node) {
    const plb_graph *from = l->rw.from;
    int rank = from->values[node->out].type.shape.rank;
    for (int k = 0; k < node->n_in; k++) {
        if (node->in[k] < 0) continue;
        plb_layout layout = layout_of(l, node->in[k]);
        const plb_type *type = &from->values[node->in[k]].type;
        if (layout.kind != PLB_LAYOUT_PLAIN && type->shape.rank == rank) return layout;
    }
    return (plb_layout){0};
}

enum { MAX_IN = 1024 };

typedef struct wanted {
    plb_layout layout;
    unsigned in, out; // bit k: operand k is wanted in that layout, the others plain
    unsigned any;     // bit k: operand k may come in any layout
    bool as_is;       // all may
} wanted;

static void add_weights(plb_op_id op, wanted *w) {
    if (op == PLB_OP_conv || op == PLB_OP_conv_input_grad) w->in |= 1u << 1;
    if (op == PLB_OP_conv_weight_grad) w->out |= 1u << 0;
}

// A convolution of an image takes it as it comes.
static void add_image(const layouts *l, const plb_node *node, wanted *w) {
    bool reads = node->op == PLB_OP_conv || node->op == PLB_OP_conv_weight_grad;
    if (!reads || w->layout.kind != PLB_LAYOUT_NHWC) return;
    const plb_conv_attrs *attrs = node->attrs;
    const plb_type *x = &l->rw.from->values[node->in[0]].type;
    bool image = x->shape.rank == 4 && x->shape.dim[1] <= l->context->backend->image_channels;
    if (image && attrs->groups <= 1) w->any |= 1u << 0;
}

static wanted wanted_layouts(const layouts *l, const plb_node *node, int index);

// The layout in which every reader of a cast's result wants it. False when they differ, or when a
// reader takes what comes.
static bool readers_agree(const layouts *l, const plb_node *cast, int index, plb_layout *out) {
    const plb_graph *from = l->rw.from;
    const int rank = from->values[cast->out].type.shape.rank;
    bool any = false;
    for (int i = index + 1; i < from->n_nodes; i++) {
        const plb_node *reader = &from->nodes[i];
        const unsigned flags = plb_op_of(reader->op)->flags;
        for (int k = 0; k < reader->n_in && k < 32; k++) {
            if (reader->in[k] != cast->out) continue;
            if (flags & (PLB_OP_POINTWISE | PLB_OP_FOLLOWS | PLB_OP_STRIDED | PLB_OP_VIEW)) {
                return false;
            }
            wanted w = wanted_layouts(l, reader, i);
            if (w.any >> k & 1u) return false;
            bool fits = w.in >> k & 1u && rank >= 3 && rank <= 5;
            plb_layout layout = fits ? w.layout : (plb_layout){0};
            if (any && !plb_layout_equal(layout, *out)) return false;
            *out = layout;
            any = true;
        }
    }
    return any;
}

static wanted wanted_layouts(const layouts *l, const plb_node *node, int index) {
    const plb_op *op = plb_op_of(node->op);
    wanted w = {0};
    if (node->n_out == 0 || op->flags & PLB_OP_FRAME) return w;
    // On a device a cast may turn the layout too, where a reorder would be one more pass.
    if (node->op == PLB_OP_cast && !l->context->backend->host_memory &&
        readers_agree(l, node, index, &w.layout)) {
        w.out = ~0u;
        w.as_is = true;
        return w;
    }
    if (op->flags & PLB_OP_SPATIAL) {
        w.layout = spatial_choice(l, node);
        bool given = op->spatial_in || op->spatial_out;
        w.in = given ? op->spatial_in : 1u;
        w.out = given ? op->spatial_out : ~0u;
        if (l->context->backend->spatial_weights) add_weights(node->op, &w);
        add_image(l, node, &w);
    } else if (op->flags & (PLB_OP_POINTWISE | PLB_OP_FOLLOWS)) {
        w.layout = followed(l, node);
        w.in = w.out = ~0u;
    } else if (op->flags & PLB_OP_STRIDED) {
        w.as_is = true;
    }
    return w;
}

static plb_value operand(layouts *l, const plb_node *node, int k, const wanted *w) {
    plb_value old = node->in[k];
    if (old < 0) return PLB_NONE;
    if (w->as_is || (k < 32 && w->any >> k & 1u)) return l->rw.map[old];
    int rank = l->rw.from->values[old].type.shape.rank;
    bool fits = (k < 32 ? w->in >> k & 1u : w->in == ~0u) && rank >= 3 && rank <= 5;
    int out_rank = node->n_out ? l->rw.from->values[node->out].type.shape.rank : 0;
    bool spatial = plb_op_of(node->op)->flags & PLB_OP_SPATIAL;
    if (!spatial && rank != out_rank) fits = false; // a narrow operand broadcasts from its strides
    return in_layout(l, old, fits ? w->layout : (plb_layout){0});
}

static void place_node(layouts *l, int index) {
    plb_graph *to = l->rw.to;
    plb_node node = l->rw.from->nodes[index];
    wanted w = wanted_layouts(l, &node, index);
    plb_value few[64], *in = few;
    if (node.n_in > 64) in = plb_arena_alloc(to->arena, (size_t)node.n_in * sizeof *in);
    if (!in) {
        plb_graph_fail(to, plb_fail(PLB_ENOMEM, "out of memory in a pass"));
        return;
    }
    for (int k = 0; k < node.n_in; k++) in[k] = operand(l, &node, k, &w);
    if (to->status) return;
    plb_node copy = node;
    copy.in = in;
    plb_rewrite_replace(&l->rw, index, &copy);
    if (to->status) return;
    for (int k = 0; k < node.n_out; k++) {
        int rank = l->rw.from->values[node.out + k].type.shape.rank;
        bool fits = w.out >> k & 1u && rank >= 3 && rank <= 5;
        to->values[l->rw.map[node.out + k]].layout = fits ? w.layout : (plb_layout){0};
    }
}

plb_status plb_pass_layout(plb_graph **graph, const plb_pass_context *context) {
    layouts l = {.context = context, .first = transforms(*graph, context)};
    size_t n = (size_t)(*graph)->n_values;
    plb_status status = PLB_OK;
    PLB_TRY(plb_rewrite_begin(*graph, &l.rw));
    l.plain = plb_alloc_array(n, sizeof *l.plain);
    l.last = plb_alloc_array(n, sizeof *l.last);
    if (!l.plain || !l.last) {
        plb_rewrite_abort(&l.rw);
        status = plb_fail(PLB_ENOMEM, "out of memory for a pass");
        goto out;
    }
    for (size_t i = 0; i < n; i++) l.plain[i] = l.last[i] = PLB_NONE;
    for (int i = 0; i < (*graph)->n_nodes && !l.rw.to->status; i++) place_node(&l, i);
    PLB_TRY_OUT(plb_pass_commit(&l.rw, graph));
    plb_strbuf_printf(context->report, "layout: %d reorders\n", l.reorders);
out:
    plb_free(l.plain);
    plb_free(l.last);
    return status;
}
