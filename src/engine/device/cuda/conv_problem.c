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
#include "engine/device/cuda/conv_form.h"

enum { MAX_TUNE_MS = 3600000, N_FORMS = sizeof PLB_CONV_FORMS - 1, MAX_MAKERS = 16 };
static const char forms[] = PLB_CONV_FORMS;
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
    char key[PLB_CONV_KEY_BYTES];
    pthread_mutex_t lock;
    plb_cudnn_graph *graphs[N_FORMS];
    candidate candidates[PLB_CONV_MAX_CANDIDATES];
    int n;
    bool proposed, announced, raced;
    int pending; // candidates that wait for a thread, under the makers' lock
};

static plb_conv_problem *problems;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;

plb_status plb_conv_problem_of(plb_device *device, const plb_conv_spec *spec,
                               plb_conv_problem **out) {
    char key[PLB_CONV_KEY_BYTES];
    *out = NULL;
    PLB_TRY(plb_conv_key_of(device, spec, key));
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
    if (s->dtype == PLB_F32 && note(c, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return false;
    return !plb_conv_without_tensor_cores(s) || !note(c, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
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

static void propose_form(plb_conv_problem *p, int f, cudnnHandle_t handle) {
    static const struct {
        cudnnBackendHeurMode_t mode;
        int most, most_later; // of the first form, and of those after it
        int most_plain;       // without tensor cores
    } modes[] = {{CUDNN_HEUR_MODE_A, 10, 8, 10},
                 {CUDNN_HEUR_MODE_B, 3, 2, 6},
                 {CUDNN_HEUR_MODE_FALLBACK, 2, 1, 8}};
    const bool later = p->n > 0, plain = plb_conv_without_tensor_cores(&p->spec);
    // Where there are others, of the last forms the best guesses only.
    const bool spare = later && !plain && (forms[f] == 'u' || forms[f] == 'c');
    keeper k = {p, forms[f]};
    if (plb_cudnn_graph_new(&p->graphs[f]) != PLB_OK) return;
    if (plb_conv_graph_build(&p->spec, forms[f], handle, p->graphs[f]) != PLB_OK) {
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
        if (plb_conv_form_applies(&p->spec, forms[f])) propose_form(p, f, handle);
    }
    p->proposed = true;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- plans
// Transforms keep what they made of all operands: of values tiles that overlap, turned to channels
// first; Fourier's of a filter of any size the spectrum of a whole tile.
static size_t workspace_limit_bytes(const plb_conv_problem *p) {
    const plb_conv_shape *s = &p->spec.shape;
    const size_t most = p->device->memory_bytes / 16;
    const double spectrum_bytes = 32 * (32 / 2 + 1) * 2 * sizeof(float);
    double values = (double)s->n * (double)s->c, results = (double)s->n * (double)s->k;
    double filters = (double)s->k * (double)s->c / (double)s->groups;
    if (!plb_conv_without_tensor_cores(&p->spec)) return usual_workspace_bytes;
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        values *= (double)s->in[i], results *= (double)s->out[i];
    }
    size_t bytes = (size_t)(4 * sizeof(float) * (values + results) + spectrum_bytes * filters);
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
