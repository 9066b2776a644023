// SPDX-License-Identifier: Apache-2.0
// What a study found, read back from the store: one row an item, its JSON at hand. Private to
// src/study.
#ifndef PLB_STUDY_RESULTS_H
#define PLB_STUDY_RESULTS_H

#include <jansson.h>

#include "report/document.h"
#include "store/study.h"
#include "study/spec.h"

typedef struct plb_result {
    const char *part, *model, *stack, *device, *task, *region, *data;
    int64_t threads, batch, size, seed;
    bool train, ok;
    const char *outcome, *reason;
    json_t *json; // results; NULL: none
} plb_result;

typedef struct plb_results {
    plb_arena *arena;
    plb_study_row study;
    plb_study_spec spec; // parsed anew from what the store holds
    bool quick;
    double others_cpus; // processors that others kept busy when the run began; 0: none, or unknown
    plb_result *items;
    size_t count;
} plb_results;

PLB_MUST_USE plb_status plb_results_load(plb_store *store, int64_t run_id, plb_results *out);
void plb_results_free(plb_results *results); // {0} is legal

// A number of an item's results by name; NaN where there is none.
double plb_result_number(const plb_result *item, const char *key);
// A number of its epoch `e` (0: before the first); -1: the last one.
double plb_result_epoch(const plb_result *item, int e, const char *key);
int plb_result_epochs(const plb_result *item); // without epoch 0
// How many trainings of the run went on at a time, this one among them; their times say nothing.
int plb_result_beside(const plb_result *item);
// Bytes that the item holds: of the device where it runs on one, else resident above the libraries.
double plb_result_memory(const plb_result *item);

// Items alike but for the seed, as one.
typedef struct plb_pool {
    const plb_result *first;
    const plb_result **items;
    int count;
    int epochs; // of a training: as many as all of its items have
    int last;   // that all trainings of the part have: where their ends are compared
} plb_pool;

// All pools of a part, of items that are ok, in the order of the first, in the results' arena; none
// when out of memory. A training that was cut off counts, with the epochs that it had, if these are
// half of what was asked for.
int plb_results_pools(const plb_results *results, const char *part, plb_pool **out);
// Over a pool's items: mean, least, most of an epoch's number; -1: of the pool's `last`.
typedef struct plb_band {
    double mean, low, high;
} plb_band;
plb_band plb_pool_epoch(const plb_pool *pool, int e, const char *key);

// ---- whether stacks train alike (agreement.c)
typedef struct plb_seed_spread {
    double seeds; // standard deviation over seeds of what a training ends at; NaN: one seed each
    double dof;
} plb_seed_spread;
typedef struct plb_agreement {
    double difference, allowed; // b's mean accuracy less a's; what may lie between the same
    bool apart;
} plb_agreement;
// Of all pools of a part that train `model`.
plb_seed_spread plb_pools_spread(const plb_pool *pools, int count, const char *model);
plb_agreement plb_pools_agreement(const plb_seed_spread *spread, const plb_pool *a,
                                  const plb_pool *b);

// A part's title, with its stand-in where that was taken; lives as long as the results.
const char *plb_part_title(const plb_results *results, const plb_study_part *part);
// "plumb-plan", with device and threads where the part has several of them.
const char *plb_result_label(const plb_results *results, const plb_result *item, plb_arena *arena);

// ---- sections
void plb_study_say_training(const plb_results *r, const plb_study_part *part, plb_document *d);
void plb_study_say_sweep(const plb_results *r, const plb_study_part *part, plb_document *d);
// PLB_EINVAL, which names the study's file by `label` and the nearest finding that there is.
PLB_MUST_USE plb_status plb_study_check_finding(const char *name, const char *label);
// The summary's sentences, and a section that gives their grounds.
void plb_study_say_findings(const plb_results *r, plb_document *d);

#endif
