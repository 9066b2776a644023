// SPDX-License-Identifier: Apache-2.0
// What `plumb train` trains: a model of the zoo, or an ONNX file.
#ifndef PLB_CLI_TRAIN_MODEL_H
#define PLB_CLI_TRAIN_MODEL_H

#include "data/dataset.h"
#include "plumb/onnx.h"
#include "plumb/zoo.h"
#include "train/options.h"

typedef struct plb_train_model {
    const char *name;            // of the zoo, or the file's without its folder; borrowed
    const plb_zoo_info *info;    // NULL: a file
    plb_onnx *file;              // NULL: of the zoo
    plb_onnx_learning learning;  // of a file; the caller's wishes are set after opening
    int64_t channels;            // 0: a file that does not say
    int64_t height, size, batch; // what is usual; size is 0 where data comes in its own
    int64_t fixed_batch;         // of a file that takes no other; 0: any
    bool small;                  // for digits
} plb_train_model;

// `name` outlives the result, which plb_train_model_close frees; after an error too.
PLB_MUST_USE plb_status plb_train_model_open(const char *name, plb_train_model *out);
void plb_train_model_close(plb_train_model *model);

// PLB_EINVAL where the pictures are none that it takes.
PLB_MUST_USE plb_status plb_train_model_fit(plb_train_model *model, const plb_dataset_info *data,
                                            const char *data_name);
// Of a file: whether its batch, if it has but one, divides the samples of both sets.
PLB_MUST_USE plb_status plb_train_model_check_batches(const plb_train_model *model,
                                                      const plb_train_options *options,
                                                      int64_t train_count, int64_t test_count);
// Of a file: a program that trains, or evaluates.
PLB_MUST_USE plb_status plb_train_model_build(const plb_train_model *model, plb_model *to,
                                              const char *program, int64_t batch, bool eval,
                                              plb_graph **out_graph, plb_value *out_loss);
// Writes what was trained as an ONNX file: a file as it was, with its new weights.
PLB_MUST_USE plb_status plb_train_model_write(const plb_train_model *model, plb_model *trained,
                                              const plb_zoo_options *zoo, const char *path);

#endif
