// SPDX-License-Identifier: Apache-2.0
// A training step of a network has hundreds of small nodes, the updates of its variables, each of
// which takes a device less time than a launch. Where steps of one kernel stand together
// (schedule.c sees to that) and none of them touches what another writes, the kernel may make one
// launch of them.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/plan.h"

enum { MOST = 1024 };

typedef struct span {
    const char *begin, *end;
} span;

static span span_of(const plb_tensor *t) {
    if (!t->data) return (span){0};
    const char *begin = t->data;
    return (span){begin, begin + plb_layout_bytes(&t->shape, t->dtype, t->layout)};
}

static bool overlap(const plb_tensor *a, const plb_tensor *b) {
    span x = span_of(a), y = span_of(b);
    return x.begin < y.end && y.begin < x.end;
}

// Whether `later` reads or writes what `earlier` writes, or writes what it reads.
static bool depends(const plb_call *earlier, const plb_call *later) {
    for (int k = 0; k < earlier->n_out; k++) {
        for (int i = 0; i < later->n_in; i++) {
            if (overlap(&earlier->out[k], &later->in[i])) return true;
        }
        for (int i = 0; i < later->n_out; i++) {
            if (overlap(&earlier->out[k], &later->out[i])) return true;
        }
    }
    for (int k = 0; k < earlier->n_in; k++) {
        for (int i = 0; i < later->n_out; i++) {
            if (overlap(&earlier->in[k], &later->out[i])) return true;
        }
    }
    return false;
}

static bool all_dense(const plb_call *call) {
    for (int k = 0; k < call->n_in; k++) {
        if (call->in[k].data && !plb_tensor_is_dense(&call->in[k])) return false;
    }
    for (int k = 0; k < call->n_out; k++) {
        if (call->out[k].data && !plb_tensor_is_dense(&call->out[k])) return false;
    }
    return true;
}

static bool can_merge(const plb_step *step) {
    return step->kind == PLB_STEP_LAUNCH && step->kernel->merge && !step->launch.pack &&
           !step->launch.workspace_bytes && all_dense(&step->call);
}

// How many steps from `first` on may run at once.
static int run_of(const plb_plan *plan, int first, int end) {
    const plb_step *steps = plan->steps;
    int n = 1;
    while (first + n < end && n < MOST && can_merge(&steps[first + n]) &&
           steps[first + n].kernel == steps[first].kernel) {
        for (int i = 0; i < n; i++) {
            if (depends(&steps[first + i].call, &steps[first + n].call)) return n;
        }
        n++;
    }
    return n;
}

static bool same_operand(const plb_tensor *a, const plb_tensor *b) {
    return a->dtype == b->dtype && !a->data == !b->data && plb_layout_equal(a->layout, b->layout);
}

// Whether the first operands' elements lie in the same order.
static bool in_order(const plb_call *call) {
    const plb_tensor *a = &call->in[0], *b = &call->out[0];
    if (!call->n_in || !plb_shape_equal(&a->shape, &b->shape)) return false;
    for (int i = 0; i < a->shape.rank; i++) {
        if (a->shape.dim[i] > 1 && a->stride[i] != b->stride[i]) return false;
    }
    return true;
}

// Whether one launch may do both: the same op and attributes on operands of the same kinds.
static bool alike(const plb_plan *plan, const plb_step *a, const plb_step *b) {
    const plb_node *x = &plan->graph->nodes[a->node], *y = &plan->graph->nodes[b->node];
    if (x->op != y->op || a->call.n_in != b->call.n_in || a->call.n_out != b->call.n_out) {
        return false;
    }
    const size_t attrs_bytes = plb_op_of(x->op)->attrs_bytes;
    if (attrs_bytes && memcmp(x->attrs, y->attrs, attrs_bytes) != 0) return false;
    if (in_order(&a->call) != in_order(&b->call)) return false;
    for (int k = 0; k < a->call.n_in; k++) {
        if (!same_operand(&a->call.in[k], &b->call.in[k])) return false;
    }
    for (int k = 0; k < a->call.n_out; k++) {
        if (!same_operand(&a->call.out[k], &b->call.out[k])) return false;
    }
    return true;
}

// Puts the steps that are like the first right behind it; any order of a run's steps will do.
static int gather(plb_plan *plan, int first, int end) {
    int n = 1;
    for (int i = first + 1; i < end; i++) {
        if (!alike(plan, &plan->steps[first], &plan->steps[i])) continue;
        plb_step swap = plan->steps[first + n];
        plan->steps[first + n] = plan->steps[i];
        plan->steps[i] = swap;
        n++;
    }
    return n;
}

static plb_status merge_alike(plb_plan *plan, int first, int n, plb_part *parts, int *merged) {
    plb_step *step = &plan->steps[first];
    for (int i = 0; i < n; i++) parts[i] = (plb_part){&step[i].launch, &step[i].call};
    plb_status status = step->kernel->merge(plan->device, parts, n, &step->merged);
    if (status == PLB_EUNSUPPORTED) return PLB_OK;
    if (status) return status;
    step->n_merged = n;
    *merged += n;
    return PLB_OK;
}

static plb_status merge_run(plb_plan *plan, int first, int n, plb_part *parts, int *merged,
                            int *launches) {
    for (int i = first; i < first + n;) {
        int same = gather(plan, i, first + n);
        if (same > 1) PLB_TRY(merge_alike(plan, i, same, parts, merged));
        *launches += plan->steps[i].n_merged > 0;
        i += same;
    }
    return PLB_OK;
}

plb_status plb_plan_merge(plb_plan *plan) {
    int merged = 0, launches = 0;
    plb_part *parts = plb_alloc_array(MOST, sizeof *parts);
    plb_status status = PLB_OK;
    if (!parts) return plb_fail(PLB_ENOMEM, "out of memory for a plan");
    for (int i = plan->n_prologue; i < plan->n_steps;) {
        int n = can_merge(&plan->steps[i]) ? run_of(plan, i, plan->n_steps) : 1;
        if (n > 1) PLB_TRY_OUT(merge_run(plan, i, n, parts, &merged, &launches));
        i += n;
    }
    if (merged) {
        plb_strbuf_printf(&plan->report, "merge: %d small steps in %d launches\n", merged,
                          launches);
    }
out:
    plb_free(parts);
    return status;
}
