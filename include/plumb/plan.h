// SPDX-License-Identifier: Apache-2.0
// Running programs. A plan is a program made ready for one device: passes done, kernels chosen,
// every byte placed. Making it may be slow; running it allocates nothing.
#ifndef PLUMB_PLAN_H
#define PLUMB_PLAN_H

#include "plumb/graph.h"

typedef struct plb_plan plb_plan;

typedef enum plb_level {
    PLB_LEVEL_PLAN,   // prepared once, then launched
    PLB_LEVEL_INTERP, // op by op: looked up, allocated and freed as it goes, no passes
    PLB_LEVEL_REPLAY, // the plan captured as one device graph
} plb_level;

// How products of f32 values are computed where the device has a choice.
typedef enum plb_math {
    PLB_MATH_F32,  // in f32
    PLB_MATH_TF32, // on tensor cores, factors rounded to 10 bits of mantissa
} plb_math;

// Mixed precision: convolutions, products and the activations between them in 16 bits; variables,
// losses and optimizers in f32. Training in f16 wants plb_step_options.loss_scale.
typedef enum plb_autocast { PLB_AUTOCAST_NONE, PLB_AUTOCAST_BF16, PLB_AUTOCAST_F16 } plb_autocast;

typedef struct plb_plan_options {
    plb_level level;
    const char *device; // "cuda:0"; NULL: the CPU. Read while the plan is made.
    plb_math math;
    plb_autocast autocast; // not at level interp (PLB_EUNSUPPORTED)
    bool sync;          // wait after every op, so that a device's error names the op that caused it
    int threads;        // 0: as many as the machine gives this process
    bool deterministic; // kernel choices that do not depend on timing
    bool no_winograd;
    bool no_fusion;
    // Milliseconds for timing kernels and making libraries' plans; what is not timed by then is
    // chosen by order, and timed another time. 0: 20,000 on a device, no limit on the CPU.
    int64_t tune_ms;
    // Large values that backward needs are computed again instead of being kept, where that costs a
    // pass over memory and no more. Always so on the CPU.
    bool recompute;
    bool no_tuning; // the first kernel that does not refuse, without timing candidates
    // The reference of proofs: floats are computed in f64, and outputs are f64. Inputs and
    // variables keep their dtypes. Not at level interp (PLB_EUNSUPPORTED). math and autocast then
    // say how what is multiplied, and what autocast keeps in 16 bits, is rounded: the arithmetic is
    // exact, on coarse numbers.
    bool f64;
    // Of a run at level interp: loops that are not done by then end it (PLB_EUNSUPPORTED, which
    // names the node). 0: none.
    int64_t time_limit_ms;
    bool profile; // take each op's time (plb_plan_op_time)
    // What plb_plan_choices told of an earlier plan, or NULL. A kernel that is named there for the
    // same work is taken without timing. Read while the plan is made.
    const char *choices;
} plb_plan_options;

// Of the program as it is now: what is appended to the graph later is not in the plan. Borrows the
// graph's model, which must outlive the plan. NULL options: all defaults. PLB_EINVAL: the graph has
// failed, or an option is none of its enum's.
PLB_API PLB_MUST_USE plb_status plb_plan_new(const plb_graph *graph,
                                             const plb_plan_options *options, plb_plan **out);
PLB_API void plb_plan_free(plb_plan *plan);

// The buffer of an input, to be filled before a run; plain and dense; kept from run to run.
PLB_API PLB_MUST_USE plb_status plb_plan_input(plb_plan *plan, const char *name, plb_tensor *out);
// The buffer of an output, valid after a run until the plan's next one; any layout. Where the
// output is an input or a variable, or a view of one, the buffer may be that one's own: then it
// also changes when the input is filled for the next run, and when somebody writes the variable or
// another plan assigns it.
PLB_API PLB_MUST_USE plb_status plb_plan_output(plb_plan *plan, const char *name, plb_tensor *out);
// After a run that fails no output means anything, and each variable that the program assigns holds
// its old value, its new one, or some elements of either: so do not go on with a training step that
// failed, but write the variables again. Other plans of the model compute with what is there.
PLB_API PLB_MUST_USE plb_status plb_plan_run(plb_plan *plan);

// The parts of a run, for who wants to keep a device busy: upload copies the inputs there, launch
// computes, download copies the outputs that were asked for; all of them only queue work, in
// order, which `wait` waits for. On the CPU launch computes at once, and the others do nothing.
PLB_API PLB_MUST_USE plb_status plb_plan_upload(plb_plan *plan);
PLB_API PLB_MUST_USE plb_status plb_plan_launch(plb_plan *plan);
PLB_API PLB_MUST_USE plb_status plb_plan_download(plb_plan *plan);
PLB_API PLB_MUST_USE plb_status plb_plan_wait(plb_plan *plan);
// Runs the plan, on what its inputs hold, until it is known how it will be run from then on: level
// replay on a device tries several forms of the captured work in its first dozen runs. Before times
// are taken; variables change as in any run. Returns at once where nothing is to be tried.
PLB_API PLB_MUST_USE plb_status plb_plan_settle(plb_plan *plan);
// Nanoseconds from the beginning of the first to the end of the last of `count` launches, as the
// device's own clock tells; nothing else may be queued. On the CPU: of as many runs.
PLB_API PLB_MUST_USE plb_status plb_plan_time(plb_plan *plan, int count, int64_t *out_ns);
// An output of one element, of any dtype, as a number.
PLB_API PLB_MUST_USE plb_status plb_plan_scalar(plb_plan *plan, const char *name, double *out);

// Where the planned bytes go.
typedef struct plb_plan_bytes {
    size_t weights;     // parameters and buffers of the model, packed copies, folded constants
    size_t activations; // values of the program, inputs and outputs included
    size_t gradients;
    size_t optimizer;
    size_t workspace;
    size_t kernels;   // code and tables that libraries made for the kernels, on the host: measured
                      // as the growth of resident memory, so not the same in every process
    size_t transient; // the slab that activations, gradients and workspace share
    size_t total;     // less than the sum of the above, as not all of the slab's lives at once
} plb_plan_bytes;
PLB_API plb_plan_bytes plb_plan_memory(const plb_plan *plan);

// One executed node.
typedef struct plb_plan_op {
    const char *op;      // "conv"
    const char *scope;   // "layer1.0.conv1"
    const char *kernel;  // "winograd"
    const char *choice;  // "f4 private tb=48"
    const char *refused; // why better kernels were not taken, "" if none; borrowed from the plan
    double flops, bytes;
    int64_t calls, time_ns; // with options.profile
    plb_type type;          // of its first output
    plb_layout layout;
    bool prologue; // computed once for each state of the variables
    bool backward; // part of a gradient
    // Of the transient slab while this op runs: the values alive then, and workspace. 0 at level
    // interp, which has no slab.
    size_t live_bytes;
    size_t live_gradient_bytes, live_workspace_bytes; // parts of these; the rest: activations
} plb_plan_op;
PLB_API int plb_plan_op_count(const plb_plan *plan);
PLB_API plb_plan_op plb_plan_op_info(const plb_plan *plan, int index);
PLB_API void plb_plan_reset_times(plb_plan *plan);
// The kernels in use, "key<TAB>kernel<TAB>choice" a line: two plans with equal choices compute the
// same bits. At level interp a kernel is known after the first run. Borrowed until the next run.
PLB_API const char *plb_plan_choices(const plb_plan *plan);
// What each pass did, one line each. Borrowed.
PLB_API const char *plb_plan_report(const plb_plan *plan);

#endif
