// SPDX-License-Identifier: Apache-2.0
// A model's messages as a file, and its large values as a file beside it.
#ifndef PLB_ONNX_STORE_H
#define PLB_ONNX_STORE_H

#include "base/core/arena.h"
#include "plumb/onnx.h"
#include <onnx.pb-c.h>

// Writes `model`, whose graph is `graph` and whose initializers have their values as raw data. With
// `external`, or where one message could not hold them, large values go to a file of their own;
// then `graph` loses its pointers to them. `arena` keeps what that needs. Sets the sizes and
// `external` of *out.
//
// Whoever stops at any moment leaves the model that was there, with its own values, or the new one
// with its own: values never go where a model that is there looks for other ones.
PLB_MUST_USE plb_status plb_onnx_store(const Onnx__ModelProto *model, Onnx__GraphProto *graph,
                                       plb_arena *arena, const char *path, bool external,
                                       plb_onnx_written *out);

#endif
