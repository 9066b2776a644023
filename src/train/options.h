// SPDX-License-Identifier: Apache-2.0
// Everything that decides how a training run goes, and the rules of what a checkpoint may go on
// with: bit for bit the same weights need the same of nearly everything.
#ifndef PLB_TRAIN_OPTIONS_H
#define PLB_TRAIN_OPTIONS_H

#include "base/core/arena.h"
#include "plumb/plan.h"

typedef struct plb_train_options {
    const char *model, *data; // names
    int64_t epochs, batch;
    int64_t limit; // only so many samples of each set; 0: all
    int64_t size;  // height and width of the input; 0: the model's
    const char *optimizer, *schedule;
    double lr, momentum, weight_decay;
    uint64_t seed; // of first weights, order and dropout
    plb_level level;
    int threads; // at least 1
    bool no_winograd;
    plb_math math;
    plb_autocast autocast;
    const char *loss, *output, *only, *freeze; // of an ONNX file; NULL: left to it

    // Not kept in checkpoints.
    bool deterministic;
    int64_t max_steps;        // ends after so many steps in all; 0: never
    const char *checkpoint;   // file to write; NULL: none
    int64_t checkpoint_every; // steps; 0: after each epoch
    int loader_threads;       // for sets that are not in memory
    bool profile;             // take the time of each op
    const char *device;       // as plb_plan_options has it; NULL: the CPU
    bool sync, recompute;
    int64_t tune_ms; // as plb_plan_options has it
} plb_train_options;

// The level called "interp", "plan" or "replay", and back. PLB_EINVAL for any other.
PLB_API PLB_MUST_USE plb_status plb_level_from_name(const char *name, plb_level *out);
PLB_API const char *plb_level_name(plb_level level);

// The same for "f32" and "tf32"; NULL is f32.
PLB_API PLB_MUST_USE plb_status plb_math_from_name(const char *name, plb_math *out);
PLB_API const char *plb_math_name(plb_math math);
// The same for "none", "bf16" and "f16"; NULL is none.
PLB_API PLB_MUST_USE plb_status plb_autocast_from_name(const char *name, plb_autocast *out);
PLB_API const char *plb_autocast_name(plb_autocast autocast);

// The options that checkpoints keep, by number: their names are those of the command line's flags.
enum { PLB_TRAIN_KEPT = 21 };
PLB_API const char *plb_train_kept_name(int i);
// What files have that were written before option i was kept; NULL: all have it.
PLB_API const char *plb_train_kept_before(int i);
// Option i as text in `arena`; NULL when out of memory.
PLB_API const char *plb_train_kept_text(const plb_train_options *options, int i, plb_arena *arena);
// Sets option i from such a text, which is borrowed. PLB_EINVAL says what was found.
PLB_API PLB_MUST_USE plb_status plb_train_kept_set(plb_train_options *options, int i,
                                                   const char *text);
// Whether a run may go on with another value of option i than it began with.
PLB_API bool plb_train_kept_free(const plb_train_options *options, int i);

#endif
