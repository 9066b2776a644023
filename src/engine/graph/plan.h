// SPDX-License-Identifier: Apache-2.0
// A plan's insides. Making one goes through these files in this order:
//   pass_*.c     the graph becomes a better one
//   schedule.c   order of execution; which nodes need computing once only (the prologue)
//   storage.c    whose memory each value uses: its own, another's (views, in place), a variable's
//   select.c     a kernel for each step, by order or by timing
//   slab.c       offsets in the slabs, then pointers
//   merge.c      one launch for small steps that stand together, where a kernel knows how
//   replay.c     at level replay: all steps captured, as a line and as branches
//   plan.c       the calls above, running, and the public questions
//   mirror.c     the host's copies of inputs and outputs, where the device has its own memory
#ifndef PLB_ENGINE_GRAPH_PLAN_H
#define PLB_ENGINE_GRAPH_PLAN_H

#include "engine/device/device.h"
#include "engine/graph/graph.h"
#include "engine/graph/home.h"
#include "engine/graph/memory.h"
#include "engine/graph/pass.h"
#include "engine/graph/tune.h"
#include "plumb/plan.h"

enum { PLB_UNPLACED = 1 << 30 }; // stands for a root's address while a plan has no memory

// Whether a tensor begins between multiples of 16 bytes: all memory begins at one, views may not.
static inline bool plb_is_unaligned(const plb_tensor *t) {
    return t->dtype != PLB_DTYPE_COUNT && (uintptr_t)t->data % 16 != 0;
}

typedef enum plb_place_kind {
    PLB_PLACE_NONE,       // has no memory: nobody reads it
    PLB_PLACE_TRANSIENT,  // in the transient slab, while it lives
    PLB_PLACE_PERSISTENT, // in the plan's persistent slab: results of the prologue
    PLB_PLACE_VARIABLE,   // the storage of a variable
    PLB_PLACE_CONSTANT,   // data of a constant node
    PLB_PLACE_BOUND,      // an input or output of the program: kept from run to run
} plb_place_kind;

// Where one value lies. Views and in-place results share the root's bytes.
typedef struct plb_storage {
    plb_place_kind kind;
    plb_value root;    // itself, or whose bytes it uses
    int variable;      // of kind VARIABLE
    size_t size_bytes; // of roots
    int block;         // of roots in a slab: index of its plb_block
    void *data;        // of roots: where it lies
    bool backward;     // counted as gradient
} plb_storage;

typedef enum plb_step_kind {
    PLB_STEP_LAUNCH, // run a kernel
    PLB_STEP_PACK,   // let a kernel pack its constant inputs
    PLB_STEP_STORE,  // copy a value into its variable
} plb_step_kind;

typedef struct plb_step {
    plb_step_kind kind;
    int node; // of plan->graph
    const plb_kernel *kernel;
    plb_launch launch;
    char choice[PLB_CHOICE_BYTES];
    const char *refused; // of better kernels, arena
    bool by_order;       // chosen so: better kernels that do not refuse could not be prepared
    plb_call call;       // arena arrays
    void *packed;
    bool packs_each_run;               // its inputs change, so packing is part of the run
    int packs;                         // PACK: index of the step that it packs for
    int packed_block, workspace_block; // in their slabs, -1: none
    plb_value store;                   // STORE: the value; `variable`: where to
    int variable;
    size_t live_bytes;                                // of the transient slab, meanwhile
    size_t live_gradient_bytes, live_workspace_bytes; // parts of these
    plb_launch merged; // runs this step and the n_merged - 1 after it, which are then skipped
    int n_merged;      // 0: none
    int64_t calls, time_ns;
} plb_step;

struct plb_interp;                    // interp.c
typedef struct plb_replay plb_replay; // replay.c

struct plb_plan {
    plb_model *model;
    plb_plan_options options;
    plb_arena *arena;
    const plb_backend *backend;
    plb_device *device;
    int home;            // where the variables are (home.h)
    plb_stream *stream;  // of level replay on the CPU; that of the home on a device
    plb_replay *replay;  // of level replay
    size_t align_bytes;  // of values in slabs
    int64_t deadline_ns; // of the run under way; 0: none
    int64_t tuning_ns;   // spent on timing kernels so far
    int untimed;         // steps that were chosen by order since no time was left
    plb_strbuf report, choices;

    plb_graph *graph;     // owned; NULL at level interp
    bool *prologue;       // of each node: computed once for each state of the variables
    bool *is_view;        // of each node: its output is its input's bytes, nothing runs
    int *order;           // nodes in the order of execution
    plb_tensor *tensors;  // of each value
    plb_storage *storage; // of each value
    plb_step *steps;      // prologue first
    int n_steps, n_prologue;
    bool writes;               // some variable is assigned
    int *assigned, n_assigned; // variables, arena
    uint64_t prologue_version; // of the model, when the prologue ran last
    uint64_t copies_seen;      // the model's `copies` after the last launch

    void *transient, *persistent, *bound;
    size_t transient_bytes, persistent_bytes, bound_bytes;
    plb_plan_bytes bytes;
    struct plb_interp *interp; // of level interp

    // On a device with memory of its own:
    void **mirror;       // of each root: pinned host memory, NULL: nobody asked
    plb_event **events;  // with profile: before and after each step
    plb_event *timer[2]; // plb_plan_time
};

// mirror.c. For plans on a device with memory of its own.
PLB_MUST_USE plb_status plb_mirror_new(plb_plan *plan); // of all inputs
void plb_mirror_free(plb_plan *plan);
PLB_MUST_USE plb_status plb_mirror_upload(plb_plan *plan);   // inputs, in the stream
PLB_MUST_USE plb_status plb_mirror_download(plb_plan *plan); // outputs asked for, in the stream
// The host's view of a value; an output that is asked for first is fetched now.
PLB_MUST_USE plb_status plb_mirror_view(plb_plan *plan, plb_value value, plb_tensor *out);

// race.c: times kernels and their variants on the plan's device; the fastest to `best`, of those
// that ran before the time to tune was over: then `*out_over` is true.
PLB_MUST_USE plb_status plb_race(plb_plan *plan, const plb_kernel *const *kernels,
                                 const plb_query *q, plb_choice *best, bool *out_over);

// schedule.c: fills prologue and order.
PLB_MUST_USE plb_status plb_plan_schedule(plb_plan *plan);
// storage.c: fills tensors (without data), storage kinds and roots.
PLB_MUST_USE plb_status plb_plan_assign_storage(plb_plan *plan);
// slab.c, before steps are there: what values need at the very least, without workspace; and
// PLB_ENOMEM where the device has less, so that nothing is timed for a plan that cannot be.
PLB_MUST_USE plb_status plb_plan_least_bytes(plb_plan *plan, size_t *out);
PLB_MUST_USE plb_status plb_plan_check_room(plb_plan *plan);
// select.c: fills steps.
PLB_MUST_USE plb_status plb_plan_select(plb_plan *plan);
// slab.c: fills lives, offsets, memory, and every pointer.
PLB_MUST_USE plb_status plb_plan_place(plb_plan *plan);

// merge.c
PLB_MUST_USE plb_status plb_plan_merge(plb_plan *plan);

// The kernel for `q`, and how: as options.choices say, by order, or by timing when the first that
// accepts is tuned. Adds it to the plan's choices.
PLB_MUST_USE plb_status plb_select_kernel(plb_plan *plan, const plb_query *q, plb_step *step);

// plan.c: a failure names the node.
PLB_MUST_USE plb_status plb_plan_run_step(plb_plan *plan, plb_step *step);
// replay.c
PLB_MUST_USE plb_status plb_replay_new(plb_plan *plan);
PLB_MUST_USE plb_status plb_replay_run(plb_plan *plan);
// Whether all forms of the capture were tried and the better one is known.
bool plb_replay_settled(const plb_plan *plan);
void plb_replay_free(plb_plan *plan);

// interp.c
PLB_MUST_USE plb_status plb_interp_new(plb_plan *plan, const plb_graph *graph);
void plb_interp_free(struct plb_interp *interp);
PLB_MUST_USE plb_status plb_interp_run(plb_plan *plan);
PLB_MUST_USE plb_status plb_interp_upload(plb_plan *plan); // inputs, to a device
PLB_MUST_USE plb_status plb_interp_input(plb_plan *plan, const char *name, plb_tensor *out);
PLB_MUST_USE plb_status plb_interp_output(plb_plan *plan, const char *name, plb_tensor *out);
int plb_interp_op_count(const plb_plan *plan);
plb_plan_op plb_interp_op_info(const plb_plan *plan, int index);
void plb_interp_reset_times(plb_plan *plan);

#endif
