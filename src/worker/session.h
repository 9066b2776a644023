// SPDX-License-Identifier: Apache-2.0
// A worker's insides: the two pieces of shared memory, the loaded model, and what answers are made
// of. Every handler answers by writing members into `reply`, whose object the main loop opens and
// closes; a handler that fails leaves the worker usable.
#ifndef PLB_WORKER_SESSION_H
#define PLB_WORKER_SESSION_H

#include <jansson.h>

#include "base/json.h"
#include "base/lines.h"
#include "plumb/onnx.h"
#include "plumb/plan.h"
#include "plumb/step.h"
#include "plumb/zoo.h"

enum { PLB_WORKER_MAX_SLOTS = 64, PLB_WORKER_MAX_INPUTS = 16, PLB_WORKER_MAX_OUTPUTS = 32 };

typedef struct plb_worker_kind {
    const char *name;
    plb_level level;
    bool f64;         // the reference
    bool describes;   // answers `describe` and `weights`
    bool device_only; // needs a device that can record its work
} plb_worker_kind;

typedef struct plb_worker_in { // descriptor 4
    int fd;
    const uint8_t *bytes;
    size_t size_bytes;
} plb_worker_in;

typedef struct plb_worker_out { // descriptor 5
    int fd;
    uint8_t *bytes;
    size_t size_bytes, used_bytes;
} plb_worker_out;

typedef struct plb_worker_input {
    const char *name; // of the plan's input; static, or the file's
    size_t size_bytes;
    size_t offset[PLB_WORKER_MAX_SLOTS]; // in descriptor 4
    uint8_t *slot[PLB_WORKER_MAX_SLOTS]; // copies of our own; one slab
    uint8_t *slab;
    void *to; // the plan's input buffer
} plb_worker_input;

// A program of an epoch: evaluation, or fewer rows than a whole batch.
enum { PLB_WORKER_MAX_PASSES = 4 };
typedef struct plb_worker_pass {
    bool train;
    int64_t rows;
    char program[40];
    plb_plan *plan;
} plb_worker_pass;

typedef struct plb_worker_job { // what `load` said and made
    plb_onnx *file;             // NULL: a model of the zoo
    int n_outputs;
    const char *output[PLB_WORKER_MAX_OUTPUTS]; // what inference hands out, as the plan calls it
    char answer[PLB_WORKER_MAX_OUTPUTS][16];    // and as the protocol does
    char model_name[64];
    char device[16]; // "cuda:0"; "": the CPU
    bool training, dropout_off;
    bool in_epoch, evaluating;
    plb_worker_pass pass[PLB_WORKER_MAX_PASSES];
    int next_pass;
    plb_zoo_options zoo;
    plb_step_options step;
    plb_plan_options plan_options;
    double planted_slowdown; // fraction of each timed iteration that is spent again, spinning
    int n_slots, n_inputs;
    plb_worker_input input[PLB_WORKER_MAX_INPUTS];
    plb_model *model;
    plb_plan *plan;
    void **first; // a copy of every variable as loaded; NULL where there is none
    int n_first;  //
    uint8_t *first_slab;
} plb_worker_job;

typedef struct plb_worker_session {
    const plb_worker_kind *kind;
    plb_lines lines;
    plb_worker_in in;
    plb_worker_out out;
    plb_worker_job job;
    plb_json reply;
    int64_t libraries_rss_bytes;
    bool bye;
    // Of a failure: which code and kind the error answer has; NULL: from the status.
    const char *error_code, *error_kind;
} plb_worker_session;

// Fails with a refusal of that kind.
#define plb_worker_refuse(session, what, ...)                           \
    ((session)->error_code = "refused", (session)->error_kind = (what), \
     plb_fail(PLB_EUNSUPPORTED, __VA_ARGS__))

// ---- shared memory
PLB_MUST_USE plb_status plb_worker_in_map(plb_worker_in *in, size_t end_bytes); // to that length
// Sets aside `size_bytes` of the outputs, zeroed; the offset stays, pointers do not.
PLB_MUST_USE plb_status plb_worker_out_place(plb_worker_out *out, size_t size_bytes,
                                             size_t *out_offset);
static inline void *plb_worker_out_at(const plb_worker_out *out, size_t offset) {
    return out->bytes + offset;
}
// Copies a tensor there, plain, and appends its description to the open array. batch below 0: none.
PLB_MUST_USE plb_status plb_worker_emit(plb_worker_session *s, const char *name, int64_t batch,
                                        const plb_tensor *tensor);
// The same in two steps: a place that is filled later.
typedef struct plb_worker_place {
    plb_dtype dtype;
    plb_shape shape;
    size_t offset;
} plb_worker_place;
PLB_MUST_USE plb_status plb_worker_place_like(plb_worker_out *out, const plb_tensor *tensor,
                                              plb_worker_place *place);
PLB_MUST_USE plb_status plb_worker_fill(plb_worker_out *out, const plb_worker_place *place,
                                        const plb_tensor *tensor);
void plb_worker_describe_place(plb_json *reply, const char *name, int64_t batch,
                               const plb_worker_place *place);

// ---- requests
PLB_MUST_USE plb_status plb_worker_hello(plb_worker_session *s, const json_t *request);
PLB_MUST_USE plb_status plb_worker_load(plb_worker_session *s, const json_t *request);
PLB_MUST_USE plb_status plb_worker_batches(plb_worker_session *s, const json_t *request);
PLB_MUST_USE plb_status plb_worker_prove(plb_worker_session *s, const json_t *request);
PLB_MUST_USE plb_status plb_worker_sample(plb_worker_session *s, const json_t *request);
PLB_MUST_USE plb_status plb_worker_state(plb_worker_session *s, const json_t *request);
PLB_MUST_USE plb_status plb_worker_ran(plb_worker_session *s, const json_t *request);
PLB_MUST_USE plb_status plb_worker_memory(plb_worker_session *s, const json_t *request);
PLB_MUST_USE plb_status plb_worker_epoch(plb_worker_session *s, const json_t *request);
PLB_MUST_USE plb_status plb_worker_batch(plb_worker_session *s, const json_t *request);
PLB_MUST_USE plb_status plb_worker_epoch_end(plb_worker_session *s, const json_t *request);
PLB_MUST_USE plb_status plb_worker_only_reference(plb_worker_session *s); // refuses if it is not
PLB_MUST_USE plb_status plb_worker_describe(plb_worker_session *s, const json_t *request);
PLB_MUST_USE plb_status plb_worker_roof(plb_worker_session *s, const json_t *request);
PLB_MUST_USE plb_status plb_worker_weights(plb_worker_session *s, const json_t *request);

// ---- ONNX files (file_model.c)
// Builds the program "infer" of the file that the request names and fills the job's outputs.
PLB_MUST_USE plb_status plb_worker_file_build(plb_worker_session *s, plb_worker_job *job,
                                              const json_t *request);
// Appends `program`, a training step of the job's open file on batches of job->zoo.batch samples,
// or as many as the file says: inputs "x" and "y", output "loss". Without `step`, the loss alone.
PLB_MUST_USE plb_status plb_worker_file_step(const plb_worker_job *job, const char *program,
                                             const plb_step_options *step, plb_graph **out);
PLB_MUST_USE plb_status plb_worker_file_describe_training(plb_worker_session *s,
                                                          plb_worker_job *job,
                                                          const json_t *request);
// The weights that a file brings, as a safetensors file at `path`.
PLB_MUST_USE plb_status plb_worker_file_weights(const char *file, const char *path);
// Goes on with a hash of what is computed and of the weights that the file brings, those beside it
// too.
PLB_MUST_USE plb_status plb_worker_file_hash(const plb_graph *graph, uint64_t *hash);
// Whether any node draws random numbers: dropout, stochastic depth.
bool plb_worker_draws(const plb_graph *graph);
// The most convolutions and products on a path from the inputs to anything.
PLB_MUST_USE plb_status plb_worker_product_depth(const plb_graph *graph, int *out);
PLB_MUST_USE plb_status plb_worker_file_describe(plb_worker_session *s, const json_t *request);

// ---- the job
void plb_worker_job_free(plb_worker_job *job);
void plb_worker_job_feed(plb_worker_job *job, int slot); // copies a batch to where the plan reads
PLB_MUST_USE plb_status plb_worker_job_restart(plb_worker_job *job);
PLB_MUST_USE plb_status plb_worker_slot(const plb_worker_session *s, const json_t *list, size_t i,
                                        int *out);

// "bf16", "f16"; NULL for none.
const char *plb_worker_autocast_name(plb_autocast autocast);

// ---- members of requests
const char *plb_request_text(const json_t *request, const char *key, const char *fallback);
int64_t plb_request_int(const json_t *request, const char *key, int64_t fallback);
double plb_request_double(const json_t *request, const char *key, double fallback);
bool plb_request_bool(const json_t *request, const char *key, bool fallback);

#endif
