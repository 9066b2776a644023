// SPDX-License-Identifier: Apache-2.0
// Gradients are nodes like any others, so they can be differentiated again: the first three
// derivatives of x^3 + sin x at x = 2.
//
//   cc second_order.c -o second_order $(pkg-config --cflags --libs plumb) && ./second_order
#include <plumb/plumb.h>
#include <stdio.h>

static plb_status build(plb_model *model, plb_graph **out) {
    static const char *const names[] = {"f", "f'", "f''", "f'''"};
    plb_graph *graph;
    plb_status status = plb_model_program(model, "main", &graph);
    if (status) return status;
    plb_value x = plb_input(graph, "x", PLB_F64, &plb_scalar_shape);
    plb_value f = plb_add(graph, plb_mul(graph, x, plb_mul(graph, x, x)), plb_sin(graph, x));
    for (int order = 0; order < 4; order++) {
        plb_output(graph, names[order], f);
        if (order < 3) plb_gradients(graph, f, &x, 1, &f);
    }
    *out = graph;
    return plb_graph_status(graph);
}

static plb_status run(plb_plan *plan) {
    static const char *const names[] = {"f", "f'", "f''", "f'''"};
    plb_tensor x;
    plb_status status = plb_plan_input(plan, "x", &x);
    if (status) return status;
    *(double *)x.data = 2;
    status = plb_plan_run(plan);
    for (int order = 0; order < 4 && !status; order++) {
        double value;
        status = plb_plan_scalar(plan, names[order], &value);
        if (!status) printf("%s(2) = %.9f\n", names[order], value);
    }
    return status;
}

int main(void) {
    plb_model *model = plb_model_new();
    plb_graph *graph = NULL;
    plb_plan *plan = NULL;
    plb_status status = model ? build(model, &graph) : PLB_ENOMEM;
    if (!status) status = plb_plan_new(graph, NULL, &plan);
    if (!status) status = run(plan);
    if (status) fprintf(stderr, "second_order: %s\n", plb_error_text());
    plb_plan_free(plan);
    plb_model_free(model);
    return status != PLB_OK;
}
