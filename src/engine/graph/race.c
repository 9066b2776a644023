// SPDX-License-Identifier: Apache-2.0
// Kernels that compete are timed on operands like those of the node: variant by variant, on the
// plan's device. On the host a launch is over when it returns; on other devices the time between
// two events in the stream counts, over as many launches as make it long enough to be read.
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "base/core/stop.h"
#include "engine/graph/plan.h"

enum { PATTERN_FLOATS = 4096, ROUNDS = 3, LAUNCHES_MAX = 16 };
static const int64_t round_ns = 200000, race_ns = 300000000;
static const int64_t hopeless_ns = 30000; // what a launch from the host may add to a time
static const int64_t load_ns = 200000000; // and the first one, which loads the kernel's code
static const int64_t long_ns = 3000000;   // of a launch so long that disturbance is a small part

// Operands hold small numbers, none of them NaN or denormal.
typedef struct trial {
    plb_plan *plan;
    int64_t began_ns;
    plb_call call;
    plb_tensor *tensors;
    void **memory;
    int n_memory;
    plb_event *begin, *end; // on a device
} trial;

static bool on_host(const trial *t) {
    return t->plan->backend->host_memory;
}

static void free_memory(trial *t, void *memory) {
    if (on_host(t)) {
        plb_free(memory);
    } else {
        t->plan->backend->pool_free(t->plan->stream, memory);
    }
}

static void trial_free(trial *t) {
    for (int i = 0; i < t->n_memory; i++) free_memory(t, t->memory[i]);
    plb_free(t->memory);
    plb_free(t->tensors);
    if (!on_host(t)) {
        t->plan->backend->event_free(t->begin);
        t->plan->backend->event_free(t->end);
    }
    *t = (trial){0};
}

static plb_status trial_memory(trial *t, size_t size_bytes, void **out) {
    *out = NULL;
    if (on_host(t)) {
        *out = plb_alloc_slab(size_bytes);
        if (!*out) return plb_fail(PLB_ENOMEM, "out of memory for timing kernels");
    } else {
        PLB_TRY(t->plan->backend->pool_alloc(t->plan->stream, size_bytes, out));
    }
    t->memory[t->n_memory++] = *out;
    return PLB_OK;
}

static float pattern(size_t i) {
    return (float)(i * 2654435761u % 1024) / 1024 - 0.5f;
}

static void fill_on_host(const plb_tensor *to, size_t size) {
    memset(to->data, 0, size);
    if (to->dtype != PLB_F32) return;
    for (size_t i = 0; i < size / sizeof(float); i++) ((float *)to->data)[i] = pattern(i);
}

// Integers are zeros; floats the pattern of one block again and again.
static plb_status fill_on_device(const trial *t, const plb_tensor *to, size_t size) {
    const plb_backend *backend = t->plan->backend;
    PLB_TRY(backend->clear(t->plan->stream, to->data, size));
    if (!plb_dtype_is_float(to->dtype)) return PLB_OK;
    double block[PATTERN_FLOATS]; // of any float type
    for (size_t i = 0; i < PATTERN_FLOATS; i++) {
        plb_store_f64(block, to->dtype, (int64_t)i, pattern(i));
    }
    size_t at = PATTERN_FLOATS * plb_dtype_size(to->dtype);
    if (at > size) at = size;
    PLB_TRY(backend->copy(t->plan->stream, to->data, block, at));
    PLB_TRY(backend->wait(t->plan->stream)); // `block` is ours again
    while (at < size) {                      // twice as much of the pattern each time
        size_t n = size - at < at ? size - at : at;
        PLB_TRY(backend->copy(t->plan->stream, (char *)to->data + at, to->data, n));
        at += n;
    }
    return PLB_OK;
}

static plb_status give_operand(trial *t, plb_tensor *to, const plb_tensor *from, bool fill) {
    *to = *from;
    to->data = NULL;
    if (from->dtype == PLB_DTYPE_COUNT) return PLB_OK;
    size_t size = plb_layout_bytes(&from->shape, from->dtype, from->layout);
    PLB_TRY(trial_memory(t, size, &to->data));
    if (!on_host(t)) {
        return fill ? fill_on_device(t, to, size)
                    : t->plan->backend->clear(t->plan->stream, to->data, size);
    }
    if (fill) {
        fill_on_host(to, size);
    } else {
        memset(to->data, 0, size);
    }
    return PLB_OK;
}

static plb_status trial_new(plb_plan *plan, const plb_query *q, trial *t) {
    *t = (trial){.plan = plan, .began_ns = plb_now_ns()};
    size_t n = (size_t)(q->n_in + q->n_out);
    t->tensors = plb_alloc_array(n, sizeof *t->tensors);
    t->memory = plb_alloc_array(n + 2, sizeof *t->memory);
    if (!t->tensors || !t->memory) return plb_fail(PLB_ENOMEM, "out of memory for timing kernels");
    for (int i = 0; i < q->n_in; i++) PLB_TRY(give_operand(t, &t->tensors[i], &q->in[i], true));
    for (int i = 0; i < q->n_out; i++) {
        PLB_TRY(give_operand(t, &t->tensors[q->n_in + i], &q->out[i], false));
    }
    t->call = (plb_call){.attrs = q->attrs,
                         .n_in = q->n_in,
                         .n_out = q->n_out,
                         .in = t->tensors,
                         .out = t->tensors + q->n_in,
                         .threads = q->threads};
    if (on_host(t)) return PLB_OK;
    PLB_TRY(plan->backend->event_new(plan->device, &t->begin));
    return plan->backend->event_new(plan->device, &t->end);
}

static plb_status once(const plb_query *q, trial *t, const plb_launch *launch, void *packed) {
    unsigned constant = launch->packed_inputs & q->constant;
    plb_stream *stream = on_host(t) ? NULL : t->plan->stream;
    if (launch->pack && constant != launch->packed_inputs) {
        PLB_TRY(launch->pack(launch->state, &t->call, packed, stream));
    }
    return launch->run(launch->state, &t->call, stream);
}

// Least time of a few runs: disturbance only ever adds.
static plb_status time_on_host(const plb_query *q, trial *t, const plb_launch *launch,
                               int64_t limit_ns, int64_t *out_ns) {
    void *packed = (void *)t->call.packed;
    int64_t begin = plb_now_ns(), best = INT64_MAX;
    for (int i = 0; i < 7; i++) {
        int64_t start = plb_now_ns();
        PLB_TRY(once(q, t, launch, packed));
        int64_t end = plb_now_ns();
        if (i > 0 && end - start < best) best = end - start; // the first warms caches
        bool hopeless = i >= 2 && best > 2 * limit_ns;
        if (i >= 2 && (hopeless || end - begin > race_ns)) break;
    }
    *out_ns = best;
    return PLB_OK;
}

static plb_status repeat(const plb_query *q, trial *t, const plb_launch *launch, int launches) {
    plb_status status = PLB_OK;
    for (int i = 0; i < launches && !status; i++) {
        status = once(q, t, launch, (void *)t->call.packed);
    }
    return status;
}

// `launches` times in a row, captured: small kernels end sooner than the host can launch the next.
static plb_status capture_round(const plb_query *q, trial *t, const plb_launch *launch,
                                int launches, plb_capture **out) {
    const plb_backend *backend = t->plan->backend;
    *out = NULL;
    PLB_TRY(backend->capture_begin(t->plan->stream));
    plb_status status = repeat(q, t, launch, launches);
    plb_status ended = backend->capture_end(t->plan->stream, out);
    return status ? status : ended;
}

static plb_status round_on_device(const plb_query *q, trial *t, const plb_launch *launch,
                                  plb_capture *capture, int64_t *out_ns) {
    const plb_backend *backend = t->plan->backend;
    PLB_TRY(backend->record(t->plan->stream, t->begin));
    PLB_TRY(capture ? backend->replay(t->plan->stream, capture) : repeat(q, t, launch, 1));
    PLB_TRY(backend->record(t->plan->stream, t->end));
    return backend->elapsed_ns(t->begin, t->end, out_ns);
}

static plb_status time_on_device(const plb_query *q, trial *t, const plb_launch *launch,
                                 int64_t limit_ns, int64_t *out_ns) {
    const plb_backend *backend = t->plan->backend;
    plb_capture *capture = NULL;
    int64_t ns = 0, best = INT64_MAX;
    PLB_TRY(round_on_device(q, t, launch, NULL, &ns)); // loads code, warms caches
    *out_ns = ns;
    if (ns > 3 * limit_ns + load_ns) return PLB_OK;
    PLB_TRY(round_on_device(q, t, launch, NULL, &ns));
    *out_ns = ns;
    if (ns > 3 * limit_ns + hopeless_ns) return PLB_OK;
    int launches = ns >= round_ns ? 1 : (int)(round_ns / (ns + 1)) + 1;
    if (launches > LAUNCHES_MAX) launches = LAUNCHES_MAX;
    const int rounds = ns >= long_ns ? 1 : ROUNDS;
    plb_status status = capture_round(q, t, launch, launches, &capture);
    for (int i = 0; i <= rounds && !status && !(i && best / launches > 2 * limit_ns); i++) {
        status = round_on_device(q, t, launch, capture, &ns);
        if (i > 0 && ns < best) best = ns; // the first replay sets the graph up
        if (i == 0) best = ns;
    }
    backend->capture_free(capture);
    *out_ns = best / launches;
    return status;
}

static plb_status time_launch(const plb_query *q, trial *t, const plb_launch *launch,
                              int64_t limit_ns, int64_t *out_ns) {
    void *packed = NULL, *workspace = NULL;
    const int before = t->n_memory;
    plb_status status = PLB_OK;
    PLB_TRY_OUT(trial_memory(t, launch->packed_bytes, &packed));
    PLB_TRY_OUT(trial_memory(t, launch->workspace_bytes, &workspace));
    t->call.workspace = workspace;
    t->call.packed = packed;
    plb_stream *stream = on_host(t) ? NULL : t->plan->stream;
    if (launch->pack) PLB_TRY_OUT(launch->pack(launch->state, &t->call, packed, stream));
    status = on_host(t) ? time_on_host(q, t, launch, limit_ns, out_ns)
                        : time_on_device(q, t, launch, limit_ns, out_ns);
out:
    while (t->n_memory > before) free_memory(t, t->memory[--t->n_memory]);
    return status;
}

static int variants_of(const plb_kernel *kernel, const plb_query *q,
                       char out[PLB_MAX_VARIANTS][PLB_CHOICE_BYTES]) {
    out[0][0] = '\0';
    if (!kernel->choices) return 1;
    int n = kernel->choices(q, out, PLB_MAX_VARIANTS);
    return n > 0 ? n : 1;
}

// Whether the time of the whole program is over in the midst of a race that has somebody ahead.
static bool is_over(const plb_query *q, const trial *t, const plb_choice *best) {
    const int64_t spent_ns = t->plan->tuning_ns + plb_now_ns() - t->began_ns;
    return !on_host(t) && best->kernel[0] && spent_ns / 1000000 > q->tune_ms;
}

static plb_status race_variants(const plb_kernel *kernel, const plb_query *q, trial *t,
                                int64_t *best_ns, plb_choice *best) {
    char texts[PLB_MAX_VARIANTS][PLB_CHOICE_BYTES];
    int n = variants_of(kernel, q, texts);
    for (int i = 0; i < n; i++) {
        plb_launch launch = {0};
        int64_t time_ns = 0;
        PLB_TRY(plb_stop_check());
        if (is_over(q, t, best)) return PLB_OK;
        if (kernel->prepare(q, texts[i], &launch) != PLB_OK) continue;
        plb_status status = time_launch(q, t, &launch, *best_ns, &time_ns);
        if (launch.release) launch.release(launch.state);
        // A candidate that wants more memory than a device has, or that its library refuses to
        // run, is out of the race; on the host nothing is expected to fail.
        if (status && !on_host(t) && status != PLB_EBROKEN) continue;
        if (status) return status;
        if (time_ns >= *best_ns) continue;
        *best_ns = time_ns;
        snprintf(best->kernel, sizeof best->kernel, "%s", kernel->name);
        memcpy(best->choice, texts[i], sizeof best->choice);
    }
    return PLB_OK;
}

plb_status plb_race(plb_plan *plan, const plb_kernel *const *kernels, const plb_query *q,
                    plb_choice *best, bool *out_over) {
    trial t;
    int64_t best_ns = INT64_MAX / 4;
    plb_query racing = *q;
    racing.racing = true;
    q = &racing;
    plb_status status = trial_new(plan, q, &t);
    for (; *kernels && !status; kernels++) {
        bool last_resort = (*kernels)->op == PLB_OP_COUNT;
        if ((*kernels)->refuse(q) || (last_resort && best->kernel[0])) continue;
        status = race_variants(*kernels, q, &t, &best_ns, best);
    }
    *out_over = !status && is_over(q, &t, best);
    trial_free(&t);
    return status;
}
