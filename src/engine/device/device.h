// SPDX-License-Identifier: Apache-2.0
// What a device offers the planner and the executors: memory, streams, events, capture, and lists
// of kernels. One const table a backend; the CPU's is linked in, others are modules opened at run
// time. Nothing above this line knows which device it talks to.
#ifndef PLB_ENGINE_DEVICE_DEVICE_H
#define PLB_ENGINE_DEVICE_DEVICE_H

#include "engine/ops/op.h"
#include "plumb/plan.h"

typedef struct plb_device plb_device;   // one physical device
typedef struct plb_stream plb_stream;   // work in order, asynchronous to the caller
typedef struct plb_event plb_event;     // a point in a stream
typedef struct plb_capture plb_capture; // recorded work that can be replayed

enum { PLB_MARK_NODES = 4, PLB_MARKS_MAX = 16 };

// Something recorded, for others to wait for; it holds while the capture goes on.
typedef struct plb_mark {
    void *node[PLB_MARK_NODES];
    int n;
} plb_mark;

// What a kernel is asked about: the node with final shapes, dtypes, layouts and strides, no data.
typedef struct plb_query {
    plb_op_id op;
    const void *attrs;
    int n_in, n_out;
    const plb_tensor *in, *out;
    unsigned constant;  // bit i: input i keeps its value from run to run, so packing it pays
    int threads;        // of the CPU
    bool deterministic; // the same bits in every run are asked for
    bool racing;        // variants are about to be timed: what is slow to make may be made at once
    bool no_winograd;
    bool unaligned;     // an operand, a view, begins between multiples of 16 bytes
    int64_t tune_ms;    // for all choices of the program together; INT64_MAX: no limit
    plb_math math;      // whether products of f32 may use TF32 tensor cores
    plb_device *device; // opened, current for the calling thread
} plb_query;

// A kernel made ready for one node. Owned by the plan, which calls `release` once.
typedef struct plb_launch {
    void *state;
    void (*release)(void *state); // may be NULL
    // NULL: nothing to pack.
    plb_status (*pack)(void *state, const plb_call *call, void *packed, plb_stream *stream);
    plb_status (*run)(void *state, const plb_call *call, plb_stream *stream);
    size_t workspace_bytes, packed_bytes;
    unsigned packed_inputs;    // bit i: run reads input i only through `packed`
    unsigned optional_outputs; // bit k: output k may be NULL when nobody reads it
    double flops;              // arithmetic that this algorithm executes
    double bytes;              // memory it must at least move
} plb_launch;

enum { PLB_CHOICE_BYTES = 64 }; // of the text that names a variant and its blocking
enum { PLB_MAX_VARIANTS = 64 }; // of a kernel, for one node

// One of several nodes that a kernel may run at once, with its operands where they will be.
typedef struct plb_part {
    const plb_launch *launch;
    const plb_call *call;
} plb_part;

// Way of computing an op. `refuse` gives the reason why not, static text, or NULL.
typedef struct plb_kernel {
    const char *name;
    plb_op_id op; // PLB_OP_COUNT: any that `refuse` accepts
    const char *(*refuse)(const plb_query *q);
    // Variants worth timing against each other, best guess first; NULL: only "".
    int (*choices)(const plb_query *q, char out[][PLB_CHOICE_BYTES], int max);
    // Told of every node whose variants will be timed, before the first of them is: what is slow
    // to make can be made in the background meanwhile. May be NULL.
    void (*foresee)(const plb_query *q);
    // `choice` is one of those texts, perhaps from a cache of an earlier version: one that means
    // nothing is PLB_EUNSUPPORTED.
    PLB_MUST_USE plb_status (*prepare)(const plb_query *q, const char *choice, plb_launch *out);
    // One launch in place of `n`, of nodes that read nothing that another of them writes; it needs
    // no workspace and packs nothing, and its `run` gets no call (NULL): all is in its state. NULL,
    // or PLB_EUNSUPPORTED: they run one by one.
    PLB_MUST_USE plb_status (*merge)(plb_device *device, const plb_part *parts, int n,
                                     plb_launch *out);
    bool tuned;      // compare with the kernels after it by timing instead of by order
    bool only_timed; // where nothing is timed, the kernels after it are the better guess
} plb_kernel;

typedef struct plb_backend {
    const char *name; // "cpu"
    // Memory of the device is the host's: operands are read and written in place. Elsewhere inputs
    // and outputs are copied, and a kernel's `run` only appends work to its stream.
    bool host_memory;
    int (*device_count)(void);
    PLB_MUST_USE plb_status (*open)(int index, plb_device **out);
    void (*close)(plb_device *device);
    // Makes the device current for the calling thread; before any call from a new thread.
    PLB_MUST_USE plb_status (*enter)(plb_device *device);
    const char *(*describe)(const plb_device *device);
    // Libraries that the backend opens at run time, one at each index: its name, and its version or
    // NULL where it is not found. False past the last. NULL: it opens none.
    bool (*library)(int index, const char **out_name, const char **out_version);
    // The query's device and the versions of the libraries that may compute it, one word: part of
    // the key of remembered kernel choices.
    const char *(*fingerprint)(const plb_query *q);

    // Memory. `copy` is ordered in the stream; host memory on both sides is legal everywhere.
    PLB_MUST_USE plb_status (*alloc)(plb_device *device, size_t size_bytes, void **out);
    void (*free)(plb_device *device, void *memory);
    PLB_MUST_USE plb_status (*copy)(plb_stream *stream, void *to, const void *from,
                                    size_t size_bytes);
    // The same by a kernel, for a few bytes within the device or between it and memory of
    // host_alloc: an engine for copies takes longer to begin than they do. NULL: there is none.
    PLB_MUST_USE plb_status (*copy_near)(plb_stream *stream, void *to, const void *from,
                                         size_t size_bytes);
    // Zeroes, in order in the stream.
    PLB_MUST_USE plb_status (*clear)(plb_stream *stream, void *memory, size_t size_bytes);
    // From a pool, in order in the stream, as level interp takes and gives back every value.
    PLB_MUST_USE plb_status (*pool_alloc)(plb_stream *stream, size_t size_bytes, void **out);
    void (*pool_free)(plb_stream *stream, void *memory);
    // Host memory that the device reads and writes at full speed.
    PLB_MUST_USE plb_status (*host_alloc)(plb_device *device, size_t size_bytes, void **out);
    void (*host_free)(plb_device *device, void *memory);
    PLB_MUST_USE plb_status (*memory)(plb_device *device, size_t *out_free, size_t *out_total);
    // Copies every element, converting dtype and layout; both on the device.
    PLB_MUST_USE plb_status (*move)(plb_stream *stream, const plb_tensor *to,
                                    const plb_tensor *from);

    // Streams. `enqueue` runs a host function in order with the rest of the stream; NULL where
    // what kernels append is captured by itself.
    PLB_MUST_USE plb_status (*stream_new)(plb_device *device, plb_stream **out);
    void (*stream_free)(plb_stream *stream);
    PLB_MUST_USE plb_status (*enqueue)(plb_stream *stream, plb_status (*work)(void *context),
                                       void *context);
    PLB_MUST_USE plb_status (*wait)(plb_stream *stream); // and the first error of its work
    PLB_MUST_USE plb_status (*event_new)(plb_device *device, plb_event **out);
    void (*event_free)(plb_event *event);
    PLB_MUST_USE plb_status (*record)(plb_stream *stream, plb_event *event);
    PLB_MUST_USE plb_status (*wait_event)(plb_stream *stream, plb_event *event);
    PLB_MUST_USE plb_status (*wait_for)(plb_event *event); // until it has passed
    PLB_MUST_USE plb_status (*elapsed_ns)(const plb_event *from, const plb_event *to,
                                          int64_t *out_ns);

    // Capture. Between begin and end, work is recorded and not run.
    PLB_MUST_USE plb_status (*capture_begin)(plb_stream *stream);
    // What is recorded next waits for these marks alone (at most PLB_MARKS_MAX; with n = 0 for
    // nothing) instead of for all that was recorded before; `mark` stands for what was recorded
    // since. NULL: everything is recorded in order.
    PLB_MUST_USE plb_status (*capture_after)(plb_stream *stream, const plb_mark *marks, int n);
    PLB_MUST_USE plb_status (*capture_mark)(plb_stream *stream, plb_mark *out);
    PLB_MUST_USE plb_status (*capture_end)(plb_stream *stream, plb_capture **out);
    PLB_MUST_USE plb_status (*replay)(plb_stream *stream, plb_capture *capture);
    void (*capture_free)(plb_capture *capture);

    // Kernels of an op, best first, NULL at the end; never NULL itself.
    const plb_kernel *const *(*kernels)(plb_op_id op);
    // Weights of convolutions are wanted in the layout of their values.
    bool spatial_weights;
    // Images of at most so many channels are read by convolutions in whatever layout they come.
    int image_channels;
    // The layout in which spatial ops of this device run best for these operands.
    plb_layout (*spatial_layout)(const plb_query *q);
    // Whether its fastest convolutions of f32 without tensor cores take channels first.
    bool transforms_channels_first;
    // Whether batch_norm_grad may get beta in place of y.
    bool takes_beta_for_y;
    // Whether batch norms and their gradients take other activations than ReLU, and gradients that
    // hand out a masked dy take it as a sum of two.
    bool rich_norms;
    // Whether its convolutions and products take SiLU.
    bool takes_silu;
    // Whether a launch saved is worth computing more elements: a ReLU behind a pool in front of it,
    // what broadcasts for every element that it is read for.
    bool launches_are_dear;
    // Whether int8_conv and int8_matmul pay on this machine; NULL: no.
    bool (*has_int8)(void);
} plb_backend;

PLB_API extern const plb_backend plb_backend_cpu;

#endif
