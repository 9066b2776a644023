// SPDX-License-Identifier: Apache-2.0
// Pointwise chains. A pointwise node whose result has one reader, itself pointwise and of the same
// shape, joins that reader's program, so the value between them never goes to memory. Groups are
// trees that end in one node and stand where it stood. Nothing is computed twice, but for a
// function of one value that broadcasts, where launches are dear: the gate of squeeze-excitation.
#include <string.h>

#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "engine/ops/fused.h"
#include "plumb/ops.h"

typedef struct fuser {
    plb_rewrite rw;
    bool launches_are_dear;
    int *group; // of each node: the end of its group, or -1
    int *sizes; // of each end: members; inputs are counted when it is emitted
} fuser;

static bool is_pointwise(const plb_node *node) {
    return plb_op_of(node->op)->flags & PLB_OP_POINTWISE && node->op != PLB_OP_fused;
}

static bool same_shape(const plb_graph *graph, plb_value a, plb_value b) {
    return plb_shape_equal(&graph->values[a].type.shape, &graph->values[b].type.shape);
}

// Whether `node` can be computed element by element of what the group makes. Casts of small values
// are merged into one launch as they are.
static bool fits(const fuser *f, const plb_node *node, int end) {
    const plb_graph *from = f->rw.from;
    if (same_shape(from, node->out, from->nodes[end].out)) return true;
    return f->launches_are_dear && node->n_in == 1 && node->op != PLB_OP_cast;
}

// Distinct values that come into the group from outside, should `candidate` join it.
static int inputs_with(const fuser *f, int end, int candidate) {
    const plb_graph *from = f->rw.from;
    plb_value seen[64];
    int n = 0;
    for (int i = 0; i <= end; i++) {
        if (f->group[i] != end && i != candidate) continue;
        const plb_node *node = &from->nodes[i];
        for (int k = 0; k < node->n_in; k++) {
            int maker = from->values[node->in[k]].node;
            if (f->group[maker] == end || maker == candidate) continue;
            bool known = false;
            for (int j = 0; j < n; j++) known |= seen[j] == node->in[k];
            if (known) continue;
            if (n == 64) return n;
            seen[n++] = node->in[k];
        }
    }
    return n;
}

static void find_groups(fuser *f) {
    const plb_graph *from = f->rw.from;
    for (int i = from->n_nodes - 1; i >= 0; i--) {
        const plb_node *node = &from->nodes[i];
        if (!is_pointwise(node)) continue;
        f->group[i] = i;
        f->sizes[i] = 1;
        int reader = f->rw.consumer[node->out];
        if (f->rw.uses[node->out] != 1 || reader < 0 || f->group[reader] < 0) continue;
        int end = f->group[reader];
        if (!fits(f, node, end)) continue;
        if (f->sizes[end] >= PLB_FUSED_MAX_INSTR) continue;
        if (inputs_with(f, end, i) > PLB_FUSED_MAX_IN) continue;
        f->group[i] = end;
        f->sizes[end]++;
    }
}

// The number of `value` in the program: an input (added when new), or an earlier result.
static int number_of(const fuser *f, int end, plb_value value, plb_value *inputs, int *n_in,
                     const int *result) {
    int maker = f->rw.from->values[value].node;
    if (f->group[maker] == end) return PLB_FUSED_MAX_IN + result[maker]; // shifted below
    for (int i = 0; i < *n_in; i++) {
        if (inputs[i] == value) return i;
    }
    inputs[*n_in] = value;
    return (*n_in)++;
}

static plb_fused_instr instruction(const plb_node *node) {
    plb_fused_instr instr = {.op = (int32_t)node->op};
    if (node->op == PLB_OP_cast) {
        instr.dtype = (int32_t)((const plb_cast_attrs *)node->attrs)->dtype;
    } else if (plb_op_of(node->op)->attrs_bytes) {
        const plb_pointwise_attrs *a = node->attrs;
        instr.alpha = a->alpha;
        instr.beta = a->beta;
    }
    return instr;
}

static void emit(fuser *f, int end, int *result) {
    const plb_graph *from = f->rw.from;
    const plb_node *last = &from->nodes[end];
    plb_fused_attrs attrs = {.n_out = 1};
    plb_value inputs[PLB_FUSED_MAX_IN];
    int n_in = 0;
    for (int i = 0; i <= end; i++) {
        if (f->group[i] != end) continue;
        const plb_node *node = &from->nodes[i];
        plb_fused_instr instr = instruction(node);
        for (int k = 0; k < node->n_in; k++) {
            instr.operand[k] = number_of(f, end, node->in[k], inputs, &n_in, result);
        }
        result[i] = attrs.n_instr;
        attrs.instr[attrs.n_instr++] = instr;
    }
    for (int j = 0; j < attrs.n_instr; j++) { // results follow the inputs that there are
        for (int k = 0; k < PLB_POINTWISE_MAX_IN; k++) {
            int32_t *o = &attrs.instr[j].operand[k];
            if (*o >= PLB_FUSED_MAX_IN) *o += n_in - PLB_FUSED_MAX_IN;
        }
    }
    attrs.n_in = n_in;
    attrs.out[0] = n_in + attrs.n_instr - 1;
    for (int i = 0; i < n_in; i++) inputs[i] = f->rw.map[inputs[i]];
    plb_node node = {.op = PLB_OP_fused,
                     .n_in = n_in,
                     .n_out = 1,
                     .in = inputs,
                     .attrs = &attrs,
                     .scope = last->scope,
                     .backward = last->backward};
    plb_rewrite_replace(&f->rw, end, &node);
}

plb_status plb_pass_fuse_chain(plb_graph **graph, const plb_pass_context *context) {
    fuser f = {.launches_are_dear = context->backend->launches_are_dear};
    int n = (*graph)->n_nodes, chains = 0, members = 0;
    PLB_TRY(plb_rewrite_begin(*graph, &f.rw));
    size_t bytes = ((size_t)n + 1) * sizeof(int);
    f.group = plb_arena_alloc(f.rw.to->arena, bytes);
    f.sizes = plb_arena_alloc(f.rw.to->arena, bytes);
    int *result = plb_arena_alloc(f.rw.to->arena, bytes);
    if (!f.group || !f.sizes || !result) {
        plb_rewrite_abort(&f.rw);
        return plb_fail(PLB_ENOMEM, "out of memory for a pass");
    }
    memset(f.group, 0xff, bytes);
    find_groups(&f);
    for (int i = 0; i < n; i++) {
        int end = f.group[i];
        if (end >= 0 && end != i) continue;
        if (end == i && f.sizes[i] > 1) {
            emit(&f, i, result);
            chains++;
            members += f.sizes[i];
        } else {
            plb_rewrite_copy(&f.rw, i);
        }
    }
    PLB_TRY(plb_pass_commit(&f.rw, graph));
    if (chains) {
        plb_strbuf_printf(context->report, "fuse chain: %d pointwise nodes into %d\n", members,
                          chains);
    }
    return PLB_OK;
}
