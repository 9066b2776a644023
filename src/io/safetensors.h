// SPDX-License-Identifier: Apache-2.0
// Weights in the safetensors format (https://github.com/huggingface/safetensors, "Format"): eight
// bytes of header length, little-endian; a JSON object from names to {dtype, shape, data_offsets},
// with an optional "__metadata__" of strings; then the values, row-major, without gaps. Files are
// taken for hostile: nothing is looked at before its place was checked, and a file that this reader
// takes has every tensor inside the file, without overlap, of the size that its shape asks for.
#ifndef PLB_IO_SAFETENSORS_H
#define PLB_IO_SAFETENSORS_H

#include <stddef.h>

#include "plumb/tensor.h"

typedef struct plb_named_tensor {
    const char *name; // UTF-8
    plb_tensor tensor;
} plb_named_tensor;

typedef struct plb_name_value {
    const char *name, *value; // UTF-8
} plb_name_value;

typedef struct plb_safetensors plb_safetensors;

// Opens a file, mapped, or takes `bytes`, which must outlive the result; `label` stands for the
// path in messages. Errors: PLB_EINVAL (file, place, expected, found), PLB_EUNSUPPORTED for the
// format's dtypes that Plumb has no arithmetic for, PLB_EIO, PLB_ENOMEM.
PLB_API PLB_MUST_USE plb_status plb_safetensors_open(const char *path, plb_safetensors **out);
PLB_API PLB_MUST_USE plb_status plb_safetensors_parse(const void *bytes, size_t size_bytes,
                                                      const char *label, plb_safetensors **out);
PLB_API void plb_safetensors_free(plb_safetensors *file);

// Tensors in the order of their values in the file. All are borrowed from `file`, dense, plain,
// aligned for their dtype, and read-only: writing to them is a fault.
PLB_API size_t plb_safetensors_count(const plb_safetensors *file);
PLB_API const plb_named_tensor *plb_safetensors_at(const plb_safetensors *file, size_t i);
// The tensor of that name, or NULL.
PLB_API const plb_named_tensor *plb_safetensors_find(const plb_safetensors *file, const char *name);
// The value of a key of __metadata__, or NULL. Borrowed.
PLB_API const char *plb_safetensors_metadata(const plb_safetensors *file, const char *key);

// Writes the tensors, in any layout, as plain values, each aligned for its dtype: widest dtypes
// first, else in the given order. The file appears whole or not at all. PLB_EINVAL: a name that is
// double, reserved or not UTF-8. PLB_EUNSUPPORTED: a reserved dtype. Further PLB_EFULL, PLB_EIO,
// PLB_ENOMEM.
PLB_API PLB_MUST_USE plb_status plb_safetensors_write(const char *path,
                                                      const plb_named_tensor *tensors, size_t count,
                                                      const plb_name_value *metadata,
                                                      size_t metadata_count);

#endif
