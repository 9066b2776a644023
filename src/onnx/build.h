// SPDX-License-Identifier: Apache-2.0
// How a graph is built from a file: scopes of names, and what a mapping function sees of its node.
//
// A mapping function (ops.def says which op and versions it serves) appends engine ops to
// n->graph, reading inputs n->in[…] (PLB_NONE: not given) and writing every output n->out[…]. It
// need not check the builders it calls: the first failure of the graph is looked at after it.
#ifndef PLB_ONNX_BUILD_H
#define PLB_ONNX_BUILD_H

#include "engine/graph/evaluate.h"
#include "onnx/file.h"
#include "plumb/ops.h"

enum {
    PLB_ONNX_MAX_DEPTH = 64,
    PLB_ONNX_MAX_OUT = 64,
    PLB_ONNX_MAX_EXTENT = 1 << 30, // of what a file's numbers stretch: kernels, pads, repeats
    PLB_ONNX_SPARE_IN = 16,        // a node's inputs may be read so far past their end: PLB_NONE
};

typedef struct plb_onnx_builder {
    plb_onnx *file;
    const plb_onnx_options *options;
    plb_model *model;
    plb_arena *arena;   // while building
    bool *fixed;        // of each input: the program depends on its given value
    plb_value *input;   // of each input
    plb_map *functions; // "domain:name" to the index in model->functions
    int depth;          // of functions and subgraphs, one in another
    int64_t n_nodes;    // appended so far, bounded: functions may multiply
} plb_onnx_builder;

typedef struct plb_onnx_node plb_onnx_node;

// A space of names. Functions have one of their own, which sees nothing outside; the branch of an
// If that is built in place sees its outer one; a region's is a graph of its own.
typedef struct plb_onnx_scope {
    plb_onnx_builder *b;
    struct plb_onnx_scope *outer; // NULL: nothing outside is seen
    const plb_onnx_node *caller;  // of a function: the node that calls it
    const Onnx__FunctionProto *function;
    plb_graph *graph;
    plb_evaluator *evaluator;
    plb_map *values;
    int64_t opset;
    bool top; // the model's own graph, which sees the weights
    // Of a region: what it captured, seen from outside, and its inputs.
    const struct plb_onnx_scope *around;
    const plb_value *captured;
    const plb_value *inner;
    int n_captured;
} plb_onnx_scope;

struct plb_onnx_node {
    plb_onnx_scope *scope;
    plb_graph *graph;
    const Onnx__NodeProto *proto;
    const char *op;
    int64_t opset;
    int n_in, n_out;
    const plb_value *in;
    plb_value *out;
};

typedef plb_status (*plb_onnx_map)(plb_onnx_node *n);

typedef struct plb_onnx_op {
    const char *name;
    int64_t since; // the first version of the operator set that it serves, until the next row
    plb_onnx_map map;
    const char *note; // what is not served, for docs/coverage.md
} plb_onnx_op;

// The row for an op at a version; NULL: none.
const plb_onnx_op *plb_onnx_find_op(const char *name, int64_t opset);
const plb_onnx_op *plb_onnx_op_at(int index); // NULL past the end

// ---------------------------------------------------------------------------- graphs
PLB_MUST_USE plb_status plb_onnx_scope_open(plb_onnx_scope *scope, const plb_onnx_scope *from);
void plb_onnx_scope_close(plb_onnx_scope *scope);
// Gives a name a value; one that has a value already is PLB_EINVAL.
PLB_MUST_USE plb_status plb_onnx_define(plb_onnx_scope *scope, const char *name, plb_value value);
// PLB_EINVAL where nothing of that name was made before.
PLB_MUST_USE plb_status plb_onnx_lookup(plb_onnx_scope *scope, const char *name, plb_value *out);
PLB_MUST_USE plb_status plb_onnx_build_nodes(plb_onnx_scope *scope, Onnx__NodeProto *const *nodes,
                                             size_t n);
// Initializers and nodes of a subgraph.
PLB_MUST_USE plb_status plb_onnx_build_body(plb_onnx_scope *scope, const Onnx__GraphProto *body);
// A constant of a tensor.
PLB_MUST_USE plb_status plb_onnx_tensor_constant(plb_onnx_scope *scope,
                                                 const Onnx__TensorProto *tensor, plb_value *out);

// ---------------------------------------------------------------------------- attributes
const Onnx__AttributeProto *plb_onnx_attr(const plb_onnx_node *n, const char *name); // NULL: none
bool plb_onnx_has(const plb_onnx_node *n, const char *name);
// NULL also where it has another type (ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__…), which fails the
// graph; with the next three it is then as if it was missing.
const Onnx__AttributeProto *plb_onnx_typed(const plb_onnx_node *n, const char *name, int type);
int64_t plb_onnx_int(const plb_onnx_node *n, const char *name, int64_t missing);
double plb_onnx_float(const plb_onnx_node *n, const char *name, double missing);
// Whether the string attribute (or `missing`) is `word`.
bool plb_onnx_is(const plb_onnx_node *n, const char *name, const char *missing, const char *word);
// Writes up to `max` numbers and their count; 0 where the attribute is absent. More is PLB_EINVAL.
PLB_MUST_USE plb_status plb_onnx_ints(const plb_onnx_node *n, const char *name, int64_t *out,
                                      int max, int *count);
// Checks that all attributes have the type that their place asks for; called before every mapping.
PLB_MUST_USE plb_status plb_onnx_check_attrs(const plb_onnx_node *n);
// PLB_EINVAL for a node of ONNX's own set that has more inputs than its op in any version.
PLB_MUST_USE plb_status plb_onnx_check_inputs(const plb_onnx_node *n);

// ---------------------------------------------------------------------------- known values
// Sets *known and the host values of input i, where they do not depend on data.
PLB_MUST_USE plb_status plb_onnx_try_known(const plb_onnx_node *n, int i, bool *known,
                                           plb_tensor *out);
// The same; PLB_EUNSUPPORTED where it does.
PLB_MUST_USE plb_status plb_onnx_known(const plb_onnx_node *n, int i, plb_tensor *out);
PLB_MUST_USE plb_status plb_onnx_known_ints(const plb_onnx_node *n, int i, int64_t *out, int max,
                                            int *count);
PLB_MUST_USE plb_status plb_onnx_known_number(const plb_onnx_node *n, int i, double *out);
// A whole number (what is behind its point is cut); PLB_EINVAL unless it is in [low, high], which
// are less than 2^53.
PLB_MUST_USE plb_status plb_onnx_known_int(const plb_onnx_node *n, int i, int64_t low, int64_t high,
                                           int64_t *out);
// One integer or truth value, where it is known.
PLB_MUST_USE plb_status plb_onnx_try_int(const plb_onnx_node *n, int i, bool *known, int64_t *out);
// Numbers that are an attribute in older versions and input i in newer ones; *count -1: neither.
PLB_MUST_USE plb_status plb_onnx_ints_or_input(const plb_onnx_node *n, const char *name, int i,
                                               int64_t *out, int max, int *count);

// ---------------------------------------------------------------------------- shorthand
static inline bool plb_onnx_given_in(const plb_onnx_node *n, int i) {
    return i < n->n_in && n->in[i] != PLB_NONE;
}
static inline plb_value plb_onnx_in(const plb_onnx_node *n, int i) {
    return i < n->n_in ? n->in[i] : PLB_NONE;
}
static inline plb_type plb_onnx_type(const plb_onnx_node *n, int i) {
    return plb_value_type(n->graph, plb_onnx_in(n, i));
}
// PLB_EINVAL unless each number is in [low, PLB_ONNX_MAX_EXTENT], so that arithmetic with a few of
// them cannot overflow.
PLB_MUST_USE plb_status plb_onnx_bounded(const char *what, const int64_t *values, int n,
                                         int64_t low);
// PLB_EINVAL unless input i is given and has a rank of low to high.
PLB_MUST_USE plb_status plb_onnx_rank(const plb_onnx_node *n, int i, int low, int high);
// The same of an input that may be absent.
PLB_MUST_USE plb_status plb_onnx_optional_rank(const plb_onnx_node *n, int i, int low, int high);
// An axis that may be negative, made one of 0…rank - 1.
PLB_MUST_USE plb_status plb_onnx_axis(int64_t axis, int rank, int *out);
// `n` axes as a bit set.
PLB_MUST_USE plb_status plb_onnx_axis_set(const int64_t *axes, int n, int rank, int64_t *out);
plb_status plb_onnx_refuse(const char *format, ...) PLB_PRINTF(1); // PLB_EUNSUPPORTED

#endif
