// SPDX-License-Identifier: Apache-2.0
// What an op is: one file, one const table. The table says how types follow from types, what the
// gradient appends, what it costs, what it means (`ref`), and which cases test it. Kernels are
// elsewhere (engine/device): an op does not know who computes it.
#ifndef PLB_ENGINE_OPS_OP_H
#define PLB_ENGINE_OPS_OP_H

#include <stddef.h>

#include "base/core/strbuf.h"
#include "plumb/graph.h"

typedef enum plb_op_id {
#define PLB_OP(name) PLB_OP_##name,
#include "engine/ops/ops.def"
#undef PLB_OP
    PLB_OP_COUNT
} plb_op_id;

enum plb_op_flags {
    // Output element i depends on input elements i alone, after broadcasting; the same in any
    // layout. The chain fuser and the pointwise kernels know these ops by id.
    PLB_OP_POINTWISE = 1 << 0,
    // Works on x[N,C,spatial…] and may run channels-last: `spatial_in` and `spatial_out` say which
    // operands have that form.
    PLB_OP_SPATIAL = 1 << 1,
    // Output 0 is input 0 seen with another shape or strides; see `view`.
    PLB_OP_VIEW = 1 << 2,
    // Draws random numbers: never merged with an equal node, never folded.
    PLB_OP_RANDOM = 1 << 3,
    // Part of the program's frame, not computed by kernels: input, constant, read, assign.
    PLB_OP_FRAME = 1 << 5,
    // The inputs swap without changing the result.
    PLB_OP_COMMUTES = 1 << 6,
    // Integer results, or no derivative anywhere that matters (floor, comparisons, arg-max).
    PLB_OP_NO_GRAD = 1 << 7,
    // Reads inputs of any layout through their strides; output 0 takes the layout of input 0 when
    // the ranks are equal (PLB_OP_FOLLOWS), or is plain (PLB_OP_STRIDED).
    PLB_OP_FOLLOWS = 1 << 8,
    PLB_OP_STRIDED = 1 << 9,
};

enum { PLB_MAX_REGIONS = 2, PLB_MAX_OVERWRITES = 4 };

// An absent optional input has dtype PLB_DTYPE_COUNT, and as a tensor no data.
static inline bool plb_type_absent(const plb_type *type) {
    return type->dtype == PLB_DTYPE_COUNT;
}

// A node's types, for infer and cost.
typedef struct plb_signature {
    const void *attrs;
    int n_in, n_out;
    const plb_type *in;
    plb_type *out; // infer writes them and n_out
} plb_signature;

enum { PLB_MAX_OUTPUTS = 16 };

// One execution. Shapes, strides and layouts are final; data is NULL for absent inputs.
typedef struct plb_call {
    const void *attrs;
    int n_in, n_out;
    const plb_tensor *in;
    plb_tensor *out;
    void *workspace;    // as large as the kernel asked
    const void *packed; // what the kernel's pack made
    int threads;
} plb_call;

// A test case of an op. Inputs with dtype f32 are also run as f64, f16 and bf16 unless told not to.
enum { PLB_SAMPLE_INPUTS = 8 };
typedef struct plb_sample {
    const char *name;
    plb_type in[PLB_SAMPLE_INPUTS]; // unused ones: rank 0 with dtype 0 past n_in
    int n_in;
    const void *attrs;
    // Range of uniform values, [-1, 1] when both are 0. Of an integer input: both ends included.
    double low[PLB_SAMPLE_INPUTS], high[PLB_SAMPLE_INPUTS];
    unsigned absent;         // bit i: input i is not given
    unsigned distinct;       // bit i: no two elements of input i are equal (max, sort)
    unsigned no_gradient_of; // bit i: the op refuses the gradient of input i (class weights)
    bool no_gradient;        // the gradient is not checked: kinks or integers all over
    bool f32_only;           // the other float types would say nothing more
} plb_sample;

typedef struct plb_op {
    const char *name;
    unsigned flags;
    size_t attrs_bytes; // 0: none
    // Where the attributes hold a plb_shape, or n_types of plb_type: 1 + the offset; 0: nowhere.
    // Nodes are compared by the bytes of their attributes, so plb_append_node zeroes those that say
    // nothing: extents past the rank, and gaps between members.
    size_t shape_at, types_at;
    int n_types;
    int min_in, max_in;
    // SPATIAL ops: bit i: input i, output i is [N,C,spatial…]. Both 0: input 0 and all outputs.
    unsigned spatial_in, spatial_out;
    // Pairs of which the output may take the memory of the input when nobody else needs it, as
    // every kernel reads an element before it writes it there. Any pair of a POINTWISE op does.
    struct {
        int input, output;
    } overwrites[PLB_MAX_OVERWRITES];
    int n_overwrites;
    unsigned optional_in; // bit i: input i may be PLB_NONE though it comes before min_in

    // Types of outputs from types of inputs; PLB_EINVAL with what was expected and found. One that
    // makes counts (see plb_value_count) sets count_of in its builder.
    plb_status (*infer)(plb_signature *s);
    // Appends nodes that compute din[i] from dout[k] (PLB_NONE: no gradient comes from there).
    // Sets din[i] only where needed[i]; leaves PLB_NONE where the derivative is zero.
    void (*grad)(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din);
    // Arithmetic operations of the definition (a multiply-add is two); NULL: one an element of
    // output 0. Bytes are those of all inputs and outputs.
    double (*flops)(const plb_signature *s);
    // Plain loops over plb_load/plb_store with plb_tensor_offset: the definition.
    plb_status (*ref)(const plb_call *call);
    // For VIEW ops: the strided view of `in` that is the output, or false when this case needs a
    // copy (then a kernel makes it).
    bool (*view)(const void *attrs, const plb_tensor *in, plb_tensor *out);
    // Appends the attributes as JSON members: "stride":[2,2],"groups":1
    void (*describe)(const void *attrs, plb_strbuf *text);

    const plb_sample *samples;
    int n_samples;
} plb_op;

PLB_API const plb_op *plb_op_of(plb_op_id id);
PLB_API plb_op_id plb_op_find(const char *name); // PLB_OP_COUNT: none

// Appends a node and returns its first output; PLB_NONE after an error. `in` may hold PLB_NONE for
// optional inputs. `attrs` are copied.
PLB_API plb_value plb_emit(plb_graph *graph, plb_op_id op, const plb_value *in, int n_in,
                           const void *attrs);
// Records an error, as the first failure of the graph unless there was one; returns PLB_NONE.
PLB_API plb_value plb_graph_fail(plb_graph *graph, plb_status status);

// For grad functions.
PLB_API plb_value plb_node_in(const plb_graph *graph, int node, int i); // PLB_NONE past the end
PLB_API plb_value plb_node_out(const plb_graph *graph, int node, int i);
PLB_API const void *plb_node_attrs(const plb_graph *graph, int node);

#define PLB_SAMPLES(array) .samples = (array), .n_samples = (int)(sizeof(array) / sizeof *(array))
// In samples: PLB_T(2, 3, 8, 8) is an f32 type, PLB_TI(5) an i64 one.
#define PLB_TYPE_OF(type, ...)                                                 \
    {                                                                          \
        .dtype = (type), .shape = {                                            \
            .rank = (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), \
            .dim = {__VA_ARGS__}                                               \
        }                                                                      \
    }
#define PLB_T(...)  PLB_TYPE_OF(PLB_F32, __VA_ARGS__)
#define PLB_TI(...) PLB_TYPE_OF(PLB_I64, __VA_ARGS__)

#endif
