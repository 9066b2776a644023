// SPDX-License-Identifier: Apache-2.0
// Weights go to a file and back; what does not fit is refused before anything was touched.
#include "check.h"
#include "faults.h"

#include "base/core/status.h"
#include "io/safetensors.h"
#include "plumb/plumb.h"
#include "train/checkpoint.h"

enum { ROWS = 1500, COLUMNS = 1000 }; // more than one piece of a copy

static const char *in_folder(const char *folder, const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

// y = x w[COLUMNS, ROWS]^T + b; "head" is declared and not used.
static plb_status model_new(plb_model **out, plb_graph **graph) {
    const plb_init random = {PLB_INIT_UNIFORM, -1, 1};
    *out = plb_model_new();
    if (!*out) return PLB_ENOMEM;
    PLB_TRY(plb_model_program(*out, "p", graph));
    plb_graph *g = *graph;
    plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(1, COLUMNS));
    plb_value w =
        plb_param(g, "w", PLB_F32, &plb_shape_of(ROWS, COLUMNS), PLB_ROLE_PARAMETER, random);
    plb_value b = plb_param(g, "b", PLB_F32, &plb_shape_of(ROWS), PLB_ROLE_BUFFER, random);
    plb_param(g, "head", PLB_F32, &plb_shape_of(2), PLB_ROLE_PARAMETER, (plb_init){.a = 7});
    plb_param(g, "num_batches_tracked", PLB_I64, &plb_scalar_shape, PLB_ROLE_BUFFER,
              (plb_init){.a = 3});
    plb_output(g, "y", plb_linear(g, x, w, b));
    return plb_graph_status(g);
}

static const float *values(plb_model *model, const char *name) {
    return plb_variable_data(model, plb_model_find_variable(model, name));
}

static void values_come_back(void) {
    const char *folder = fault_folder();
    plb_model *from = NULL, *to = NULL;
    plb_graph *graph = NULL;
    CHECK_OK(model_new(&from, &graph));
    CHECK_OK(plb_model_init(from, 5));
    CHECK_OK(plb_weights_write(in_folder(folder, "w"), from));
    for (int threads = 0; threads < 4; threads++) {
        CHECK_OK(model_new(&to, &graph));
        CHECK_OK(plb_weights_load(in_folder(folder, "w"), to, NULL, threads));
        CHECK(memcmp(values(from, "w"), values(to, "w"), sizeof(float) * ROWS * COLUMNS) == 0);
        CHECK(memcmp(values(from, "b"), values(to, "b"), sizeof(float) * ROWS) == 0);
        plb_model_free(to);
    }
    plb_model_free(from);
    fault_folder_remove(folder);
}

// A file with w in `dtype` and b, of ones.
static void write_ones(const char *path, plb_dtype dtype, const char *second) {
    const plb_shape matrix = plb_shape_of(ROWS, COLUMNS), row = plb_shape_of(ROWS);
    void *w = calloc(ROWS * COLUMNS, plb_dtype_size(dtype));
    float *b = calloc(ROWS, sizeof *b);
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) plb_store_f64(w, dtype, i, (double)(i % 100));
    for (int i = 0; i < ROWS; i++) b[i] = 1;
    const plb_named_tensor tensors[] = {
        {"w", plb_tensor_dense(w, dtype, &matrix, (plb_layout){0})},
        {second, plb_tensor_dense(b, PLB_F32, &row, (plb_layout){0})},
    };
    CHECK_OK(plb_safetensors_write(path, tensors, 2, NULL, 0));
    free(w);
    free(b);
}

static void other_floats_are_converted(void) {
    static const plb_dtype dtypes[] = {PLB_F64, PLB_F16, PLB_BF16};
    const char *folder = fault_folder();
    for (int k = 0; k < 3; k++) {
        plb_model *model = NULL;
        plb_graph *graph = NULL;
        write_ones(in_folder(folder, "w"), dtypes[k], "b");
        CHECK_OK(model_new(&model, &graph));
        CHECK_OK(plb_weights_load(in_folder(folder, "w"), model, graph, 2));
        int wrong = 0;
        for (int64_t i = 0; i < ROWS * COLUMNS; i++) wrong += values(model, "w")[i] != i % 100;
        CHECK_SAY(wrong == 0, "%s: %d of %d", plb_dtype_name(dtypes[k]), wrong, ROWS * COLUMNS);
        CHECK(values(model, "head")[1] == 7); // missing, so as it begins
        const int64_t *tracked =
            plb_variable_data(model, plb_model_find_variable(model, "num_batches_tracked"));
        CHECK(*tracked == 3);
        plb_model_free(model);
    }
    fault_folder_remove(folder);
}

static void what_does_not_fit_touches_nothing(void) {
    const char *folder = fault_folder();
    plb_model *model = NULL;
    plb_graph *graph = NULL;
    CHECK_OK(model_new(&model, &graph));
    CHECK_OK(plb_model_init(model, 1));
    const float before = values(model, "w")[0];
    const char *path = in_folder(folder, "w");
    write_ones(path, PLB_F32, "b");
    CHECK_FAILS(PLB_EINVAL, "expected head f32 [2], found no tensor of that name",
                plb_weights_load(path, model, NULL, 1));
    write_ones(path, PLB_I32, "b");
    CHECK_FAILS(PLB_EINVAL, "w: expected f32 [1500, 1000], found i32 [1500, 1000]",
                plb_weights_load(path, model, graph, 1));
    write_ones(path, PLB_F32, "stranger");
    CHECK_FAILS(PLB_EINVAL, "expected b f32 [1500], found no tensor of that name; and 1 more is",
                plb_weights_load(path, model, graph, 1));
    CHECK(values(model, "w")[0] == before);
    plb_model_free(model);
    fault_folder_remove(folder);
}

// What a training step declares is no stranger, the scale of its loss included.
static void checkpoints_are_weights_too(void) {
    static const char *const optimizers[] = {"sgd", "adam"};
    const char *folder = fault_folder();
    for (int k = 0; k < 2; k++) {
        plb_model *trained = NULL, *model = NULL;
        plb_graph *graph = NULL;
        plb_step_options step;
        CHECK_OK(plb_step_options_for(optimizers[k], &step));
        step.sgd.momentum = 0.9, step.loss_scale = 1024;
        CHECK_OK(model_new(&trained, &graph));
        plb_value y = plb_input(graph, "y", PLB_F32, &plb_shape_of(1, COLUMNS));
        plb_value drawn = plb_dropout(graph, y, 0.5);
        plb_value w = plb_param(graph, "w", PLB_F32, &plb_shape_of(ROWS, COLUMNS),
                                PLB_ROLE_PARAMETER, (plb_init){0});
        plb_value out = plb_linear(graph, drawn, w, PLB_NONE);
        CHECK_OK(plb_train_step(graph, plb_norm(graph, out, 0, false, 2), &step));
        CHECK_OK(plb_model_init(trained, 1));
        plb_train_options options = {.model = "m",
                                     .data = "d",
                                     .optimizer = optimizers[k],
                                     .schedule = "constant",
                                     .threads = 1};
        const plb_train_progress progress = {0};
        CHECK_OK(plb_checkpoint_write(in_folder(folder, "c"), trained, &options, &progress, ""));
        CHECK_OK(model_new(&model, &graph));
        CHECK_OK(plb_weights_load(in_folder(folder, "c"), model, NULL, 1));
        CHECK(values(model, "w")[7] == values(trained, "w")[7]);
        plb_model_free(trained);
        plb_model_free(model);
    }
    fault_folder_remove(folder);
}

static plb_status load_one(void *context) {
    plb_model *model = NULL;
    plb_graph *graph = NULL;
    plb_status status = model_new(&model, &graph);
    if (!status) status = plb_weights_load(context, model, graph, 1);
    plb_model_free(model);
    return status;
}

static void no_memory_is_an_answer(void) {
    const char *folder = fault_folder();
    write_ones(in_folder(folder, "w"), PLB_F32, "b");
    CHECK(fault_every_allocation(load_one, (void *)in_folder(folder, "w")) > 10);
    fault_folder_remove(folder);
}

static const check_test tests[] = {
    {"values come back", values_come_back},
    {"other floats are converted", other_floats_are_converted},
    {"what does not fit touches nothing", what_does_not_fit_touches_nothing},
    {"checkpoints are weights too", checkpoints_are_weights_too},
    {"no memory is an answer", no_memory_is_an_answer},
};

CHECK_MAIN(tests)
