// SPDX-License-Identifier: Apache-2.0
// Regions: graphs that a node owns and runs. This is the contract between the ops if, loop and
// scan and whoever executes them.
//
// A region is an ordinary graph of the same model. Its inputs are its input nodes, named "0", "1",
// … and standing first, in that order; its outputs are named "0", "1", … too. It sees no value of
// the program around it: what it uses is handed in as inputs. It holds no read or assign, so that
// running it changes nothing and it may be run again at will. It may own regions of its own. The
// same value may be several outputs, and an input may be an output.
//
//   if    in:  condition (bool scalar), captures…
//         Runs region[0] when the condition holds, else region[1], once, on the captures. The
//         region's outputs are the node's.
//   loop  in:  trips (i64 scalar or absent), condition (bool scalar or absent), carried…, captures…
//         Runs region[0] on iteration (i64 scalar), carried…, captures…; it gives go_on (bool
//         scalar), carried…, rows….
//             i = 0, go_on = condition or true
//             while ((trips is absent or i < trips) and go_on)
//                 go_on, carried, rows = region(i, carried, captures); stack[i] = rows; i = i + 1
//         out: carried…, stacks…, i (i64 scalar). Stacks have the extent max_trips along axis 0;
//         rows from i on are zero. With stacks, a trip number max_trips is PLB_EINVAL at run time,
//         naming max_trips. The count of each stack (plb_value_count) is the last output.
//   scan  in:  carried…, scanned…, captures…
//         Scanned values have one extent T along axis 0. For t = 0, …, T - 1, or from T - 1 down to
//         0 when reverse, runs region[0] on carried…, scanned[t]…, captures…; it gives carried…,
//         rows…, which go to stack[t] in both directions.
//         out: carried…, stacks…. T may be 0: then carried is what came in.
//
// Carried values have the same type on the way in and out. A carried output and the input that it
// becomes may not share memory while the region runs.
#ifndef PLB_ENGINE_GRAPH_REGION_H
#define PLB_ENGINE_GRAPH_REGION_H

#include "engine/graph/graph.h"
#include "plumb/ops.h"

// Attributes of all three ops; what an op does not use is 0.
typedef struct plb_region_attrs {
    int64_t n_carried, n_scanned, n_captures;
    int64_t n_stacks;  // outputs that keep a row of each trip
    int64_t max_trips; // loop: extent of the stacks
    int64_t reverse;   // scan
    // What the region gives: if: its outputs; loop, scan: rows of the stacks.
    int64_t n_types;
    plb_type types[PLB_MAX_OUTPUTS];
} plb_region_attrs;

// A new region of a node that `outer` will get, with n inputs of these types; their values are
// written to `in`. NULL after an error, which `outer` has recorded.
plb_graph *plb_region_new(plb_graph *outer, const char *name, const plb_type *types, int n,
                          plb_value *in);
// Makes out[n] the region's outputs and checks what a region must be; an error of the region
// becomes one of `outer`.
bool plb_region_close(plb_graph *outer, plb_graph *region, const plb_value *out, int n);
// Appends the node and gives it the regions, or frees them after an error.
plb_value plb_region_emit(plb_graph *outer, plb_op_id op, const plb_value *in, int n_in,
                          const plb_region_attrs *attrs, plb_graph *first, plb_graph *second);

// Appends the nodes of region `from` to `to`, its inputs replaced by in[…], and writes what became
// of its outputs to `out`. Attributes still point into from's arena, which must outlive `to`, as it
// does where both belong to one program.
void plb_region_inline(plb_graph *to, const plb_graph *from, const plb_value *in, plb_value *out);
// Gradients of the sum over k of out[k] * dout[k] (dout PLB_NONE: nothing) with respect to those of
// in[n_in] that are needed, appended to `to` behind a copy of `from`; zeros where there is none.
void plb_region_gradients(plb_graph *to, const plb_graph *from, const plb_value *in, int n_in,
                          const plb_value *dout, const bool *needed, plb_value *din);

// What a region carries must keep its type; fails the region otherwise.
void plb_region_carries(plb_graph *region, const plb_type *types, const plb_value *out, int n);
// For infer: adds the types of the stacks, rows of attrs->types `extent` times, behind n outputs.
plb_status plb_region_stacks(plb_signature *s, int n, int64_t extent);

enum { PLB_REGION_MAX_IN = 256 }; // inputs of a node with regions

void plb_region_describe(const void *attrs, plb_strbuf *text);
plb_value plb_zeros(plb_graph *graph, const plb_type *type);

#endif
