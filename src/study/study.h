// SPDX-License-Identifier: Apache-2.0
// A study that runs: its parts become items, its items become rows of the store. Items are run in
// the order in which they stand in the file; consecutive ones of one stack share a worker process.
//
//     plb_study_new(&spec, &options, &study); plb_study_run(study); plb_study_free(study);
//
// What of a study fits no budget is left out by one rule: before each item, the time spent so far
// and the item's estimate (corrected by how the stack's items went until then) are held against the
// budget; an item that does not fit is stored as left-out, with that reason. A cell of a sweep that
// is no smaller than one that ran out of memory, on the same stack, is left out too.
//
// Several processes may take trainings of one run, those that jobs starts and those that joined by
// hand: each training is done by one of them. Sweeps, whose times count, wait for all of these.
#ifndef PLB_STUDY_STUDY_H
#define PLB_STUDY_STUDY_H

#include "study/spec.h"

typedef struct plb_study_item {
    const plb_study_part *part;
    const char *model, *stack, *device, *task, *region;
    const char *dims;                   // of an ONNX file, "" for none; NULL: the model is none
    int64_t threads, batch, size, seed; // size 0: the data's
    const char *keys;                   // canonical JSON
    double estimate_s;                  // of its work, guessed
    const char *outcome;                // NULL: not yet
    char reason[400];
    double spent_s;
    int64_t epochs_done;
    bool resumed; // it was in the store already
} plb_study_item;

typedef struct plb_study_event {
    const plb_study_item *item; // NULL: the plan is known
    const char *text;           // what goes on: "epoch 2 of 3"; NULL: the item has ended
    size_t done, total;         // items
    double spent_s, left_s;     // left: estimated; below 0: unknown
} plb_study_event;

enum { PLB_STUDY_JOBS = 64 }; // at most

typedef struct plb_study_options {
    const char *plumb; // path of the program itself
    const char *store, *command, *git;
    bool quick;
    double time_s;  // budget; 0: none
    int64_t resume; // run to finish; 0: a new one
    // Trainings at a time, each but one of them in a process of its own: `helper` is the command
    // that starts one, to which "--join RUN" is added. Their times say nothing, and are marked so.
    int jobs; // 0 and 1: one
    const char *const *helper;
    int64_t join; // take trainings of this run, which another process runs; 0: none
    const char *options_json;
    bool (*interrupted)(void *context);
    void (*tell)(void *context, const plb_study_event *event); // may be NULL
    void *context;
} plb_study_options;

typedef struct plb_study plb_study;

// Finds stacks and expands the parts. PLB_EINVAL: no items, too many, or data by a name that there
// is none of. Stacks that are not known here, and sizes that a model does not take, become refused
// items.
PLB_API PLB_MUST_USE plb_status plb_study_new(const plb_study_spec *spec,
                                              const plb_study_options *options, plb_study **out);
PLB_API void plb_study_free(plb_study *study);
// Runs what is not done, each item's row written as it ends. PLB_ECANCELLED: interrupted.
PLB_API PLB_MUST_USE plb_status plb_study_run(plb_study *study);

PLB_API size_t plb_study_item_count(const plb_study *study);
PLB_API const plb_study_item *plb_study_item_at(const plb_study *study, size_t i);
PLB_API double plb_study_estimate_s(const plb_study *study); // all items
PLB_API int64_t plb_study_run_id(const plb_study *study);    // 0: none yet

#endif
