// SPDX-License-Identifier: Apache-2.0
// Protocol buffers, decoded by the tables that protobuf-c generates from ONNX's schema. Not by
// protobuf-c's own unpacker, since that copies every byte: here `bytes` fields (the weights) point
// into the file, and everything else lies in one arena. Files are taken for hostile: lengths,
// depth and the memory that decoding may take are bounded by the size of the file.
#ifndef PLB_ONNX_WIRE_H
#define PLB_ONNX_WIRE_H

#include <protobuf-c/protobuf-c.h>

#include "base/core/arena.h"

// Decodes `size_bytes` bytes, which must outlive `*out`, as one message of this kind. `*out` and
// all that it points to but bytes is the arena's. PLB_EINVAL tells the offset.
PLB_MUST_USE plb_status plb_wire_decode(plb_arena *arena, const ProtobufCMessageDescriptor *kind,
                                        const void *bytes, size_t size_bytes, void **out);

#endif
