// SPDX-License-Identifier: Apache-2.0
// A kernel for each step. The first that does not refuse is taken; where it is marked `tuned`, all
// that accept are timed, variant by variant, and the fastest is remembered (tune.c).
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/log.h"
#include "base/core/status.h"
#include "engine/graph/plan.h"
#include "engine/graph/tune.h"

static int variants_of(const plb_kernel *kernel, const plb_query *q,
                       char out[PLB_MAX_VARIANTS][PLB_CHOICE_BYTES]) {
    out[0][0] = '\0';
    if (!kernel->choices) return 1;
    int n = kernel->choices(q, out, PLB_MAX_VARIANTS);
    return n > 0 ? n : 1;
}

static void release(plb_launch *launch) {
    if (launch->release) launch->release(launch->state);
    *launch = (plb_launch){0};
}

// ---------------------------------------------------------------------------- choosing
static plb_status prepare_named(const plb_kernel *const *kernels, const plb_query *q,
                                const plb_choice *choice, plb_step *step) {
    for (; *kernels; kernels++) {
        if (strcmp((*kernels)->name, choice->kernel) != 0 || (*kernels)->refuse(q)) continue;
        PLB_TRY((*kernels)->prepare(q, choice->choice, &step->launch));
        step->kernel = *kernels;
        memcpy(step->choice, choice->choice, sizeof step->choice);
        return PLB_OK;
    }
    return plb_fail(PLB_EUNSUPPORTED, "no kernel %s", choice->kernel);
}

// From `first` on, which has been asked and does not refuse; those that only a race may choose come
// when there is nothing else.
static plb_status by_order(const plb_kernel *const *kernels, const plb_kernel *first,
                           const plb_query *q, plb_step *step) {
    char texts[PLB_MAX_VARIANTS][PLB_CHOICE_BYTES];
    plb_status status = PLB_EUNSUPPORTED;
    while (*kernels != first) kernels++;
    for (int last = 0; last < 2; last++) {
        for (const plb_kernel *const *k = kernels; *k && status == PLB_EUNSUPPORTED; k++) {
            if ((*k)->only_timed != last || (*k != first && (*k)->refuse(q))) continue;
            variants_of(*k, q, texts);
            status = (*k)->prepare(q, texts[0], &step->launch); // a library may still refuse
            if (status) continue;
            step->kernel = *k;
            step->by_order = true;
            memcpy(step->choice, texts[0], sizeof step->choice);
        }
    }
    return status;
}

static int64_t tune_ms_of(const plb_plan *plan) {
    if (plan->options.tune_ms) return plan->options.tune_ms;
    return plan->backend->host_memory ? INT64_MAX : 20000;
}

static bool time_left(const plb_plan *plan) {
    return plan->tuning_ns / 1000000 < tune_ms_of(plan);
}

static plb_status race(plb_plan *plan, const plb_kernel *const *kernels, const plb_query *q,
                       plb_choice *best, bool *out_over) {
    int64_t begin_ns = plb_now_ns();
    plb_status status = plb_race(plan, kernels, q, best, out_over);
    plan->tuning_ns += plb_now_ns() - begin_ns;
    return status;
}

static plb_status by_timing(plb_plan *plan, const plb_kernel *const *kernels,
                            const plb_kernel *first, const plb_query *q, const char *key,
                            plb_step *step) {
    plb_choice choice = {0};
    bool over = false;
    if (plb_tune_find(key, &choice) || plb_choices_find(plan->choices.text, key, &choice)) {
        plb_status status = prepare_named(kernels, q, &choice, step);
        if (status != PLB_EUNSUPPORTED) return status;
        choice = (plb_choice){0}; // an old choice that means nothing: time again
    }
    if (!time_left(plan)) {
        plan->untimed++;
        return by_order(kernels, first, q, step);
    }
    PLB_TRY(race(plan, kernels, q, &choice, &over));
    plb_status status = prepare_named(kernels, q, &choice, step);
    if (status == PLB_EUNSUPPORTED) return by_order(kernels, first, q, step); // a library's whim
    if (status) return status;
    if (over) {
        plan->untimed++; // in full; another time all of them run
    } else {
        plb_tune_remember(key, &choice);
    }
    return PLB_OK;
}

static plb_status note_refusals(const plb_kernel *const *kernels, const plb_query *q,
                                plb_arena *arena, plb_step *step) {
    plb_strbuf text = {0};
    for (; *kernels && *kernels != step->kernel; kernels++) {
        const char *reason = (*kernels)->refuse(q);
        if (!reason && !step->by_order) reason = "slower when timed";
        if (!reason) reason = (*kernels)->only_timed ? "was not timed" : "could not be prepared";
        plb_strbuf_printf(&text, "%s%s: %s", text.length ? "; " : "", (*kernels)->name, reason);
    }
    step->refused = text.length ? plb_arena_strdup(arena, text.text) : "";
    bool failed = text.failed || !step->refused;
    plb_strbuf_free(&text);
    return failed ? plb_fail(PLB_ENOMEM, "out of memory for the kernels that refuse") : PLB_OK;
}

// A line of the plan's choices; the same work is told once.
static plb_status note_choice(plb_plan *plan, const char *key, const plb_step *step) {
    plb_choice known;
    if (plb_choices_find(plan->choices.text, key, &known)) return PLB_OK;
    plb_strbuf_printf(&plan->choices, "%s\t%s\t%s\n", key, step->kernel->name, step->choice);
    return plan->choices.failed ? plb_fail(PLB_ENOMEM, "out of memory for a choice") : PLB_OK;
}

static bool timing_allowed(const plb_plan_options *o) {
    return !o->no_tuning && !o->deterministic && o->level != PLB_LEVEL_INTERP;
}

static plb_status choose(plb_plan *plan, const plb_kernel *const *kernels, const plb_kernel *first,
                         const plb_query *q, plb_step *step) {
    const plb_plan_options *options = &plan->options;
    plb_strbuf key = {0};
    plb_choice choice;
    plb_status status = PLB_EUNSUPPORTED;
    plb_tune_key(plan->backend, q, &key);
    if (key.failed) PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "out of memory for a kernel's key"));
    if (plb_choices_find(options->choices, key.text, &choice)) {
        status = prepare_named(kernels, q, &choice, step);
    }
    if (status == PLB_EUNSUPPORTED) { // nothing is prescribed, or it means nothing
        bool timed = first->tuned && timing_allowed(options);
        status = timed ? by_timing(plan, kernels, first, q, key.text, step)
                       : by_order(kernels, first, q, step);
    }
    if (!status) status = note_choice(plan, key.text, step);
out:
    plb_strbuf_free(&key);
    return status;
}

plb_status plb_select_kernel(plb_plan *plan, const plb_query *q, plb_step *step) {
    const plb_kernel *const *kernels = plan->backend->kernels(q->op);
    const plb_kernel *const *first = kernels;
    while (*first && (*first)->refuse(q)) first++;
    if (!*first) {
        return plb_fail(PLB_EUNSUPPORTED, "%s: no kernel of %s takes it: %s",
                        plb_op_of(q->op)->name, plan->backend->name,
                        *kernels ? kernels[0]->refuse(q) : "there is none for this op");
    }
    plb_status status = choose(plan, kernels, *first, q, step);
    if (!status) status = note_refusals(kernels, q, plan->arena, step);
    if (status) release(&step->launch);
    return status;
}

// ---------------------------------------------------------------------------- steps
static plb_status query_of(plb_plan *plan, int index, plb_query *q) {
    const plb_graph *graph = plan->graph;
    const plb_node *node = &graph->nodes[index];
    size_t n = (size_t)(node->n_in + node->n_out);
    plb_tensor *tensors = plb_arena_alloc(plan->arena, n * sizeof *tensors);
    if (!tensors) return plb_fail(PLB_ENOMEM, "out of memory for a plan");
    *q = (plb_query){.op = node->op,
                     .attrs = node->attrs,
                     .n_in = node->n_in,
                     .n_out = node->n_out,
                     .in = tensors,
                     .out = tensors + node->n_in,
                     .threads = plan->options.threads,
                     .deterministic = plan->options.deterministic,
                     .no_winograd = plan->options.no_winograd,
                     .math = plan->options.math,
                     .tune_ms = tune_ms_of(plan),
                     .device = plan->device};
    for (int k = 0; k < node->n_in; k++) {
        tensors[k] = (plb_tensor){.dtype = PLB_DTYPE_COUNT};
        if (node->in[k] < 0) continue;
        tensors[k] = plan->tensors[node->in[k]];
        q->unaligned |= plb_is_unaligned(&tensors[k]);
        tensors[k].data = NULL;
        bool constant = plan->prologue[graph->values[node->in[k]].node];
        if (constant && k < 32) q->constant |= 1u << k;
    }
    for (int k = 0; k < node->n_out; k++) {
        tensors[node->n_in + k] = plan->tensors[node->out + k];
        q->unaligned |= plb_is_unaligned(&tensors[node->n_in + k]);
        tensors[node->n_in + k].data = NULL;
    }
    return PLB_OK;
}

static plb_status add_launch(plb_plan *plan, int index) {
    plb_step *step = &plan->steps[plan->n_steps];
    plb_query q;
    const plb_node *node = &plan->graph->nodes[index];
    if (node->region[0]) {
        return plb_fail(PLB_EUNSUPPORTED, "%s%s%s: regions run at level interp only", node->scope,
                        *node->scope ? ": " : "", plb_op_of(node->op)->name);
    }
    PLB_TRY(query_of(plan, index, &q));
    *step = (plb_step){.kind = PLB_STEP_LAUNCH, .node = index, .refused = ""};
    plb_status status = plb_select_kernel(plan, &q, step);
    if (status) return plb_fail_context(status, "%s", node->scope);
    step->call = (plb_call){.attrs = q.attrs,
                            .n_in = q.n_in,
                            .n_out = q.n_out,
                            .in = q.in,
                            .out = (plb_tensor *)q.out,
                            .threads = q.threads};
    const plb_launch *launch = &step->launch;
    // The prologue itself runs seldom enough to pack as it goes.
    bool changes = plan->prologue[index] || (launch->packed_inputs & ~q.constant);
    step->packs_each_run = launch->pack && changes;
    plan->n_steps++;
    return PLB_OK;
}

// Whether the choice for this node is still to be made.
static bool is_open(const plb_plan *plan, const plb_query *q) {
    plb_strbuf key = {0};
    plb_choice choice;
    plb_tune_key(plan->backend, q, &key);
    bool open = !key.failed && !plb_choices_find(plan->options.choices, key.text, &choice) &&
                !plb_tune_find(key.text, &choice);
    plb_strbuf_free(&key);
    return open;
}

// Kernels hear of what will be timed.
static plb_status foresee(plb_plan *plan) {
    if (!timing_allowed(&plan->options)) return PLB_OK;
    for (int p = 0; p < plan->graph->n_nodes; p++) {
        const plb_node *node = &plan->graph->nodes[plan->order[p]];
        const plb_kernel *const *kernels = plan->backend->kernels(node->op);
        plb_query q;
        if (plb_op_of(node->op)->flags & PLB_OP_FRAME || !*kernels || !(*kernels)->tuned) continue;
        if (plan->is_view[plan->order[p]]) continue;
        PLB_TRY(query_of(plan, plan->order[p], &q));
        if (!is_open(plan, &q)) continue;
        for (; *kernels; kernels++) {
            if ((*kernels)->foresee && !(*kernels)->refuse(&q)) (*kernels)->foresee(&q);
        }
    }
    return PLB_OK;
}

static bool stored_already(const plb_plan *plan, plb_value value, int variable) {
    const plb_storage *s = &plan->storage[value];
    return s->kind == PLB_PLACE_VARIABLE && s->variable == variable;
}

static plb_status add_steps(plb_plan *plan, bool prologue) {
    const plb_graph *graph = plan->graph;
    for (int p = 0; p < graph->n_nodes; p++) {
        int index = plan->order[p];
        const plb_node *node = &graph->nodes[index];
        if (plan->prologue[index] != prologue || plan->is_view[index]) continue;
        if (node->op == PLB_OP_assign) {
            int variable = ((const plb_variable_attrs *)node->attrs)->variable;
            if (stored_already(plan, node->in[0], variable)) continue;
            plan->steps[plan->n_steps++] = (plb_step){.kind = PLB_STEP_STORE,
                                                      .node = index,
                                                      .store = node->in[0],
                                                      .variable = variable,
                                                      .refused = ""};
        } else if (!(plb_op_of(node->op)->flags & PLB_OP_FRAME)) {
            PLB_TRY(add_launch(plan, index));
        }
    }
    return PLB_OK;
}

// The prologue step that makes the last of what step `i` packs, or -1: variables are always there.
static int packed_after(const plb_plan *plan, const int *maker, int i) {
    const plb_step *step = &plan->steps[i];
    const plb_node *node = &plan->graph->nodes[step->node];
    int after = -1;
    for (int k = 0; k < node->n_in && k < 32; k++) {
        if (!(step->launch.packed_inputs >> k & 1u) || node->in[k] < 0) continue;
        int made = maker[plan->storage[node->in[k]].root];
        if (made > after) after = made;
    }
    return after;
}

static void note_makers(const plb_plan *plan, int *maker) {
    for (int v = 0; v < plan->graph->n_values; v++) maker[v] = -1;
    for (int i = 0; i < plan->n_prologue; i++) {
        const plb_node *node = &plan->graph->nodes[plan->steps[i].node];
        for (int k = 0; k < node->n_out; k++) maker[plan->storage[node->out + k].root] = i;
    }
}

// Packing of constant inputs joins the prologue, each pack as soon as what it packs is there, so
// that the unpacked copy need not live on.
static plb_status insert_packs(plb_plan *plan) {
    int *maker = plb_alloc_array((size_t)plan->graph->n_values + 1, sizeof *maker);
    int *after = plb_alloc_array((size_t)plan->n_steps + 1, sizeof *after);
    plb_step *steps = plb_arena_alloc(plan->arena, (2 * (size_t)plan->n_steps + 1) * sizeof *steps);
    plb_status status = PLB_OK;
    if (!maker || !after || !steps) {
        status = plb_fail(PLB_ENOMEM, "out of memory for a plan");
        goto out;
    }
    note_makers(plan, maker);
    int n_packs = 0, n = 0;
    for (int i = plan->n_prologue; i < plan->n_steps; i++) {
        const plb_step *step = &plan->steps[i];
        after[i] = -2; // packs nothing ahead
        if (!step->launch.pack || step->packs_each_run) continue;
        after[i] = packed_after(plan, maker, i);
        n_packs++;
    }
    for (int p = -1; p < plan->n_prologue; p++) {
        if (p >= 0) steps[n++] = plan->steps[p];
        for (int i = plan->n_prologue; i < plan->n_steps && n_packs; i++) {
            if (after[i] != p) continue;
            steps[n++] = (plb_step){.kind = PLB_STEP_PACK,
                                    .node = plan->steps[i].node,
                                    .packs = i + n_packs,
                                    .refused = ""};
        }
    }
    for (int i = plan->n_prologue; i < plan->n_steps; i++) steps[n++] = plan->steps[i];
    plan->steps = steps;
    plan->n_prologue += n_packs;
    plan->n_steps = n;
    if (n_packs) {
        plb_strbuf_printf(&plan->report, "prologue: %d weights packed once\n", n_packs);
    }
out:
    plb_free(maker);
    plb_free(after);
    return status;
}

plb_status plb_plan_select(plb_plan *plan) {
    size_t most = 2 * (size_t)plan->graph->n_nodes + 1;
    plan->steps = plb_arena_alloc(plan->arena, most * sizeof *plan->steps);
    if (!plan->steps) return plb_fail(PLB_ENOMEM, "out of memory for a plan");
    int64_t begin_ns = plb_now_ns();
    PLB_TRY(foresee(plan));
    plan->tuning_ns += plb_now_ns() - begin_ns;
    PLB_TRY(add_steps(plan, true));
    plan->n_prologue = plan->n_steps;
    PLB_TRY(add_steps(plan, false));
    if (plan->untimed) {
        plb_strbuf_printf(&plan->report, "tuning: the time was over before %d ops were timed\n",
                          plan->untimed);
    }
    return insert_packs(plan);
}
