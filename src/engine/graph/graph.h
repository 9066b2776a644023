// SPDX-License-Identifier: Apache-2.0
// The graph's insides, for passes, autodiff and the planner. Nodes stand in execution order; a
// node's inputs come before it; its outputs are consecutive values.
#ifndef PLB_ENGINE_GRAPH_GRAPH_H
#define PLB_ENGINE_GRAPH_GRAPH_H

#include "base/core/arena.h"
#include "base/core/hash.h"
#include "engine/ops/op.h"

typedef struct plb_node {
    plb_op_id op;
    int n_in, n_out;
    const plb_value *in; // arena of the graph
    plb_value out;       // the first of n_out
    const void *attrs;   // op->attrs_bytes of them
    const char *scope;   // dotted name of where it was built; "" at the top
    plb_graph *region[PLB_MAX_REGIONS];
    int device;    // index into the plan's devices
    bool backward; // appended by plb_gradients
} plb_node;

typedef struct plb_value_info {
    plb_type type;
    plb_layout layout;
    int node;        // the node that makes it
    plb_value count; // see plb_value_count
} plb_value_info;

typedef struct plb_graph_output {
    const char *name;
    plb_value value;
} plb_graph_output;

struct plb_graph {
    plb_model *model;
    plb_arena *arena;
    const char *name;
    bool training;
    bool borrows_regions; // a pass made it; the regions belong to the program it came from
    bool differentiating; // plb_gradients is at work
    plb_status status;    // of the first failure
    char *error;          // its text

    plb_node *nodes;
    int n_nodes, nodes_capacity;
    plb_value_info *values;
    int n_values, values_capacity;
    plb_graph_output *outputs;
    int n_outputs, outputs_capacity;

    const char **scopes; // stack of dotted names, each with all that is open
    int n_scopes, scopes_capacity;
    int next_random;        // ids of random nodes, so that no two draw the same numbers
    plb_value random_state; // the read of the random state plus one, 0: none yet
};

// Attributes of the frame's ops.
typedef struct plb_input_attrs {
    const char *name; // arena
} plb_input_attrs;
typedef struct plb_constant_attrs {
    plb_type type;
    const void *data; // arena, plain and dense
} plb_constant_attrs;
typedef struct plb_variable_attrs { // read, assign
    int variable;
} plb_variable_attrs;

// A graph outside any program list: for plans (passes write into fresh ones) and regions.
plb_graph *plb_graph_new(plb_model *model, const char *name);
void plb_graph_free(plb_graph *graph);

// Appends a node whose output types are given instead of inferred; used by passes.
plb_value plb_append_node(plb_graph *graph, const plb_node *node, const plb_type *out_types);

// Opens a scope by its whole dotted name, whatever is open; plb_scope_pop closes it.
void plb_scope_enter(plb_graph *graph, const char *scope);

// Whether the value of the read `index`, or a view of it, is used after its variable is assigned,
// so that it needs a copy. `seen` holds n_values flags of scratch.
bool plb_read_outlives_assign(const plb_graph *graph, int index, bool *seen);

// Whether a node changes state or talks to the outside, so that dead-code removal must keep it.
bool plb_node_is_effect(const plb_node *node);

enum { PLB_MAX_HOMES = 8 };
typedef struct plb_home plb_home; // home.h

typedef struct plb_variable {
    char *name;
    plb_type type;
    plb_role role;
    plb_init init;
    const void *source;        // its first value, plain and dense, at any address; NULL: see init
    void *data;                // host storage in a slab, NULL until allocated
    void *away[PLB_MAX_HOMES]; // on devices with memory of their own (home.h)
    unsigned valid;            // bit 0: the host's is true; bit h: that of home h
    bool exposed;              // somebody may write through plb_variable_data
} plb_variable;

struct plb_model {
    plb_graph **programs;
    int n_programs, programs_capacity;
    plb_variable *variables;
    int n_variables, variables_capacity;
    plb_map *by_name;
    void **slabs; // persistent memory, one more each time variables were added
    int n_slabs, slabs_capacity;
    size_t slab_bytes[PLB_ROLE_COUNT];
    plb_home *homes; // on devices with memory of their own
    int n_homes;
    uint64_t version; // grows when somebody writes variables from outside a plan, or a plan assigns
    uint64_t copies;  // grows with every change of what `valid` and `exposed` say of a variable
    uint64_t seed;
};

// Places all variables that have no storage yet in one new slab and initialises them.
PLB_MUST_USE plb_status plb_model_allocate(plb_model *model);
// The same, but variable i gets no first value where unset[i], because the caller writes it next.
PLB_MUST_USE plb_status plb_model_allocate_but(plb_model *model, const bool *unset);

// The variable begins with the bytes at `source`, which outlive the model (a mapped file).
void plb_model_set_source(plb_model *model, int index, const void *source);

// Grows an array of `size_bytes` elements to hold `need`; PLB_ENOMEM leaves it alive.
PLB_MUST_USE plb_status plb_reserve(void *array_pointer, int *capacity, int need,
                                    size_t size_bytes);

#endif
