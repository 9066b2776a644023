// SPDX-License-Identifier: Apache-2.0
// The interpreter's insides: interp.c runs a graph node by node, interp_region.c the nodes that own
// regions. A region has an interpreter of its own, made with that of the graph around it and kept,
// so that its kernels are prepared once.
#ifndef PLB_ENGINE_GRAPH_INTERP_H
#define PLB_ENGINE_GRAPH_INTERP_H

#include "engine/graph/plan.h"

// Of each node.
typedef struct plb_interp_node {
    plb_step step; // kernel and launch
    bool ready;
    bool copies; // a read whose variable is assigned while it is in use
    struct plb_interp *region[PLB_MAX_REGIONS];
} plb_interp_node;

typedef struct plb_interp {
    plb_plan *plan;
    plb_graph now;          // the graph when the plan was made: the program itself may grow
    const plb_graph *graph; // that
    plb_tensor *tensors;    // of each value, in this run
    plb_value *root;        // of each value: whose memory it sees
    void **owned;           // memory of roots that this run allocated, NULL else
    void **bound;           // memory of a program's inputs, kept; regions are handed theirs
    int *uses;              // of each value: consumers in all
    int *left;              // of each root: uses still to come in this run
    plb_interp_node *nodes;
    // On a device with memory of its own:
    void **constants; // of each value: its copy there
    void **mirror;    // of each value: what the host fills or reads of inputs and outputs
} plb_interp;

// A node's operands while it runs.
typedef struct plb_interp_operands {
    plb_tensor few[16], *all; // inputs, then outputs
} plb_interp_operands;

// interp.c. The error names the node. What the run allocated and did not free, the outputs among
// it, stays until the next run or plb_interp_drop.
PLB_MUST_USE plb_status plb_interp_run_graph(plb_plan *plan, plb_interp *interp);
void plb_interp_drop(plb_interp *interp);

// interp_memory.c: memory of the plan's device, and copies in the order of its stream. `put` takes
// from the host, whose memory may be reused at once; `get` gives to the host, and waits.
PLB_MUST_USE plb_status plb_interp_alloc(plb_plan *plan, size_t size_bytes, void **out);
void plb_interp_release(plb_plan *plan, void *memory); // NULL is legal
PLB_MUST_USE plb_status plb_interp_copy(plb_plan *plan, const plb_tensor *to,
                                        const plb_tensor *from);
PLB_MUST_USE plb_status plb_interp_clear(plb_plan *plan, void *memory, size_t size_bytes);
PLB_MUST_USE plb_status plb_interp_put(plb_plan *plan, void *to, const void *from,
                                       size_t size_bytes);
PLB_MUST_USE plb_status plb_interp_get(plb_plan *plan, void *to, const void *from,
                                       size_t size_bytes);

// interp_region.c: runs the if, loop or scan `node`, whose outputs are allocated. Carried outputs
// may change the memory that they own.
PLB_MUST_USE plb_status plb_interp_run_regions(plb_plan *plan, plb_interp *interp, int node,
                                               const plb_interp_operands *operands);

#endif
