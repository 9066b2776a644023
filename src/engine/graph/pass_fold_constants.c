// SPDX-License-Identifier: Apache-2.0
// Small nodes of constants become constants: what exporters compute shapes, scales and masks with.
// The op's own definition computes them, so that the result does not depend on the device.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/evaluate.h"
#include "engine/graph/pass.h"

enum { MOST_ELEMENTS = 4096 }; // of what the pass looks at, and of an expand that anybody folds

typedef struct folding {
    plb_rewrite rw;
    plb_evaluator *evaluator;
    bool *constant; // of each old value
    int64_t most_elements;
    int folded;
} folding;

static bool is_small(const folding *f, plb_value old) {
    return plb_shape_count(&f->rw.from->values[old].type.shape) <= f->most_elements;
}

// Nothing but constants read, and few elements on both sides.
static bool foldable(const folding *f, const plb_node *node) {
    const plb_op *op = plb_op_of(node->op);
    if (op->flags & (PLB_OP_FRAME | PLB_OP_RANDOM) || node->region[0] || !op->ref) return false;
    if (!node->n_out || plb_node_is_effect(node)) return false;
    for (int k = 0; k < node->n_in; k++) {
        if (node->in[k] < 0) continue;
        if (!f->constant[node->in[k]] || !is_small(f, node->in[k])) return false;
    }
    for (int k = 0; k < node->n_out; k++) {
        if (!is_small(f, node->out + k) || f->rw.from->values[node->out + k].count >= 0) {
            return false;
        }
    }
    const plb_type *type = &f->rw.from->values[node->out].type;
    return node->op != PLB_OP_expand || plb_shape_count(&type->shape) <= MOST_ELEMENTS;
}

// Sets *known to false where the definition refuses the values: the run will tell.
static plb_status evaluate(folding *f, const plb_node *node, plb_tensor *out, bool *known) {
    *known = true;
    for (int k = 0; k < node->n_out && *known; k++) {
        plb_status status = plb_evaluate(f->evaluator, node->out + k, known, &out[k]);
        if (status == PLB_ENOMEM) return status;
        if (status) *known = false;
    }
    return PLB_OK;
}

static plb_status fold_or_copy(folding *f, int index) {
    const plb_node *node = &f->rw.from->nodes[index];
    plb_tensor t[PLB_MAX_OUTPUTS];
    bool known = foldable(f, node);
    if (known) PLB_TRY(evaluate(f, node, t, &known));
    if (!known) {
        plb_rewrite_copy(&f->rw, index);
        if (node->op == PLB_OP_constant) f->constant[node->out] = true;
        return PLB_OK;
    }
    plb_scope_enter(f->rw.to, node->scope);
    for (int k = 0; k < node->n_out; k++) {
        f->rw.map[node->out + k] = plb_constant(f->rw.to, t[k].dtype, &t[k].shape, t[k].data);
        f->constant[node->out + k] = true;
    }
    plb_scope_pop(f->rw.to);
    f->folded++;
    return PLB_OK;
}

plb_status plb_fold_constants(plb_graph **graph, int64_t most_elements, int *folded) {
    const plb_graph *from = *graph;
    folding f = {.most_elements = most_elements};
    plb_status status = plb_rewrite_begin(from, &f.rw);
    if (status) return status;
    f.evaluator = plb_evaluator_new(from, NULL, NULL);
    f.constant = plb_alloc_array((size_t)from->n_values + 1, sizeof *f.constant);
    if (!f.evaluator || !f.constant) status = plb_fail(PLB_ENOMEM, "out of memory for constants");
    for (int i = 0; i < from->n_nodes && !status && !f.rw.to->status; i++) {
        status = fold_or_copy(&f, i);
    }
    plb_evaluator_free(f.evaluator);
    plb_free(f.constant);
    *folded = f.folded;
    if (!status) return plb_pass_commit(&f.rw, graph);
    plb_rewrite_abort(&f.rw);
    return status;
}

plb_status plb_pass_fold_constants(plb_graph **graph, const plb_pass_context *context) {
    int folded = 0;
    PLB_TRY(plb_fold_constants(graph, MOST_ELEMENTS, &folded));
    if (folded) plb_strbuf_printf(context->report, "fold constants: %d nodes\n", folded);
    return PLB_OK;
}
