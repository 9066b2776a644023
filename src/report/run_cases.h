// SPDX-License-Identifier: Apache-2.0
// The cases of a run, read once for all parts of its report, in groups that can be compared: cases
// of one group differ in the stack, its settings and its layout alone.
#ifndef PLB_REPORT_RUN_CASES_H
#define PLB_REPORT_RUN_CASES_H

#include "bench/case.h"
#include "bench/compare.h"
#include "bench/summary.h"
#include "report/document.h"
#include "store/read.h"

typedef struct plb_run_case {
    const plb_measurement_row *row;
    plb_case c;
    plb_summary s;
    const char *name;     // the stack, with its settings
    bool ok;              // it has a time
    double ratio;         // of its time to the floor's; NaN: unknown
    const plb_pair *pair; // its comparison with the group's floor; NULL: none
    // Medians over the starts; NaN: unknown.
    double load_ns, first_call_ns, compile_ns, rss_bytes, device_bytes, planned_bytes;
    int64_t warmup_iterations; // of the start with the most; −1: unknown
    int64_t first_start;       // its number in the store; −1: none
    int group;
} plb_run_case;

typedef struct plb_run_group {
    const char *title; // "resnet18 infer, batch 16": what tells it from the other groups
    const char *name;  // the same as a part of a file's name
    plb_run_case *member;
    size_t members, ok;        // ok: with a time
    const plb_run_case *floor; // ours at its fastest level, else the first with a time; NULL: none
} plb_run_group;

typedef struct plb_run_cases {
    plb_store *store;
    const plb_run_row *run;
    plb_arena *arena; // owns all of it
    plb_run_case *item;
    size_t count, ok;
    plb_run_group *group;
    size_t groups;
    const char *common; // what all cases share, in words
    plb_compare_result compared;
} plb_run_cases;

// `arena` owns what `out` points to.
PLB_MUST_USE plb_status plb_run_cases_read(plb_store *store, const plb_run_row *run,
                                           plb_arena *arena, plb_run_cases *out);

// Keys of a case that a figure may sweep over.
typedef enum plb_sweep { PLB_SWEEP_BATCH, PLB_SWEEP_SIZE, PLB_SWEEP_THREADS, PLB_SWEEPS } plb_sweep;
const char *plb_sweep_name(plb_sweep sweep); // "batch"
int64_t plb_sweep_value(const plb_case *c, plb_sweep sweep);

// Whether two cases are of the same work but for the stack and what `free` names (a bit a sweep).
bool plb_run_case_alike(const plb_case *a, const plb_case *b, unsigned free_sweeps);

// Parts of the document, each adds its sections.
void plb_run_add_summary(const plb_run_cases *cases, plb_document *document);
PLB_MUST_USE plb_status plb_run_add_times(const plb_run_cases *cases, plb_document *document);
PLB_MUST_USE plb_status plb_run_add_sweeps(const plb_run_cases *cases, plb_document *document);
PLB_MUST_USE plb_status plb_run_add_costs(const plb_run_cases *cases, plb_document *document);
PLB_MUST_USE plb_status plb_run_add_warmup(const plb_run_cases *cases, plb_document *document);
PLB_MUST_USE plb_status plb_run_add_profiles(const plb_run_cases *cases, plb_document *document);
PLB_MUST_USE plb_status plb_run_add_history(const plb_run_cases *cases, plb_document *document);
void plb_run_add_tables(const plb_run_cases *cases, plb_document *document);
PLB_MUST_USE plb_status plb_run_add_evidence(const plb_run_cases *cases, plb_document *document);

// A figure's command: draws this part of the run again.
const char *plb_run_command(const plb_run_cases *cases, const char *part);

#endif
