// SPDX-License-Identifier: Apache-2.0
// Our end of stacks/protocol.md: one worker, asked one thing at a time. Whatever can go wrong with
// it ends as an outcome (crash, time-out, out of memory, protocol, refused) in `failure`, with
// PLB_EBROKEN as status; other statuses are our own troubles. After a failure other than a refusal
// the worker is dead and only stop is legal.
//
// A worker is hostile until proven harmless: places in shared memory are checked before they are
// looked at, texts are cut, an answer that is not the one expected ends it.
#ifndef PLB_BENCH_CLIENT_H
#define PLB_BENCH_CLIENT_H

#include <jansson.h>

#include "base/lines.h"
#include "bench/outcome.h"
#include "bench/process.h"
#include "bench/segment.h"
#include "bench/stack.h"
#include "plumb/tensor.h"

typedef struct plb_client_options {
    int threads;                // OMP_NUM_THREADS and the like; at least 1
    int64_t memory_limit_bytes; // of the worker with its children; 0: none
    const char *cache;          // folder for PLUMB_CACHE; NULL: none
    const char *const
        *environment; // "NAME=value" besides the stack's own, NULL at the end, or NULL
    double hello_s;   // limit of the first answer; 0: 120
    bool (*interrupted)(void *context); // asked while waiting; may be NULL
    void *context;
} plb_client_options;

// A request that has been sent.
typedef struct plb_client_question {
    char type[32];
    int64_t id;
} plb_client_question;

typedef struct plb_client {
    const plb_stack *stack;
    plb_client_options options;
    plb_process process;
    plb_segment in, out;
    plb_lines lines;
    int message_fd, log_fd;
    int64_t next_id;
    int64_t peak_rss_bytes;        // as seen from outside, of the worker with its children
    int64_t asked_ns, answered_ns; // of the last request
    int64_t looked_ns;             // when memory and the user's wish were last looked at
    plb_client_question asking;    // hello, until it is answered
    json_t *hello;                 // its answer
    int64_t *samples_ns;           // of the last block
    int64_t samples_room;
    plb_failure failure;
} plb_client;

// Starts the worker and says hello. On failure too the client must be stopped.
PLB_API PLB_MUST_USE plb_status plb_client_start(plb_client *client, const plb_stack *stack,
                                                 const plb_client_options *options);
// The same in two halves, so that several workers can come up at once: launch does not wait, greet
// waits for the answer to hello.
PLB_API PLB_MUST_USE plb_status plb_client_launch(plb_client *client, const plb_stack *stack,
                                                  const plb_client_options *options);
PLB_API PLB_MUST_USE plb_status plb_client_greet(plb_client *client);
// One that has no process, only what its stack once answered to hello; for plb_load_check.
PLB_API plb_client plb_client_absent(const plb_stack *stack, json_t *hello);
// Sends `request` (which is taken over, NULL is PLB_ENOMEM) and waits for the answer, whose type
// must be `expected`; *answer, unless NULL, is yours to json_decref. PLB_ECANCELLED: interrupted.
PLB_API PLB_MUST_USE plb_status plb_client_ask(plb_client *client, json_t *request, double limit_s,
                                               const char *expected, json_t **answer);
// Everything but an answer: has the worker ended, has it taken too much memory, does the user want
// to stop? Asking looks too, twenty times a second.
PLB_API PLB_MUST_USE plb_status plb_client_look(plb_client *client);
// Says bye, if that is still possible, and ends everything. Zeroed and stopped clients are legal.
PLB_API void plb_client_stop(plb_client *client);

// The tensor that an answer describes: dense, in the outputs; valid until the next request.
PLB_API PLB_MUST_USE plb_status plb_client_tensor(plb_client *client, const json_t *entry,
                                                  plb_tensor *out);
// The same of a loss, which is one number.
PLB_API PLB_MUST_USE plb_status plb_client_loss(plb_client *client, const json_t *entry,
                                                plb_tensor *out);
// `count` samples at `offset` of the outputs, none negative; valid until the next samples.
PLB_API PLB_MUST_USE plb_status plb_client_samples(plb_client *client, int64_t offset,
                                                   int64_t count, const int64_t **out);
// The last lines of what the worker and its libraries printed, printable.
PLB_API void plb_client_log_tail(const plb_client *client, char *out, size_t size);

// Whether the capability `key` lists `word`; true where there is no list.
PLB_API bool plb_client_can(const plb_client *client, const char *key, const char *word);

#endif
