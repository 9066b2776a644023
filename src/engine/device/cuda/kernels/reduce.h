// SPDX-License-Identifier: Apache-2.0
// Numbers of the reductions, arg_max and arg_min included.
#ifndef PLB_ENGINE_DEVICE_CUDA_KERNELS_REDUCE_H
#define PLB_ENGINE_DEVICE_CUDA_KERNELS_REDUCE_H

#include "engine/device/cuda/kernels/own.h"

enum {
    PLB_REDUCE_RANK = 8,
    PLB_REDUCE_THREADS = 256,
    PLB_REDUCE_SPLIT_LANES = 32, // that fold the parts of an output
    PLB_REDUCE_SPLITS = 256,     // at most
};

typedef enum plb_fold {
    PLB_FOLD_SUM,
    PLB_FOLD_MEAN,
    PLB_FOLD_PROD,
    PLB_FOLD_MAX,
    PLB_FOLD_MIN,
    PLB_FOLD_ANY,
    PLB_FOLD_ALL,
    PLB_FOLD_VAR,
    PLB_FOLD_NORM,
    PLB_FOLD_LOGSUMEXP,
    PLB_FOLD_ARG_MAX,
    PLB_FOLD_ARG_MIN,
} plb_fold;

// Outputs run over the kept axes, the cells of one over the reduced axes; both outermost first.
typedef struct plb_reduce_params {
    int64_t outputs, cells;
    double p;
    int32_t fold, dtype;
    int32_t splits;      // of the cells of an output, over blocks
    int32_t cells_inner; // threads next to each other take cells of one output, else outputs
    int32_t kept_rank, cell_rank;
    int64_t kept_dim[PLB_REDUCE_RANK], kept_in[PLB_REDUCE_RANK], kept_out[PLB_REDUCE_RANK];
    int64_t cell_dim[PLB_REDUCE_RANK], cell_in[PLB_REDUCE_RANK];
} plb_reduce_params;

#endif
