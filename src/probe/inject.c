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
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/core/status.h"
#include "probe/guest.h"
#include "probe/range_profiler.h"

enum {
    SETTLE_MS = 500,
    FILE_MS = 10,
    NOT_THERE = 999, // CUPTI's word for an error that it does not know
};

plb_guest plb_guest_here = {.lock = PTHREAD_MUTEX_INITIALIZER,
                            .wake_lock = PTHREAD_MUTEX_INITIALIZER,
                            .turning = PTHREAD_MUTEX_INITIALIZER};
static plb_guest *const probe = &plb_guest_here;

void plb_guest_step_aside(const char *reason) {
    atomic_store(&probe->armed, false);
    snprintf(probe->spool->reason, sizeof probe->spool->reason, "%s", reason);
    probe->spool->state = PLB_PROBE_ASIDE;
}

// One process may be several programs, one after the other (exec): the file's name counts them.
static plb_status create_files(void) {
    char path[PATH_MAX + 64];
    plb_status status = PLB_EIO;
    for (int n = 0; n < 100 && status; n++) {
        snprintf(path, sizeof path, "%s/%ld-%d.spool", probe->options.folder, (long)getpid(), n);
        if (access(path, F_OK) == 0) continue;
        PLB_TRY(plb_spool_create(path, &probe->spool));
        status = PLB_OK;
    }
    if (status) return plb_fail(PLB_EIO, "%s: no free name", path);
    snprintf(probe->spool->program, sizeof probe->spool->program, "%s",
             program_invocation_short_name);
    char *const ending = path + strlen(path) - 5;
    if (probe->options.counters) {
        snprintf(ending, sizeof path - (size_t)(ending - path), "counted");
        PLB_TRY(plb_counted_create(path, &probe->counted));
    }
    if (!probe->options.trace_bytes || probe->options.counters) return PLB_OK;
    snprintf(ending, sizeof path - (size_t)(ending - path), "trace");
    return plb_trace_create(path, probe->options.trace_bytes, &probe->spool->lost[PLB_LOST_TRACE],
                            &probe->trace);
}

int64_t plb_guest_cupti_now_ns(void) {
    uint64_t now_ns = 0;
    return probe->cupti.timestamp(&now_ns) ? 0 : (int64_t)now_ns;
}

// True when the program ends.
bool plb_guest_sleep_ms(int64_t ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000, until.tv_nsec += ms % 1000 * 1000000L;
    if (until.tv_nsec >= 1000000000L) until.tv_sec++, until.tv_nsec -= 1000000000L;
    pthread_mutex_lock(&probe->wake_lock);
    while (!probe->ending)
        if (pthread_cond_timedwait(&probe->wake, &probe->wake_lock, &until) == ETIMEDOUT) break;
    bool ending = probe->ending;
    pthread_mutex_unlock(&probe->wake_lock);
    return ending;
}

// Where the window opens or closes while the thread sleeps.
static void mind_window(int64_t now_ns) {
    const plb_probe_options *o = &probe->options;
    int64_t passed_ms = (now_ns - probe->armed_ns) / 1000000;
    if (o->limit_ms && passed_ms >= o->delay_ms + o->limit_ms)
        plb_recording_switch(&probe->recording, false);
    else if (o->delay_ms && passed_ms >= o->delay_ms)
        plb_recording_switch(&probe->recording, true);
}

// Records while its folder has a file of the name "record": whoever drives the program step by step
// knows when it is warm. "recording" is there as long as that is heeded; when it has gone all is
// written, and the program may be killed.
static void mind_file(void) {
    char record[PATH_MAX + 16], answer[PATH_MAX + 16];
    snprintf(record, sizeof record, "%s/record", probe->options.folder);
    snprintf(answer, sizeof answer, "%s/recording", probe->options.folder);
    const bool on = access(record, F_OK) == 0;
    if (!plb_recording_switch(&probe->recording, on)) return;
    if (on) {
        probe->spool->state = PLB_PROBE_ARMED;
        int fd = open(answer, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd >= 0) close(fd);
        return;
    }
    probe->cupti.flush_all(1);
    plb_guest_settle(1);
    probe->spool->state = PLB_PROBE_ENDED;
    unlink(answer);
}

static int64_t next_wake_ms(int64_t now_ns) {
    const plb_probe_options *o = &probe->options;
    int64_t passed_ms = (now_ns - probe->armed_ns) / 1000000, wait_ms = SETTLE_MS;
    const int64_t edges[] = {o->delay_ms, o->limit_ms ? o->delay_ms + o->limit_ms : 0};
    if (o->cost)
        wait_ms = atomic_load(&probe->recording.on) || !o->rest_ms ? o->block_ms : o->rest_ms;
    if (o->follow_file) wait_ms = FILE_MS;
    if (probe->governed)
        wait_ms = (plb_governor_wait_ns(&probe->governor, now_ns) + 999999) / 1000000;
    for (int i = 0; i < 2; i++)
        if (edges[i] > passed_ms && edges[i] - passed_ms < wait_ms) wait_ms = edges[i] - passed_ms;
    return wait_ms;
}

static void *settle_often(void *unused) {
    (void)unused;
    int64_t settled_ns = plb_now_ns();
    while (!plb_guest_sleep_ms(next_wake_ms(plb_now_ns()))) {
        if (!atomic_load(&probe->armed)) continue;
        mind_window(plb_now_ns());
        if (probe->options.follow_file) mind_file();
        if (probe->options.follow_file && plb_now_ns() - settled_ns < SETTLE_MS * INT64_C(1000000))
            continue;
        settled_ns = plb_now_ns();
        plb_guest_flush(false);
        plb_guest_settle(0);
        if (probe->options.cost) plb_guest_turn_block();
        if (probe->governed) plb_guest_mind_budget();
    }
    return NULL;
}

static bool start_thread(void) {
    sigset_t all, before;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&probe->wake, &clock);
    pthread_condattr_destroy(&clock);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // the program's signals are not for our thread
    bool made = pthread_create(&probe->thread, NULL, settle_often, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return made;
}

static void at_exit(void) {
    if (!atomic_load(&probe->armed)) return;
    pthread_mutex_lock(&probe->wake_lock);
    probe->ending = true;
    pthread_cond_signal(&probe->wake);
    pthread_mutex_unlock(&probe->wake_lock);
    pthread_join(probe->thread, NULL);
    if (probe->blocks && plb_recording_switch(&probe->recording, false))
        probe->window.end_ns = plb_guest_cupti_now_ns();
    plb_guest_flush(true);
    if (probe->blocks) plb_guest_close_block();
    plb_guest_settle(1);
    atomic_store(&probe->armed, false);
    probe->spool->state = PLB_PROBE_ENDED;
    pthread_mutex_lock(&probe->lock);
    plb_trace_free(probe->trace);
    probe->trace = NULL;
    pthread_mutex_unlock(&probe->lock);
}

static void end_counters(void) {
    if (probe->counted->pid != (int32_t)getpid()) return; // a forked child
    plb_range_profiler_end();
    probe->spool->state = PLB_PROBE_ENDED;
}

// The locks may be held by threads that do not exist in the child: it never takes them.
static void in_child(void) {
    atomic_store(&probe->armed, false);
}

// The same moment on both clocks, from the closest of a few pairs of readings.
static void read_clocks(plb_spool *spool) {
    spool->clock_error_ns = INT64_MAX;
    for (int i = 0; i < 10; i++) {
        uint64_t cupti_ns = 0;
        int64_t before_ns = plb_now_ns();
        if (probe->cupti.timestamp(&cupti_ns)) return;
        int64_t after_ns = plb_now_ns();
        if (after_ns - before_ns >= spool->clock_error_ns) continue;
        spool->clock_error_ns = after_ns - before_ns;
        spool->begin_ns = before_ns + (after_ns - before_ns) / 2;
        spool->begin_cupti_ns = (int64_t)cupti_ns;
    }
}

static plb_status begin_recording(void) {
    const plb_probe_options *o = &probe->options;
    int code = probe->cupti.register_callbacks(plb_guest_request, plb_guest_complete);
    if (code)
        return plb_fail(PLB_EMISSING, "cuptiActivityRegisterCallbacks: error %d of CUPTI", code);
    probe->recording.cupti = &probe->cupti;
    probe->recording.all_calls = o->all_calls, probe->recording.launch_calls = o->ranges;
    probe->recording.whole_graphs = o->whole_graphs, probe->recording.sources = o->sources;
    // Threads by the system's number, as marks have it.
    if (probe->cupti.set_thread_id_type) probe->cupti.set_thread_id_type(1);
    PLB_TRY(plb_recording_begin(&probe->recording,
                                !o->delay_ms && !o->follow_program && !o->follow_file));
    return o->follow_program ? plb_recording_follow_program(&probe->recording) : PLB_OK;
}

static plb_status find_cupti(plb_cupti *out) {
    return plb_cupti_load(probe->options.cupti[0] ? probe->options.cupti : NULL, out);
}

// Counters instead of records: CUPTI runs kernels again for them, so times mean nothing.
static plb_status arm_counters(void) {
    PLB_TRY(plb_range_profiler_begin(&probe->cupti, probe->options.counters,
                                     probe->options.follow_program, probe->counted));
    atexit(end_counters);
    return PLB_OK;
}

static plb_status arm(void) {
    PLB_TRY(find_cupti(&probe->cupti));
    probe->spool->cupti_version = probe->cupti.version;
    if (probe->options.counters) return arm_counters();
    probe->sum = plb_sum_new(probe->spool);
    if (!probe->sum) return plb_fail(PLB_ENOMEM, "no memory for the sums");
    if (probe->options.ranges && !(probe->ranges = plb_ranges_new(probe->spool)))
        return plb_fail(PLB_ENOMEM, "no memory for ranges");
    if (probe->options.sources && !(probe->takers = plb_takers_new(probe->spool)))
        return plb_fail(PLB_ENOMEM, "no memory for who takes it");
    probe->governed = probe->options.budget_ppm && plb_cupti_can_leave(&probe->cupti);
    probe->leaves = plb_guest_alternates() && plb_cupti_can_leave(&probe->cupti);
    probe->spool->unbudgeted = probe->options.budget_ppm && !probe->governed;
    if (plb_guest_alternates() && !(probe->blocks = plb_blocks_new(probe->spool)))
        return plb_fail(PLB_ENOMEM, "no memory for blocks");
    read_clocks(probe->spool);
    probe->armed_ns = plb_now_ns();
    probe->spool->budget_ppm = probe->options.budget_ppm;
    probe->spool->alternates = !probe->options.cost ? 0 : probe->leaves ? 2 : 1;
    probe->window = (plb_gap){probe->spool->begin_cupti_ns, INT64_MAX};
    probe->spool->open_ns = probe->blocks ? probe->window.start_ns : 0;
    plb_governor_begin(&probe->governor, (double)probe->options.budget_ppm / 1e6, probe->armed_ns,
                       (uint64_t)probe->armed_ns ^ (uint64_t)getpid());
    atomic_store(&probe->armed, true);
    PLB_TRY(begin_recording());
    if (!start_thread()) return plb_fail(PLB_ENOMEM, "no thread for the probe");
    return PLB_OK;
}

// 1: in place. The driver warns of any other answer, and the program need not hear of us.
PLB_API int InitializeInjection(void) {
    static atomic_bool called;
    if (atomic_exchange(&called, true)) return 1;
    plb_probe_read_options(&probe->options);
    if (!probe->options.folder[0]) return 1;
    plb_status status = create_files();
    if (!probe->spool) return 1; // no room to say anything
    if (!status) status = arm();
    if (status) {
        plb_guest_step_aside(plb_error_text());
        return 1;
    }
    probe->spool->state = PLB_PROBE_ARMED;
    if (probe->options.counters) return 1;
    pthread_atfork(NULL, NULL, in_child);
    atexit(at_exit);
    return 1;
}

// Whether it is in the program's way now: for who measures by how much.
PLB_API int plb_probe_is_there(void) {
    return atomic_load(&probe->armed) && !atomic_load(&probe->away);
}

static void hand_over(void) {
    atomic_store(&probe->recording.unwanted, true);
    if (!plb_guest_take_turn()) return;
    atomic_store(&probe->handing_over, true);
    if (atomic_load(&probe->recording.on)) probe->window.end_ns = plb_guest_cupti_now_ns();
    if (!atomic_load(&probe->away)) plb_recording_end(&probe->recording);
    plb_guest_flush(true);
    if (probe->blocks) plb_guest_close_block();
    plb_guest_settle(1);
    plb_guest_step_aside("another profiler took over CUPTI's records");
    plb_guest_give_turn();
}

// Another profiler wants CUPTI's records, of which there is one receiver: it shall have them. Where
// this library was loaded before all others, the name means this function, and CUPTI's own is found
// in CUPTI. What we were handed so far is counted; our sums end here.
PLB_API int cuptiActivityRegisterCallbacks(plb_cupti_request request, plb_cupti_complete complete) {
    plb_cupti cupti;
    if (atomic_load(&probe->armed)) hand_over();
    if (find_cupti(&cupti)) return NOT_THERE;
    return cupti.register_callbacks(request, complete);
}

// The same wish, told earlier: PyTorch's profiler brings its clock just before, and work that CUPTI
// hands over after both has no times (CUPTI 13.0).
PLB_API int cuptiActivityRegisterTimestampCallback(plb_cupti_clock clock) {
    plb_cupti cupti;
    if (atomic_load(&probe->armed)) hand_over();
    if (find_cupti(&cupti) || !cupti.register_clock) return NOT_THERE;
    return cupti.register_clock(clock);
}
