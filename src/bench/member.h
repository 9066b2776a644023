// SPDX-License-Identifier: Apache-2.0
// What the files that run a group share: a member is one of its cases with the worker that runs it.
// A failure that is the case's own is PLB_EBROKEN with client.failure set.
#ifndef PLB_BENCH_MEMBER_H
#define PLB_BENCH_MEMBER_H

#include "bench/matrix.h"

// A case of the group, while one of its starts runs.
typedef struct plb_member {
    plb_bench_case *c;
    plb_client client;
    plb_series *series;
    plb_load load;
    int64_t start_id;
    bool open; // the store has a start of it that has not ended
    plb_store_start_end end;
    plb_stop stop;
    char *memory; // JSON
} plb_member;

// The group and which of its starts runs.
typedef struct plb_runner {
    plb_bench *b;
    plb_group *g;
    int start; // number of the start
} plb_runner;

// What the worker is loaded with; with `proof` for the proof, whose batch may be smaller.
plb_load plb_member_load(const plb_runner *r, const plb_member *m, bool proof);
// The reference of the group, computed when the first of its workers asks for it.
PLB_MUST_USE plb_status plb_member_need_reference(const plb_runner *r, plb_member *m);
// What has passed since `began_ns` was spent on this case.
void plb_member_charge(const plb_runner *r, plb_member *m, int64_t began_ns);

// Starts ahead as many workers as there are processors and memory for, and leaves them stopped.
PLB_MUST_USE plb_status plb_members_come_up(const plb_runner *r, plb_member *members, int n);
// A start in the store, if there is one, in the group of starts that take turns.
PLB_MUST_USE plb_status plb_member_open_start(const plb_runner *r, plb_member *m, int64_t group);
// Starts the worker, unless that was done ahead, and loads it.
PLB_MUST_USE plb_status plb_member_start_worker(const plb_runner *r, plb_member *m);
// The first call: with whatever happens only once.
PLB_MUST_USE plb_status plb_member_first_call(const plb_runner *r, plb_member *m);
// A guess at an iteration's length; one that is long is not repeated for it. Later starts know it.
PLB_MUST_USE plb_status plb_member_second_look(const plb_runner *r, plb_member *m);
PLB_MUST_USE plb_status plb_member_ask_memory(const plb_runner *r, plb_member *m);

#endif
