// SPDX-License-Identifier: Apache-2.0
// ONNX files as programs. Reading a file checks it and maps its weights; building appends what it
// computes to a graph, op by op, at the extents that the caller gives:
//
//   plb_onnx_open → plb_onnx_input… (to see what it wants) → plb_model_new, plb_model_program →
//   plb_onnx_build → plb_plan_new (plumb/plan.h)
//
// Large weights become variables of the model, which are filled from the mapped file when a plan
// first needs them: so the file outlives the model. Without protobuf-c at build time every call is
// PLB_EMISSING.
#ifndef PLUMB_ONNX_H
#define PLUMB_ONNX_H

#include "plumb/graph.h"
#include "plumb/memory.h"

typedef struct plb_onnx plb_onnx;

// Maps and checks a file. PLB_EINVAL: not a model, or one that is broken (file, node, expected,
// found); PLB_EUNSUPPORTED: strings and other types that Plumb has no arithmetic for.
PLB_API PLB_MUST_USE plb_status plb_onnx_open(const char *path, plb_onnx **out);
// The same of bytes that outlive the result; `label` stands for the path in messages. External data
// is refused.
PLB_API PLB_MUST_USE plb_status plb_onnx_parse(const void *bytes, size_t size_bytes,
                                               const char *label, plb_onnx **out);
PLB_API void plb_onnx_free(plb_onnx *file);

// An extent that the file leaves open: known by name, or unknown.
typedef struct plb_onnx_input_info {
    const char *name;
    plb_dtype dtype;
    bool ranked;                      // whether the file tells how many axes there are
    plb_shape shape;                  // open extents are -1
    const char *symbol[PLB_MAX_RANK]; // of open extents, "" where they have no name
} plb_onnx_input_info;

// What a run must provide: inputs of the graph that are no weights.
PLB_API int plb_onnx_input_count(const plb_onnx *file);
PLB_API PLB_MUST_USE plb_status plb_onnx_input(const plb_onnx *file, int index,
                                               plb_onnx_input_info *out);
PLB_API int plb_onnx_output_count(const plb_onnx *file);
PLB_API const char *plb_onnx_output_name(const plb_onnx *file, int index); // borrowed
// Version of ONNX's own set of ops that the file asks for, and the program that wrote it.
PLB_API int64_t plb_onnx_opset(const plb_onnx *file);
PLB_API const char *plb_onnx_producer(const plb_onnx *file);

typedef struct plb_onnx_dim {
    const char *name; // of a symbol
    int64_t extent;
} plb_onnx_dim;

// "batch=8,length=128": numbers for extents that files name, and for integer inputs of one element,
// whose value then is part of the program.
enum { PLB_ONNX_MAX_DIMS = 32, PLB_ONNX_DIMS_BYTES = 512 };
typedef struct plb_onnx_dims {
    plb_onnx_dim list[PLB_ONNX_MAX_DIMS];
    int n;
    char text[PLB_ONNX_DIMS_BYTES]; // holds the names
} plb_onnx_dims;
// NULL and "": none. PLB_EINVAL says what was expected and found.
PLB_API PLB_MUST_USE plb_status plb_onnx_dims_read(const char *text, plb_onnx_dims *out);

// What an input will hold. Its extents become the input's. Where a shape in the graph depends on
// the values (a reshape's target that is an input), the program is made for these values.
typedef struct plb_onnx_given {
    const char *name;
    plb_tensor tensor; // plain, dense; without data: extents alone
    // Instead of an input of the program: a value that its caller made, of the tensor's type.
    bool made;
    plb_value value;
} plb_onnx_given;

// What layers that differ between training and inference become.
typedef enum plb_onnx_mode {
    PLB_ONNX_AS_WRITTEN,
    PLB_ONNX_TRAIN, // what the file says is in training drops at random and assigns statistics
    PLB_ONNX_EVAL,  // none is in training
} plb_onnx_mode;

typedef struct plb_onnx_options {
    const plb_onnx_dim *dims;
    int n_dims;
    const plb_onnx_given *given;
    int n_given;
    int64_t open_extent; // of what neither dims nor given tell; 0: refuse
    plb_onnx_mode mode;
    // Which weights are trained, by patterns of names ("layer4.*,fc.*"): those of `only` (NULL:
    // all) without those of `freeze` (NULL: none). The others become buffers.
    const char *only, *freeze;
} plb_onnx_options;

// Appends the file's graph to `graph`, an empty program. Its inputs and outputs keep their names;
// an output whose extent depends on data has a second output, "NAME:count", an i64 scalar that
// says how many of axis 0 are meant. Sets *fixed, unless NULL, to the names, with spaces between,
// of inputs whose given values the program is made for (plb_free). PLB_EUNSUPPORTED names the
// node, its op and the reason.
PLB_API PLB_MUST_USE plb_status plb_onnx_build(const plb_onnx *file,
                                               const plb_onnx_options *options, plb_graph *graph,
                                               char **fixed);
// How a file's graph learns to tell classes of pictures.
typedef struct plb_onnx_learning {
    int64_t batch, channels, height, width, classes; // of the data
    // "cross-entropy" (of scores), "nll" (of their log-softmax), "mse" (to 1 for the class and 0
    // else, or, of an output that is as large as the picture, to the picture) or "output", which
    // is the loss; NULL: by the graph. It is a mean over the batch, and its sum with `eval`.
    const char *loss;
    const char *output; // what it is taken of; NULL: the first output that fits
    const char *only, *freeze;
    bool eval;
} plb_onnx_learning;

// Learning on batches of the shape that the file's input of floats asks for, where no data is
// given: pictures, or, with another rank than 4, one row of numbers a sample. `batch` 0: the
// file's, or 32 where it is open. Two classes. PLB_EUNSUPPORTED names an extent that is open.
PLB_API PLB_MUST_USE plb_status plb_onnx_learning_of(const plb_onnx *file, int64_t batch,
                                                     plb_onnx_learning *out);
// As many classes as the scores that a graph of plb_onnx_build_learning ends with; 2 without any.
PLB_API int64_t plb_onnx_learning_classes(const plb_graph *graph);

// Appends the file's graph to `graph`, an empty program, with inputs "x" f32[N,C,H,W] and "y"
// i64[N], and outputs "loss" and "correct", which counts the samples whose class has the largest
// score (NaN where there are no scores). The file has one input of floats, [N,C,H,W] or [N,H,W,C]
// or as many numbers in another shape, and may have one of integers, which gets the classes.
// PLB_EINVAL and PLB_EUNSUPPORTED name the input, output or weight that does not fit.
PLB_API PLB_MUST_USE plb_status plb_onnx_build_learning(const plb_onnx *file,
                                                        const plb_onnx_learning *how,
                                                        plb_graph *graph, plb_value *out_loss);

// Whether the graph owns loops or branches on data, which only level interp runs.
PLB_API bool plb_onnx_needs_interp(const plb_graph *graph);

// One kind of op that a file uses, subgraphs and functions included.
enum { PLB_ONNX_MAX_USES = 512 };
typedef struct plb_onnx_use {
    const char *domain, *op; // borrowed from the file
    int64_t count;
    bool served; // whether there is a mapping, or a function of the file, for it
} plb_onnx_use;
PLB_API PLB_MUST_USE plb_status plb_onnx_uses(const plb_onnx *file,
                                              plb_onnx_use uses[PLB_ONNX_MAX_USES], int *count);

// Of a graph that was built: its inputs or outputs, in order; false past the last.
PLB_API bool plb_onnx_end(const plb_graph *graph, bool outputs, int index, const char **name,
                          plb_type *type);
typedef struct plb_onnx_costs {
    int64_t parameters;
    double flops;
} plb_onnx_costs;
PLB_API plb_onnx_costs plb_onnx_costs_of(const plb_graph *graph);

// The rows of the table of mappings: an op of ONNX, the first version of the operator set that the
// row serves, and what of it is not served. False past the end.
PLB_API bool plb_onnx_served(int index, const char **name, int64_t *since, const char **note);

// What a graph computes, as a hash that does not depend on the order of nodes, on their names or on
// how ONNX would spell them: a graph, and the one that is read from its file, have equal digests.
// PLB_EUNSUPPORTED where it owns branches or loops.
PLB_API PLB_MUST_USE plb_status plb_onnx_digest(const plb_graph *graph, uint64_t *out);

typedef struct plb_onnx_written {
    int64_t nodes, initializers, opset;
    size_t size_bytes; // of the file, and of the one beside it
    bool external;     // whether values are in "PATH.data"
} plb_onnx_written;

// Writes an inference program, at its extents, with the values that its variables have; the file
// appears whole or not at all. `external` puts the values into a file beside it, which also happens
// where one file could not hold them. PLB_EUNSUPPORTED names the node that ONNX has no op for.
PLB_API PLB_MUST_USE plb_status plb_onnx_write(const plb_graph *graph, const char *path,
                                               bool external, plb_onnx_written *out);

// Writes the file again, all as it was, with the values that the variables of `model`, which were
// built from it, have now. Otherwise as plb_onnx_write. PLB_EUNSUPPORTED where a subgraph or an
// attribute has values in a file beside it.
PLB_API PLB_MUST_USE plb_status plb_onnx_write_trained(const plb_onnx *file, plb_model *model,
                                                       const char *path, bool external,
                                                       plb_onnx_written *out);

// Reads one tensor, in the form in which ONNX's test cases keep inputs and outputs. The values are
// *memory's, which the caller frees with plb_free.
PLB_API PLB_MUST_USE plb_status plb_onnx_read_tensor(const char *path, plb_tensor *out,
                                                     void **memory);

#endif
