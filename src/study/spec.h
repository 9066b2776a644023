// SPDX-License-Identifier: Apache-2.0
// A study as it is written down: parts, each a list of items that its lists span. docs/studies.md
// says what every key means; this is the same as a struct. A mistyped key or value is an error that
// names file, line and key, and the nearest known one.
#ifndef PLB_STUDY_SPEC_H
#define PLB_STUDY_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plumb/tensor.h"
#include "study/yaml.h"

typedef struct plb_study_words {
    const char **word;
    size_t count;
} plb_study_words;

typedef struct plb_study_numbers {
    int64_t *value; // "all" (of threads) is 0
    size_t count;
} plb_study_numbers;

typedef enum plb_part_kind {
    PLB_PART_TRAIN, // trains model on data, epoch by epoch
    PLB_PART_SWEEP, // times one iteration of a task over batches and sizes
} plb_part_kind;

typedef struct plb_study_part {
    const char *name, *title, *about;
    int line;
    plb_part_kind kind;
    plb_study_words models, stacks, devices, tasks;
    plb_study_words dims;    // SWEEP, of ONNX files: "NAME=N,..." of each cell
    plb_study_words input;   // SWEEP, of TorchScript files: extents, "batch", "size" or a number
    plb_study_words regions; // SWEEP: what a time covers
    plb_study_numbers threads, batch, size, seeds;
    // TRAIN
    const char *data, *stand_in;         // stand_in: taken where `data` is not on the machine
    int64_t stand_in_size;               // of its pictures; 0: its own
    int64_t train_samples, test_samples; // 0: all
    int64_t epochs;                      // 0 leaves the training out
    const char *optimizer;               // sgd, adam, adamw
    double lr, momentum, weight_decay;
    bool nesterov, dropout, flip;
    int64_t crop;   // padding of random crops
    bool operators; // more epochs, apart, of which one records every operator where a stack can
    // SWEEP
    double time; // seconds of samples of a cell
} plb_study_part;

typedef struct plb_study_spec {
    const char *name, *title, *about, *origin;
    plb_study_words findings;   // which of the origin's statements are answered: study/findings.c
    plb_study_words deviations; // sentences
    plb_study_part *parts;
    size_t part_count;
    const char *text; // the YAML as it was read
} plb_study_spec;

typedef struct plb_spec_options {
    bool quick;          // lays what is under `quick` over the rest
    const char *set;     // "parts.epoch.seeds=[1,2];parts.epoch.lr=1"; NULL: nothing is changed
    const char *devices; // "cpu,cuda": of all parts; NULL: theirs
    const char *only;    // "mnist,surface": these parts; NULL: all
    bool stored;         // of a run that was made: values that would be refused now are as they are
    // PLB_EINVAL where no model has that name; NULL: any name may be one.
    plb_status (*check_model)(const char *name);
} plb_spec_options;

// Reads a spec; all memory is the arena's.
PLB_API PLB_MUST_USE plb_status plb_study_spec_parse(const char *text, size_t length,
                                                     const char *label,
                                                     const plb_spec_options *options,
                                                     plb_arena *arena, plb_study_spec *out);

// Whether a model is a TorchScript file: its name ends in ".pt".
PLB_API bool plb_study_is_script(const char *model);
// Extents of the input of such a file in one cell; the part has been checked.
void plb_study_script_extents(const plb_study_part *part, int64_t batch, int64_t size,
                              plb_shape *out);

// Finds and reads NAME (studies/NAME.yaml beside the program, or where it was built) or a path
// that ends in .yaml. PLB_EINVAL names the studies that there are.
PLB_API PLB_MUST_USE plb_status plb_study_spec_open(const char *name, const char *program,
                                                    const plb_spec_options *options,
                                                    plb_arena *arena, plb_study_spec *out);

#endif
