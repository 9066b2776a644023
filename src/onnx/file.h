// SPDX-License-Identifier: Apache-2.0
// An opened ONNX file: its messages, its bytes, and the files of values beside it.
#ifndef PLB_ONNX_FILE_H
#define PLB_ONNX_FILE_H

#include "base/core/arena.h"
#include "base/core/hash.h"
#include "base/file.h"
#include "plumb/onnx.h"
#include <onnx.pb-c.h>

enum { PLB_ONNX_MAX_EXTERNAL = 256 }; // files of values

struct plb_onnx {
    char *path;
    bool from_memory;
    plb_file_map map;
    plb_arena *arena;
    const Onnx__ModelProto *model;
    const Onnx__GraphProto *graph;
    int64_t opset;
    plb_map *weights;                    // names of initializers, to their index
    const Onnx__ValueInfoProto **inputs; // those that are no weights
    int n_inputs;
    struct plb_onnx_external {
        const char *location;
        plb_file_map map;
    } external[PLB_ONNX_MAX_EXTERNAL];
    int n_external;
};

// A tensor's values: plain, dense, little-endian; at any address, so they are only to be copied.
typedef struct plb_onnx_values {
    plb_type type;
    const void *bytes;
    size_t size_bytes;
} plb_onnx_values;

// `arena` keeps what had to be converted. `file` (NULL: none) resolves external data.
PLB_MUST_USE plb_status plb_onnx_values_of(plb_onnx *file, plb_arena *arena,
                                           const Onnx__TensorProto *tensor, plb_onnx_values *out);
// A sparse tensor, made dense.
PLB_MUST_USE plb_status plb_onnx_values_of_sparse(plb_onnx *file, plb_arena *arena,
                                                  const Onnx__SparseTensorProto *sparse,
                                                  plb_onnx_values *out);
// `size_bytes` of the file `location` in the model's folder, from `offset` on, mapped as long as
// `file` is open. A path that leaves the folder is PLB_EINVAL.
PLB_MUST_USE plb_status plb_onnx_external_data(plb_onnx *file, const char *location,
                                               uint64_t offset, size_t size_bytes,
                                               const void **out);

static inline const char *plb_onnx_string(const char *string) {
    return string ? string : "";
}

#endif
