// SPDX-License-Identifier: Apache-2.0
// Streams of the CPU: a thread that runs queued work in order, and captures that keep a list of
// work to run again. A NULL stream means "on the caller's thread, now".
#include "engine/device/cpu/cpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"

// Copies and events are held by value, so that work may be dropped, or run again by a capture.
typedef enum work_kind { WORK_CALL, WORK_COPY, WORK_PASS, WORK_BLOCK } work_kind;

typedef struct work {
    work_kind kind;
    plb_status (*function)(void *context); // CALL
    void *context;
    void *to; // COPY
    const void *from;
    size_t size_bytes;
    plb_event *event; // PASS, BLOCK
    int64_t until;    // BLOCK: the record that is waited for
} work;

typedef struct work_list {
    work *items;
    int count, capacity;
} work_list;

struct plb_capture {
    work_list list;
};

struct plb_event {
    pthread_mutex_t lock;
    pthread_cond_t reached;
    int64_t asked, passed; // records asked for, and reached by their stream
    int64_t time_ns;
};

struct plb_stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    work *ring;
    int head, count, capacity;
    bool running, closing;
    plb_status status; // of the first work that failed since the last wait
    char error[512];
    plb_capture *capture;
};

static void pass(plb_event *event) {
    pthread_mutex_lock(&event->lock);
    event->time_ns = plb_now_ns();
    event->passed++;
    pthread_cond_broadcast(&event->reached);
    pthread_mutex_unlock(&event->lock);
}

static void block(plb_event *event, int64_t until) {
    pthread_mutex_lock(&event->lock);
    while (event->passed < until) pthread_cond_wait(&event->reached, &event->lock);
    pthread_mutex_unlock(&event->lock);
}

// After a failure work is dropped, as on a device, but for events, which others may wait for.
static plb_status run_work(const work *w, bool drop) {
    switch (w->kind) {
    case WORK_CALL: return drop ? PLB_OK : w->function(w->context);
    case WORK_COPY:
        if (!drop && w->size_bytes) memcpy(w->to, w->from, w->size_bytes);
        return PLB_OK;
    case WORK_PASS: pass(w->event); return PLB_OK;
    case WORK_BLOCK: block(w->event, w->until); return PLB_OK;
    }
    return PLB_OK;
}

static void run_one(plb_stream *s) { // locked
    work w = s->ring[s->head];
    s->head = (s->head + 1) % s->capacity;
    s->count--;
    s->running = true;
    bool drop = s->status != PLB_OK;
    pthread_mutex_unlock(&s->lock);
    plb_status status = run_work(&w, drop);
    pthread_mutex_lock(&s->lock);
    if (status && !s->status) {
        s->status = status;
        strncpy(s->error, plb_error_text(), sizeof s->error - 1);
    }
    s->running = false;
    pthread_cond_broadcast(&s->changed);
}

static void *serve(void *context) {
    plb_stream *s = context;
    pthread_mutex_lock(&s->lock);
    while (!s->closing || s->count) {
        if (s->count) {
            run_one(s);
        } else {
            pthread_cond_wait(&s->changed, &s->lock);
        }
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

plb_status plb_cpu_stream_new(plb_device *device, plb_stream **out) {
    (void)device;
    *out = NULL;
    plb_stream *s = plb_alloc(sizeof *s);
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for a stream");
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&s->thread, NULL, serve, s) != 0) {
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
        plb_free(s);
        return plb_fail(PLB_EMISSING, "stream: the system gives no more threads");
    }
    *out = s;
    return PLB_OK;
}

void plb_cpu_stream_free(plb_stream *s) {
    if (!s) return;
    pthread_mutex_lock(&s->lock);
    s->closing = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    plb_cpu_capture_free(s->capture);
    plb_free(s->ring);
    plb_free(s);
}

static plb_status grow_ring(plb_stream *s) {
    int capacity = s->capacity ? s->capacity * 2 : 64;
    work *ring = plb_alloc_array((size_t)capacity, sizeof *ring);
    if (!ring) return plb_fail(PLB_ENOMEM, "out of memory for a stream's queue");
    for (int i = 0; i < s->count; i++) ring[i] = s->ring[(s->head + i) % s->capacity];
    plb_free(s->ring);
    s->ring = ring;
    s->head = 0;
    s->capacity = capacity;
    return PLB_OK;
}

static plb_status push(plb_stream *s, work w) { // locked
    if (s->count == s->capacity) PLB_TRY(grow_ring(s));
    s->ring[(s->head + s->count++) % s->capacity] = w;
    pthread_cond_broadcast(&s->changed);
    return PLB_OK;
}

static plb_status keep(work_list *list, work w) {
    if (list->count == list->capacity) {
        int capacity = list->capacity ? list->capacity * 2 : 64;
        work *items = plb_realloc_array(list->items, (size_t)capacity, sizeof *items);
        if (!items) return plb_fail(PLB_ENOMEM, "out of memory for a capture");
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = w;
    return PLB_OK;
}

static plb_status add(plb_stream *s, const work *w) {
    if (!s) return run_work(w, false);
    pthread_mutex_lock(&s->lock);
    plb_status status = s->capture ? keep(&s->capture->list, *w) : push(s, *w);
    pthread_mutex_unlock(&s->lock);
    return status;
}

plb_status plb_cpu_enqueue(plb_stream *s, plb_status (*function)(void *context), void *context) {
    return add(s, &(work){.kind = WORK_CALL, .function = function, .context = context});
}

plb_status plb_cpu_copy(plb_stream *s, void *to, const void *from, size_t size_bytes) {
    return add(s, &(work){.kind = WORK_COPY, .to = to, .from = from, .size_bytes = size_bytes});
}

plb_status plb_cpu_wait(plb_stream *s) {
    if (!s) return PLB_OK;
    pthread_mutex_lock(&s->lock);
    while (s->count || s->running) pthread_cond_wait(&s->changed, &s->lock);
    plb_status status = s->status;
    if (status) plb_fail(status, "%s", s->error);
    s->status = PLB_OK;
    pthread_mutex_unlock(&s->lock);
    return status;
}

// ---------------------------------------------------------------------------- events
plb_status plb_cpu_event_new(plb_device *device, plb_event **out) {
    (void)device;
    *out = plb_alloc(sizeof **out);
    if (!*out) return plb_fail(PLB_ENOMEM, "out of memory for an event");
    pthread_mutex_init(&(*out)->lock, NULL);
    pthread_cond_init(&(*out)->reached, NULL);
    return PLB_OK;
}

void plb_cpu_event_free(plb_event *event) {
    if (!event) return;
    pthread_cond_destroy(&event->reached);
    pthread_mutex_destroy(&event->lock);
    plb_free(event);
}

plb_status plb_cpu_record(plb_stream *stream, plb_event *event) {
    pthread_mutex_lock(&event->lock);
    event->asked++;
    pthread_mutex_unlock(&event->lock);
    return add(stream, &(work){.kind = WORK_PASS, .event = event});
}

plb_status plb_cpu_wait_event(plb_stream *stream, plb_event *event) {
    pthread_mutex_lock(&event->lock);
    int64_t until = event->asked; // later records are not waited for
    pthread_mutex_unlock(&event->lock);
    return add(stream, &(work){.kind = WORK_BLOCK, .event = event, .until = until});
}

static bool time_of(const plb_event *event, int64_t *out_ns) {
    pthread_mutex_t *lock = (pthread_mutex_t *)&event->lock;
    pthread_mutex_lock(lock);
    *out_ns = event->time_ns;
    bool reached = event->passed > 0;
    pthread_mutex_unlock(lock);
    return reached;
}

plb_status plb_cpu_elapsed_ns(const plb_event *from, const plb_event *to, int64_t *out_ns) {
    int64_t begin_ns, end_ns;
    if (!time_of(from, &begin_ns) || !time_of(to, &end_ns)) {
        return plb_fail(PLB_EINVAL, "elapsed time: an event has not been reached");
    }
    *out_ns = end_ns - begin_ns;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- capture
plb_status plb_cpu_capture_begin(plb_stream *s) {
    plb_capture *capture = plb_alloc(sizeof *capture);
    if (!capture) return plb_fail(PLB_ENOMEM, "out of memory for a capture");
    pthread_mutex_lock(&s->lock);
    bool busy = s->capture;
    if (!busy) s->capture = capture;
    pthread_mutex_unlock(&s->lock);
    if (!busy) return PLB_OK;
    plb_free(capture);
    return plb_fail(PLB_EINVAL, "capture: the stream is being captured already");
}

plb_status plb_cpu_capture_end(plb_stream *s, plb_capture **out) {
    pthread_mutex_lock(&s->lock);
    *out = s->capture;
    s->capture = NULL;
    pthread_mutex_unlock(&s->lock);
    return *out ? PLB_OK : plb_fail(PLB_EINVAL, "capture: none was begun on this stream");
}

static plb_status run_all(void *context) {
    const plb_capture *capture = context;
    plb_status status = PLB_OK;
    for (int i = 0; i < capture->list.count; i++) {
        plb_status now = run_work(&capture->list.items[i], status != PLB_OK);
        if (!status) status = now;
    }
    return status;
}

plb_status plb_cpu_replay(plb_stream *stream, plb_capture *capture) {
    return plb_cpu_enqueue(stream, run_all, capture);
}

void plb_cpu_capture_free(plb_capture *capture) {
    if (!capture) return;
    plb_free(capture->list.items);
    plb_free(capture);
}
