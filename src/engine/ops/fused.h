// SPDX-License-Identifier: Apache-2.0
// A chain of pointwise ops in one node: a small program that runs once for every element, so that
// what lies between its steps never goes to memory. The fusion pass makes these nodes, after
// autodiff; backends interpret or compile the program.
//
// Shapes: all inputs broadcast to one shape, at which every instruction runs and which every
// output has. A chain whose result is smaller than that is not fused.
//
// Values are numbered: 0 to n_in - 1 are the inputs, n_in + j is the result of instruction j.
// An instruction reads only what has a lower number than its own result.
//
// Dtypes follow the rules of the single ops (plb_pointwise_dtype). Floats between instructions
// keep at least the precision of f32, of f64 where an input or an instruction is f64, and are
// rounded to their own dtype only when stored as an output: a cast between float dtypes inside a
// chain does not round. (`ref` keeps f64 throughout.) Integers wrap at every instruction.
#ifndef PLB_ENGINE_OPS_FUSED_H
#define PLB_ENGINE_OPS_FUSED_H

#include "engine/ops/pointwise.h"

enum { PLB_FUSED_MAX_IN = 8, PLB_FUSED_MAX_INSTR = 32, PLB_FUSED_MAX_OUT = 4 };

// Both structs have no gaps, so that equal programs are equal bytes; what is not used is 0.
typedef struct plb_fused_instr {
    int32_t op;                            // plb_op_id of a pointwise op, not fused itself
    int32_t dtype;                         // of the result: read for cast alone
    int32_t operand[PLB_POINTWISE_MAX_IN]; // numbers of values, as many as the op's arity
    int32_t zero;
    double alpha, beta; // as the op's attributes
} plb_fused_instr;

typedef struct plb_fused_attrs {
    int32_t n_in, n_instr, n_out, zero;
    int32_t out[PLB_FUSED_MAX_OUT]; // numbers of the values that are outputs; never inputs
    plb_fused_instr instr[PLB_FUSED_MAX_INSTR];
} plb_fused_attrs;

enum { PLB_FUSED_MAX_VALUES = PLB_FUSED_MAX_IN + PLB_FUSED_MAX_INSTR };

// Checks a program for inputs of these dtypes (n_in of them) and writes the dtype of every value,
// inputs first. PLB_EINVAL with the instruction that is wrong.
PLB_API PLB_MUST_USE plb_status plb_fused_dtypes(const plb_fused_attrs *attrs, const plb_dtype *in,
                                                 plb_dtype out[PLB_FUSED_MAX_VALUES]);

// Runs the program for one element: value[0 .. n_in - 1] are given, the others are written.
// `dtype` is what plb_fused_dtypes wrote.
PLB_API void plb_fused_element(const plb_fused_attrs *attrs, const plb_dtype *dtype,
                               plb_number value[PLB_FUSED_MAX_VALUES]);

#endif
