// SPDX-License-Identifier: Apache-2.0
// Where a command takes a model's name it takes the path of an ONNX file too.
#ifndef PLB_CLI_ONNX_MODEL_H
#define PLB_CLI_ONNX_MODEL_H

#include "base/json.h"
#include "plumb/onnx.h"
#include "plumb/plan.h"

typedef struct plb_onnx_model {
    plb_onnx *file;
    plb_model *model;
    plb_graph *graph; // the program "infer"
} plb_onnx_model;

bool plb_cli_is_onnx(const char *name); // ends in ".onnx"

// PLB_EINVAL where `name` is an ONNX file and `of_zoo` names a flag that was given and only the
// zoo's models have, or where it is none and --dim was given (NULL: was not), or is malformed.
PLB_MUST_USE plb_status plb_cli_onnx_check(const char *name, const char *of_zoo, const char *dims);
// PLB_EINVAL where --dim has a name that none of the files among `names` knows.
PLB_MUST_USE plb_status plb_cli_onnx_check_dims(char *const *names, int count, const char *dims);

// Opens and builds. `dims` ("batch=8,length=128", or NULL) gives open extents their numbers; what
// it does not name becomes 1. Freed by the caller, after an error too.
PLB_MUST_USE plb_status plb_cli_onnx_load(const char *path, const char *dims, plb_onnx_model *out);
void plb_cli_onnx_free(plb_onnx_model *model);

// `plumb models F.onnx`: inputs, outputs, ops used, costs. Text where json is NULL.
PLB_MUST_USE plb_status plb_cli_onnx_describe(const char *path, const char *dims, plb_json *json);
// `plumb predict F.onnx X.npy…`: runs it on arrays, one an input in their order. Arrays with one
// axis more than the input are so many runs. Outputs are told, and written to the folder `save`.
PLB_MUST_USE plb_status plb_cli_onnx_predict(const char *path, const char *dims, char **arrays,
                                             int n, const char *save,
                                             const plb_plan_options *options, bool as_json);

#endif
