// SPDX-License-Identifier: Apache-2.0
// What makes libplumb_probe.so a guest in any process: CUDA's driver loads it where
// CUDA_INJECTION64_PATH names it, and calls InitializeInjection before the first context exists.
//
// A guest has manners. It never prints, never ends the process, takes no signal, and steps aside
// when it cannot work, leaving the reason in its file. CUPTI's callbacks only move buffers and add
// up; a thread of our own asks for what is complete, twice a second, so that a process that is
// killed loses at most that. After a fork the child is left alone: its CUDA is unusable until it
// becomes another program, which is then a process with a file of its own.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/core/status.h"
#include "probe/buffers.h"
#include "probe/cupti.h"
#include "probe/device_facts.h"
#include "probe/spool.h"
#include "probe/sum.h"
#include "probe/trace.h"

enum {
    SETTLE_MS = 500,
    OPEN_RANGES = 4096, // ranges that have begun and not ended; more are not seen
    RANGE_NAME_BYTES = 96,
};

typedef struct open_range {
    uint32_t id; // 0: free
    int64_t start_ns;
    char name[RANGE_NAME_BYTES];
} open_range;

typedef struct probe_options {
    char folder[512];
    char cupti[256];
    bool all_calls, ranges, whole_graphs;
    int64_t trace_bytes;
} probe_options;

static struct {
    atomic_bool armed;    // records are wanted; false in a forked child
    pthread_mutex_t lock; // over everything below; never held across a call into CUPTI
    probe_options options;
    plb_cupti cupti;
    plb_spool *spool;
    plb_sum *sum;
    plb_trace *trace;
    uint32_t devices_told; // bit i: facts of device i are in the spool
    open_range open[OPEN_RANGES];
    pthread_t thread;
    pthread_mutex_t wake_lock;
    pthread_cond_t wake;
    bool ending;
    atomic_llong app_ns; // spent on the program's threads
} probe = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake_lock = PTHREAD_MUTEX_INITIALIZER};

// The variable's words, separated by commas: calls, ranges, graphs, trace=BYTES.
static void read_options(probe_options *options) {
    const char *folder = getenv("PLUMB_PROBE_DIR"), *cupti = getenv("PLUMB_PROBE_CUPTI");
    const char *words = getenv("PLUMB_PROBE_OPTIONS");
    char copy[256], *rest = copy, *word;
    *options = (probe_options){0};
    if (folder) snprintf(options->folder, sizeof options->folder, "%s", folder);
    if (cupti) snprintf(options->cupti, sizeof options->cupti, "%s", cupti);
    snprintf(copy, sizeof copy, "%s", words ? words : "");
    while ((word = strtok_r(rest, ",", &rest))) {
        if (strcmp(word, "calls") == 0)
            options->all_calls = true;
        else if (strcmp(word, "ranges") == 0)
            options->ranges = true;
        else if (strcmp(word, "graphs") == 0)
            options->whole_graphs = true;
        else if (strncmp(word, "trace=", 6) == 0)
            options->trace_bytes = atoll(word + 6);
    }
}

static void step_aside(const char *reason) {
    atomic_store(&probe.armed, false);
    snprintf(probe.spool->reason, sizeof probe.spool->reason, "%s", reason);
    probe.spool->state = PLB_PROBE_ASIDE;
}

// One process may be several programs, one after the other (exec): the file's name counts them.
static plb_status create_files(void) {
    char path[640];
    plb_status status = PLB_EIO;
    for (int n = 0; n < 100 && status; n++) {
        snprintf(path, sizeof path, "%s/%ld-%d.spool", probe.options.folder, (long)getpid(), n);
        if (access(path, F_OK) == 0) continue;
        PLB_TRY(plb_spool_create(path, &probe.spool));
        status = PLB_OK;
    }
    if (status) return plb_fail(PLB_EIO, "%s: no free name", path);
    snprintf(probe.spool->program, sizeof probe.spool->program, "%s",
             program_invocation_short_name);
    if (!probe.options.trace_bytes) return PLB_OK;
    memcpy(path + strlen(path) - 5, "trace", 5);
    return plb_trace_create(path, probe.options.trace_bytes, &probe.trace);
}

static void read_range(const void *record) {
    plb_cupti_mark mark;
    if (!plb_cupti_decode_mark(record, &mark)) return;
    uint32_t slot = mark.id & (OPEN_RANGES - 1);
    open_range *open = &probe.open[slot];
    if (mark.begins) {
        open->id = mark.id, open->start_ns = mark.at_ns;
        snprintf(open->name, sizeof open->name, "%s", mark.name);
    } else if (open->id == mark.id) {
        plb_record range = {.kind = PLB_RECORD_RANGE,
                            .start_ns = open->start_ns,
                            .end_ns = mark.at_ns,
                            .name = open->name};
        uint32_t name = plb_sum_record(probe.sum, &range);
        if (probe.trace) plb_trace_write(probe.trace, &range, name);
        open->id = 0;
    }
}

static void read_record(const void *raw) {
    plb_record record;
    int64_t overhead_ns;
    if (!plb_cupti_decode(&probe.cupti, raw, &record, &overhead_ns)) {
        probe.spool->cupti_ns += overhead_ns;
        if (probe.options.ranges) read_range(raw);
        return;
    }
    uint32_t name = plb_sum_record(probe.sum, &record);
    if (probe.trace && record.kind != PLB_RECORD_MEMORY &&
        !plb_trace_write(probe.trace, &record, name))
        probe.spool->lost[PLB_LOST_TRACE]++;
}

static void on_request(uint8_t **buffer, size_t *size_bytes, size_t *max_records) {
    int64_t begin_ns = plb_now_ns();
    *buffer = plb_probe_buffer_take();
    *size_bytes = *buffer ? PLB_PROBE_BUFFER_BYTES : 0;
    *max_records = 0;
    atomic_fetch_add(&probe.app_ns, plb_now_ns() - begin_ns);
}

// On a thread of CUPTI's, or on ours inside flush_all.
static void on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size_bytes,
                        size_t valid_bytes) {
    (void)size_bytes;
    int64_t begin_ns = plb_now_ns();
    size_t dropped = 0;
    if (atomic_load(&probe.armed) && valid_bytes) {
        void *record = NULL;
        pthread_mutex_lock(&probe.lock);
        while (probe.cupti.next_record(buffer, valid_bytes, &record) == 0) read_record(record);
        probe.spool->buffers++;
        pthread_mutex_unlock(&probe.lock);
        if (probe.cupti.dropped(context, stream, &dropped) == 0 && dropped) {
            pthread_mutex_lock(&probe.lock);
            probe.spool->lost[PLB_LOST_CUPTI] += (int64_t)dropped;
            pthread_mutex_unlock(&probe.lock);
        }
        pthread_mutex_lock(&probe.lock);
        probe.spool->probe_ns += plb_now_ns() - begin_ns;
        pthread_mutex_unlock(&probe.lock);
    }
    if (buffer) plb_probe_buffer_give(buffer);
}

static void settle(int all) {
    pthread_mutex_lock(&probe.lock);
    int64_t begin_ns = plb_now_ns();
    for (uint32_t i = 0; i < PLB_SPOOL_DEVICES; i++) {
        if (!probe.spool->device[i].records || probe.devices_told & 1u << i) continue;
        plb_probe_tell_device(probe.sum, i);
        probe.devices_told |= 1u << i;
    }
    plb_sum_settle(probe.sum, all);
    if (probe.trace) plb_trace_flush(probe.trace);
    probe.spool->probe_app_ns = atomic_load(&probe.app_ns);
    probe.spool->settled_ns = plb_now_ns();
    probe.spool->probe_ns += probe.spool->settled_ns - begin_ns;
    pthread_mutex_unlock(&probe.lock);
}

static void *settle_often(void *unused) {
    (void)unused;
    pthread_mutex_lock(&probe.wake_lock);
    while (!probe.ending) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += SETTLE_MS * 1000000L;
        if (until.tv_nsec >= 1000000000L) until.tv_sec++, until.tv_nsec -= 1000000000L;
        pthread_cond_timedwait(&probe.wake, &probe.wake_lock, &until);
        if (probe.ending || !atomic_load(&probe.armed)) continue;
        pthread_mutex_unlock(&probe.wake_lock);
        probe.cupti.flush_all(0);
        settle(0);
        pthread_mutex_lock(&probe.wake_lock);
    }
    pthread_mutex_unlock(&probe.wake_lock);
    return NULL;
}

static bool start_thread(void) {
    sigset_t all, before;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&probe.wake, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // the program's signals are not for our thread
    bool made = pthread_create(&probe.thread, NULL, settle_often, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return made;
}

static void at_exit(void) {
    if (!atomic_load(&probe.armed)) return;
    pthread_mutex_lock(&probe.wake_lock);
    probe.ending = true;
    pthread_cond_signal(&probe.wake);
    pthread_mutex_unlock(&probe.wake_lock);
    pthread_join(probe.thread, NULL);
    probe.cupti.flush_all(1);
    settle(1);
    atomic_store(&probe.armed, false);
    probe.spool->state = PLB_PROBE_ENDED;
    plb_trace_free(probe.trace);
    probe.trace = NULL;
}

// The locks may be held by threads that do not exist in the child: it never takes them.
static void in_child(void) {
    atomic_store(&probe.armed, false);
}

static int enable_listed(int domain, int (*enable)(uint32_t id, uint8_t enable)) {
    int count = 0;
    const char *name;
    if (!enable) return 0;
    for (uint32_t id = 1; id < 2048; id++) {
        if (probe.cupti.callback_name(domain, id, &name) || !name) continue;
        if (plb_cupti_call_is_listed(name) && enable(id, 1) == 0) count++;
    }
    return count;
}

// What is wanted beside kernels and copies may be refused by an old CUPTI: less is seen then.
static void enable_rest(void) {
    plb_cupti *c = &probe.cupti;
    c->enable(PLB_CUPTI_PEER_COPY);
    c->enable(PLB_CUPTI_OVERHEAD);
    c->enable(PLB_CUPTI_MEMORY);
    if (probe.options.ranges) c->enable(PLB_CUPTI_MARKER);
    if (probe.options.whole_graphs) c->enable(PLB_CUPTI_GRAPH);
    if (probe.options.all_calls) {
        c->enable(PLB_CUPTI_RUNTIME);
        c->enable(PLB_CUPTI_DRIVER);
    } else {
        enable_listed(PLB_CUPTI_DOMAIN_RUNTIME, c->enable_runtime_call);
        enable_listed(PLB_CUPTI_DOMAIN_DRIVER, c->enable_driver_call);
    }
}

static plb_status cupti_failed(const char *what, int code) {
    const char *text = NULL;
    if (probe.cupti.result_string(code, &text) || !text) text = "no text";
    return plb_fail(PLB_EMISSING, "%s: %s (%d)", what, text, code);
}

static plb_status enable_kinds(void) {
    static const int needed[] = {PLB_CUPTI_KERNEL, PLB_CUPTI_MEMCPY, PLB_CUPTI_MEMSET};
    int code = probe.cupti.register_callbacks(on_request, on_complete);
    if (code) return cupti_failed("cuptiActivityRegisterCallbacks", code);
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        code = probe.cupti.enable(needed[i]);
        if (code) return cupti_failed("cuptiActivityEnable", code);
    }
    enable_rest();
    return PLB_OK;
}

// The same moment on both clocks, from the closest of a few pairs of readings.
static void read_clocks(plb_spool *spool) {
    spool->clock_error_ns = INT64_MAX;
    for (int i = 0; i < 10; i++) {
        uint64_t cupti_ns = 0;
        int64_t before_ns = plb_now_ns();
        if (probe.cupti.timestamp(&cupti_ns)) return;
        int64_t after_ns = plb_now_ns();
        if (after_ns - before_ns >= spool->clock_error_ns) continue;
        spool->clock_error_ns = after_ns - before_ns;
        spool->begin_ns = before_ns + (after_ns - before_ns) / 2;
        spool->begin_cupti_ns = (int64_t)cupti_ns;
    }
}

static plb_status arm(void) {
    PLB_TRY(plb_cupti_load(probe.options.cupti[0] ? probe.options.cupti : NULL, &probe.cupti));
    probe.spool->cupti_version = probe.cupti.version;
    probe.sum = plb_sum_new(probe.spool);
    if (!probe.sum) return plb_fail(PLB_ENOMEM, "no memory for the sums");
    read_clocks(probe.spool);
    atomic_store(&probe.armed, true);
    PLB_TRY(enable_kinds());
    if (!start_thread()) return plb_fail(PLB_ENOMEM, "no thread for the probe");
    return PLB_OK;
}

// 1: in place. The driver warns of any other answer, and the program need not hear of us.
PLB_API int InitializeInjection(void) {
    static atomic_bool called;
    if (atomic_exchange(&called, true)) return 1;
    read_options(&probe.options);
    if (!probe.options.folder[0]) return 1;
    plb_status status = create_files();
    if (!probe.spool) return 1; // no room to say anything
    if (!status) status = arm();
    if (status) {
        step_aside(plb_error_text());
        return 1;
    }
    probe.spool->state = PLB_PROBE_ARMED;
    pthread_atfork(NULL, NULL, in_child);
    atexit(at_exit);
    return 1;
}
