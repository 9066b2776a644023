// SPDX-License-Identifier: Apache-2.0
// The store: one SQLite file (WAL, foreign keys) that holds every run, case, start and raw sample.
// Texts named JSON are one object each. Each call below is one transaction: whoever is killed loses
// at most the block in flight, and two programs may write at once (a writer waits up to 30 s for
// another's transaction). A handle belongs to one thread.
//
//     run          one invocation: label, command, git revision, machine, fingerprint
//     measurement  a case in a run, with its outcome
//     start        one process that ran it
//     block        samples taken in one go
//
// Write in this order: open, begin_run, [add_measurement, [begin_start, add_block…, end_start]…,
// end_measurement]…, end_run, close. Several measurements may be open at once (interleaving).
// Errors of all: PLB_EFULL (the disk), PLB_EIO, PLB_EINVAL (not a store, a newer one, or a number
// that it does not have), PLB_ENOMEM.
#ifndef PLB_STORE_STORE_H
#define PLB_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"

typedef struct plb_store plb_store;

// $XDG_DATA_HOME/plumb/plumb.db into path[size].
PLB_API PLB_MUST_USE plb_status plb_store_default_path(char *path, size_t size);

// Opens the file, made with its folder if it is not there; NULL: the default one. An older
// schema is brought up to date.
PLB_API PLB_MUST_USE plb_status plb_store_open(const char *path, plb_store **out);
// The same, but PLB_EMISSING if there is no such file or an empty one; works where writing is not
// permitted.
PLB_API PLB_MUST_USE plb_status plb_store_open_existing(const char *path, plb_store **out);
PLB_API void plb_store_close(plb_store *store); // NULL is legal
PLB_API const char *plb_store_path(const plb_store *store);

// ---------------------------------------------------------------------------- a run
typedef struct plb_store_new_run {
    const char *label;       // NULL: none
    const char *command;     // as the user typed it
    const char *git;         // revision of what is measured; NULL: none
    const char *machine;     // JSON: what makes two machines comparable (plb_fingerprint_take)
    const char *fingerprint; // JSON: that, and the state of the machine now
} plb_store_new_run;

PLB_API PLB_MUST_USE plb_status plb_store_begin_run(plb_store *store, const plb_store_new_run *run,
                                                    int64_t *run_id);
// An interrupted run is running again, by this process. What is true `now` (command, git,
// fingerprint) joins the array "resumed" of the run's fingerprint, with its time in ms since 1970,
// "at_ms", and the state in which the part before left the machine, "end_before", null if unknown;
// how this part leaves it is not known yet. PLB_EINVAL if its process still lives.
PLB_API PLB_MUST_USE plb_status plb_store_resume_run(plb_store *store, int64_t run_id,
                                                     const plb_store_new_run *now);
// `state`: done, interrupted or failed; a run that nobody ended reads as interrupted once its
// process is gone. `fingerprint_end` (JSON, NULL: none): the machine's state at the end.
PLB_API PLB_MUST_USE plb_status plb_store_end_run(plb_store *store, int64_t run_id,
                                                  const char *state, const char *fingerprint_end);

// ---------------------------------------------------------------------------- a case in a run
// `hash` and `text`: plb_case_hash_of and plb_case_text. If the run has this case already (a run
// that is resumed), its starts are removed if it has no outcome, and PLB_OK is returned with
// *done = true if it has one.
PLB_API PLB_MUST_USE plb_status plb_store_add_measurement(plb_store *store, int64_t run_id,
                                                          const char *hash, const char *text,
                                                          int64_t *measurement_id, bool *done);

typedef struct plb_store_outcome {
    const char *outcome; // ok, invalid, refused, oom, timeout, crash, protocol
    const char *reason;  // one line; NULL: none
    const char *log;     // last lines of the worker's log; NULL: none
    const char *proof; // JSON {"equal":…,"max_rel_error":…,"checked":[…]…}; NULL: not done
    const char *versions; // JSON of the stack's hello; NULL: unknown
    const char *results;  // JSON: what else was found (flops, throughput, warnings…); NULL: none
} plb_store_outcome;

PLB_API PLB_MUST_USE plb_status plb_store_end_measurement(plb_store *store, int64_t measurement_id,
                                                          const plb_store_outcome *outcome);

// ---------------------------------------------------------------------------- a start
// `number`: 0, 1, … within the measurement. `group`: starts of different cases with the same group
// (any number unique in this run, e.g. plb_store_new_group's) were interleaved; −1: this one was
// not.
PLB_API PLB_MUST_USE plb_status plb_store_begin_start(plb_store *store, int64_t measurement_id,
                                                      int64_t number, int64_t group,
                                                      int64_t *start_id);
// A number that no start of the run has for its group yet.
PLB_API PLB_MUST_USE plb_status plb_store_new_group(plb_store *store, int64_t run_id,
                                                    int64_t *group);

typedef enum plb_store_block_kind { PLB_BLOCK_WARMUP, PLB_BLOCK_TIMED } plb_store_block_kind;

// What was seen while a block was taken; such samples are kept.
enum {
    PLB_MARK_THROTTLED = 1,     // the device or the control group's quota slowed it down
    PLB_MARK_BUSY = 2,          // other processes took more than 5 % of a processor
    PLB_MARK_RECOMPILED = 4,    // a just-in-time compiler worked
    PLB_MARK_CLOCK_CHANGED = 8, // the device's clock moved by more than 1 %
    PLB_MARK_SLOW = 16          // the machine copied memory more slowly than at its best
};

typedef struct plb_store_block {
    plb_store_block_kind kind;
    int64_t sweep; // which A B B A (which palindrome) it belongs to: 0, 1, …; −1: not interleaved
    int64_t began_ns;              // CLOCK_MONOTONIC
    int64_t iterations_per_sample; // 1, but n for queued
    uint32_t marks;                // PLB_MARK_…
    const int64_t *samples_ns;
    size_t count;
} plb_store_block;

PLB_API PLB_MUST_USE plb_status plb_store_add_block(plb_store *store, int64_t start_id,
                                                    const plb_store_block *block);

// What is unknown is −1 or NULL.
typedef struct plb_store_start_end {
    const char *outcome; // as of the measurement: ok, …
    bool steady;
    int64_t warmup_iterations;
    const char *stop; // plb_stop_name
    int64_t load_ns, first_call_ns, compile_ns;
    int64_t peak_rss_bytes, device_peak_bytes;
    const char *ran;    // JSON: what was read back
    const char *memory; // JSON: all named figures
} plb_store_start_end;

PLB_API PLB_MUST_USE plb_status plb_store_end_start(plb_store *store, int64_t start_id,
                                                    const plb_store_start_end *end);

#endif
