// SPDX-License-Identifier: Apache-2.0
// Level replay: all steps of a plan, captured. On a device they are captured in several forms: as
// a line, one after the other; as branches, where each step waits only for those whose memory it
// reads or overwrites, so that the gradients of weights, say, are computed beside those of values;
// and as lanes, branches of which no more than a few run side by side. Which is fastest is not
// known before all have run: the first replays take turns, and the fastest stays. Wide branches
// cost the processor ten times as much to launch, as a driver feeds each stream by itself, so that
// lanes are taken where both are about as fast.
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "engine/graph/plan.h"

enum { LINE, LANES, BRANCHES, FORMS, WARM = 2, ROUNDS = 4, TRIALS = FORMS * (WARM + ROUNDS) };
enum { MOST_LANES = 4 };
enum { COSTLY_NS = 10000 }; // of the processor, for a launch
// Of the others' time: what wide branches must reach, and what they must if their launch is costly.
static const double worth = 0.995, worth_costly = 0.98;
static const char *const form_names[FORMS] = {"a line", "lanes", "branches"};

struct plb_replay {
    plb_capture *form[FORMS]; // NULL where it says nothing new
    plb_event *begin[TRIALS], *end[TRIALS];
    int64_t host_ns[FORMS]; // least, of the processor for one launch
    int trials;             // made so far
    int best;               // -1: not yet known
};

// One step as a piece of captured work.
typedef struct captured_step {
    plb_plan *plan;
    plb_step *step;
} captured_step;

static plb_status run_captured(void *context) {
    const captured_step *c = context;
    const int threads = c->plan->options.threads; // of this plan, whose stream is another thread
    if (omp_get_max_threads() != threads) omp_set_num_threads(threads);
    return plb_plan_run_step(c->plan, c->step);
}

static plb_status enqueue_steps(plb_plan *plan) {
    size_t n = (size_t)(plan->n_steps - plan->n_prologue);
    captured_step *all = plb_arena_alloc(plan->arena, (n + 1) * sizeof *all);
    if (!all) return plb_fail(PLB_ENOMEM, "out of memory for a capture");
    for (size_t i = 0; i < n; i++) {
        all[i] = (captured_step){plan, &plan->steps[plan->n_prologue + (int)i]};
        PLB_TRY(plan->backend->enqueue(plan->stream, run_captured, &all[i]));
    }
    return PLB_OK;
}

static int width_of(const plb_step *step) {
    return step->n_merged ? step->n_merged : 1;
}

static plb_status record_line(plb_plan *plan, void *context) {
    (void)context;
    if (plan->backend->enqueue) return enqueue_steps(plan);
    for (int i = plan->n_prologue; i < plan->n_steps; i += width_of(&plan->steps[i])) {
        PLB_TRY(plb_plan_run_step(plan, &plan->steps[i]));
    }
    return PLB_OK;
}

static plb_status capture(plb_plan *plan, plb_status (*record)(plb_plan *, void *), void *context,
                          plb_capture **out) {
    PLB_TRY(plan->backend->capture_begin(plan->stream));
    plb_status status = record(plan, context), ended = PLB_OK;
    char text[512]; // of the failure itself, which ending a broken capture hides
    if (status) snprintf(text, sizeof text, "%s", plb_error_text());
    ended = plan->backend->capture_end(plan->stream, out);
    if (!status && !ended) return PLB_OK;
    plan->backend->capture_free(*out);
    *out = NULL;
    return status ? plb_fail(status, "%s", text) : ended;
}

// ---------------------------------------------------------------------------- branches
// A run of bytes that a step reads or writes.
typedef struct span {
    const char *begin, *end;
    bool written;
} span;

typedef struct spans {
    span *all;
    int capacity, n;
    int *first; // of each launch, and one more: its spans are first[i] … first[i + 1] - 1
} spans;

typedef struct branches {
    int n;     // launches
    int *step; // of each
    plb_mark *mark;
    int (*after)[PLB_MARKS_MAX]; // launches that each waits for
    int *n_after;
    uint64_t *behind; // bit j of row i: i runs after j has ended
    size_t row;       // words
} branches;

static plb_status add_span(spans *s, const void *begin, size_t size_bytes, bool written) {
    if (!begin || !size_bytes) return PLB_OK;
    PLB_TRY(plb_reserve(&s->all, &s->capacity, s->n + 1, sizeof *s->all));
    s->all[s->n++] = (span){begin, (const char *)begin + size_bytes, written};
    return PLB_OK;
}

// From its first element to its last, whatever lies between.
static plb_status add_tensor(spans *s, const plb_tensor *t, bool written) {
    if (!t->data || t->dtype == PLB_DTYPE_COUNT) return PLB_OK;
    int64_t low = 0, high = 0; // what a flipped axis has lies before its first element
    for (int i = 0; i < t->shape.rank; i++) {
        if (t->shape.dim[i] <= 1) continue;
        const int64_t way = (t->shape.dim[i] - 1) * t->stride[i];
        low += way < 0 ? way : 0, high += way > 0 ? way : 0;
    }
    const int64_t size = (int64_t)plb_dtype_size(t->dtype);
    const size_t reached = (size_t)((high - low + 1) * size);
    const size_t dense = plb_layout_bytes(&t->shape, t->dtype, t->layout);
    return add_span(s, (const char *)t->data + low * size, reached > dense ? reached : dense,
                    written);
}

static plb_status add_step(const plb_plan *plan, const plb_step *step, spans *s) {
    if (step->kind == PLB_STEP_STORE) {
        const plb_variable *v = &plan->model->variables[step->variable];
        PLB_TRY(add_tensor(s, &plan->tensors[step->store], false));
        return add_span(s, plb_home_data(v, plan->home),
                        plb_layout_bytes(&v->type.shape, v->type.dtype, (plb_layout){0}), true);
    }
    for (int k = 0; k < step->call.n_in; k++) PLB_TRY(add_tensor(s, &step->call.in[k], false));
    for (int k = 0; k < step->call.n_out; k++) PLB_TRY(add_tensor(s, &step->call.out[k], true));
    PLB_TRY(add_span(s, step->call.workspace, step->launch.workspace_bytes, true));
    return add_span(s, step->packed, step->launch.packed_bytes, step->packs_each_run);
}

static bool touch(const spans *s, int earlier, int later) {
    for (int a = s->first[earlier]; a < s->first[earlier + 1]; a++) {
        for (int b = s->first[later]; b < s->first[later + 1]; b++) {
            const span *x = &s->all[a], *y = &s->all[b];
            bool conflict = x->written || y->written;
            if (conflict && x->begin < y->end && y->begin < x->end) return true;
        }
    }
    return false;
}

// Whom launch `i` waits for directly: latest first, and nobody whom one of those waits for.
static bool find_after(branches *b, const spans *s, int i) {
    uint64_t *mine = b->behind + (size_t)i * b->row;
    for (int j = i - 1; j >= 0; j--) {
        if (mine[j / 64] >> (j % 64) & 1 || !touch(s, j, i)) continue;
        if (b->n_after[i] == PLB_MARKS_MAX) return false;
        b->after[i][b->n_after[i]++] = j;
        const uint64_t *his = b->behind + (size_t)j * b->row;
        for (size_t w = 0; w < b->row; w++) mine[w] |= his[w];
        mine[j / 64] |= UINT64_C(1) << (j % 64);
    }
    return true;
}

static void branches_free(branches *b) {
    plb_free(b->step);
    plb_free(b->mark);
    plb_free(b->after);
    plb_free(b->n_after);
    plb_free(b->behind);
}

static plb_status collect(const plb_plan *plan, branches *b, spans *s) {
    size_t most = (size_t)(plan->n_steps - plan->n_prologue) + 1;
    b->row = (most + 63) / 64;
    b->step = plb_alloc_array(most, sizeof *b->step);
    b->mark = plb_alloc_array(most, sizeof *b->mark);
    b->after = plb_alloc_array(most, sizeof *b->after);
    b->n_after = plb_alloc_array(most, sizeof *b->n_after);
    b->behind = plb_alloc_array(most * b->row, sizeof *b->behind);
    s->first = plb_alloc_array(most + 1, sizeof *s->first);
    if (!b->step || !b->mark || !b->after || !b->n_after || !b->behind || !s->first) {
        return plb_fail(PLB_ENOMEM, "out of memory for branches");
    }
    for (int i = plan->n_prologue; i < plan->n_steps; i += width_of(&plan->steps[i])) {
        for (int k = 0; k < width_of(&plan->steps[i]); k++) {
            PLB_TRY(add_step(plan, &plan->steps[i + k], s));
        }
        b->step[b->n++] = i;
        s->first[b->n] = s->n;
    }
    return PLB_OK;
}

// Puts launch `i` into a lane, whose last launch it waits for: the one where what it waits for
// latest came last; else an empty one; else the one that has had nothing new for longest. False: it
// would wait for very many. `added`: it waits for what it would not have waited for.
static bool take_lane(branches *b, int i, int last[MOST_LANES], bool *added) {
    int lane = -1;
    for (int k = 0; k < MOST_LANES && b->n_after[i]; k++) {
        if (last[k] == b->after[i][0]) lane = k;
    }
    for (int k = 0; k < MOST_LANES && lane < 0; k++) {
        if (last[k] < 0) lane = k;
    }
    for (int k = 0; k < MOST_LANES && lane < 0; k++) {
        bool oldest = true;
        for (int j = 0; j < MOST_LANES; j++) oldest = oldest && last[k] <= last[j];
        if (oldest) lane = k;
    }
    const int before = last[lane];
    uint64_t *mine = b->behind + (size_t)i * b->row;
    last[lane] = i;
    if (before < 0 || mine[before / 64] >> (before % 64) & 1) return true;
    if (b->n_after[i] == PLB_MARKS_MAX) return false;
    b->after[i][b->n_after[i]++] = before;
    const uint64_t *his = b->behind + (size_t)before * b->row;
    for (size_t w = 0; w < b->row; w++) mine[w] |= his[w];
    mine[before / 64] |= UINT64_C(1) << (before % 64);
    *added = true;
    return true;
}

// Whether anything may run beside another; false too where a launch waits for very many. With
// `added`, as lanes: whether those have more order than branches need.
static bool find_branches(branches *b, const spans *s, bool *added) {
    bool apart = false;
    int last[MOST_LANES] = {-1, -1, -1, -1};
    for (int i = 0; i < b->n; i++) {
        b->n_after[i] = 0;
        memset(b->behind + (size_t)i * b->row, 0, b->row * sizeof *b->behind);
        if (!find_after(b, s, i)) return false;
        if (added && !take_lane(b, i, last, added)) return false;
        apart |= i > 0 && !(b->n_after[i] == 1 && b->after[i][0] == i - 1);
    }
    return apart;
}

static plb_status record_branches(plb_plan *plan, void *context) {
    const branches *b = context;
    for (int i = 0; i < b->n; i++) {
        plb_mark after[PLB_MARKS_MAX];
        for (int k = 0; k < b->n_after[i]; k++) after[k] = b->mark[b->after[i][k]];
        PLB_TRY(plan->backend->capture_after(plan->stream, after, b->n_after[i]));
        PLB_TRY(plb_plan_run_step(plan, &plan->steps[b->step[i]]));
        PLB_TRY(plan->backend->capture_mark(plan->stream, &b->mark[i]));
    }
    return PLB_OK;
}

static plb_status make_events(const plb_plan *plan, plb_replay *r) {
    for (int i = 0; i < TRIALS; i++) {
        PLB_TRY(plan->backend->event_new(plan->device, &r->begin[i]));
        PLB_TRY(plan->backend->event_new(plan->device, &r->end[i]));
    }
    return PLB_OK;
}

// A plan that cannot be captured so is captured as a line alone.
static plb_status capture_form(plb_plan *plan, plb_replay *r, branches *b, int form) {
    plb_status status = capture(plan, record_branches, b, &r->form[form]);
    if (!status || status == PLB_ENOMEM) return status;
    plb_strbuf_printf(&plan->report, "replay: no %s: %s\n", form_names[form], plb_error_text());
    return PLB_OK;
}

static plb_status capture_branches(plb_plan *plan, plb_replay *r) {
    branches b = {0};
    spans s = {0};
    bool narrow = false;
    plb_status status = collect(plan, &b, &s);
    if (!status && find_branches(&b, &s, &narrow)) status = capture_form(plan, r, &b, LANES);
    if (!status && (narrow || !r->form[LANES]) && find_branches(&b, &s, NULL)) {
        status = capture_form(plan, r, &b, BRANCHES);
    }
    if (!status && (r->form[LANES] || r->form[BRANCHES])) status = make_events(plan, r);
    branches_free(&b);
    plb_free(s.all);
    plb_free(s.first);
    return status;
}

// ---------------------------------------------------------------------------- the replay
plb_status plb_replay_new(plb_plan *plan) {
    if (!plan->stream) PLB_TRY(plan->backend->stream_new(plan->device, &plan->stream));
    plb_replay *r = plan->replay = plb_alloc(sizeof *r);
    if (!r) return plb_fail(PLB_ENOMEM, "out of memory for a capture");
    PLB_TRY(capture(plan, record_line, NULL, &r->form[LINE]));
    if (plan->backend->capture_after) PLB_TRY(capture_branches(plan, r));
    r->best = r->form[LANES] || r->form[BRANCHES] ? -1 : LINE;
    return PLB_OK;
}

// The trials of a form are every FORMS-th, from its number on.
static plb_status least_of(plb_plan *plan, const plb_replay *r, int form, int64_t *out_ns) {
    *out_ns = INT64_MAX;
    for (int i = FORMS * WARM + form; i < TRIALS && r->form[form]; i += FORMS) {
        int64_t ns = 0;
        PLB_TRY(plan->backend->elapsed_ns(r->begin[i], r->end[i], &ns));
        if (ns < *out_ns) *out_ns = ns;
    }
    return PLB_OK;
}

static plb_status decide(plb_plan *plan, plb_replay *r) {
    int64_t least[FORMS];
    for (int f = 0; f < FORMS; f++) PLB_TRY(least_of(plan, r, f, &least[f]));
    r->best = least[LANES] < least[LINE] ? LANES : LINE;
    const double share = r->host_ns[BRANCHES] > COSTLY_NS ? worth_costly : worth;
    if ((double)least[BRANCHES] < share * (double)least[r->best]) r->best = BRANCHES;
    plb_strbuf_printf(&plan->report, "replay:");
    for (int f = 0; f < FORMS; f++) {
        if (!r->form[f]) continue;
        plb_strbuf_printf(&plan->report, " %.1f us as %s%s, launched in %.1f us;",
                          (double)least[f] / 1e3, form_names[f], f == r->best ? " (taken)" : "",
                          (double)r->host_ns[f] / 1e3);
        if (f == r->best) continue;
        plan->backend->capture_free(r->form[f]);
        r->form[f] = NULL;
    }
    plb_strbuf_printf(&plan->report, "\n");
    return PLB_OK;
}

// Past the last trial of a form that there is.
static int last_trial(const plb_replay *r) {
    int last = TRIALS;
    while (!r->form[(last - 1) % FORMS]) last--;
    return last;
}

plb_status plb_replay_run(plb_plan *plan) {
    plb_replay *r = plan->replay;
    const plb_backend *backend = plan->backend;
    if (r->best < 0 && r->trials >= last_trial(r)) PLB_TRY(decide(plan, r));
    if (r->best >= 0) return backend->replay(plan->stream, r->form[r->best]);
    while (!r->form[r->trials % FORMS]) r->trials++;
    int i = r->trials++;
    PLB_TRY(backend->record(plan->stream, r->begin[i]));
    int64_t *host_ns = &r->host_ns[i % FORMS], begin_ns = plb_now_ns();
    PLB_TRY(backend->replay(plan->stream, r->form[i % FORMS]));
    begin_ns = plb_now_ns() - begin_ns;
    if (!*host_ns || begin_ns < *host_ns) *host_ns = begin_ns;
    return backend->record(plan->stream, r->end[i]);
}

bool plb_replay_settled(const plb_plan *plan) {
    return !plan->replay || plan->replay->best >= 0;
}

void plb_replay_free(plb_plan *plan) {
    plb_replay *r = plan->replay;
    if (!r) return;
    for (int i = 0; i < FORMS; i++) plan->backend->capture_free(r->form[i]);
    for (int i = 0; i < TRIALS && r->begin[i]; i++) { // the last may have no end
        plan->backend->event_free(r->begin[i]);
        plan->backend->event_free(r->end[i]);
    }
    plb_free(r);
    plan->replay = NULL;
}
