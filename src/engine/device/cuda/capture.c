// SPDX-License-Identifier: Apache-2.0
// Captured graphs. What is recorded waits for all that was recorded before, or only for what the
// caller names. Nodes that set or copy memory, which libraries and executors leave in between,
// become kernels: a graph of kernels alone is launched several times faster, by the processor and
// by the device.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/cuda.h"
#include "engine/device/cuda/kernels/bytes.h"

enum { NEIGHBOURS = 16 };

// Relaxed: libraries may ask the driver for memory or load code while they are captured.
plb_status plb_cuda_capture_begin(plb_stream *stream) {
    PLB_TRY(plb_cuda_check(cuStreamBeginCapture(stream->handle, CU_STREAM_CAPTURE_MODE_RELAXED),
                           "begin a capture"));
    stream->capturing = true;
    return PLB_OK;
}

plb_status plb_cuda_capture_after(plb_stream *stream, const plb_mark *marks, int n) {
    CUgraphNode nodes[PLB_MARK_NODES * PLB_MARKS_MAX];
    size_t count = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < marks[i].n; k++) nodes[count++] = marks[i].node[k];
    }
    return plb_cuda_check(cuStreamUpdateCaptureDependencies(stream->handle, nodes, NULL, count,
                                                            CU_STREAM_SET_CAPTURE_DEPENDENCIES),
                          "order a capture");
}

plb_status plb_cuda_capture_mark(plb_stream *stream, plb_mark *out) {
    CUstreamCaptureStatus status;
    const CUgraphNode *nodes = NULL;
    const CUgraphEdgeData *edges = NULL;
    size_t n = 0;
    *out = (plb_mark){0};
    PLB_TRY(plb_cuda_check(
        cuStreamGetCaptureInfo(stream->handle, &status, NULL, NULL, &nodes, &edges, &n),
        "ask about a capture"));
    if (n > PLB_MARK_NODES) return plb_fail(PLB_EUNSUPPORTED, "cuda: a mark of %zu nodes", n);
    for (size_t i = 0; i < n; i++) out->node[i] = nodes[i];
    out->n = (int)n;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- kernels for memory
// A node's neighbours, and what its edges say.
typedef struct neighbours {
    CUgraphNode before[NEIGHBOURS], after[NEIGHBOURS];
    CUgraphEdgeData before_edge[NEIGHBOURS], after_edge[NEIGHBOURS];
    size_t n_before, n_after;
} neighbours;

static bool plain_edges(const CUgraphEdgeData *edges, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (edges[i].from_port || edges[i].to_port || edges[i].type) return false;
    }
    return true;
}

// False: too many, or edges that mean more than "after its end".
static bool neighbours_of(CUgraphNode node, neighbours *out) {
    *out = (neighbours){.n_before = NEIGHBOURS, .n_after = NEIGHBOURS};
    size_t before = 0, after = 0;
    if (cuGraphNodeGetDependencies(node, NULL, NULL, &before) ||
        cuGraphNodeGetDependentNodes(node, NULL, NULL, &after) || before > NEIGHBOURS ||
        after > NEIGHBOURS) {
        return false;
    }
    out->n_before = before, out->n_after = after;
    if (before && cuGraphNodeGetDependencies(node, out->before, out->before_edge, &before)) {
        return false;
    }
    if (after && cuGraphNodeGetDependentNodes(node, out->after, out->after_edge, &after)) {
        return false;
    }
    return plain_edges(out->before_edge, before) && plain_edges(out->after_edge, after);
}

// Whether a node sets or copies one run of bytes, and which.
static bool is_bytes(CUgraphNode node, plb_bytes_params *out) {
    CUgraphNodeType type;
    if (cuGraphNodeGetType(node, &type)) return false;
    if (type == CU_GRAPH_NODE_TYPE_MEMSET) {
        CUDA_MEMSET_NODE_PARAMS set;
        if (cuGraphMemsetNodeGetParams(node, &set) || set.height > 1) return false;
        const unsigned byte = set.value & 0xff;
        bool same = set.elementSize == 1 || (set.elementSize == 2 && set.value == byte * 0x101u) ||
                    (set.elementSize == 4 && set.value == byte * 0x1010101u);
        if (!same) return false;
        *out = (plb_bytes_params){.to = (void *)(uintptr_t)set.dst,
                                  .count = (int64_t)(set.width * set.elementSize),
                                  .word = byte * 0x1010101u};
        return true;
    }
    if (type != CU_GRAPH_NODE_TYPE_MEMCPY) return false;
    CUDA_MEMCPY3D copy;
    if (cuGraphMemcpyNodeGetParams(node, &copy) || copy.Height > 1 || copy.Depth > 1) return false;
    const bool device =
        copy.srcMemoryType == CU_MEMORYTYPE_DEVICE && copy.dstMemoryType == CU_MEMORYTYPE_DEVICE;
    if (!device || copy.srcY || copy.srcZ || copy.dstY || copy.dstZ) return false;
    *out = (plb_bytes_params){.to = (void *)(uintptr_t)(copy.dstDevice + copy.dstXInBytes),
                              .from = (const void *)(uintptr_t)(copy.srcDevice + copy.srcXInBytes),
                              .count = (int64_t)copy.WidthInBytes};
    return true;
}

static plb_status put_kernel(const plb_stream *stream, CUgraph graph, CUgraphNode node,
                             const plb_bytes_params *bytes) {
    neighbours near;
    CUfunction function;
    CUgraphNode made;
    if (!neighbours_of(node, &near)) return PLB_OK; // stays as it is
    PLB_TRY(plb_cuda_function(stream->device, bytes->from ? "plb_bytes_copy" : "plb_bytes_set",
                              &function));
    plb_bytes_params params = *bytes;
    const int64_t per_block = PLB_BYTES_THREADS * 16;
    CUDA_KERNEL_NODE_PARAMS p = {.func = function,
                                 .gridDimX =
                                     plb_cuda_blocks(stream->device, bytes->count, per_block, 8),
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = PLB_BYTES_THREADS,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = (void *[]){&params}};
    PLB_TRY(plb_cuda_check(cuGraphAddKernelNode(&made, graph, near.before, near.n_before, &p),
                           "add a kernel to a graph"));
    CUgraphNode from[NEIGHBOURS];
    for (size_t i = 0; i < near.n_after; i++) from[i] = made;
    PLB_TRY(plb_cuda_check(cuGraphDestroyNode(node), "take a node out of a graph"));
    if (!near.n_after) return PLB_OK;
    return plb_cuda_check(cuGraphAddDependencies(graph, from, near.after, NULL, near.n_after),
                          "order a graph");
}

static plb_status kernels_alone(const plb_stream *stream, CUgraph graph) {
    size_t n = 0;
    plb_status status = PLB_OK;
    PLB_TRY(plb_cuda_check(cuGraphGetNodes(graph, NULL, &n), "list a graph"));
    if (!n) return PLB_OK;
    CUgraphNode *nodes = plb_alloc_array(n + 1, sizeof(CUgraphNode));
    if (!nodes) return plb_fail(PLB_ENOMEM, "out of memory for a capture");
    PLB_TRY_OUT(plb_cuda_check(cuGraphGetNodes(graph, nodes, &n), "list a graph"));
    for (size_t i = 0; i < n; i++) {
        plb_bytes_params bytes;
        if (is_bytes(nodes[i], &bytes)) PLB_TRY_OUT(put_kernel(stream, graph, nodes[i], &bytes));
    }
out:
    plb_free(nodes);
    return status;
}

// ---------------------------------------------------------------------------- whole graphs
plb_status plb_cuda_capture_end(plb_stream *stream, plb_capture **out) {
    CUgraph graph = NULL;
    *out = NULL;
    stream->capturing = false;
    PLB_TRY(plb_cuda_check(cuStreamEndCapture(stream->handle, &graph), "end a capture"));
    plb_capture *capture = plb_alloc(sizeof *capture);
    plb_status status = capture ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a capture");
    if (!status) status = kernels_alone(stream, graph);
    if (!status) {
        status = plb_cuda_check(cuGraphInstantiate(&capture->exec, graph, 0), "make a graph");
    }
    if (status) {
        cuGraphDestroy(graph);
        plb_free(capture);
        return status;
    }
    capture->graph = graph;
    *out = capture;
    return plb_cuda_check(cuGraphUpload(capture->exec, stream->handle), "upload a graph");
}

plb_status plb_cuda_replay(plb_stream *stream, plb_capture *capture) {
    return plb_cuda_check(cuGraphLaunch(capture->exec, stream->handle), "launch a graph");
}

void plb_cuda_capture_free(plb_capture *capture) {
    if (!capture) return;
    cuGraphExecDestroy(capture->exec);
    cuGraphDestroy(capture->graph);
    plb_free(capture);
}
