// SPDX-License-Identifier: Apache-2.0
// Kernel choices: on disk, as one process leaves them to the next; their keys; what is said of
// kernels that were not taken.
#include "engine/graph/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/stop.h"
#include "base/folder.h"
#include "check.h"
#include "engine/graph/plan.h"
#include "plumb/ops.h"
#include "plumb/plan.h"

static char home[] = "/tmp/plumb-tune-XXXXXX";

static void file_name(char *path, size_t size_bytes) {
    snprintf(path, size_bytes, "%s/plumb/kernels", home);
}

static void put_file(const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/plumb", home);
    CHECK_OK(plb_folder_make(path));
    file_name(path, sizeof path);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

// In a process of its own, since what was read stays in memory.
static bool in_child(bool (*body)(int), int argument) {
    int status = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(body(argument) ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static bool remembers(int first) {
    plb_choice choice = {.kernel = "winograd", .choice = "4x4"};
    for (int i = first; i < first + 50; i++) {
        char key[32];
        snprintf(key, sizeof key, "key %d", i);
        plb_tune_remember(key, &choice);
    }
    return true;
}

static bool knows(int first) {
    plb_choice found;
    for (int i = first; i < first + 50; i++) {
        char key[32];
        snprintf(key, sizeof key, "key %d", i);
        if (!plb_tune_find(key, &found)) return false;
        if (strcmp(found.kernel, "winograd") || strcmp(found.choice, "4x4")) return false;
    }
    return true;
}

static void one_process_leaves_them_to_the_next(void) {
    CHECK(!in_child(knows, 0));
    CHECK(in_child(remembers, 0) && in_child(knows, 0));
    CHECK(in_child(remembers, 50) && in_child(knows, 0) && in_child(knows, 50));
}

// What a process that is just making the file, a full disk, or another version left there.
static void a_file_that_begins_otherwise_is_made_anew(void) {
    static const char *const begins[] = {"", "plumb kernel", "plumb kernel choices 0\nold\n"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        put_file(begins[i]);
        CHECK(in_child(remembers, 0));
        CHECK_SAY(in_child(knows, 0), "after a file that begins with \"%s\"", begins[i]);
    }
}

static void a_place_that_cannot_be_written_is_no_error(void) {
    char path[128];
    file_name(path, sizeof path);
    CHECK(remove(path) == 0 && mkdir(path, 0700) == 0);
    CHECK(in_child(remembers, 0) && !in_child(knows, 0));
    CHECK(rmdir(path) == 0);
}

static void several_may_write_at_once(void) {
    enum { WRITERS = 4 };
    pid_t child[WRITERS];
    put_file("plumb kernel choices 1\n");
    for (int w = 0; w < WRITERS; w++) {
        fflush(NULL);
        child[w] = fork();
        if (child[w] == 0) _exit(remembers(50 * w) ? 0 : 1);
    }
    for (int w = 0; w < WRITERS; w++) {
        int status = -1;
        CHECK(waitpid(child[w], &status, 0) == child[w] && status == 0);
    }
    for (int w = 0; w < WRITERS; w++) CHECK(in_child(knows, 50 * w));
}

// Two devices of one backend, whose libraries compute convolutions alone.
struct plb_device {
    const char *name, *with_library;
};

static const char *word_of(const plb_query *q) {
    return q->op == PLB_OP_conv ? q->device->with_library : q->device->name;
}

static void keys_name_the_device_and_its_libraries(void) {
    static const plb_op_id ops[] = {PLB_OP_conv, PLB_OP_conv_weight_grad};
    const plb_backend backend = {.name = "made up", .fingerprint = word_of};
    plb_device devices[] = {{"first", "first:2.0"}, {"second", "second:2.0"}};
    const plb_shape image = plb_shape_of(1, 3, 8, 8), filters = plb_shape_of(4, 3, 3, 3);
    const plb_conv_attrs attrs = plb_conv_uniform(2, 1, 1, 1, 1);
    const plb_tensor in[] = {plb_tensor_dense(NULL, PLB_F32, &image, (plb_layout){0}),
                             plb_tensor_dense(NULL, PLB_F32, &filters, (plb_layout){0})};
    for (int i = 0; i < 4; i++) {
        plb_device *device = &devices[i % 2];
        const plb_query q = {.op = ops[i / 2],
                             .attrs = &attrs,
                             .n_in = 2,
                             .n_out = 1,
                             .in = in,
                             .out = in,
                             .threads = 1,
                             .device = device};
        const char *want = i / 2 ? device->name : device->with_library;
        plb_strbuf key = {0};
        plb_tune_key(&backend, &q, &key);
        CHECK_SAY(!strncmp(key.text, want, strlen(want)) && key.text[strlen(want)] == ' ',
                  "key %s, expected to begin with %s", key.text, want);
        plb_strbuf_free(&key);
    }
}

static const char *refuses_nothing(const plb_query *q) {
    (void)q;
    return NULL;
}

static const char *word(const plb_query *q) {
    (void)q;
    return "word";
}

// As a library that finds out only now that it lacks what it needs.
static plb_status cannot_prepare(const plb_query *q, const char *choice, plb_launch *out) {
    (void)q, (void)choice, (void)out;
    return PLB_EUNSUPPORTED;
}

static plb_status prepares(const plb_query *q, const char *choice, plb_launch *out) {
    (void)q, (void)choice;
    *out = (plb_launch){0};
    return PLB_OK;
}

static const plb_kernel better = {
    .name = "better", .refuse = refuses_nothing, .prepare = cannot_prepare, .tuned = true};
static const plb_kernel plain = {.name = "plain", .refuse = refuses_nothing, .prepare = prepares};

static const plb_kernel special = {.name = "special",
                                   .refuse = refuses_nothing,
                                   .prepare = prepares,
                                   .tuned = true,
                                   .only_timed = true};

static const plb_kernel *const *two_kernels(plb_op_id op) {
    static const plb_kernel *const list[] = {&better, &plain, NULL};
    (void)op;
    return list;
}

static const plb_kernel *const *special_first(plb_op_id op) {
    static const plb_kernel *const list[] = {&special, &plain, NULL};
    (void)op;
    return list;
}

static const plb_kernel *const *special_alone(plb_op_id op) {
    static const plb_kernel *const list[] = {&special, &better, NULL};
    (void)op;
    return list;
}

// Without timing.
static void check_selected(const plb_kernel *const *(*kernels)(plb_op_id op),
                           const plb_kernel *expected, const char *refused) {
    const plb_backend backend = {.name = "made up", .fingerprint = word, .kernels = kernels};
    const plb_shape shape = plb_shape_of(4);
    const plb_tensor x = plb_tensor_dense(NULL, PLB_F32, &shape, (plb_layout){0});
    const plb_query q = {.op = PLB_OP_exp, .n_in = 1, .n_out = 1, .in = &x, .out = &x};
    plb_plan plan = {.backend = &backend, .arena = plb_arena_new(), .options = {.no_tuning = true}};
    plb_step step = {.refused = ""};
    CHECK_OK(plb_select_kernel(&plan, &q, &step));
    CHECK_SAY(step.kernel == expected, "%s", step.kernel->name);
    CHECK_SAY(!strcmp(step.refused, refused), "%s", step.refused);
    plb_strbuf_free(&plan.choices);
    plb_arena_free(plan.arena);
}

static void nothing_is_slower_that_was_not_timed(void) {
    check_selected(two_kernels, &plain, "better: could not be prepared");
}

static void what_only_a_race_may_choose_comes_last_by_order(void) {
    check_selected(special_first, &plain, "special: was not timed");
    check_selected(special_alone, &special, "");
}

static int asks_left;

static bool is_stopped(void *context) {
    (void)context;
    return asks_left-- <= 0;
}

// The weights that a model begins with are those of one that nobody stopped.
static bool begins_as(plb_model *model, plb_model *other) {
    bool same = true;
    for (int i = 0; i < plb_model_variable_count(model); i++) {
        const plb_type type = plb_model_variable_info(model, i).type;
        const size_t size = plb_layout_bytes(&type.shape, type.dtype, (plb_layout){0});
        void *one = malloc(size), *two = malloc(size);
        plb_tensor a = plb_tensor_dense(one, type.dtype, &type.shape, (plb_layout){0});
        plb_tensor b = plb_tensor_dense(two, type.dtype, &type.shape, (plb_layout){0});
        same = same && plb_variable_read(model, i, &a) == PLB_OK &&
               plb_variable_read(other, i, &b) == PLB_OK && !memcmp(one, two, size);
        free(one), free(two);
    }
    return same;
}

// A convolution of 3x3 from 32 planes to as many, for which several kernels compete.
static plb_model *convolution(plb_graph **graph) {
    const plb_type input = {PLB_F32, plb_shape_of(1, 32, 24, 24)};
    const plb_type weights = {PLB_F32, plb_shape_of(32, 32, 3, 3)};
    const plb_init drawn = {.kind = PLB_INIT_NORMAL, .b = 0.1};
    const plb_conv_attrs attrs = plb_conv_uniform(2, 1, 1, 1, 1);
    int index = -1;
    plb_model *model = plb_model_new();
    CHECK_OK(plb_model_program(model, "one", graph));
    CHECK_OK(plb_model_variable(model, "w", &weights, PLB_ROLE_PARAMETER, drawn, &index));
    const plb_value x = plb_input(*graph, "x", input.dtype, &input.shape);
    const plb_value y = plb_conv(*graph, x, plb_read(*graph, index), PLB_NONE, &attrs);
    plb_output(*graph, "y", y);
    return model;
}

// Stops at the first question, at the second, ... until all is drawn and timed.
static void drawing_and_timing_stop_when_told(void) {
    plb_graph *graph;
    plb_model *whole = convolution(&graph);
    plb_status status = PLB_ECANCELLED;
    int attempts = 0, drawn = 0;
    for (; status == PLB_ECANCELLED && attempts < 100; attempts++) {
        plb_model *model = convolution(&graph);
        plb_plan *plan = NULL;
        asks_left = attempts;
        plb_stop_set(is_stopped, NULL);
        status = plb_model_init(model, 0);
        drawn += !status;
        if (!status) status = plb_plan_new(graph, NULL, &plan);
        plb_stop_set(NULL, NULL);
        CHECK(!plan == (status != PLB_OK) && begins_as(model, whole));
        plb_plan_free(plan);
        plb_model_free(model);
    }
    CHECK_OK(status);
    CHECK(drawn == attempts - 1); // one stopped while the weights were drawn,
    CHECK(drawn > 2);             // some while candidates were timed
    plb_model_free(whole);
}

// How many of the plan's choices are for operands that begin between 16 bytes: of a convolution of
// channels 2 to 33 of an image of one pixel, one of its first 32.
static int unaligned_choices(int64_t begin) {
    const plb_shape image = plb_shape_of(1, 40, 1, 1), filters = plb_shape_of(32, 32, 1, 1);
    const plb_conv_attrs attrs = plb_conv_uniform(2, 1, 0, 1, 1);
    plb_model *model = plb_model_new();
    plb_graph *graph;
    plb_plan *plan = NULL;
    int n = 0;
    CHECK_OK(plb_model_program(model, "one", &graph));
    const plb_value x = plb_input(graph, "x", PLB_F32, &image);
    const plb_value w = plb_input(graph, "w", PLB_F32, &filters);
    const plb_value part = plb_slice_axis(graph, plb_exp(graph, x), 1, begin, begin + 32);
    plb_output(graph, "y", plb_conv(graph, part, w, PLB_NONE, &attrs));
    CHECK_OK(plb_plan_new(graph, NULL, &plan));
    const char *at = plan ? plb_plan_choices(plan) : "";
    while ((at = strstr(at, " unaligned"))) n++, at++;
    plb_plan_free(plan);
    plb_model_free(model);
    return n;
}

static void views_between_16_bytes_are_told(void) {
    CHECK(unaligned_choices(0) == 0);
    CHECK(unaligned_choices(2) == 1);
    CHECK(unaligned_choices(4) == 0);
}

static const check_test tests[] = {

    {"one_process_leaves_them_to_the_next", one_process_leaves_them_to_the_next},
    {"a_file_that_begins_otherwise_is_made_anew", a_file_that_begins_otherwise_is_made_anew},
    {"a_place_that_cannot_be_written_is_no_error", a_place_that_cannot_be_written_is_no_error},
    {"several_may_write_at_once", several_may_write_at_once},
    {"keys_name_the_device_and_its_libraries", keys_name_the_device_and_its_libraries},
    {"nothing_is_slower_that_was_not_timed", nothing_is_slower_that_was_not_timed},
    {"what only a race may choose comes last by order",
     what_only_a_race_may_choose_comes_last_by_order},
    {"drawing_and_timing_stop_when_told", drawing_and_timing_stop_when_told}, // in this process
    {"views between 16 bytes are told", views_between_16_bytes_are_told},
};

int main(void) {
    if (!mkdtemp(home) || setenv("XDG_CACHE_HOME", home, 1)) return 1;
    int code = check_main(tests, sizeof tests / sizeof *tests);
    plb_status status = plb_folder_remove(home);
    return code ? code : (int)status;
}
