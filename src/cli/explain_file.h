// SPDX-License-Identifier: Apache-2.0
#ifndef PLB_CLI_EXPLAIN_FILE_H
#define PLB_CLI_EXPLAIN_FILE_H

#include "cli/onnx_model.h"
#include "plumb/step.h"

// Loads a file that a plan can be made of; with `step` (NULL: inference) a training step on batches
// of the shape that its input asks for (`batch` 0: the file's). Freed by the caller, after an error
// too.
PLB_MUST_USE plb_status plb_explain_file(const char *path, const char *dims, int64_t batch,
                                         const plb_step_options *step, plb_onnx_model *out);
// Floats nearly normal; integers are classes in training, else 0, which is an index wherever there
// is one, or what `dims` gives.
PLB_MUST_USE plb_status plb_explain_fill_file(plb_plan *plan, const plb_graph *graph,
                                              const char *dims, bool training);

#endif
