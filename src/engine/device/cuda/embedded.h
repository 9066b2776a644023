// SPDX-License-Identifier: Apache-2.0
// Fat binaries of kernels/*.cu, put into the module by cmake/cuda.cmake, which writes the list.
#ifndef PLB_ENGINE_DEVICE_CUDA_EMBEDDED_H
#define PLB_ENGINE_DEVICE_CUDA_EMBEDDED_H

typedef struct plb_cuda_embedded {
    const char *name;  // "move" of kernels/move.cu
    const void *image; // as cuLibraryLoadData takes it
} plb_cuda_embedded;

extern const plb_cuda_embedded plb_cuda_embedded_list[]; // ends with a NULL name
extern const char plb_cuda_pointwise_language[];         // text of kernels/pointwise.cuh

#endif
