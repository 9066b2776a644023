// SPDX-License-Identifier: Apache-2.0
// Problems are kept in a list under one lock, which is never held while the library works. The
// candidates of a problem change only in `propose` and by loading, both under the problem's own
// lock; threads that make plans each own the candidate they took.
#include "engine/device/cuda/conv_problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/hash.h"
#include "base/core/log.h"
#include "base/core/status.h"

enum { MAX_TUNE_MS = 3600000, N_FORMS = 4, MAX_MAKERS = 16, KEY_BYTES = 512 };
static const char forms[N_FORMS] = {'a', 'b', 'c', 'u'};
static const size_t usual_workspace_bytes = (size_t)512 << 20;

typedef enum state { NEW, READY, FAILED } state;

typedef struct candidate {
    char form;
    char text[PLB_CHOICE_BYTES];
    plb_cudnn_candidate config; // empty when the plan came from disk
    plb_cudnn_plan plan;
    state state;
    int users, takes; // takes: how often somebody asked for the plan
    bool saved;
} candidate;

struct plb_conv_problem {
    plb_conv_problem *next;
    plb_device *device;
    plb_conv_spec spec;
    char key[KEY_BYTES];
    pthread_mutex_t lock;
    plb_cudnn_graph *graphs[N_FORMS];
    candidate candidates[PLB_CONV_MAX_CANDIDATES];
    int n;
    bool proposed, announced, raced;
    int pending; // candidates that wait for a thread, under the makers' lock
};

static plb_conv_problem *problems;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

// ---------------------------------------------------------------------------- specs
// Padding behind that no window reads in full says nothing: where as much as in front gives the
// same outputs, the library is told that, since few of its engines pad one side alone.
static void even_padding(plb_conv_shape *s) {
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        int64_t reach = s->dilation[i] * (s->kernel[i] - 1) + 1;
        int64_t padded = s->in[i] + 2 * s->pad[i];
        bool same = padded >= reach && (padded - reach) / s->stride[i] + 1 == s->out[i];
        if (same) s->pad_end[i] = s->pad[i];
    }
}

plb_status plb_conv_spec_of(const plb_query *q, plb_conv_spec *out) {
    const plb_conv_attrs *attrs = q->attrs;
    *out =
        (plb_conv_spec){.op = q->op,
                        .dtype = q->out[0].dtype,
                        .layout = q->in[0].layout.kind,
                        .bias = q->op == PLB_OP_conv && plb_operand_given(q, PLB_IN_BIAS),
                        .residual = q->op == PLB_OP_conv && plb_operand_given(q, PLB_IN_RESIDUAL),
                        .deterministic = q->deterministic,
                        .no_winograd = q->no_winograd};
    out->tf32 = q->math == PLB_MATH_TF32 && out->dtype == PLB_F32;
    if (q->op == PLB_OP_conv) out->epilogue = attrs->epilogue;
    PLB_TRY(plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, attrs, &out->shape));
    even_padding(&out->shape);
    return PLB_OK;
}

static void append_axes(plb_strbuf *text, const char *name, const int64_t *axes) {
    plb_strbuf_printf(text, " %s=%lld,%lld,%lld", name, (long long)axes[0], (long long)axes[1],
                      (long long)axes[2]);
}

static plb_status key_of(const plb_device *device, const plb_conv_spec *s, char *key) {
    const plb_conv_shape *c = &s->shape;
    plb_strbuf text = {0};
    plb_strbuf_printf(&text, "%s %s %s %s l%d axes=%d n=%lld c=%lld k=%lld g=%lld",
                      plb_cudnn_version(), device->fingerprint, plb_op_of(s->op)->name,
                      plb_dtype_name(s->dtype), (int)s->layout, c->axes, (long long)c->n,
                      (long long)c->c, (long long)c->k, (long long)c->groups);
    append_axes(&text, "in", c->in), append_axes(&text, "w", c->kernel);
    append_axes(&text, "s", c->stride), append_axes(&text, "d", c->dilation);
    append_axes(&text, "p", c->pad), append_axes(&text, "e", c->pad_end);
    plb_strbuf_printf(&text, " b%d r%d act=%d,%g,%g tf32=%d det=%d win=%d", s->bias, s->residual,
                      (int)s->epilogue.activation, s->epilogue.alpha, s->epilogue.beta, s->tf32,
                      s->deterministic, !s->no_winograd);
    bool fits = !text.failed && text.length < KEY_BYTES;
    if (fits) memcpy(key, text.text, text.length + 1);
    plb_strbuf_free(&text);
    return fits ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a convolution's key");
}

plb_status plb_conv_problem_of(plb_device *device, const plb_conv_spec *spec,
                               plb_conv_problem **out) {
    char key[KEY_BYTES];
    *out = NULL;
    PLB_TRY(key_of(device, spec, key));
    pthread_mutex_lock(&list_lock);
    plb_conv_problem *p = problems;
    while (p && (p->device != device || strcmp(p->key, key) != 0)) p = p->next;
    if (!p) {
        p = plb_alloc(sizeof *p);
        if (p) {
            p->device = device;
            p->spec = *spec;
            memcpy(p->key, key, sizeof key);
            pthread_mutex_init(&p->lock, NULL);
            p->next = problems;
            problems = p;
        }
    }
    pthread_mutex_unlock(&list_lock);
    *out = p;
    return p ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a convolution");
}

// ---------------------------------------------------------------------------- graphs
// A dense operand with these extents; 1-d values get a height of 1.
static plb_cudnn_tensor operand(const plb_conv_spec *s, int64_t uid, int64_t a, int64_t b,
                                const int64_t *extents) {
    const int axes = s->shape.axes == 3 ? 3 : 2, rank = 2 + axes;
    plb_cudnn_tensor t = {.uid = uid, .dtype = s->dtype, .rank = rank, .dim = {a, b}};
    for (int i = 0; i < axes; i++) t.dim[2 + i] = extents[PLB_MAX_SPATIAL - axes + i];
    const bool last = s->layout == PLB_LAYOUT_NHWC;
    int64_t stride = last ? b : 1;
    for (int i = rank - 1; i >= 2; i--) {
        t.stride[i] = stride;
        stride *= t.dim[i];
    }
    t.stride[1] = last ? 1 : stride;
    t.stride[0] = last ? stride : stride * b;
    return t;
}

// Adds what one op hands to the next, or the result when nothing is left to do.
static plb_status add_value(plb_cudnn_graph *graph, const plb_cudnn_tensor *y, plb_dtype inner,
                            int left, cudnnBackendDescriptor_t *out) {
    plb_cudnn_tensor t = *y;
    if (left > 0) {
        t.uid = 100 + left;
        t.dtype = inner;
        t.inner = true;
    }
    return plb_cudnn_add_tensor(graph, &t, out);
}

typedef struct chain {
    plb_cudnn_graph *graph;
    plb_cudnn_tensor y;
    plb_dtype inner;
    int left; // ops still to come
    cudnnBackendDescriptor_t now;
} chain;

static plb_status chain_sum(chain *c, const plb_cudnn_tensor *with) {
    cudnnBackendDescriptor_t operand_of, next;
    c->left--;
    PLB_TRY(plb_cudnn_add_tensor(c->graph, with, &operand_of));
    PLB_TRY(add_value(c->graph, &c->y, c->inner, c->left, &next));
    PLB_TRY(plb_cudnn_add_sum(c->graph, c->now, operand_of, next));
    c->now = next;
    return PLB_OK;
}

static plb_status chain_epilogue(const plb_conv_spec *s, char form, chain *c) {
    static const int64_t ones[PLB_MAX_SPATIAL] = {1, 1, 1};
    plb_cudnn_tensor bias = operand(s, PLB_CONV_BIAS, 1, s->shape.k, ones);
    plb_cudnn_tensor residual = c->y;
    residual.uid = PLB_CONV_RESIDUAL;
    if (form != 'a') bias.dtype = c->inner;
    if (form == 'b' && s->bias) PLB_TRY(chain_sum(c, &bias));
    if (s->residual) PLB_TRY(chain_sum(c, &residual));
    if (form != 'b' && s->bias) PLB_TRY(chain_sum(c, &bias));
    if (s->epilogue.activation == PLB_ACT_NONE) return PLB_OK;
    double bounds[2];
    cudnnBackendDescriptor_t y;
    plb_epilogue_bounds(&s->epilogue, bounds);
    PLB_TRY(plb_cudnn_add_tensor(c->graph, &c->y, &y));
    return plb_cudnn_add_clamp(c->graph, c->now, y, bounds);
}

static plb_status build_graph(const plb_conv_spec *s, char form, cudnnHandle_t handle,
                              plb_cudnn_graph *graph) {
    const plb_conv_shape *c = &s->shape;
    const int axes = c->axes == 3 ? 3 : 2;
    const plb_cudnn_tensor x = operand(s, PLB_CONV_X, c->n, c->c, c->in);
    const plb_cudnn_tensor w = operand(s, PLB_CONV_W, c->k, c->c / c->groups, c->kernel);
    chain values = {.graph = graph, .y = operand(s, PLB_CONV_Y, c->n, c->k, c->out)};
    values.inner = s->dtype == PLB_F64 ? PLB_F64 : PLB_F32;
    if (form != 'u') {
        values.left = s->bias + s->residual + (s->epilogue.activation != PLB_ACT_NONE);
    }
    plb_cudnn_convolution convolution = {.op = s->op, .precision = values.inner, .axes = axes};
    for (int i = 0; i < axes; i++) {
        int from = PLB_MAX_SPATIAL - axes + i;
        convolution.stride[i] = c->stride[from], convolution.dilation[i] = c->dilation[from];
        convolution.pad[i] = c->pad[from], convolution.pad_end[i] = c->pad_end[from];
    }
    PLB_TRY(plb_cudnn_add_tensor(graph, &x, &convolution.x));
    PLB_TRY(plb_cudnn_add_tensor(graph, &w, &convolution.w));
    PLB_TRY(add_value(graph, &values.y, values.inner, values.left, &values.now));
    convolution.y = values.now;
    PLB_TRY(plb_cudnn_add_convolution(graph, &convolution));
    if (form != 'u') PLB_TRY(chain_epilogue(s, form, &values));
    return plb_cudnn_graph_finish(graph, handle);
}

// Whether a form says something that those before it do not.
static bool form_applies(const plb_conv_spec *s, char form) {
    bool act = s->epilogue.activation != PLB_ACT_NONE, narrow = s->dtype != PLB_F32;
    if (form == 'u') return true;
    if (s->dtype == PLB_F64 || !(s->bias || s->residual || act)) return false;
    if (form == 'b') return s->bias && (narrow || s->residual);
    if (form == 'c') return s->bias && narrow && s->residual;
    return true;
}

// ---------------------------------------------------------------------------- candidates
static bool note(const plb_cudnn_candidate *c, cudnnBackendNumericalNote_t note) {
    return c->notes >> (unsigned)note & 1u;
}

// Engines whose numbers are not what was asked for.
static bool allowed(const plb_conv_spec *s, const plb_cudnn_candidate *c) {
    if (s->deterministic && note(c, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) return false;
    if (note(c, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)) return false;
    bool winograd = note(c, CUDNN_NUMERICAL_NOTE_WINOGRAD) ||
                    note(c, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4) ||
                    note(c, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6) ||
                    note(c, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13);
    if (s->no_winograd && winograd) return false;
    if (s->dtype != PLB_F32) return true;
    if (note(c, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return false;
    return s->tf32 || !note(c, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

typedef struct keeper {
    plb_conv_problem *problem;
    char form;
} keeper;

// Counts what is allowed and new.
static bool keep(void *context, plb_cudnn_candidate *c) {
    const char form = ((const keeper *)context)->form;
    plb_conv_problem *p = ((const keeper *)context)->problem;
    char text[PLB_CHOICE_BYTES];
    snprintf(text, sizeof text, "%c%lld.%08x", form, (long long)c->engine, (unsigned)c->knobs);
    for (int i = 0; i < p->n; i++) {
        candidate *old = &p->candidates[i];
        if (strcmp(old->text, text) != 0) continue;
        if (old->config.config) {
            plb_cudnn_candidate_free(c);
        } else {
            old->config = *c; // its plan came from disk
        }
        return false;
    }
    if (p->n == PLB_CONV_MAX_CANDIDATES || !allowed(&p->spec, c)) {
        plb_cudnn_candidate_free(c);
        return false;
    }
    candidate *made = &p->candidates[p->n++];
    *made = (candidate){.form = form, .config = *c};
    memcpy(made->text, text, sizeof text);
    return true;
}

// Products of f32: most guesses are made for TF32. Those that are left are few and far from each
// other in speed, and the fastest, by Winograd's or Fourier's transforms, are bare convolutions.
static bool without_tensor_cores(const plb_conv_spec *s) {
    return s->dtype == PLB_F32 && !s->tf32;
}

static void propose_form(plb_conv_problem *p, int f, cudnnHandle_t handle) {
    static const struct {
        cudnnBackendHeurMode_t mode;
        int most, most_later; // of the first form, and of those after it
        int most_plain;       // without tensor cores
    } modes[] = {{CUDNN_HEUR_MODE_A, 10, 8, 10},
                 {CUDNN_HEUR_MODE_B, 3, 2, 6},
                 {CUDNN_HEUR_MODE_FALLBACK, 2, 1, 8}};
    const bool later = p->n > 0, plain = without_tensor_cores(&p->spec);
    // Where there are others, of the last forms the best guesses only.
    const bool spare = later && !plain && (forms[f] == 'u' || forms[f] == 'c');
    keeper k = {p, forms[f]};
    if (plb_cudnn_graph_new(&p->graphs[f]) != PLB_OK) return;
    if (build_graph(&p->spec, forms[f], handle, p->graphs[f]) != PLB_OK) {
        plb_log_line(PLB_LOG_DEBUG, "%s: form %c: %s", p->key, forms[f], plb_error_text());
        return;
    }
    for (int m = 0; m < 3 && !(m && spare); m++) {
        const int most = plain   ? modes[m].most_plain
                         : spare ? 4
                         : later ? modes[m].most_later
                                 : modes[m].most;
        plb_cudnn_propose(p->graphs[f], modes[m].mode, most, keep, &k);
    }
}

static plb_status propose(plb_conv_problem *p) { // locked
    cudnnHandle_t handle;
    if (p->proposed) return PLB_OK;
    PLB_TRY(plb_cudnn_handle(p->device, &handle));
    for (int f = 0; f < N_FORMS; f++) {
        if (form_applies(&p->spec, forms[f])) propose_form(p, f, handle);
    }
    p->proposed = true;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- plans
// Transforms keep what they made of both operands: tiles that overlap, turned to channels first.
static size_t workspace_limit_bytes(const plb_conv_problem *p) {
    const plb_conv_shape *s = &p->spec.shape;
    const size_t most = p->device->memory_bytes / 16;
    double values = (double)s->n * (double)s->c, results = (double)s->n * (double)s->k;
    if (!without_tensor_cores(&p->spec)) return usual_workspace_bytes;
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        values *= (double)s->in[i], results *= (double)s->out[i];
    }
    size_t bytes = (size_t)(4 * sizeof(float) * (values + results));
    if (bytes > most) bytes = most;
    return bytes > usual_workspace_bytes ? bytes : usual_workspace_bytes;
}

static void make_plan_by(cudnnHandle_t handle, const plb_conv_problem *p, candidate *c) {
    plb_status status = plb_cudnn_plan_build(handle, &c->config, &c->plan);
    if (!status && c->plan.workspace_bytes > workspace_limit_bytes(p)) {
        plb_cudnn_plan_free(&c->plan);
        status = PLB_EUNSUPPORTED;
    }
    c->state = status ? FAILED : READY;
}

static void make_plan(plb_conv_problem *p, candidate *c) {
    cudnnHandle_t handle;
    if (c->state == NEW && !plb_cudnn_handle(p->device, &handle)) make_plan_by(handle, p, c);
}

// Several of the library's engines compile for a second each: threads, as many as there are cores,
// make plans of all problems that were announced, and end when nothing is left. The best guesses
// of all problems come first; the others are made while time is left, so that a network of many
// different convolutions is not kept waiting for plans that hardly ever win.
typedef struct job {
    plb_conv_problem *problem;
    int index;
} job;

typedef struct queue {
    job *jobs;
    int n, next, capacity;
} queue;

enum { BEST, GOOD, REST, N_QUEUES, GOOD_OF_FORM = 3 };

// A maker has a handle of its own, since the library locks it; handles outlive their thread.
typedef struct maker {
    plb_device *device;
    cudnnHandle_t handle;
    bool busy;
} maker;

static struct {
    pthread_mutex_t lock;
    pthread_cond_t made;
    queue queues[N_QUEUES];
    int64_t begin_ns; // when the first of what is queued was
    int64_t limit_ns; // of making what is queued, from then on
    int threads;
    pid_t owner; // the process that has the threads: a fork of it has none
    maker all[MAX_MAKERS];
} makers = {.lock = PTHREAD_MUTEX_INITIALIZER, .made = PTHREAD_COND_INITIALIZER};

static void do_job(maker *m, job j) {
    if (m->device != j.problem->device) {
        m->device = j.problem->device;
        if (plb_cudnn_handle_new(m->device, &m->handle)) m->device = NULL;
    }
    if (!m->device || plb_cuda_enter(m->device) != PLB_OK) return; // made when it is asked for
    make_plan_by(m->handle, j.problem, &j.problem->candidates[j.index]);
}

// What is too late is dropped: nobody need wait for it. The best guesses never are.
static bool next_job(job *out) { // locked
    for (int k = 0; k < N_QUEUES; k++) {
        queue *q = &makers.queues[k];
        while (q->next < q->n) {
            *out = q->jobs[q->next++];
            if (k == BEST || plb_now_ns() - makers.begin_ns < makers.limit_ns) return true;
            out->problem->pending--;
        }
    }
    for (int k = 0; k < N_QUEUES; k++) makers.queues[k].n = makers.queues[k].next = 0;
    return false;
}

static void *make_plans(void *context) {
    maker *m = context;
    job j;
    pthread_mutex_lock(&makers.lock);
    while (next_job(&j)) {
        pthread_mutex_unlock(&makers.lock);
        do_job(m, j);
        pthread_mutex_lock(&makers.lock);
        j.problem->pending--;
        pthread_cond_broadcast(&makers.made);
    }
    makers.threads--;
    m->busy = false;
    pthread_cond_broadcast(&makers.made);
    pthread_mutex_unlock(&makers.lock);
    return NULL;
}

static int jobs_left(void) { // locked
    int left = 0;
    for (int q = 0; q < N_QUEUES; q++) left += makers.queues[q].n - makers.queues[q].next;
    return left;
}

// A library must not make plans while the process is being taken down: what is queued is dropped,
// what is under way is waited for.
void plb_conv_makers_end(void) {
    pthread_mutex_lock(&makers.lock);
    for (int k = 0; k < N_QUEUES; k++) {
        queue *q = &makers.queues[k];
        while (q->next < q->n) q->jobs[q->next++].problem->pending--;
        q->n = q->next = 0;
    }
    const bool mine = makers.owner == getpid();
    while (mine && makers.threads > 0) pthread_cond_wait(&makers.made, &makers.lock);
    pthread_mutex_unlock(&makers.lock);
}

static void start_threads(void) { // locked
    const int cores = (int)sysconf(_SC_NPROCESSORS_ONLN), left = jobs_left();
    const int wanted = cores < MAX_MAKERS ? cores : MAX_MAKERS;
    if (!makers.owner && atexit(plb_conv_makers_end)) return; // made when they are asked for
    makers.owner = getpid();
    for (int i = 0; i < wanted && makers.threads < left; i++) {
        pthread_t thread;
        if (makers.all[i].busy) continue;
        if (pthread_create(&thread, NULL, make_plans, &makers.all[i])) return;
        pthread_detach(thread);
        makers.all[i].busy = true;
        makers.threads++;
    }
}

static bool push_job(queue *q, job j) { // locked
    if (q->n == q->capacity) {
        int capacity = q->capacity ? 2 * q->capacity : 256;
        job *more = plb_realloc_array(q->jobs, (size_t)capacity, sizeof *more);
        if (!more) return false;
        q->jobs = more;
        q->capacity = capacity;
    }
    q->jobs[q->n++] = j;
    return true;
}

static void announce(plb_conv_problem *p, int64_t tune_ms) { // its lock held
    int of_form = 0;
    if (p->announced) return;
    p->announced = true;
    pthread_mutex_lock(&makers.lock);
    if (!makers.threads) makers.begin_ns = plb_now_ns();
    if (tune_ms > MAX_TUNE_MS) tune_ms = MAX_TUNE_MS;
    makers.limit_ns = tune_ms * 600000; // 60 % of the time is for making, the rest for timing
    for (int i = 0; i < p->n; i++) {
        of_form = i && p->candidates[i].form == p->candidates[i - 1].form ? of_form + 1 : 0;
        if (p->candidates[i].state != NEW) continue;
        queue *q = &makers.queues[of_form == 0 ? BEST : of_form < GOOD_OF_FORM ? GOOD : REST];
        if (!push_job(q, (job){p, i})) break;
        p->pending++;
    }
    start_threads();
    pthread_mutex_unlock(&makers.lock);
}

// Until nobody makes plans of the problem any more. Where no thread could be had, they are made
// when somebody asks for them.
static void settle(plb_conv_problem *p) { // its lock held
    pthread_mutex_lock(&makers.lock);
    while (p->pending > 0 && makers.threads > 0) pthread_cond_wait(&makers.made, &makers.lock);
    pthread_mutex_unlock(&makers.lock);
}

void plb_conv_announce(plb_conv_problem *p, int64_t tune_ms) {
    pthread_mutex_lock(&p->lock);
    if (propose(p) == PLB_OK) announce(p, tune_ms);
    pthread_mutex_unlock(&p->lock);
}

// Plans of races that are over.
static void drop_losers(const plb_conv_problem *but) {
    pthread_mutex_lock(&list_lock);
    for (plb_conv_problem *p = problems; p; p = p->next) {
        if (p == but || !p->raced || pthread_mutex_trylock(&p->lock)) continue;
        for (int i = 0; i < p->n; i++) {
            candidate *c = &p->candidates[i];
            if (c->state != READY || c->users || !c->config.config) continue;
            plb_cudnn_plan_free(&c->plan);
            c->state = NEW;
        }
        p->raced = p->announced = false;
        pthread_mutex_unlock(&p->lock);
    }
    pthread_mutex_unlock(&list_lock);
}

int plb_conv_choices(plb_conv_problem *p, int64_t tune_ms, char out[][PLB_CHOICE_BYTES], int max) {
    const bool all = tune_ms > 0;
    int n = 0;
    if (all) drop_losers(p);
    pthread_mutex_lock(&p->lock);
    if (propose(p) == PLB_OK) {
        if (all) announce(p, tune_ms);
        settle(p);
        p->raced |= all;
        for (int i = 0; i < p->n && n < max; i++) {
            candidate *c = &p->candidates[i];
            if (n == 0) make_plan(p, c);
            bool late = all && n > 0 && c->state == NEW; // making it now would take too long
            if (c->state != FAILED && !late) memcpy(out[n++], c->text, PLB_CHOICE_BYTES);
        }
    }
    pthread_mutex_unlock(&p->lock);
    return n;
}

// ---------------------------------------------------------------------------- on disk
static void name_on_disk(const plb_conv_problem *p, const char *text, char *name, size_t bytes) {
    uint64_t hash = plb_hash_string(plb_hash_string(PLB_HASH_SEED, p->key), text);
    snprintf(name, bytes, "%s-%016llx.plan", plb_cudnn_version(), (unsigned long long)hash);
}

// The plan of an earlier process: no heuristics, nothing to compile.
static candidate *load(plb_conv_problem *p, const char *text) { // locked
    char name[96];
    void *bytes = NULL;
    size_t size = 0;
    cudnnHandle_t handle;
    candidate c = {.form = text[0], .state = READY, .saved = true};
    if (p->n == PLB_CONV_MAX_CANDIDATES || strlen(text) >= sizeof c.text) return NULL;
    name_on_disk(p, text, name, sizeof name);
    if (!plb_cuda_cache_read(name, &bytes, &size)) return NULL;
    plb_status status = plb_cudnn_handle(p->device, &handle);
    if (!status) status = plb_cudnn_plan_read(handle, bytes, size, &c.plan);
    plb_free(bytes);
    if (status) return NULL;
    snprintf(c.text, sizeof c.text, "%s", text);
    p->candidates[p->n] = c;
    return &p->candidates[p->n++];
}

// A plan that is asked for again has won its race; where there was none, it was chosen before.
static void save_winner(const plb_conv_problem *p, candidate *c) {
    char name[96], *text;
    size_t size;
    if (c->saved || (c->takes < 2 && p->raced)) return;
    c->saved = true;
    if (plb_cudnn_plan_write(&c->plan, &text, &size) != PLB_OK) return;
    name_on_disk(p, c->text, name, sizeof name);
    plb_cuda_cache_write(name, text, size);
    plb_free(text);
}

static candidate *find(plb_conv_problem *p, const char *text) {
    for (int i = 0; i < p->n; i++) {
        if (strcmp(p->candidates[i].text, text) == 0) return &p->candidates[i];
    }
    return NULL;
}

static plb_status take(plb_conv_problem *p, const char *text, plb_conv_plan *out) { // locked
    candidate *c = find(p, text);
    if (!c) c = load(p, text);
    if (!c) {
        PLB_TRY(propose(p));
        c = find(p, text);
    }
    if (!c) return plb_fail(PLB_EUNSUPPORTED, "cuDNN: no engine %s for this convolution", text);
    if (c->state == NEW) settle(p);
    make_plan(p, c);
    if (c->state != READY) return plb_fail(PLB_EUNSUPPORTED, "cuDNN: engine %s: no plan", text);
    c->users++;
    c->takes++;
    save_winner(p, c);
    *out = (plb_conv_plan){
        .problem = p, .index = (int)(c - p->candidates), .form = c->form, .plan = &c->plan};
    return PLB_OK;
}

plb_status plb_conv_plan_take(plb_conv_problem *p, const char *choice, plb_conv_plan *out) {
    *out = (plb_conv_plan){0};
    pthread_mutex_lock(&p->lock);
    plb_status status = take(p, choice, out);
    pthread_mutex_unlock(&p->lock);
    return status;
}

void plb_conv_plan_release(plb_conv_plan *plan) {
    if (!plan->problem) return;
    pthread_mutex_lock(&plan->problem->lock);
    plan->problem->candidates[plan->index].users--;
    pthread_mutex_unlock(&plan->problem->lock);
    *plan = (plb_conv_plan){0};
}
