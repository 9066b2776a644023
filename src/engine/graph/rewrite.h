// SPDX-License-Identifier: Apache-2.0
// How passes change a graph: they never do. A pass reads one graph and appends to a fresh one,
// copying what it keeps and mapping old values to new ones.
#ifndef PLB_ENGINE_GRAPH_REWRITE_H
#define PLB_ENGINE_GRAPH_REWRITE_H

#include "engine/graph/graph.h"

typedef struct plb_rewrite {
    const plb_graph *from;
    plb_graph *to;  // owned until plb_rewrite_end hands it over
    plb_value *map; // of every old value; PLB_NONE until it is copied
    int *uses;      // of every old value: consuming nodes, and one for each output name
    int *consumer;  // of every old value: the last node that uses it, or -1
} plb_rewrite;

PLB_MUST_USE plb_status plb_rewrite_begin(const plb_graph *from, plb_rewrite *out);
// Copies node `index` with its inputs mapped; its outputs are mapped to the copy's.
void plb_rewrite_copy(plb_rewrite *rw, int index);
// Copies it with other op, inputs or attributes (those of `node`), under old outputs' types.
void plb_rewrite_replace(plb_rewrite *rw, int index, const plb_node *node);
// Whether what an old value is mapped to has its shape: a pattern may have had a constant of more
// axes than what it was combined with, and others rely on the shape that made. True after a
// failure.
bool plb_rewrite_keeps_shape(const plb_rewrite *rw, plb_value value);
// Carries the outputs over; *out is the new graph. On failure nothing is left.
PLB_MUST_USE plb_status plb_rewrite_end(plb_rewrite *rw, plb_graph **out);
// Gives up: frees all.
void plb_rewrite_abort(plb_rewrite *rw);

#endif
