// SPDX-License-Identifier: Apache-2.0
// The format's names of dtypes, shared by reader and writer.
#ifndef PLB_IO_SAFETENSORS_DTYPE_H
#define PLB_IO_SAFETENSORS_DTYPE_H

#include <stdbool.h>

#include "plumb/tensor.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "values are used as they lie in the file, little-endian"
#endif

// The dtype called `name`; PLB_DTYPE_COUNT when there is none, with *known set when the format has
// such a name nevertheless.
plb_dtype plb_safetensors_dtype(const char *name, bool *known);
// "BF16", or NULL for a dtype that cannot be written. Static.
const char *plb_safetensors_dtype_name(plb_dtype dtype);

#endif
