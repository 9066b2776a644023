// SPDX-License-Identifier: Apache-2.0
// Checkpoints come back as they were, fit or are refused, and are there whole or not at all.
#include "check.h"
#include "faults.h"

#include "base/file.h"
#include "io/safetensors.h"
#include "plumb/plumb.h"
#include "train/checkpoint.h"

static const plb_train_options options = {.model = "some_model",
                                          .data = "digits",
                                          .epochs = 5,
                                          .batch = 64,
                                          .limit = 1000,
                                          .size = 32,
                                          .optimizer = "adamw",
                                          .schedule = "cosine",
                                          .lr = 0.1,
                                          .momentum = 1.0 / 3,
                                          .weight_decay = 1e-300,
                                          .seed = UINT64_MAX,
                                          .level = PLB_LEVEL_INTERP,
                                          .threads = 3,
                                          .no_winograd = true,
                                          .math = PLB_MATH_TF32,
                                          .autocast = PLB_AUTOCAST_BF16,
                                          .freeze = "conv*"};

// A model with a variable of each role; `rows` of the weight, so that another can differ.
static plb_status model_new(int64_t rows, plb_model **out) {
    const struct {
        const char *name;
        plb_type type;
        plb_role role;
    } variables[] = {
        {"fc.weight", {PLB_F32, plb_shape_of(rows, 5)}, PLB_ROLE_PARAMETER},
        {"bn.num_batches_tracked", {PLB_I64, plb_scalar_shape}, PLB_ROLE_BUFFER},
        {"sgd.momentum.fc.weight", {PLB_F32, plb_shape_of(rows, 5)}, PLB_ROLE_OPTIMIZER},
        {"random", {PLB_U64, plb_shape_of(2)}, PLB_ROLE_STATE},
    };
    *out = plb_model_new();
    if (!*out) return PLB_ENOMEM;
    for (int i = 0; i < 4; i++) {
        int index;
        plb_status status =
            plb_model_variable(*out, variables[i].name, &variables[i].type, variables[i].role,
                               (plb_init){.a = i + 0.25}, &index);
        if (status) return status;
    }
    return plb_model_init(*out, 1);
}

static plb_status write_one(const char *path, plb_model *model) {
    plb_train_epoch history[2] = {
        {.epoch = 1, .samples = 1000, .lr = 0.1, .loss = 2.25, .test_loss = NAN, .train_ns = 5},
        {.epoch = 2, .samples = 1000, .lr = 0.09, .loss = 1.0 / 3, .test_count = 7, .wait_ns = 9}};
    plb_train_progress progress = {.step = 37,
                                   .epoch = 2,
                                   .number = 5,
                                   .metrics = {0.1, 200, 320},
                                   .train_ns = 123456789012,
                                   .wait_ns = 3,
                                   .history = history,
                                   .n_history = 2};
    return plb_checkpoint_write(path, model, &options, &progress, "a key\tkernel\tchoice\n");
}

static const char *in_folder(const char *folder, const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void what_was_written_comes_back(void) {
    const char *folder = fault_folder();
    plb_model *model = NULL, *other = NULL;
    plb_checkpoint *c = NULL;
    CHECK_OK(model_new(4, &model));
    CHECK_OK(model_new(4, &other));
    uint64_t *state = plb_variable_data(model, 3);
    state[0] = UINT64_MAX, state[1] = 12345678901234567u;
    for (int i = 0; i < 20; i++) ((float *)plb_variable_data(model, 0))[i] = 1.0f / (float)(i + 3);
    CHECK_OK(write_one(in_folder(folder, "c"), model));
    CHECK_OK(plb_checkpoint_open(in_folder(folder, "c"), &c));
    CHECK_OK(plb_checkpoint_load(c, other));
    CHECK(!memcmp(plb_variable_data(other, 0), plb_variable_data(model, 0), 80));
    CHECK(*(int64_t *)plb_variable_data(other, 1) == *(int64_t *)plb_variable_data(model, 1));
    CHECK(!memcmp(plb_variable_data(other, 3), state, 16));
    plb_train_options read = {0};
    CHECK_OK(plb_checkpoint_options(c, &read));
    CHECK(read.momentum == 1.0 / 3 && read.weight_decay == 1e-300 && read.seed == UINT64_MAX);
    CHECK(read.level == PLB_LEVEL_INTERP && read.threads == 3 && read.no_winograd);
    CHECK(read.math == PLB_MATH_TF32 && read.autocast == PLB_AUTOCAST_BF16);
    CHECK(!read.loss && !read.output && !read.only && !strcmp(read.freeze, "conv*"));
    CHECK(!strcmp(read.optimizer, "adamw") && !strcmp(read.schedule, "cosine"));
    CHECK_OK(plb_checkpoint_check(c, &read));
    plb_train_progress p;
    CHECK_OK(plb_checkpoint_progress(c, &p));
    CHECK(p.step == 37 && p.epoch == 2 && p.number == 5 && p.n_history == 2);
    CHECK(p.metrics.loss_sum == 0.1 && p.metrics.samples == 320 && p.train_ns == 123456789012);
    CHECK(p.history[1].loss == 1.0 / 3 && p.history[1].wait_ns == 9 &&
          isnan(p.history[0].test_loss));
    CHECK(!strcmp(plb_checkpoint_choices(c), "a key\tkernel\tchoice\n"));
    plb_train_progress_free(&p);
    plb_checkpoint_free(c);
    plb_model_free(model);
    plb_model_free(other);
    fault_folder_remove(folder);
}

static void other_options_are_refused(void) {
    const char *folder = fault_folder();
    plb_model *model = NULL;
    plb_checkpoint *c = NULL;
    CHECK_OK(model_new(4, &model));
    CHECK_OK(write_one(in_folder(folder, "c"), model));
    CHECK_OK(plb_checkpoint_open(in_folder(folder, "c"), &c));
    plb_train_options other = options;
    other.batch = 32;
    CHECK_FAILS(PLB_EINVAL, "began with batch 64 and cannot go on with batch 32",
                plb_checkpoint_check(c, &other));
    other = options, other.epochs = 6; // the cosine looks at their number
    CHECK_FAILS(PLB_EINVAL, "epochs", plb_checkpoint_check(c, &other));
    other = options, other.threads = 1; // allowed; the loop warns
    CHECK_OK(plb_checkpoint_check(c, &other));
    other = options, other.math = PLB_MATH_F32; // too
    CHECK_OK(plb_checkpoint_check(c, &other));
    other = options, other.autocast = PLB_AUTOCAST_NONE;
    CHECK_FAILS(PLB_EINVAL, "began with autocast bf16 and cannot go on with autocast none",
                plb_checkpoint_check(c, &other));
    other = options, other.freeze = NULL;
    CHECK_FAILS(PLB_EINVAL, "began with freeze conv* and cannot go on with freeze none",
                plb_checkpoint_check(c, &other));
    plb_checkpoint_free(c);
    plb_model_free(model);
    fault_folder_remove(folder);
}

static void another_model_is_refused_and_left_alone(void) {
    const char *folder = fault_folder();
    plb_model *model = NULL, *taller = NULL, *larger = NULL;
    plb_checkpoint *c = NULL;
    CHECK_OK(model_new(4, &model));
    CHECK_OK(model_new(6, &taller));
    CHECK_OK(write_one(in_folder(folder, "c"), model));
    CHECK_OK(plb_checkpoint_open(in_folder(folder, "c"), &c));
    CHECK_FAILS(PLB_EINVAL, "fc.weight: expected f32 [6, 5], found f32 [4, 5]",
                plb_checkpoint_load(c, taller));
    CHECK(*(float *)plb_variable_data(taller, 0) == 0.25f);
    int index;
    CHECK_OK(model_new(4, &larger));
    CHECK_OK(plb_model_variable(larger, "more", &(plb_type){PLB_F32, plb_shape_of(1)},
                                PLB_ROLE_BUFFER, (plb_init){0}, &index));
    CHECK_FAILS(PLB_EINVAL, "expected more, found none", plb_checkpoint_load(c, larger));
    plb_checkpoint_free(c);
    plb_model *smaller = plb_model_new();
    CHECK_OK(plb_model_variable(smaller, "fc.weight", &(plb_type){PLB_F32, plb_shape_of(4, 5)},
                                PLB_ROLE_PARAMETER, (plb_init){0}, &index));
    CHECK_OK(plb_checkpoint_open(in_folder(folder, "c"), &c));
    CHECK_FAILS(PLB_EINVAL, "no place for", plb_checkpoint_load(c, smaller));
    plb_checkpoint_free(c);
    plb_model_free(model);
    plb_model_free(taller);
    plb_model_free(larger);
    plb_model_free(smaller);
    fault_folder_remove(folder);
}

static void put(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "w");
    CHECK(file && fwrite(bytes, 1, size, file) == size);
    if (file) fclose(file);
}

static void a_file_cut_short_is_refused(void) {
    const char *folder = fault_folder();
    plb_model *model = NULL;
    uint8_t *bytes = NULL;
    size_t size = 0;
    CHECK_OK(model_new(4, &model));
    CHECK_OK(write_one(in_folder(folder, "c"), model));
    CHECK_OK(plb_file_read(in_folder(folder, "c"), 1 << 20, &bytes, &size));
    for (size_t cut = 0; cut < size; cut += cut < size - 40 ? 7 : 1) {
        plb_checkpoint *c = NULL;
        put(in_folder(folder, "cut"), bytes, cut);
        CHECK_FAILS(PLB_EINVAL, "cut", plb_checkpoint_open(in_folder(folder, "cut"), &c));
        CHECK(!c);
    }
    plb_free(bytes);
    plb_model_free(model);
    fault_folder_remove(folder);
}

// A file with these values of the keys that are read as numbers.
static plb_status read_position(const char *path, const char *step, const char *position,
                                const char *metrics, const char *history) {
    const plb_name_value metadata[] = {{"format", "plumb checkpoint 1"},
                                       {"step", step},
                                       {"position", position},
                                       {"metrics", metrics},
                                       {"history", history}};
    plb_checkpoint *c = NULL;
    plb_train_progress p = {0};
    plb_status status = plb_safetensors_write(path, NULL, 0, metadata, 5);
    if (!status) status = plb_checkpoint_open(path, &c);
    if (!status) status = plb_checkpoint_progress(c, &p);
    plb_train_progress_free(&p);
    plb_checkpoint_free(c);
    return status;
}

static void nonsense_is_refused(void) {
    const char *folder = fault_folder(), *path = in_folder(folder, "c");
    const char *sums = "0x1p+0 0x1p+0 1 1 1", *row = "1 1 1 1 1 1 1 1 1 1 1\n";
    CHECK_OK(read_position(path, "5", "0 5", sums, ""));
    CHECK_OK(read_position(path, "5", "1 5", sums, row));
    CHECK_FAILS(PLB_EINVAL, "key step", read_position(path, "-1", "0 5", sums, ""));
    CHECK_FAILS(PLB_EINVAL, "key step", read_position(path, "", "0 5", sums, ""));
    CHECK_FAILS(PLB_EINVAL, "key position", read_position(path, "5", "5", sums, ""));
    CHECK_FAILS(PLB_EINVAL, "key position", read_position(path, "5", "0 -5", sums, ""));
    CHECK_FAILS(PLB_EINVAL, "key metrics", read_position(path, "5", "0 5", "1 2", ""));
    CHECK_FAILS(PLB_EINVAL, "key metrics", read_position(path, "5", "0 5", "1 1 1 1 1 1", ""));
    CHECK_FAILS(PLB_EINVAL, "key history", read_position(path, "5", "1 5", sums, ""));
    CHECK_FAILS(PLB_EINVAL, "key history", read_position(path, "5", "1 5", sums, "1 2 3\n"));
    plb_checkpoint *c = NULL;
    plb_train_options o = {0};
    CHECK_OK(plb_checkpoint_open(path, &c));
    CHECK_FAILS(PLB_EINVAL, "key model", plb_checkpoint_options(c, &o));
    plb_checkpoint_free(c);
    CHECK_OK(plb_safetensors_write(path, NULL, 0, NULL, 0));
    CHECK_FAILS(PLB_EINVAL, "a file of tensors alone", plb_checkpoint_open(path, &c));
    fault_folder_remove(folder);
}

static plb_status write_and_read(void *context) {
    const char *path = context;
    plb_model *model = NULL;
    plb_checkpoint *c = NULL;
    plb_train_progress p = {0};
    plb_train_options read = {0};
    plb_status status = model_new(4, &model);
    if (!status) status = write_one(path, model);
    if (!status) status = plb_checkpoint_open(path, &c);
    if (!status) status = plb_checkpoint_options(c, &read);
    if (!status) status = plb_checkpoint_check(c, &read);
    if (!status) status = plb_checkpoint_progress(c, &p);
    if (!status) status = plb_checkpoint_load(c, model);
    if (!status) status = plb_weights_write(path, model);
    plb_train_progress_free(&p);
    plb_checkpoint_free(c);
    plb_model_free(model);
    return status;
}

static void no_memory_is_an_answer(void) {
    const char *folder = fault_folder();
    CHECK(fault_every_allocation(write_and_read, (void *)in_folder(folder, "c")) > 10);
    CHECK(fault_count_files(folder) == 1); // no temporary file is left
    fault_folder_remove(folder);
}

static void saved_weights_are_parameters_and_buffers(void) {
    const char *folder = fault_folder();
    plb_model *model = NULL;
    plb_safetensors *file = NULL;
    CHECK_OK(model_new(4, &model));
    CHECK_OK(plb_weights_write(in_folder(folder, "w"), model));
    CHECK_OK(plb_safetensors_open(in_folder(folder, "w"), &file));
    CHECK(plb_safetensors_count(file) == 2);
    CHECK(plb_safetensors_find(file, "fc.weight"));
    const plb_named_tensor *tracked = plb_safetensors_find(file, "bn.num_batches_tracked");
    CHECK(tracked && tracked->tensor.dtype == PLB_I64 && tracked->tensor.shape.rank == 0);
    plb_safetensors_free(file);
    plb_model_free(model);
    fault_folder_remove(folder);
}

static void a_full_disk_keeps_the_old_checkpoint(void) {
    const char *folder = fault_folder();
    if (!fault_small_disk(folder, "64k")) {
        rmdir(folder);
        SKIP("mounting a small disk is not permitted");
    }
    plb_model *small = NULL, *large = NULL;
    plb_checkpoint *c = NULL;
    CHECK_OK(model_new(4, &small));
    CHECK_OK(model_new(40000, &large));
    CHECK_OK(write_one(in_folder(folder, "c"), small));
    CHECK_FAILS(PLB_EFULL, "No space", write_one(in_folder(folder, "c"), large));
    CHECK(fault_count_files(folder) == 1);
    CHECK_OK(plb_checkpoint_open(in_folder(folder, "c"), &c));
    CHECK_OK(plb_checkpoint_load(c, small));
    plb_checkpoint_free(c);
    plb_model_free(small);
    plb_model_free(large);
    umount(folder);
    rmdir(folder);
}

static const check_test tests[] = {
    {"what was written comes back", what_was_written_comes_back},
    {"other options are refused", other_options_are_refused},
    {"another model is refused and left alone", another_model_is_refused_and_left_alone},
    {"a file cut short is refused", a_file_cut_short_is_refused},
    {"nonsense is refused", nonsense_is_refused},
    {"no memory is an answer", no_memory_is_an_answer},
    {"saved weights are parameters and buffers", saved_weights_are_parameters_and_buffers},
    {"a full disk keeps the old checkpoint", a_full_disk_keeps_the_old_checkpoint},
};
CHECK_MAIN(tests)
