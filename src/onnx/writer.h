// SPDX-License-Identifier: Apache-2.0
// Messages of a file that is written. They live in an arena, and the values of variables are only
// pointed to. A failure is remembered: what is put after it is ignored, and the end tells.
#ifndef PLB_ONNX_WRITER_H
#define PLB_ONNX_WRITER_H

#include "base/core/arena.h"
#include "base/core/hash.h"
#include "engine/graph/graph.h"
#include <onnx.pb-c.h>

typedef struct plb_onnx_writer {
    const plb_graph *graph; // lowered
    plb_arena *arena;
    Onnx__GraphProto *proto;
    plb_map *taken;    // names of values
    const char **name; // of each value; NULL: not made
    bool *needed;      // each value
    plb_status status;
} plb_onnx_writer;

// A node that stands for `node`, with no inputs yet and `n_out` outputs that have the names of the
// node's values. NULL after a failure, which all functions take.
Onnx__NodeProto *plb_onnx_put(plb_onnx_writer *w, const plb_node *node, const char *op, int n_out);
// An input: a value of the graph (PLB_NONE: left out), or numbers as an initializer.
void plb_onnx_put_in(plb_onnx_writer *w, Onnx__NodeProto *to, plb_value value);
void plb_onnx_put_name(plb_onnx_writer *w, Onnx__NodeProto *to, const char *name);
void plb_onnx_put_ints(plb_onnx_writer *w, Onnx__NodeProto *to, const char *what,
                       const int64_t *values, int n);
void plb_onnx_put_scalar(plb_onnx_writer *w, Onnx__NodeProto *to, const char *what, plb_dtype dtype,
                         double value);
// Attributes.
void plb_onnx_set_int(plb_onnx_writer *w, Onnx__NodeProto *to, const char *name, int64_t value);
void plb_onnx_set_ints(plb_onnx_writer *w, Onnx__NodeProto *to, const char *name,
                       const int64_t *values, int n);
void plb_onnx_set_float(plb_onnx_writer *w, Onnx__NodeProto *to, const char *name, double value);
void plb_onnx_set_text(plb_onnx_writer *w, Onnx__NodeProto *to, const char *name,
                       const char *value);
void plb_onnx_set_tensor(plb_onnx_writer *w, Onnx__NodeProto *to, const char *name,
                         Onnx__TensorProto *tensor);

// A tensor whose values are `bytes`, which outlive the writer.
Onnx__TensorProto *plb_onnx_put_tensor(plb_onnx_writer *w, const char *name, plb_dtype dtype,
                                       const plb_shape *shape, const void *bytes);
Onnx__ValueInfoProto *plb_onnx_put_info(plb_onnx_writer *w, const char *name, plb_type type);
// A name that nothing has yet: `base`, or with a number behind.
const char *plb_onnx_fresh_name(plb_onnx_writer *w, const char *base);
// Appends to a repeated field of messages.
void plb_onnx_append(plb_onnx_writer *w, void *array_pointer, size_t *n, void *item);
void plb_onnx_writer_fail(plb_onnx_writer *w, plb_status status);

// Puts what computes a node that is no frame; PLB_EUNSUPPORTED where ONNX has no word for it.
PLB_MUST_USE plb_status plb_onnx_write_node(plb_onnx_writer *w, const plb_node *node);

#endif
