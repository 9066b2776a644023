// SPDX-License-Identifier: Apache-2.0
// A thread of ours that reads /proc. Files stay open from look to look; the list of threads is read
// anew now and then.
#include "bench/watch.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "bench/usage.h"

enum { MOST_THREADS = PLB_USAGE_MAX_THREADS, LIST_NS = 5000000 };

static const double short_ns = 500e6;

struct plb_watch {
    pid_t pid;
    long nap_ns;
    int policy; // of the worker's threads meanwhile
    pthread_t thread;
    atomic_bool ending;
    int stat_fd[MOST_THREADS];
    pid_t id[MOST_THREADS];
    int count;
    plb_watched seen;
    int64_t at_work; // sum over all looks
};

// ---------------------------------------------------------------------------- order
typedef struct order {
    int from, to; // policies
} order;

// Whoever chose a policy of his own keeps it.
static bool put_in_order(void *context, pid_t pid, pid_t thread) {
    const order *o = context;
    const struct sched_param how = {.sched_priority = o->to == SCHED_FIFO ? 1 : 0};
    (void)pid;
    if (sched_getscheduler(thread) == o->from) sched_setscheduler(thread, o->to, &how);
    return true;
}

static void set_order(const plb_watch *w, bool watching) {
    order o = {w->policy, SCHED_OTHER};
    if (watching) o = (order){SCHED_OTHER, w->policy};
    plb_usage_each_thread(w->pid, put_in_order, &o);
}

// ---------------------------------------------------------------------------- looking
static bool add_new(void *context, pid_t pid, pid_t thread) {
    plb_watch *w = context;
    char path[64];
    for (int i = 0; i < w->count; i++) {
        if (w->id[i] == thread) return true;
    }
    if (w->count == MOST_THREADS) return false;
    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) w->id[w->count] = thread, w->stat_fd[w->count++] = fd;
    return true;
}

// The state is the letter behind the name, which may hold any character.
static bool is_at_work(int fd) {
    char text[256];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    if (n <= 0) return false;
    text[n] = '\0';
    const char *end = strrchr(text, ')');
    return end && end[1] == ' ' && end[2] == 'R';
}

static void look(plb_watch *w) {
    int at_work = 0;
    for (int i = 0; i < w->count; i++) at_work += is_at_work(w->stat_fd[i]);
    if (!at_work) return;
    w->seen.looks++, w->at_work += at_work;
}

static void *watch(void *context) {
    plb_watch *w = context;
    const struct timespec nap = {.tv_nsec = w->nap_ns};
    int64_t listed_ns = plb_now_ns();
    while (!atomic_load(&w->ending)) {
        if (plb_now_ns() - listed_ns > LIST_NS) {
            plb_usage_each_thread(w->pid, add_new, w);
            listed_ns = plb_now_ns();
        }
        look(w);
        nanosleep(&nap, NULL);
    }
    return NULL;
}

plb_status plb_watch_begin(pid_t pid, double expected_ns, plb_watch **out) {
    const struct sched_param above_all = {.sched_priority = 2};
    plb_watch *w = *out = plb_alloc(sizeof *w);
    if (!w) return plb_fail(PLB_ENOMEM, "out of memory for a watch");
    w->pid = pid;
    w->nap_ns = (long)fmin(fmax(expected_ns / 200, 150e3), 5e6);
    plb_usage_each_thread(pid, add_new, w);
    int code = pthread_create(&w->thread, NULL, watch, w);
    if (!code) {
        // Who looks must come before who is looked at, or it sees only moments of leisure.
        bool may =
            expected_ns < short_ns && !pthread_setschedparam(w->thread, SCHED_FIFO, &above_all);
        w->policy = may ? SCHED_FIFO : SCHED_BATCH;
        set_order(w, true);
        return PLB_OK;
    }
    for (int i = 0; i < w->count; i++) close(w->stat_fd[i]);
    plb_free(w);
    *out = NULL;
    return plb_fail(PLB_EIO, "cannot start a thread: %s", strerror(code));
}

void plb_watch_end(plb_watch *w, plb_watched *out) {
    if (!w) return;
    atomic_store(&w->ending, true);
    pthread_join(w->thread, NULL);
    set_order(w, false);
    for (int i = 0; i < w->count; i++) close(w->stat_fd[i]);
    w->seen.exact = w->policy == SCHED_FIFO;
    if (w->seen.looks) w->seen.at_once = (double)w->at_work / (double)w->seen.looks;
    if (out) *out = w->seen;
    plb_free(w);
}
