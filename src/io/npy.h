// SPDX-License-Identifier: Apache-2.0
// One array in numpy's format (https://numpy.org/doc/stable/reference/generated/
// numpy.lib.format.html), versions 1 to 3: "\x93NUMPY", two bytes of version, the header's length,
// a Python dict {'descr', 'fortran_order', 'shape'}, then the values.
#ifndef PLB_IO_NPY_H
#define PLB_IO_NPY_H

#include <stddef.h>

#include "plumb/tensor.h"

// Reads a file, or `bytes`, whose `label` stands for the path in messages. `out` becomes dense and
// plain, whatever the order and the endianness in the file; its data is the caller's to plb_free.
// Errors: PLB_EINVAL (file, place, expected, found; also for bytes after the values),
// PLB_EUNSUPPORTED for dtypes without a plb_dtype (complex, strings, records), PLB_EIO, PLB_ENOMEM.
PLB_API PLB_MUST_USE plb_status plb_npy_read(const char *path, plb_tensor *out);
PLB_API PLB_MUST_USE plb_status plb_npy_parse(const void *bytes, size_t size_bytes,
                                              const char *label, plb_tensor *out);

// Writes a tensor of any layout as version 1.0, row-major; the file appears whole or not at all.
// Errors: PLB_EUNSUPPORTED (numpy has no bf16), PLB_EINVAL, PLB_EFULL, PLB_EIO, PLB_ENOMEM.
PLB_API PLB_MUST_USE plb_status plb_npy_write(const char *path, const plb_tensor *tensor);

#endif
