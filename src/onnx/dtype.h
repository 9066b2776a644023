// SPDX-License-Identifier: Apache-2.0
// The numbers by which ONNX names element types (onnx.proto, TensorProto.DataType). Written out
// here, as an older schema lacks the newer ones.
#ifndef PLB_ONNX_DTYPE_H
#define PLB_ONNX_DTYPE_H

#include "plumb/tensor.h"

// PLB_EUNSUPPORTED for a type that Plumb has no arithmetic for, by name.
PLB_MUST_USE plb_status plb_onnx_dtype(int64_t number, plb_dtype *out);
// The other way; 0 for none.
int plb_onnx_dtype_number(plb_dtype dtype);
// "float8e4m3fn"; "type 99" is "unknown". Static.
const char *plb_onnx_dtype_name(int64_t number);

#endif
