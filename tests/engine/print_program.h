// SPDX-License-Identifier: Apache-2.0
// A program on standard error, a line a node.
#ifndef PLB_TESTS_ENGINE_PRINT_PROGRAM_H
#define PLB_TESTS_ENGINE_PRINT_PROGRAM_H

#include <stdio.h>

#include "engine/graph/graph.h"

static inline void print_program(const plb_graph *g) {
    for (int i = 0; i < g->n_nodes; i++) {
        const plb_node *node = &g->nodes[i];
        fprintf(stderr, "  %s(", plb_op_of(node->op)->name);
        for (int k = 0; k < node->n_in; k++) fprintf(stderr, "%s%d", k ? " " : "", node->in[k]);
        fprintf(stderr, ")");
        if (node->op == PLB_OP_read || node->op == PLB_OP_assign) {
            int variable = ((const plb_variable_attrs *)node->attrs)->variable;
            fprintf(stderr, " %s", g->model->variables[variable].name);
        }
        for (int k = 0; k < node->n_out; k++) {
            char text[160];
            const plb_type *type = &g->values[node->out + k].type;
            fprintf(stderr, " -> %d %s%s", node->out + k, plb_dtype_name(type->dtype),
                    plb_shape_format(&type->shape, text, sizeof text));
        }
        fprintf(stderr, "\n");
    }
    for (int i = 0; i < g->n_outputs; i++) {
        fprintf(stderr, "  output %s: %d\n", g->outputs[i].name, g->outputs[i].value);
    }
}

#endif
