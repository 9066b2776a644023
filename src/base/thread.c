// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

plb_status plb_thread_start(plb_thread *out, const char *name, void *(*body)(void *),
                            void *context) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); // a new thread inherits the mask
    int error = pthread_create(&out->handle, NULL, body, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        errno = error;
        return plb_fail_errno("cannot start thread %s", name);
    }
    char cut[16];
    snprintf(cut, sizeof cut, "%s", name);
    pthread_setname_np(out->handle, cut);
    return PLB_OK;
}

void plb_thread_join(plb_thread *thread) {
    pthread_join(thread->handle, NULL);
}

typedef struct for_loop {
    plb_thread_task body;
    void *context;
    int64_t count;
    atomic_int_fast64_t next;
    atomic_bool failed;
    pthread_mutex_t lock; // guards what follows
    int64_t failed_at;
    plb_status status;
    char text[1024];
} for_loop;

typedef struct for_worker {
    for_loop *loop;
    plb_thread thread;
    int number;
} for_worker;

static void *run_loop(void *context) {
    for_worker *worker = context;
    for_loop *loop = worker->loop;
    while (!atomic_load_explicit(&loop->failed, memory_order_relaxed)) {
        int64_t i = atomic_fetch_add_explicit(&loop->next, 1, memory_order_relaxed);
        if (i >= loop->count) break;
        plb_status status = loop->body(loop->context, i, worker->number);
        if (!status) continue;
        atomic_store_explicit(&loop->failed, true, memory_order_relaxed);
        pthread_mutex_lock(&loop->lock);
        if (!loop->status || i < loop->failed_at) {
            loop->status = status, loop->failed_at = i;
            snprintf(loop->text, sizeof loop->text, "%s", plb_error_text());
        }
        pthread_mutex_unlock(&loop->lock);
    }
    return NULL;
}

plb_status plb_thread_for(int64_t count, int threads, plb_thread_task body, void *context) {
    for_loop loop = {
        .body = body, .context = context, .count = count, .lock = PTHREAD_MUTEX_INITIALIZER};
    if (threads > count) threads = (int)count;
    if (threads < 1) threads = 1;
    for_worker *workers = plb_alloc_array((size_t)threads, sizeof *workers);
    if (!workers) return plb_fail(PLB_ENOMEM, "no memory for %d threads", threads);
    int started = 1; // number 0 is the caller
    for (int t = 0; t < threads; t++) workers[t] = (for_worker){.loop = &loop, .number = t};
    // Fewer threads than asked for only make it slower.
    while (started < threads &&
           !plb_thread_start(&workers[started].thread, "plb-for", run_loop, &workers[started]))
        started++;
    run_loop(&workers[0]);
    for (int t = 1; t < started; t++) plb_thread_join(&workers[t].thread);
    plb_free(workers);
    pthread_mutex_destroy(&loop.lock);
    return loop.status ? plb_fail(loop.status, "%s", loop.text) : PLB_OK;
}
