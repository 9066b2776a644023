// SPDX-License-Identifier: Apache-2.0
// Building programs. A model is a set of variables and one or more named programs that share them
// ("forward", "train"; or "generator" and "discriminator"). A program is a graph of ops in static
// single assignment: each op appends a node and returns the values that it makes.
//
// Building never needs a check after each call: a graph remembers its first error, every later op
// on it returns PLB_NONE, and plb_graph_status tells. Usual order:
//
//   plb_model_new → plb_model_program → inputs, variables, ops, outputs → plb_gradients,
//   optimizer steps → plb_plan_new (plumb/plan.h).
#ifndef PLUMB_GRAPH_H
#define PLUMB_GRAPH_H

#include "plumb/tensor.h"

typedef struct plb_model plb_model;
typedef struct plb_graph plb_graph;

// A value of one graph. The outputs of a node are consecutive: an op that makes several returns
// the first, v, and the others are v + 1, v + 2, …
typedef int32_t plb_value;
#define PLB_NONE ((plb_value)-1)

typedef struct plb_type {
    plb_dtype dtype;
    plb_shape shape;
} plb_type;

// -------------------------------------------------------------------------------- models
PLB_API plb_model *plb_model_new(void); // NULL when out of memory
PLB_API void plb_model_free(plb_model *model);

// Adds an empty program. Borrowed from the model. A second program of that name is PLB_EINVAL.
PLB_API PLB_MUST_USE plb_status plb_model_program(plb_model *model, const char *name,
                                                  plb_graph **out);
// The program of that name, or NULL.
PLB_API plb_graph *plb_model_find_program(const plb_model *model, const char *name);

// -------------------------------------------------------------------------------- variables
typedef enum plb_role {
    PLB_ROLE_PARAMETER, // trained
    PLB_ROLE_BUFFER,    // part of the weights, not trained: running statistics
    PLB_ROLE_OPTIMIZER, // moments and the like
    PLB_ROLE_STATE,     // learning rate, step count, random counter, loss scale
    PLB_ROLE_COUNT,
} plb_role;

typedef enum plb_init_kind {
    PLB_INIT_CONSTANT,         // a
    PLB_INIT_UNIFORM,          // in [a, b)
    PLB_INIT_NORMAL,           // mean a, standard deviation b
    PLB_INIT_TRUNCATED_NORMAL, // the same, redrawn outside two standard deviations
    PLB_INIT_SEED,             // element 0 is the model's seed, the others 0
} plb_init_kind;

// How a variable begins. Elements depend on the model's seed, the variable's name and their index.
typedef struct plb_init {
    plb_init_kind kind;
    double a, b;
} plb_init;

typedef struct plb_variable_info {
    const char *name; // borrowed from the model
    plb_type type;
    plb_role role;
} plb_variable_info;

// Declares a variable, or finds the one of that name; then type and role must be the same.
PLB_API PLB_MUST_USE plb_status plb_model_variable(plb_model *model, const char *name,
                                                   const plb_type *type, plb_role role,
                                                   plb_init init, int *out_index);
PLB_API int plb_model_variable_count(const plb_model *model);
PLB_API plb_variable_info plb_model_variable_info(const plb_model *model, int index);
PLB_API int plb_model_find_variable(const plb_model *model, const char *name); // -1: none

// Gives every variable its first value from `seed`. What is declared later gets its own from the
// same seed, when a plan or somebody who reads or writes variables first needs it; so does all of a
// model for which this was never called, from seed 0.
PLB_API PLB_MUST_USE plb_status plb_model_init(plb_model *model, uint64_t seed);
// Copies out or in, with conversion of dtype and layout. Shapes must be equal.
PLB_API PLB_MUST_USE plb_status plb_variable_read(plb_model *model, int index, plb_tensor *to);
PLB_API PLB_MUST_USE plb_status plb_variable_write(plb_model *model, int index,
                                                   const plb_tensor *from);
// The variable's own storage on the host, plain and dense, or NULL while it has none or when it
// could not be fetched from a device. Borrowed. After writing through it, call plb_model_touch, so
// that plans repack what they derived from it. A run on a device that assigns the variable ends
// this: ask again.
PLB_API void *plb_variable_data(plb_model *model, int index);
PLB_API void plb_model_touch(plb_model *model);

// -------------------------------------------------------------------------------- graphs
PLB_API PLB_MUST_USE plb_status plb_graph_status(const plb_graph *graph); // and sets the text
PLB_API plb_model *plb_graph_model(const plb_graph *graph);

// Whether layers that differ (dropout, batch norm) are built for training. Default: no.
PLB_API void plb_graph_set_training(plb_graph *graph, bool training);
PLB_API bool plb_graph_training(const plb_graph *graph);

// Names of nodes and variables begin with the open scopes: "layer1.0.conv1".
PLB_API void plb_scope_push(plb_graph *graph, const char *format, ...) PLB_PRINTF(2);
PLB_API void plb_scope_pop(plb_graph *graph);
PLB_API const char *plb_scope(const plb_graph *graph); // "" outside; borrowed, until the next push

PLB_API plb_value plb_input(plb_graph *graph, const char *name, plb_dtype dtype,
                            const plb_shape *shape);
// A copy of `data`, plain and dense.
PLB_API plb_value plb_constant(plb_graph *graph, plb_dtype dtype, const plb_shape *shape,
                               const void *data);
PLB_API plb_value plb_scalar(plb_graph *graph, plb_dtype dtype, double value);
// The value of a variable now: what an earlier assign of this program put there, or else what it
// held when the run began.
PLB_API plb_value plb_read(plb_graph *graph, int variable);
// Declares (or finds) the variable "scope.name" and reads it.
PLB_API plb_value plb_param(plb_graph *graph, const char *name, plb_dtype dtype,
                            const plb_shape *shape, plb_role role, plb_init init);
// From here on the variable holds `value`.
PLB_API void plb_assign(plb_graph *graph, int variable, plb_value value);
// The variable that `value` reads, or -1.
PLB_API int plb_value_variable(const plb_graph *graph, plb_value value);
PLB_API void plb_output(plb_graph *graph, const char *name, plb_value value);

PLB_API plb_type plb_value_type(const plb_graph *graph, plb_value value);
PLB_API plb_shape plb_value_shape(const plb_graph *graph, plb_value value);
// Extents of a value that depends on data are upper bounds; its count is an i64 scalar that says
// how many of axis 0 are meant. PLB_NONE where the extents are exact.
PLB_API plb_value plb_value_count(const plb_graph *graph, plb_value value);

// Gradients of the scalar `loss` with respect to `wrt[n]`, appended as nodes, so that they can be
// differentiated again. out[i] is PLB_NONE where loss does not depend on wrt[i].
PLB_API void plb_gradients(plb_graph *graph, plb_value loss, const plb_value *wrt, int n,
                           plb_value *out);

#endif
