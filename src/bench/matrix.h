// SPDX-License-Identifier: Apache-2.0
// Expansion of what a user asked for into groups of cases, and the insides of a bench.
#ifndef PLB_BENCH_MATRIX_H
#define PLB_BENCH_MATRIX_H

#include "base/core/arena.h"
#include "bench/bench.h"
#include "bench/disturbance.h"
#include "bench/estimate.h"
#include "bench/fingerprint.h"
#include "bench/limits.h"

// Cases that differ only in their stack and its settings.
typedef struct plb_group {
    plb_case c;      // without a stack
    bool find_batch; // `--batch auto`: one case, until its batch is known
    plb_facts facts;
    int first, count;    // cases of the bench
    plb_batches batches; // while the group runs
    char weights[4096];
    plb_facts proof_facts; // of a smaller batch, where f64 at full size is too dear
    plb_batches proof_batches;
    bool small_proof;
    plb_reference reference;
    bool has_reference;
} plb_group;

struct plb_bench {
    plb_bench_options options;
    plb_arena *arena;
    plb_stacks stacks;
    json_t **hello; // [stacks.count + 1], the reference last: answers to hello; NULL: not asked yet
    const char *cache; // folder of references and exported models; in the arena
    plb_group *groups;
    int group_count, group_capacity;
    plb_bench_case *cases;
    int case_count, case_capacity, table_count;
    plb_client reference; // plumb-ref, alive while facts and references are asked for
    plb_store *store;
    int64_t run_id, began_ns;
    bool was_done; // the run that was to be resumed: nothing is measured, and it stays as it is
    int ended;
    plb_disturbance disturbance;
    plb_estimator estimator;
    plb_countdown countdown; // of what is told to be left
    plb_clock_facts clock;
    plb_limits limits; // with as many threads as the newest case that needed them
    plb_fingerprint fingerprint;
    bool has_fingerprint;
    uint64_t chance; // state of the choice of checked iterations
};

// What can be known without the reference of what the user asked for. PLB_EINVAL.
PLB_MUST_USE plb_status plb_matrix_check(const plb_bench *bench);
PLB_MUST_USE plb_status plb_matrix_expand(plb_bench *bench);
// Starts plumb-ref unless it runs; a failure of it is one of ours.
PLB_MUST_USE plb_status plb_bench_start_reference(plb_bench *bench);
// For the worker of a case; what is borrowed lives as long as the bench.
plb_client_options plb_bench_client_options(const plb_bench *bench, const plb_bench_case *c);
// Finds the batches of all groups that want theirs found, then joins groups of one table and batch,
// so that they take turns. Cases may change places.
PLB_MUST_USE plb_status plb_bench_find_batches(plb_bench *bench);
// One group, all its starts.
PLB_MUST_USE plb_status plb_group_run(plb_bench *bench, plb_group *group);
void plb_bench_tell(plb_bench *bench, plb_bench_event_kind kind, const plb_bench_case *c,
                    const char *text);
PLB_MUST_USE plb_status plb_bench_end_case(plb_bench *bench, plb_bench_case *c);

// For estimates: what the store knows, and what became of a case just now.
PLB_MUST_USE plb_status plb_bench_learn(plb_bench *bench);
PLB_MUST_USE plb_status plb_bench_observe(plb_bench *bench, const plb_bench_case *c);

#endif
