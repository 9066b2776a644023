// SPDX-License-Identifier: Apache-2.0
// Builds a network by hand and trains it on the exclusive or.
//
//   cc xor.c -o xor $(pkg-config --cflags --libs plumb) && ./xor
//
// Prints "a xor b = probability" for the four cases; exit status 0 if all are right.
#include <plumb/plumb.h>
#include <stdio.h>
#include <string.h>

static const float inputs[4][2] = {{0, 0}, {0, 1}, {1, 0}, {1, 1}};
static const float targets[4] = {0, 1, 1, 0};

// x[4,in] -> [4,out], with variables "name.weight" and "name.bias".
static plb_value layer(plb_graph *graph, const char *name, plb_value x, int64_t in, int64_t out) {
    const plb_init random = {PLB_INIT_UNIFORM, -1, 1}, zero = {PLB_INIT_CONSTANT, 0, 0};
    plb_scope_push(graph, "%s", name);
    plb_value w =
        plb_param(graph, "weight", PLB_F32, &plb_shape_of(out, in), PLB_ROLE_PARAMETER, random);
    plb_value b = plb_param(graph, "bias", PLB_F32, &plb_shape_of(out), PLB_ROLE_PARAMETER, zero);
    plb_value y = plb_linear(graph, x, w, b);
    plb_scope_pop(graph);
    return y;
}

// The program "train": one step of Adam on all four cases. Calls on a graph need no checks: it
// keeps its first error for plb_plan_new.
static plb_status build(plb_model *model, plb_graph **out) {
    plb_graph *graph;
    plb_status status = plb_model_program(model, "train", &graph);
    if (status) return status;
    plb_value x = plb_input(graph, "x", PLB_F32, &plb_shape_of(4, 2));
    plb_value y = plb_input(graph, "y", PLB_F32, &plb_shape_of(4, 1));
    plb_value hidden = plb_tanh(graph, layer(graph, "hidden", x, 2, 8));
    plb_value logits = layer(graph, "out", hidden, 8, 1);
    plb_value loss = plb_bce_logits(graph, logits, y, PLB_REDUCE_MEAN);
    plb_output(graph, "loss", loss);
    plb_output(graph, "probability", plb_sigmoid(graph, logits));

    plb_step_options options;
    status = plb_step_options_for("adam", &options);
    if (status) return status;
    options.lr = 0.1;
    *out = graph;
    return plb_train_step(graph, loss, &options); // gradients, optimizer, assigns: all graph
}

static plb_status train(plb_plan *plan, int steps, int *right) {
    plb_tensor x, y, p;
    double loss = 0;
    plb_status status = plb_plan_input(plan, "x", &x);
    if (!status) status = plb_plan_input(plan, "y", &y);
    if (status) return status;
    memcpy(x.data, inputs, sizeof inputs);
    memcpy(y.data, targets, sizeof targets);
    for (int i = 0; i < steps && !status; i++) status = plb_plan_run(plan);
    if (!status) status = plb_plan_scalar(plan, "loss", &loss);
    if (!status) status = plb_plan_output(plan, "probability", &p);
    if (status) return status;
    for (int i = 0; i < 4; i++) {
        double found = plb_load_f64(p.data, p.dtype, plb_tensor_offset_linear(&p, i));
        printf("%g xor %g = %.3f\n", inputs[i][0], inputs[i][1], found);
        *right += (found > 0.5) == (targets[i] > 0.5);
    }
    printf("loss %.4f after %d steps\n", loss, steps);
    return PLB_OK;
}

int main(void) {
    int right = 0;
    plb_model *model = plb_model_new();
    plb_graph *graph = NULL;
    plb_plan *plan = NULL;
    plb_status status = model ? build(model, &graph) : PLB_ENOMEM;
    if (!status) status = plb_model_init(model, 1); // first values, from seed 1
    if (!status) status = plb_plan_new(graph, NULL, &plan);
    if (!status) status = train(plan, 200, &right);
    if (status) fprintf(stderr, "xor: %s\n", plb_error_text());
    plb_plan_free(plan);
    plb_model_free(model);
    return status || right != 4;
}
