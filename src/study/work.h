// SPDX-License-Identifier: Apache-2.0
// What the files of a running study share. Private to src/study.
#ifndef PLB_STUDY_WORK_H
#define PLB_STUDY_WORK_H

#include <sys/types.h>

#include "base/json.h"
#include "bench/client.h"
#include "bench/facts.h"
#include "bench/fingerprint.h"
#include "bench/stack.h"
#include "data/dataset.h"
#include "store/store.h"
#include "study/study.h"

// Where the input of a loaded case lies in shared memory: two places, of which one may be both.
typedef struct plb_study_inputs {
    size_t x_bytes, y_bytes; // of one batch
    size_t x_offset[2], y_offset[2];
} plb_study_inputs;

enum { PLB_STUDY_PARKED = 8 };

// A worker that waits for the next training of its stack.
typedef struct plb_parked_client {
    plb_client client;
    char key[160];
} plb_parked_client;

// The bytes that a tensor takes there: each begins on a cache line.
size_t plb_study_padded(size_t bytes);

struct plb_study {
    const plb_study_spec *spec;
    plb_study_options options;
    plb_arena *arena;
    plb_stacks stacks;
    const char *cache; // folder
    plb_client reference;
    plb_client client; // the stack that runs now
    char client_key[160];
    // While there is training: seeds of stacks take turns, so that a machine that changes does so
    // to all, and starting a worker may take longer than an epoch.
    plb_parked_client parked[PLB_STUDY_PARKED];
    plb_study_item *items;
    size_t count, done;
    plb_store *store;
    int64_t run_id;
    int64_t began_ns;
    pid_t helpers[PLB_STUDY_JOBS]; // processes that take trainings beside this one
    int helper_count;
    plb_fingerprint fingerprint;
    bool has_fingerprint;
    // The data of the part that is trained now.
    const plb_study_part *data_of;
    plb_dataset *sets[2];
    const char *data_note; // "stand-in: ...", "no parts ..."; NULL: the data itself, in two parts
};

// ---- facts of a model, asked of the reference, which is started when first needed
PLB_MUST_USE plb_status plb_study_describe(plb_study *s, const char *model, const char *task,
                                           int64_t batch, int64_t size, int64_t classes,
                                           plb_facts *out);
// Of an ONNX file, with the extents of the item.
PLB_MUST_USE plb_status plb_study_describe_file(plb_study *s, const plb_study_item *item,
                                                plb_facts *out);
// Of a TorchScript file, which says nothing of itself: its input is what the part tells. PLB_EIO:
// there is no such file.
PLB_MUST_USE plb_status plb_study_describe_script(const plb_study_item *item, plb_facts *out);
// The file with first weights of the described model, drawn from `seed`.
PLB_MUST_USE plb_status plb_study_weights(plb_study *s, const plb_facts *facts, int64_t seed,
                                          char *path, size_t size);

// ---- the stack's worker
// Makes s->client the worker of the item's stack, device and threads. A stack that is not
// installed, or cannot start, ends in s->client.failure and PLB_EBROKEN.
PLB_MUST_USE plb_status plb_study_client(plb_study *s, const plb_study_item *item);
// Ends s->client and all that are parked.
void plb_study_stop_clients(plb_study *s);
// The member "inputs" of a `load` request: where x and y lie; NULL when out of memory.
json_t *plb_study_describe_inputs(const plb_facts *facts, const plb_study_inputs *inputs);
// Sends `load` with the inputs, which are taken over.
PLB_MUST_USE plb_status plb_study_load(plb_study *s, const plb_study_item *item,
                                       const plb_facts *facts, const char *weights, json_t *inputs,
                                       json_t **out_answer);
// Adds what the worker says of versions, of what ran and of memory to the open object.
PLB_MUST_USE plb_status plb_study_add_facts(plb_study *s, plb_json *results);

// ---- items; results are members of an object that is open
PLB_MUST_USE plb_status plb_study_train(plb_study *s, plb_study_item *item, plb_json *results);
PLB_MUST_USE plb_status plb_study_sweep(plb_study *s, const plb_study_item *item,
                                        plb_json *results);
// PLB_ECANCELLED once the run is to end.
PLB_MUST_USE plb_status plb_study_go_on(const plb_study *s);
void plb_study_tell(plb_study *s, const plb_study_item *item, const char *text);

// ---- data
PLB_MUST_USE plb_status plb_study_open_data(plb_study *s, const plb_study_part *part);

// ---- more processes (jobs.c)
PLB_MUST_USE plb_status plb_study_start_helpers(plb_study *s);
PLB_MUST_USE plb_status plb_study_wait_helpers(plb_study *s);
void plb_study_stop_helpers(plb_study *s); // none is legal

// ---- the plan
PLB_MUST_USE plb_status plb_study_expand(plb_study *s);

#endif
