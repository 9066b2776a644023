// SPDX-License-Identifier: Apache-2.0
// A whole invocation: the matrix of cases, their proofs, their starts, the store. Cases that differ
// only in the stack are a group: in each start the workers of a group live together, one runs and
// the others are stopped, in the order A B C C B A, so that whatever drifts, drifts for all.
//
//     plb_bench *b;
//     plb_bench_new(&options, &b); plb_bench_run(b); plb_bench_case_at(b, i)...; plb_bench_free(b);
#ifndef PLB_BENCH_BENCH_H
#define PLB_BENCH_BENCH_H

#include "bench/audit.h"
#include "bench/best_batch.h"
#include "bench/probed.h"
#include "bench/series.h"
#include "bench/summary.h"

enum { PLB_BENCH_MAX_WORDS = 64 };

// The words of a list that a user typed: "1,8,32".
typedef struct plb_words {
    const char *word[PLB_BENCH_MAX_WORDS];
    int count;
} plb_words;

typedef enum plb_bench_event_kind {
    PLB_BENCH_PLANNED,  // the matrix is known; nothing has run
    PLB_BENCH_PROGRESS, // what goes on now, for a line that is written over
    PLB_BENCH_DONE,     // a case has its outcome
} plb_bench_event_kind;

typedef struct plb_bench_case plb_bench_case;
typedef struct plb_bench_event {
    plb_bench_event_kind kind;
    const plb_bench_case *c; // NULL for PLANNED
    const char *text;        // PROGRESS: "warm-up", "proof"
    int done, total;         // cases
    double left_s;           // about how long the rest will take
} plb_bench_event;

typedef struct plb_bench_options {
    const char *plumb; // path of the program itself
    const char *const *models;
    int model_count;
    // Lists; empty ones mean the default. The batches may be "auto" alone: each stack's best.
    plb_words tasks, stacks, devices, batches, sizes, dtypes, maths, autocasts, regions, threads;
    plb_words settings;           // "STACK.key=value"
    const char *dims;             // of ONNX files: "NAME=N,…", or NULL
    int starts;                   // 0: 3
    double time_s;                // of timed iterations of a case, over all its starts; 0: 3
    double precision;             // 0: 0.01
    double timeout_s;             // of load, first call, proof; 0: 900
    double proof_budget_s;        // of a reference; 0: 60
    int64_t memory_limit_bytes;   // of a worker with its children; 0: nine tenths of what is free
    bool verify;                  // the proof alone; nothing is timed or stored
    bool no_audit;                // for tests of what the audit catches
    const plb_bench_probe *probe; // for one more start of each case; NULL: none
    const char *store, *label, *command, *git;
    int64_t resume; // run to finish; 0: a new one
    bool (*interrupted)(void *context);
    void (*tell)(void *context, const plb_bench_event *event); // may be NULL
    void *context;
} plb_bench_options;

// A case with all that became of it.
struct plb_bench_case {
    plb_case c;
    plb_case_hash hash;
    const plb_stack *stack;
    int group;
    int table;                // cases of one table share it; of `--batch auto` several groups do
    bool finds_batch;         // `--batch auto`: c.batch is the one found, or none could be run
    plb_batch_search *search; // how it was found; NULL: given, or found by an earlier invocation
    char *search_text;        // JSON, where it was; else NULL
    int64_t measurement;      // in the store
    bool ended, resumed;      // resumed: an earlier invocation of this run measured it
    plb_failure failure;
    plb_proof proof;
    plb_audit audit;
    bool audited;
    int starts;
    int64_t load_ns, first_call_ns, compile_ns;               // of the first start; -1: unknown
    int64_t peak_rss_bytes, device_peak_bytes, planned_bytes; // -1: unknown
    int64_t samples, warmup_iterations;                       // of the last start
    int64_t spent_ns, first_spent_ns; // on all starts so far, on the first of them
    double iteration_ns;              // about; 0: not known yet
    double least_ns;                  // below which no iteration can be here; 0: unknown
    int64_t blocks, busy_blocks, throttled_blocks, slow_blocks; // timed; marked so
    double others_cpus; // most processors that others kept busy meanwhile
    double slowdown;    // largest, of a copy of memory against the best of the run; 0: unknown
    bool steady;
    double median_ns, low_ns, high_ns; // of one iteration; NaN: unknown
    char stop[16];
    char log[2048];       // last lines, of a failure
    char *versions, *ran; // JSON; NULL: unknown
    char *profile;        // JSON of the probed start; NULL: none
    char *proof_text;     // JSON, of a proof that an earlier invocation made; NULL: see proof
};

typedef struct plb_bench plb_bench;

// Checks all words (PLB_EINVAL with the nearest) and finds stacks; starts nothing.
PLB_API PLB_MUST_USE plb_status plb_bench_new(const plb_bench_options *options, plb_bench **out);
PLB_API void plb_bench_free(plb_bench *bench);
// Asks the reference about the models, makes the cases, and measures the clock: no other plumb
// should be measuring meanwhile. PLB_EINVAL: a model or a size that there is none of.
PLB_API PLB_MUST_USE plb_status plb_bench_plan(plb_bench *bench);
// Runs what is not done. PLB_ECANCELLED: interrupted, cases so far are stored. PLB_EFULL and the
// like: the store cannot take any more.
PLB_API PLB_MUST_USE plb_status plb_bench_run(plb_bench *bench);

PLB_API int plb_bench_case_count(const plb_bench *bench);
PLB_API const plb_bench_case *plb_bench_case_at(const plb_bench *bench, int i);
PLB_API int64_t plb_bench_run_id(const plb_bench *bench); // 0: none
PLB_API bool plb_bench_was_done(const plb_bench *bench);  // resumed, with nothing left to measure
PLB_API double plb_bench_seconds(const plb_bench *bench); // so far
// About how long what has not run yet will take, in seconds.
PLB_API double plb_bench_estimate_s(const plb_bench *bench);
PLB_API const char *plb_bench_warning(const plb_bench *bench);     // about the machine; NULL: none
PLB_API const char *plb_bench_fingerprint(const plb_bench *bench); // JSON; NULL: not taken

#endif
