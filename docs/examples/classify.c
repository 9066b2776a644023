// SPDX-License-Identifier: Apache-2.0
// Loads weights of resnet18, as PyTorch saved them or `plumb init` wrote them, and classifies
// random input of 64x64.
//
//   cc classify.c -o classify $(pkg-config --cflags --libs plumb)
//   plumb init resnet18 --save resnet18.safetensors && ./classify resnet18.safetensors
//
// Prints the best class of each of two samples, and where the time of the second run went.
#include <plumb/plumb.h>
#include <stdio.h>

enum { BATCH = 2, SIZE = 64 };

static void fill(plb_tensor *x) {
    unsigned state = 1;
    for (int64_t i = 0; i < plb_shape_count(&x->shape); i++) {
        state = state * 1664525u + 1013904223u;
        ((float *)x->data)[i] = (float)(state >> 8) / (1 << 23) - 1; // in [-1, 1)
    }
}

static void print_best(const plb_tensor *logits) {
    for (int64_t n = 0; n < logits->shape.dim[0]; n++) {
        int64_t best = 0;
        double most = 0;
        for (int64_t c = 0; c < logits->shape.dim[1]; c++) {
            double value = plb_load_f64(logits->data, logits->dtype,
                                        plb_tensor_offset(logits, (int64_t[]){n, c}));
            if (c == 0 || value > most) best = c, most = value;
        }
        printf("sample %d: class %d, logit %.4f\n", (int)n, (int)best, most);
    }
}

static void print_slowest(const plb_plan *plan) {
    plb_plan_op slowest = {.time_ns = -1};
    for (int i = 0; i < plb_plan_op_count(plan); i++) {
        plb_plan_op op = plb_plan_op_info(plan, i);
        if (op.time_ns > slowest.time_ns) slowest = op;
    }
    printf("slowest: %s (%s), by %s\n", slowest.scope, slowest.op, slowest.kernel);
}

static plb_status run(plb_model *model, const char *path, plb_plan **plan) {
    const plb_zoo_options zoo = {.batch = BATCH, .size = SIZE};
    const plb_plan_options options = {.profile = true};
    plb_tensor x, logits;
    plb_status status = plb_zoo_build_infer(model, "resnet18", &zoo);
    if (status) return status;
    const plb_graph *graph = plb_model_find_program(model, "infer");
    status = plb_weights_load(path, model, graph, 0);
    if (!status) status = plb_plan_new(graph, &options, plan);
    if (!status) status = plb_plan_input(*plan, "x", &x);
    if (status) return status;
    fill(&x);
    status = plb_plan_run(*plan); // folds and packs the weights, once
    plb_plan_reset_times(*plan);
    if (!status) status = plb_plan_run(*plan); // allocates nothing
    if (!status) status = plb_plan_output(*plan, "logits", &logits);
    if (status) return status;
    print_best(&logits);
    print_slowest(*plan);
    printf("planned memory: %zu bytes\n", plb_plan_memory(*plan).total);
    return PLB_OK;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fputs("usage: classify resnet18.safetensors\n", stderr);
        return 2;
    }
    plb_model *model = plb_model_new();
    plb_plan *plan = NULL;
    plb_status status = model ? run(model, argv[1], &plan) : PLB_ENOMEM;
    if (status) fprintf(stderr, "classify: %s\n", plb_error_text());
    plb_plan_free(plan);
    plb_model_free(model);
    return status ? 2 : 0;
}
