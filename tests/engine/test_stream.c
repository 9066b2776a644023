// SPDX-License-Identifier: Apache-2.0
// Streams of the CPU: order within one, events across two, captures, and what becomes of the work
// after a failure.
#include <time.h>

#include "base/core/status.h"
#include "check.h"
#include "engine/device/device.h"

static const plb_backend *const cpu = &plb_backend_cpu;

static plb_device *device_open(void) {
    plb_device *device;
    CHECK_OK(cpu->open(0, &device));
    return device;
}

static plb_stream *stream_new(plb_device *device) {
    plb_stream *stream;
    CHECK_OK(cpu->stream_new(device, &stream));
    return stream;
}

static plb_event *event_new(plb_device *device) {
    plb_event *event;
    CHECK_OK(cpu->event_new(device, &event));
    return event;
}

// What works leave behind, in their order.
typedef struct trace {
    int n, values[400];
} trace;

typedef struct note {
    trace *to;
    int value;
} note;

static plb_status write_note(void *context) {
    const note *w = context;
    w->to->values[w->to->n++] = w->value;
    return PLB_OK;
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static plb_status sleep_20_ms(void *context) {
    (void)context;
    pause_ms(20);
    return PLB_OK;
}

static plb_status fail_now(void *context) {
    int *calls = context;
    return plb_fail(PLB_EINVAL, "the work failed, call %d", ++*calls);
}

static void work_runs_in_order(void) {
    enum { N = 300 }; // more than the first queue holds
    plb_device *device = device_open();
    plb_stream *stream = stream_new(device);
    static trace t;
    static note notes[N];
    CHECK_OK(cpu->enqueue(stream, sleep_20_ms, NULL)); // so that the queue fills
    for (int i = 0; i < N; i++) {
        notes[i] = (note){&t, i};
        CHECK_OK(cpu->enqueue(stream, write_note, &notes[i]));
    }
    CHECK_OK(cpu->wait(stream));
    CHECK(t.n == N);
    for (int i = 0; i < t.n; i++) CHECK(t.values[i] == i);
    cpu->stream_free(stream);
    cpu->close(device);
}

static void copies_are_part_of_the_order(void) {
    plb_device *device = device_open();
    plb_stream *stream = stream_new(device);
    void *memory;
    int from = 7, to = 0;
    CHECK_OK(cpu->alloc(device, sizeof from, &memory));
    CHECK_OK(cpu->enqueue(stream, sleep_20_ms, NULL));
    CHECK_OK(cpu->copy(stream, memory, &from, sizeof from));
    CHECK_OK(cpu->copy(stream, &to, memory, sizeof to));
    CHECK_OK(cpu->wait(stream));
    CHECK(to == 7);
    cpu->free(device, memory);
    cpu->stream_free(stream);
    cpu->close(device);
}

// Freeing a stream lets its work run out.
static void free_runs_what_is_queued(void) {
    plb_device *device = device_open();
    plb_stream *stream = stream_new(device);
    trace t = {0};
    note w = {&t, 1};
    CHECK_OK(cpu->enqueue(stream, sleep_20_ms, NULL));
    CHECK_OK(cpu->enqueue(stream, write_note, &w));
    cpu->stream_free(stream);
    CHECK(t.n == 1);
    cpu->close(device);
}

static void events_measure_time(void) {
    plb_device *device = device_open();
    plb_stream *stream = stream_new(device);
    plb_event *begin = event_new(device), *end = event_new(device);
    int64_t ns = 0;
    CHECK_FAILS(PLB_EINVAL, "not been reached", cpu->elapsed_ns(begin, end, &ns));
    CHECK_OK(cpu->record(stream, begin));
    CHECK_OK(cpu->enqueue(stream, sleep_20_ms, NULL));
    CHECK_OK(cpu->record(stream, end));
    CHECK_OK(cpu->wait(stream));
    CHECK_OK(cpu->elapsed_ns(begin, end, &ns));
    CHECK_SAY(ns >= 20000000 && ns < 10000000000, "%lld ns", (long long)ns);
    CHECK_OK(cpu->elapsed_ns(end, begin, &ns));
    CHECK(ns < 0);
    cpu->event_free(begin);
    cpu->event_free(end);
    cpu->stream_free(stream);
    cpu->close(device);
}

// Whatever one stream does before the event, the other sees after it; no lock but the event's.
static void events_order_two_streams(void) {
    enum { ROUNDS = 20 };
    plb_device *device = device_open();
    plb_stream *streams[2] = {stream_new(device), stream_new(device)};
    plb_event *events[ROUNDS];
    static trace t;
    static note notes[ROUNDS];
    t.n = 0;
    for (int i = 0; i < ROUNDS; i++) {
        events[i] = event_new(device);
        notes[i] = (note){&t, i};
        plb_stream *stream = streams[i & 1];
        if (i) CHECK_OK(cpu->wait_event(stream, events[i - 1]));
        if (i % 5 == 0) CHECK_OK(cpu->enqueue(stream, sleep_20_ms, NULL));
        CHECK_OK(cpu->enqueue(stream, write_note, &notes[i]));
        CHECK_OK(cpu->record(stream, events[i]));
    }
    CHECK_OK(cpu->wait(streams[0]));
    CHECK_OK(cpu->wait(streams[1]));
    CHECK(t.n == ROUNDS);
    for (int i = 0; i < t.n; i++) CHECK(t.values[i] == i);
    for (int i = 0; i < ROUNDS; i++) cpu->event_free(events[i]);
    cpu->stream_free(streams[0]);
    cpu->stream_free(streams[1]);
    cpu->close(device);
}

// A wait is for what was recorded before it. An event that nobody records holds up nothing.
static void waiting_for_nothing_ends(void) {
    plb_device *device = device_open();
    plb_stream *stream = stream_new(device);
    plb_event *event = event_new(device);
    CHECK_OK(cpu->wait_event(stream, event));
    CHECK_OK(cpu->wait(stream));
    CHECK_OK(cpu->wait_event(stream, event));
    CHECK_OK(cpu->record(stream, event)); // behind the wait, on the same stream
    CHECK_OK(cpu->wait(stream));
    cpu->event_free(event);
    cpu->stream_free(stream);
    cpu->close(device);
}

// An event behind a failed work is reached all the same: others may be waiting for it.
static void events_pass_after_a_failure(void) {
    plb_device *device = device_open();
    plb_stream *failing = stream_new(device), *other = stream_new(device);
    plb_event *event = event_new(device);
    int calls = 0;
    CHECK_OK(cpu->enqueue(failing, fail_now, &calls));
    CHECK_OK(cpu->record(failing, event));
    CHECK_OK(cpu->wait_event(other, event));
    CHECK_OK(cpu->wait(other));
    CHECK_FAILS(PLB_EINVAL, "call 1", cpu->wait(failing));
    cpu->event_free(event);
    cpu->stream_free(failing);
    cpu->stream_free(other);
    cpu->close(device);
}

static void captures_run_again(void) {
    plb_device *device = device_open();
    plb_stream *stream = stream_new(device);
    plb_capture *capture = NULL, *none;
    trace t = {0};
    note notes[3] = {{&t, 1}, {&t, 2}, {&t, 3}};
    CHECK_FAILS(PLB_EINVAL, "none was begun", cpu->capture_end(stream, &none));
    CHECK_OK(cpu->capture_begin(stream));
    CHECK_FAILS(PLB_EINVAL, "already", cpu->capture_begin(stream));
    for (int i = 0; i < 3; i++) CHECK_OK(cpu->enqueue(stream, write_note, &notes[i]));
    CHECK_OK(cpu->capture_end(stream, &capture));
    CHECK_OK(cpu->wait(stream));
    CHECK(t.n == 0); // recorded, not run
    for (int i = 0; i < 2; i++) CHECK_OK(cpu->replay(stream, capture));
    CHECK_OK(cpu->wait(stream));
    CHECK(t.n == 6);
    for (int i = 0; i < t.n; i++) CHECK(t.values[i] == i % 3 + 1);
    cpu->capture_free(capture);
    cpu->stream_free(stream);
    cpu->close(device);
}

// A captured copy reads what is there when it is replayed, each time.
static void captured_copies_run_again(void) {
    plb_device *device = device_open();
    plb_stream *stream = stream_new(device);
    plb_capture *capture = NULL;
    int from = 0, to = 0;
    CHECK_OK(cpu->capture_begin(stream));
    CHECK_OK(cpu->copy(stream, &to, &from, sizeof to));
    CHECK_OK(cpu->capture_end(stream, &capture));
    for (int i = 1; i < 4; i++) {
        from = i;
        CHECK_OK(cpu->replay(stream, capture));
        CHECK_OK(cpu->wait(stream));
        CHECK(to == i);
    }
    cpu->capture_free(capture);
    cpu->stream_free(stream);
    cpu->close(device);
}

static void failures_are_told_once(void) {
    plb_device *device = device_open();
    plb_stream *stream = stream_new(device);
    trace t = {0};
    note w = {&t, 1};
    int calls = 0;
    CHECK_OK(cpu->enqueue(stream, fail_now, &calls));
    CHECK_OK(cpu->enqueue(stream, fail_now, &calls)); // dropped
    CHECK_OK(cpu->enqueue(stream, write_note, &w));   // dropped
    CHECK_FAILS(PLB_EINVAL, "the work failed, call 1", cpu->wait(stream));
    CHECK(calls == 1 && t.n == 0);
    CHECK_OK(cpu->wait(stream));
    CHECK_OK(cpu->enqueue(stream, write_note, &w)); // a new beginning
    CHECK_OK(cpu->wait(stream));
    CHECK(t.n == 1);
    int copied = 0, from = 3;
    CHECK_OK(cpu->enqueue(stream, fail_now, &calls));
    CHECK_OK(cpu->copy(stream, &copied, &from, sizeof from)); // dropped, and its memory freed
    CHECK_FAILS(PLB_EINVAL, "the work failed, call 2", cpu->wait(stream));
    CHECK(copied == 0);
    cpu->stream_free(stream);
    cpu->close(device);
}

// A NULL stream is the caller's thread, now.
static void no_stream_is_now(void) {
    trace t = {0};
    note w = {&t, 5};
    int calls = 0;
    CHECK_OK(cpu->enqueue(NULL, write_note, &w));
    CHECK(t.n == 1 && t.values[0] == 5);
    CHECK_FAILS(PLB_EINVAL, "call 1", cpu->enqueue(NULL, fail_now, &calls));
    CHECK_OK(cpu->wait(NULL));
}

static const check_test tests[] = {
    {"work runs in order", work_runs_in_order},
    {"copies are part of the order", copies_are_part_of_the_order},
    {"free runs what is queued", free_runs_what_is_queued},
    {"events measure time", events_measure_time},
    {"events order two streams", events_order_two_streams},
    {"waiting for nothing ends", waiting_for_nothing_ends},
    {"events pass after a failure", events_pass_after_a_failure},
    {"captures run again", captures_run_again},
    {"captured copies run again", captured_copies_run_again},
    {"failures are told once", failures_are_told_once},
    {"no stream is now", no_stream_is_now},
};
CHECK_MAIN(tests)
