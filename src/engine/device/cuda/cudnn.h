// SPDX-License-Identifier: Apache-2.0
// The one place that talks to cuDNN 9, through its backend descriptors: operation graphs of
// convolutions with pointwise epilogues, the engines that the library proposes for them, and plans
// made from those, which can be written down and read again. The library is opened at run time;
// its absence is a reason to refuse, never an error of the backend.
//
//     graph -> candidates (heuristics) -> plan (may compile: slow) -> execute
//
// A graph must outlive its candidates, candidates their plans. Calls for different graphs may come
// from several threads at once.
#ifndef PLB_ENGINE_DEVICE_CUDA_CUDNN_H
#define PLB_ENGINE_DEVICE_CUDA_CUDNN_H

#include <cudnn.h>

#include "engine/device/cuda/cuda.h"

// NULL when the library can be used, else why not.
const char *plb_cudnn_missing(void);
// "cudnn91400", or "no-cudnn".
const char *plb_cudnn_version(void);
// A handle for making plans on `device`; owned here, one a device.
PLB_MUST_USE plb_status plb_cudnn_handle(plb_device *device, cudnnHandle_t *out);

// Makes the handles of `device` now, if the library is there.
void plb_cudnn_preload(plb_device *device);

// Another one, for a thread that makes plans beside others: never freed.
PLB_MUST_USE plb_status plb_cudnn_handle_new(plb_device *device, cudnnHandle_t *out);

// ---------------------------------------------------------------------------- graphs
enum { PLB_CUDNN_RANK = 5, PLB_CUDNN_AXES = 3 };

typedef struct plb_cudnn_tensor {
    int64_t uid; // names the operand when the plan runs
    plb_dtype dtype;
    int rank; // 4 or 5: N, C, spatial
    int64_t dim[PLB_CUDNN_RANK], stride[PLB_CUDNN_RANK];
    bool inner; // made by one op for the next, never in memory
} plb_cudnn_tensor;

typedef struct plb_cudnn_convolution {
    plb_op_id op;        // conv, conv_input_grad or conv_weight_grad
    plb_dtype precision; // of sums: f32 or f64
    int axes;            // 2 or 3
    int64_t stride[PLB_CUDNN_AXES], dilation[PLB_CUDNN_AXES];
    int64_t pad[PLB_CUDNN_AXES], pad_end[PLB_CUDNN_AXES];
    cudnnBackendDescriptor_t x, w, y; // of the forward convolution, whichever is computed
} plb_cudnn_convolution;

typedef struct plb_cudnn_graph plb_cudnn_graph;

PLB_MUST_USE plb_status plb_cudnn_graph_new(plb_cudnn_graph **out);
void plb_cudnn_graph_free(plb_cudnn_graph *graph);
// The graph owns what these make. PLB_EUNSUPPORTED where the library refuses.
PLB_MUST_USE plb_status plb_cudnn_add_tensor(plb_cudnn_graph *graph, const plb_cudnn_tensor *tensor,
                                             cudnnBackendDescriptor_t *out);
PLB_MUST_USE plb_status plb_cudnn_add_convolution(plb_cudnn_graph *graph,
                                                  const plb_cudnn_convolution *convolution);
// y = a + b; b broadcasts.
PLB_MUST_USE plb_status plb_cudnn_add_sum(plb_cudnn_graph *graph, cudnnBackendDescriptor_t a,
                                          cudnnBackendDescriptor_t b, cudnnBackendDescriptor_t y);
// y = x between the bounds; {0, infinity} is ReLU.
PLB_MUST_USE plb_status plb_cudnn_add_clamp(plb_cudnn_graph *graph, cudnnBackendDescriptor_t x,
                                            cudnnBackendDescriptor_t y, const double bounds[2]);
// y = x sigmoid(x).
PLB_MUST_USE plb_status plb_cudnn_add_silu(plb_cudnn_graph *graph, cudnnBackendDescriptor_t x,
                                           cudnnBackendDescriptor_t y);
// After the last op.
PLB_MUST_USE plb_status plb_cudnn_graph_finish(plb_cudnn_graph *graph, cudnnHandle_t handle);

// ---------------------------------------------------------------------------- candidates
typedef struct plb_cudnn_candidate {
    cudnnBackendDescriptor_t config; // owned by the candidate
    int64_t engine;
    uint32_t knobs; // hash of the settings
    unsigned notes; // bit per cudnnBackendNumericalNote_t
} plb_cudnn_candidate;

// Takes a candidate over; returns whether it counts.
typedef bool (*plb_cudnn_taker)(void *context, plb_cudnn_candidate *candidate);
// Hands out what the library proposes, best guess first, until `most` counted.
void plb_cudnn_propose(plb_cudnn_graph *graph, cudnnBackendHeurMode_t mode, int most,
                       plb_cudnn_taker take, void *context);
void plb_cudnn_candidate_free(plb_cudnn_candidate *candidate);

// ---------------------------------------------------------------------------- plans
typedef struct plb_cudnn_plan {
    cudnnBackendDescriptor_t descriptor;
    size_t workspace_bytes;
} plb_cudnn_plan;

PLB_MUST_USE plb_status plb_cudnn_plan_build(cudnnHandle_t handle,
                                             const plb_cudnn_candidate *candidate,
                                             plb_cudnn_plan *out);
// As text of the library's own; `*out` is the caller's to plb_free.
PLB_MUST_USE plb_status plb_cudnn_plan_write(const plb_cudnn_plan *plan, char **out,
                                             size_t *out_bytes);
PLB_MUST_USE plb_status plb_cudnn_plan_read(cudnnHandle_t handle, const char *text,
                                            size_t size_bytes, plb_cudnn_plan *out);
void plb_cudnn_plan_free(plb_cudnn_plan *plan);

// Which memory a run uses. Made anew when a pointer changes.
typedef struct plb_cudnn_operands {
    int n;
    int64_t uid[8];
    void *data[8];
    void *workspace;
} plb_cudnn_operands;

PLB_MUST_USE plb_status plb_cudnn_pack_new(const plb_cudnn_operands *operands,
                                           cudnnBackendDescriptor_t *out);
void plb_cudnn_descriptor_free(cudnnBackendDescriptor_t descriptor); // NULL is legal
// Appends the plan's work to the stream.
PLB_MUST_USE plb_status plb_cudnn_execute(plb_stream *stream, const plb_cudnn_plan *plan,
                                          cudnnBackendDescriptor_t pack);

#endif
