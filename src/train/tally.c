// SPDX-License-Identifier: Apache-2.0
#include "train/tally.h"

#include <stdlib.h>

#include "base/core/hash.h"
#include "base/core/status.h"
#include "engine/graph/graph.h"

void plb_tally_bytes(const plb_model *model, const plb_plan *const *plans, int n,
                     plb_plan_bytes *out) {
    const size_t *roles = model->slab_bytes;
    size_t weights = roles[PLB_ROLE_PARAMETER] + roles[PLB_ROLE_BUFFER];
    size_t optimizer = roles[PLB_ROLE_OPTIMIZER] + roles[PLB_ROLE_STATE];
    *out =
        (plb_plan_bytes){.weights = weights, .optimizer = optimizer, .total = weights + optimizer};
    for (int i = 0; i < n; i++) {
        if (!plans[i]) continue;
        plb_plan_bytes b = plb_plan_memory(plans[i]);
        if (!b.total) continue;              // level interp plans nothing
        out->weights += b.weights - weights; // each plan counts the variables too
        out->activations += b.activations;
        out->gradients += b.gradients;
        out->workspace += b.workspace;
        out->kernels += b.kernels;
        out->total += b.total - weights - optimizer;
    }
}

static int longest_first(const void *a, const void *b) {
    const plb_train_op *x = a, *y = b;
    return x->time_ns != y->time_ns ? (x->time_ns < y->time_ns ? 1 : -1) : 0;
}

static plb_status add_op(const plb_plan_op *op, plb_map *index_of, plb_arena *arena,
                         plb_train_op *all, int *count) {
    char *name = plb_arena_printf(arena, "%s%s%s%s", op->scope, *op->scope ? " " : "", op->op,
                                  op->backward ? " (backward)" : "");
    if (!name) return plb_fail(PLB_ENOMEM, "out of memory for a list of ops");
    int64_t at = plb_map_get(index_of, name, -1);
    if (at < 0) {
        at = (*count)++;
        all[at].name = name;
        PLB_TRY(plb_map_set(index_of, name, at));
    }
    all[at].calls += op->calls;
    all[at].time_ns += op->time_ns;
    all[at].flops += op->flops * (double)op->calls;
    all[at].bytes += op->bytes * (double)op->calls;
    return PLB_OK;
}

plb_status plb_tally_ops(const plb_plan *const *plans, int n, plb_arena *arena,
                         const plb_train_op **out, int *out_count) {
    size_t most = 1;
    int count = 0;
    for (int i = 0; i < n; i++) most += plans[i] ? (size_t)plb_plan_op_count(plans[i]) : 0;
    plb_train_op *all = plb_arena_alloc(arena, most * sizeof *all);
    plb_map *index_of = plb_map_new();
    plb_status status = PLB_OK;
    if (!all || !index_of) PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "out of memory for a list of ops"));
    for (int i = 0; i < n; i++) {
        int ops = plans[i] ? plb_plan_op_count(plans[i]) : 0;
        for (int k = 0; k < ops; k++) {
            plb_plan_op op = plb_plan_op_info(plans[i], k);
            if (op.calls) PLB_TRY_OUT(add_op(&op, index_of, arena, all, &count));
        }
    }
    qsort(all, (size_t)count, sizeof *all, longest_first);
    *out = all;
    *out_count = count;
out:
    plb_map_free(index_of);
    return status;
}
