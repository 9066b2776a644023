// SPDX-License-Identifier: Apache-2.0
#ifndef PLB_CLI_EXPLAIN_FILE_H
#define PLB_CLI_EXPLAIN_FILE_H

#include "cli/onnx_model.h"

// Loads a file that a plan can be made of. Freed by the caller, after an error too.
PLB_MUST_USE plb_status plb_explain_file(const char *path, const char *task, const char *dims,
                                         plb_onnx_model *out);
// Floats nearly normal; integers 0, which is an index wherever there is one, or what `dims` gives.
PLB_MUST_USE plb_status plb_explain_fill_file(plb_plan *plan, const plb_graph *graph,
                                              const char *dims);

#endif
