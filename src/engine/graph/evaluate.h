// SPDX-License-Identifier: Apache-2.0
// Values that are known while a graph is still being built: what depends on constants, on weights,
// and on what the caller knows of inputs. Importers ask for the shapes and axes that their formats
// keep in tensors. Only what is asked for is computed, by the ops' own definitions (`ref`), and
// only if it is small.
#ifndef PLB_ENGINE_GRAPH_EVALUATE_H
#define PLB_ENGINE_GRAPH_EVALUATE_H

#include "engine/graph/graph.h"

// What an input of the graph will hold, if it is known.
typedef bool (*plb_evaluate_input)(void *context, plb_value input, plb_tensor *out);

typedef struct plb_evaluator plb_evaluator;

// NULL when out of memory. The graph may grow while the evaluator lives.
plb_evaluator *plb_evaluator_new(const plb_graph *graph, plb_evaluate_input input, void *context);
void plb_evaluator_free(plb_evaluator *evaluator);

// Sets *known and, where it is, *out to `value`, plain and dense, borrowed from the evaluator. An
// error is one of the arithmetic (an index out of range) or of memory.
PLB_MUST_USE plb_status plb_evaluate(plb_evaluator *evaluator, plb_value value, bool *known,
                                     plb_tensor *out);

#endif
