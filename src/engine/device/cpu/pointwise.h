// SPDX-License-Identifier: Apache-2.0
// The pointwise kernel's program, and the loops that its instructions run over one block.
//
// Every value of a program is a block of lanes: f32, or f64 where the program knows f64, for
// floats and bools (0 or 1); i64 for integers. Elements are converted when a block is loaded and
// stored, so that a bf16 program is an f32 program with other ends.
#ifndef PLB_ENGINE_DEVICE_CPU_POINTWISE_H
#define PLB_ENGINE_DEVICE_CPU_POINTWISE_H

#include "engine/device/cpu/nest.h"
#include "engine/device/cpu/vec.h"
#include "engine/ops/fused.h"

typedef enum plb_lane { PLB_LANE_F32, PLB_LANE_F64, PLB_LANE_I64 } plb_lane;

typedef struct plb_lane_instr {
    plb_op_id op;
    int n_operands, operand[PLB_POINTWISE_MAX_IN], result; // numbers of values
    plb_lane from, to;  // lanes of the operands (of where: of the last two) and of the result
    plb_lane condition; // of where: lanes of the first operand
    plb_dtype from_dtype, dtype;
    double alpha, beta;
} plb_lane_instr;

typedef struct plb_lane_program {
    int n_in, n_instr, n_out;
    int out[PLB_FUSED_MAX_OUT];            // values
    plb_dtype dtype[PLB_FUSED_MAX_VALUES]; // of values
    plb_lane lane[PLB_FUSED_MAX_VALUES];   // of values
    int slot[PLB_FUSED_MAX_VALUES];        // of values: the block of memory that holds them
    int n_slots;
    bool wide; // some lanes have 64 bits
    plb_lane_instr instr[PLB_FUSED_MAX_INSTR];
} plb_lane_program;

// pointwise_program.c: the program of a node; a reason why there is none, or NULL.
const char *plb_lane_compile(const plb_query *q, plb_lane_program *p);

// pointwise_lanes.c
size_t plb_lane_bytes(plb_lane lane);
bool plb_lane_is_native(plb_lane lane, plb_dtype dtype); // lanes are elements
// n elements of `dtype`, `stride` elements apart, to lanes and back.
void plb_lane_load(const plb_vec *vec, plb_lane lane, void *lanes, plb_dtype dtype,
                   const void *from, int64_t stride, int64_t n);
void plb_lane_store(const plb_vec *vec, plb_lane lane, const void *lanes, plb_dtype dtype, void *to,
                    int64_t stride, int64_t n);
// Runs an instruction over n lanes; operands and result may be one block.
void plb_lane_run(const plb_vec *vec, const plb_lane_instr *instr, void *const *values, int64_t n);

#endif
