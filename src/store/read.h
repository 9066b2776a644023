// SPDX-License-Identifier: Apache-2.0
// Reading the store. Rows and their texts live in the caller's arena; a text that the store does
// not have is NULL, a number −1.
#ifndef PLB_STORE_READ_H
#define PLB_STORE_READ_H

#include "base/core/arena.h"
#include "store/store.h"

typedef struct plb_run_row {
    int64_t id;
    const char *uuid, *label, *command, *git;
    const char *machine_hash, *machine;        // JSON
    const char *fingerprint, *fingerprint_end; // JSON
    int64_t began_ms, ended_ms;                // Unix time
    const char *state;                         // running, done, interrupted, failed
    int64_t cases, ok;                         // with any outcome or none; with the outcome ok
} plb_run_row;

// Which runs; what is NULL or 0 does not matter.
typedef struct plb_run_filter {
    int64_t id;
    const char *label;
    const char *git;  // a revision or the beginning of one
    const char *uuid; // or the beginning of one
    int64_t limit;    // the newest so many
} plb_run_filter;

// The newest first.
PLB_API PLB_MUST_USE plb_status plb_store_runs(plb_store *store, const plb_run_filter *filter,
                                               plb_arena *arena, plb_run_row **out, size_t *count);

typedef struct plb_measurement_row {
    int64_t id, run;
    int64_t case_id;
    const char *case_hash, *keys; // keys: the case's canonical text
    const char *outcome;          // NULL: it never ended
    const char *reason, *log;
    const char *proof, *versions, *results; // JSON
    int64_t machine_id;
    // Of the history: hash of git revision, work tree and versions, equal if the same code was
    // measured, as far as is known; of a run without a revision like no other run's.
    uint64_t software;
    int64_t samples_hash;
    const uint8_t *summary; // its cached body, if it is up to date for `algorithm`
    size_t summary_bytes;
} plb_measurement_row;

typedef struct plb_measurement_filter {
    int64_t run;
    int64_t measurement;
    int64_t case_id;
    const char *case_hash; // or the beginning of one
    const char *stack;     // within a run or everywhere
    int64_t newest;        // of a case or stack: the newest so many; 0: all
    bool brief;            // leave reason, log, proof, versions and results NULL
    int algorithm;         // whose summaries to read; 0: none
} plb_measurement_filter;

// In the order in which they were made.
PLB_API PLB_MUST_USE plb_status plb_store_measurements(plb_store *store,
                                                       const plb_measurement_filter *filter,
                                                       plb_arena *arena, plb_measurement_row **out,
                                                       size_t *count);

// Every measurement with the outcome ok of the cases that `runs[run_count]` have, on the machines
// that these ran on, ordered by machine and case; brief, with summaries. The history that spreads
// are learnt from; the runs themselves are part of it.
PLB_API PLB_MUST_USE plb_status plb_store_history(plb_store *store, const int64_t *runs,
                                                  size_t run_count, int algorithm, plb_arena *arena,
                                                  plb_measurement_row **out, size_t *count);

// What the store knows of a machine, JSON; PLB_EINVAL if there is none with this number.
PLB_API PLB_MUST_USE plb_status plb_store_machine(plb_store *store, int64_t machine_id,
                                                  plb_arena *arena, const char **facts);

// How many cases have this stack.
PLB_API PLB_MUST_USE plb_status plb_store_count_stack(plb_store *store, const char *stack,
                                                      int64_t *count);
// The newest run that has cases of both stacks (b NULL: of a alone); 0: none.
PLB_API PLB_MUST_USE plb_status plb_store_run_of_stacks(plb_store *store, const char *a,
                                                        const char *b, int64_t *run);

typedef struct plb_start_row {
    int64_t id, number;
    int64_t group;       // −1: not interleaved
    const char *outcome; // NULL: it never ended
    int steady;          // −1: unknown
    int64_t warmup_iterations;
    const char *stop;
    int64_t load_ns, first_call_ns, compile_ns;
    int64_t peak_rss_bytes, device_peak_bytes;
    const char *ran, *memory; // JSON
} plb_start_row;

PLB_API PLB_MUST_USE plb_status plb_store_starts(plb_store *store, int64_t measurement_id,
                                                 plb_arena *arena, plb_start_row **out,
                                                 size_t *count);

// The blocks of a start in the order in which they were taken; samples_ns lie in the arena.
PLB_API PLB_MUST_USE plb_status plb_store_blocks(plb_store *store, int64_t start_id,
                                                 plb_arena *arena, plb_store_block **out,
                                                 size_t *count);

// Stores the summary of samples with this hash. Does nothing where the store is read-only.
PLB_API PLB_MUST_USE plb_status plb_store_put_summary(plb_store *store, int64_t measurement_id,
                                                      int algorithm, int64_t samples_hash,
                                                      const uint8_t *body, size_t body_bytes);

#endif
