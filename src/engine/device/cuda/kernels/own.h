// SPDX-License-Identifier: Apache-2.0
// What the host and the device agree on for own kernels: every one takes the operands of its node
// and one struct of numbers, by value.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_OWN_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_OWN_H

#include <stdint.h>

enum { PLB_OPERANDS_IN = 8, PLB_OPERANDS_OUT = 4 };

// A note that a kernel leaves in host memory: operand data that makes the run fail.
typedef struct plb_fault {
    int32_t happened;     // 0: nothing
    int32_t op;           // plb_op_id of the node
    int64_t place, found; // number of the element in row-major order, and what it is
    int64_t limit;        // legal are 0 to limit - 1
} plb_fault;

// On the device: who takes the lock first may write the note.
typedef struct plb_fault_box {
    int32_t lock, zero;
    plb_fault *note;
} plb_fault_box;

typedef struct plb_operands {
    const void *in[PLB_OPERANDS_IN]; // NULL: absent
    void *out[PLB_OPERANDS_OUT];     // NULL: nobody reads it
    void *workspace;
    plb_fault_box *fault;
} plb_operands;

// Values of plb_dtype, which kernels switch on. own.c checks that they are the same.
enum {
    PLB_CODE_F64,
    PLB_CODE_F32,
    PLB_CODE_F16,
    PLB_CODE_BF16,
    PLB_CODE_I8,
    PLB_CODE_I16,
    PLB_CODE_I32,
    PLB_CODE_I64,
    PLB_CODE_U8,
    PLB_CODE_U16,
    PLB_CODE_U32,
    PLB_CODE_U64,
    PLB_CODE_BOOL,
};

// y = act(value): as plb_epilogue.
typedef struct plb_act {
    int32_t kind; // plb_activation
    int32_t zero;
    double alpha, beta;
} plb_act;

#endif
