// SPDX-License-Identifier: Apache-2.0
// The three levels run one program alike; memory is shared where it may be and nowhere else.
#include "base/core/alloc.h"
#include "check.h"
#include "engine/graph/memory.h"
#include "plumb/plumb.h"

static const plb_level levels[] = {PLB_LEVEL_PLAN, PLB_LEVEL_INTERP, PLB_LEVEL_REPLAY};
enum { N_LEVELS = 3 };

static plb_plan *plan_at(const plb_graph *graph, plb_level level) {
    plb_plan *plan = NULL;
    CHECK_OK(plb_plan_new(graph, &(plb_plan_options){.level = level, .threads = 2}, &plan));
    return plan;
}

static void set_input(plb_plan *plan, const char *name, const float *values, size_t n) {
    plb_tensor t;
    CHECK_OK(plb_plan_input(plan, name, &t));
    memcpy(t.data, values, n * sizeof *values);
}

// y = relu(x w + 1) with x[2,2], w[2,2]; h is also an output, so relu must not overwrite it.
static void levels_agree(void) {
    for (int l = 0; l < N_LEVELS; l++) {
        plb_model *model = plb_model_new();
        plb_graph *g;
        CHECK_OK(plb_model_program(model, "p", &g));
        plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(2, 2));
        plb_value w =
            plb_param(g, "w", PLB_F32, &plb_shape_of(2, 2), PLB_ROLE_PARAMETER, (plb_init){.a = 2});
        plb_value h = plb_affine(g, plb_mul(g, x, w), 1, 1);
        plb_output(g, "h", h);
        plb_output(g, "y", plb_relu(g, h));
        plb_plan *plan = plan_at(g, levels[l]);
        set_input(plan, "x", (float[]){1, -2, 3, -4}, 4);
        for (int run = 0; run < 2; run++) {
            plb_tensor out;
            CHECK_OK(plb_plan_run(plan));
            CHECK_OK(plb_plan_output(plan, "h", &out));
            CHECK(((float *)out.data)[0] == 3 && ((float *)out.data)[3] == -7);
            CHECK_OK(plb_plan_output(plan, "y", &out));
            CHECK(((float *)out.data)[0] == 3 && ((float *)out.data)[3] == 0);
        }
        plb_plan_free(plan);
        plb_model_free(model);
    }
}

// Two reads around an assign see the old and the new value; the variable keeps the new one.
static void reads_and_assigns_keep_their_order(void) {
    for (int l = 0; l < N_LEVELS; l++) {
        plb_model *model = plb_model_new();
        plb_graph *g;
        CHECK_OK(plb_model_program(model, "count", &g));
        plb_value before =
            plb_param(g, "n", PLB_F32, &plb_shape_of(3), PLB_ROLE_STATE, (plb_init){.a = 5});
        int n = plb_value_variable(g, before);
        plb_assign(g, n, plb_affine(g, before, 1, 1));
        plb_value after = plb_read(g, n);
        plb_output(g, "old_plus_new", plb_add(g, before, after));
        plb_plan *plan = plan_at(g, levels[l]);
        for (int run = 0; run < 3; run++) {
            plb_tensor out;
            CHECK_OK(plb_plan_run(plan));
            CHECK_OK(plb_plan_output(plan, "old_plus_new", &out));
            CHECK_NEAR(((float *)out.data)[2], 11 + 2 * run, 0);
        }
        CHECK_NEAR(((float *)plb_variable_data(model, n))[0], 8, 0);
        plb_plan_free(plan);
        plb_model_free(model);
    }
}

// What one program writes, the other's prologue must see.
static void programs_share_variables(void) {
    plb_model *model = plb_model_new();
    plb_graph *use, *change;
    CHECK_OK(plb_model_program(model, "use", &use));
    plb_value w =
        plb_param(use, "w", PLB_F32, &plb_shape_of(4), PLB_ROLE_PARAMETER, (plb_init){.a = 1});
    plb_value x = plb_input(use, "x", PLB_F32, &plb_shape_of(4));
    plb_output(use, "y", plb_mul(use, x, plb_exp(use, w))); // exp(w) belongs to the prologue
    CHECK_OK(plb_model_program(model, "change", &change));
    plb_value v =
        plb_param(change, "w", PLB_F32, &plb_shape_of(4), PLB_ROLE_PARAMETER, (plb_init){.a = 1});
    plb_assign(change, plb_value_variable(change, v), plb_affine(change, v, 1, 1));
    plb_plan *user = plan_at(use, PLB_LEVEL_PLAN), *changer = plan_at(change, PLB_LEVEL_PLAN);
    set_input(user, "x", (float[]){1, 1, 1, 1}, 4);
    for (int run = 1; run < 4; run++) {
        plb_tensor y;
        CHECK_OK(plb_plan_run(user));
        CHECK_OK(plb_plan_output(user, "y", &y));
        CHECK_NEAR(((float *)y.data)[0], exp(run), 1e-5 * exp(run));
        CHECK_OK(plb_plan_run(changer));
    }
    plb_plan_free(user);
    plb_plan_free(changer);
    plb_model_free(model);
}

static void steady_state_allocates_nothing(void) {
    plb_model *model = plb_model_new();
    plb_graph *g;
    CHECK_OK(plb_model_program(model, "p", &g));
    plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(8, 8));
    plb_output(g, "y", plb_relu(g, plb_add(g, x, plb_neg(g, x))));
    plb_plan *plan = plan_at(g, PLB_LEVEL_PLAN);
    CHECK_OK(plb_plan_run(plan));
    uint64_t before = plb_alloc_count();
    for (int i = 0; i < 5; i++) CHECK_OK(plb_plan_run(plan));
    CHECK(plb_alloc_count() == before);
    plb_plan_free(plan);
    plb_model_free(model);
}

// A chain of n pointwise ops needs room for two values at most, whatever n is.
static void chains_reuse_memory(void) {
    plb_model *model = plb_model_new();
    plb_graph *g;
    CHECK_OK(plb_model_program(model, "p", &g));
    plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(1 << 16));
    for (int i = 0; i < 20; i++) x = plb_cumsum(g, x, 0, i & 1, false);
    plb_output(g, "y", x);
    plb_plan *plan = plan_at(g, PLB_LEVEL_PLAN);
    plb_plan_bytes bytes = plb_plan_memory(plan);
    CHECK(bytes.total - bytes.kernels <= (4 << 18) + 4096); // input, output, and two between
    plb_plan_free(plan);
    plb_model_free(model);
}

static void blocks_never_overlap(void) {
    enum { N = 300 };
    plb_block blocks[N];
    uint64_t state = 1;
    for (int trial = 0; trial < 20; trial++) {
        size_t peak = 0, total;
        for (int i = 0; i < N; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            int first = (int)(state >> 40) % 100;
            blocks[i] = (plb_block){.size_bytes = (state >> 20) % 5000,
                                    .first = first,
                                    .last = first + (int)(state >> 33) % 30};
        }
        CHECK_OK(plb_place(blocks, N, 64, &total));
        for (int t = 0; t < 130; t++) {
            size_t alive = 0;
            for (int i = 0; i < N; i++) {
                if (blocks[i].first <= t && t <= blocks[i].last) alive += blocks[i].size_bytes;
            }
            if (alive > peak) peak = alive;
        }
        CHECK_SAY(total <= peak + peak / 4, "%zu placed, %zu alive at once", total, peak);
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < i; j++) {
                bool together =
                    blocks[i].first <= blocks[j].last && blocks[j].first <= blocks[i].last;
                size_t a = blocks[i].offset_bytes, b = blocks[j].offset_bytes;
                bool apart = a + blocks[i].size_bytes <= b || b + blocks[j].size_bytes <= a;
                CHECK(!together || apart);
            }
        }
    }
}

// p = w w and q = 3 p are computed once and before x + p, though they stand around it: q must not
// take p's bytes. Without variables, constants alone are computed once too.
static void what_runs_once_runs_first(void) {
    for (int variable = 0; variable < 2; variable++) {
        plb_model *model = plb_model_new();
        plb_graph *g;
        const plb_shape shape = plb_shape_of(2);
        CHECK_OK(plb_model_program(model, "p", &g));
        plb_value x = plb_input(g, "x", PLB_F32, &shape);
        plb_value w =
            variable ? plb_param(g, "w", PLB_F32, &shape, PLB_ROLE_PARAMETER, (plb_init){.a = 2})
                     : plb_constant(g, PLB_F32, &shape, (float[]){2, 2});
        plb_value p = plb_mul(g, w, w);
        plb_value sum = plb_add(g, x, p);
        plb_value q = plb_affine(g, p, 3, 0);
        plb_output(g, "y", plb_mul(g, sum, q));
        plb_plan *plan = NULL;
        CHECK_OK(plb_plan_new(g, &(plb_plan_options){.no_fusion = true}, &plan));
        set_input(plan, "x", (float[]){1, -2}, 2);
        for (int run = 0; run < 2; run++) {
            plb_tensor y;
            CHECK_OK(plb_plan_run(plan));
            CHECK_OK(plb_plan_output(plan, "y", &y));
            CHECK(((float *)y.data)[0] == 60 && ((float *)y.data)[1] == 24);
        }
        plb_plan_free(plan);
        plb_model_free(model);
    }
}

static void errors_name_the_place(void) {
    plb_model *model = plb_model_new();
    plb_graph *g;
    CHECK_OK(plb_model_program(model, "p", &g));
    plb_scope_push(g, "layer1");
    plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(2));
    plb_value bad = plb_add(g, x, plb_scalar(g, PLB_F64, 1));
    CHECK(bad == PLB_NONE && plb_relu(g, bad) == PLB_NONE);
    plb_plan *plan;
    CHECK_FAILS(PLB_EINVAL, "p: layer1: add", plb_plan_new(g, NULL, &plan));
    CHECK(!plan);
    plb_model_free(model);
}

// y = conv(x, w) with the kernel that `choices` prescribe; the kernel in use goes to `kernel`, the
// plan's own choices to `told`.
static void kernel_under(const char *choices, plb_level level, char kernel[64], char told[1024]) {
    plb_model *model = plb_model_new();
    plb_graph *g;
    CHECK_OK(plb_model_program(model, "p", &g));
    plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(1, 8, 6, 6));
    plb_value w = plb_param(g, "w", PLB_F32, &plb_shape_of(8, 8, 3, 3), PLB_ROLE_PARAMETER,
                            (plb_init){.a = 0.5});
    plb_conv_attrs attrs = plb_conv_uniform(2, 1, 1, 1, 1);
    plb_output(g, "y", plb_conv(g, x, w, PLB_NONE, &attrs));
    plb_plan *plan = NULL;
    const plb_plan_options options = {.level = level, .threads = 1, .choices = choices};
    CHECK_OK(plb_plan_new(g, &options, &plan));
    CHECK_OK(plb_plan_run(plan));
    kernel[0] = '\0';
    for (int i = 0; i < plb_plan_op_count(plan); i++) {
        plb_plan_op op = plb_plan_op_info(plan, i);
        if (!strcmp(op.op, "conv")) snprintf(kernel, 64, "%s", op.kernel);
    }
    snprintf(told, 1024, "%s", plb_plan_choices(plan));
    plb_plan_free(plan);
    plb_model_free(model);
}

// The line of the convolution, with "ref" for its kernel.
static void prescribe_reference(const char *told, char out[1024]) {
    const char *line = told;
    while (*line && !(strstr(line, " conv ") && strstr(line, " conv ") < strchr(line, '\n'))) {
        line = strchr(line, '\n') + 1;
    }
    CHECK(*line);
    snprintf(out, 1024, "nonsense\n%.*s\tref\t\n", (int)strcspn(line, "\t"), line);
}

static void a_plan_takes_the_kernels_of_an_earlier_one(void) {
    static const plb_level both[] = {PLB_LEVEL_PLAN, PLB_LEVEL_INTERP};
    for (int l = 0; l < 2; l++) {
        char free_kernel[64], kernel[64], told[1024], again[1024], prescribed[1024];
        kernel_under(NULL, both[l], free_kernel, told);
        CHECK(strstr(told, "\t") && strstr(told, free_kernel));
        prescribe_reference(told, prescribed);
        kernel_under(prescribed, both[l], kernel, again);
        CHECK_SAY(!strcmp(kernel, "ref"), "level %d: %s", both[l], kernel);
        CHECK(strstr(again, prescribed + strlen("nonsense\n"))); // and tells them as its own
        kernel_under("nonsense", both[l], kernel, again);
        CHECK(!strcmp(kernel, free_kernel) && !strcmp(again, told));
    }
}

// Each is just above the middle of two neighbours of the dtype, and on it once rounded to one that
// is wider.
static void integers_become_floats_in_one_rounding(void) {
    static const struct {
        plb_dtype dtype;
        int64_t from;
        double to;
    } cases[] = {{PLB_F32, (INT64_C(1) << 60) + (INT64_C(1) << 36) + 1, 0x1.000002p60},
                 {PLB_F32, -(INT64_C(1) << 62) - (INT64_C(1) << 38) - 1, -0x1.000002p62},
                 {PLB_BF16, (1 << 24) + (1 << 16) + 1, 0x1.02p24},
                 {PLB_BF16, (INT64_C(1) << 60) + (INT64_C(1) << 52) + 1, 0x1.02p60},
                 {PLB_F16, 32785, 32800}};
    for (int l = 0; l < N_LEVELS; l++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            plb_model *model = plb_model_new();
            plb_graph *g;
            plb_tensor t;
            CHECK_OK(plb_model_program(model, "p", &g));
            plb_value x = plb_input(g, "x", PLB_I64, &plb_shape_of(1));
            plb_output(g, "y", plb_cast(g, x, cases[i].dtype));
            plb_plan *plan = plan_at(g, levels[l]);
            CHECK_OK(plb_plan_input(plan, "x", &t));
            *(int64_t *)t.data = cases[i].from;
            CHECK_OK(plb_plan_run(plan));
            CHECK_OK(plb_plan_output(plan, "y", &t));
            const double found = plb_load_f64(t.data, t.dtype, 0);
            CHECK_SAY(found == cases[i].to, "level %d, %s: expected %a, found %a", (int)levels[l],
                      plb_dtype_name(t.dtype), cases[i].to, found);
            plb_plan_free(plan);
            plb_model_free(model);
        }
    }
}

// y = x w with x a view of an extent of 1 that is read backwards: its stride means nothing.
static void product_of_backwards(plb_level level, plb_shape shape, int axis, bool slices,
                                 bool turns) {
    plb_model *model = plb_model_new();
    plb_graph *g;
    CHECK_OK(plb_model_program(model, "p", &g));
    plb_value x = plb_input(g, "x", PLB_F32, &shape);
    plb_slice_attrs attrs = {.shape = shape};
    attrs.step[axis] = -1;
    plb_value v = slices ? plb_slice(g, x, &attrs) : plb_flip(g, x, (int64_t)1 << axis);
    if (turns) v = plb_transpose(g, v, -1, -2);
    const plb_shape factor = plb_value_shape(g, v);
    const int64_t k = factor.dim[factor.rank - 1];
    plb_value w =
        plb_param(g, "w", PLB_F32, &plb_shape_of(3, k), PLB_ROLE_PARAMETER, (plb_init){.a = 2});
    plb_output(g, "y", plb_linear(g, v, w, PLB_NONE));
    plb_plan *plan = plan_at(g, level);
    plb_tensor t, y;
    CHECK_OK(plb_plan_input(plan, "x", &t));
    for (int64_t i = 0; i < plb_shape_count(&shape); i++) ((float *)t.data)[i] = (float)i;
    CHECK_OK(plb_plan_run(plan));
    CHECK_OK(plb_plan_output(plan, "y", &y));
    double sum = 0; // of all that is read, which is all of x
    for (int64_t i = 0; i < plb_shape_count(&y.shape); i++) {
        sum += plb_load_f64(y.data, y.dtype, plb_tensor_offset_linear(&y, i));
    }
    const double count = (double)plb_shape_count(&shape);
    CHECK_NEAR(sum, 3 * 2 * count * (count - 1) / 2, 1e-3);
    plb_plan_free(plan);
    plb_model_free(model);
}

static void products_of_one_row_read_backwards(void) {
    static const struct {
        plb_shape shape;
        int axis;
        bool turns;
    } cases[] = {{{2, {1, 4}}, 0, false},
                 {{2, {1, 4}}, 0, true},
                 {{2, {7, 1}}, 1, false},
                 {{3, {2, 1, 4}}, 1, false},
                 {{3, {5, 1, 4}}, 1, true}};
    for (int l = 0; l < N_LEVELS; l++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            for (int slices = 0; slices < 2; slices++) {
                product_of_backwards(levels[l], cases[i].shape, cases[i].axis, slices,
                                     cases[i].turns);
            }
        }
    }
}

// All keys are one, repeated by a view: y is the mean of the values, whatever the query.
static void attention_sees_a_repeated_key(void) {
    for (int l = 0; l < N_LEVELS; l++) {
        plb_model *model = plb_model_new();
        plb_graph *g;
        CHECK_OK(plb_model_program(model, "p", &g));
        plb_value q = plb_input(g, "q", PLB_F32, &plb_shape_of(1, 2, 3, 4));
        plb_value k = plb_input(g, "k", PLB_F32, &plb_shape_of(1, 2, 1, 4));
        plb_value v = plb_input(g, "v", PLB_F32, &plb_shape_of(1, 2, 5, 1));
        k = plb_expand(g, k, &plb_shape_of(1, 2, 5, 4));
        const plb_attention_attrs attrs = {.scale = 1};
        plb_output(g, "y", plb_attention(g, q, k, v, PLB_NONE, &attrs));
        plb_plan *plan = plan_at(g, levels[l]);
        plb_tensor y;
        set_input(plan, "q", (float[]){1, 2, 3, 4, -5, 6, 7, -8}, 8);
        set_input(plan, "k", (float[]){1, 0, -1, 2, 0, 3, 1, 1}, 8);
        set_input(plan, "v", (float[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10);
        CHECK_OK(plb_plan_run(plan));
        CHECK_OK(plb_plan_output(plan, "y", &y));
        for (int64_t i = 0; i < 6; i++) { // [1,3,2,1]
            CHECK_NEAR(((float *)y.data)[i], i % 2 ? 8 : 3, 1e-5);
        }
        plb_plan_free(plan);
        plb_model_free(model);
    }
}

// w += 1 and then an index out of range: the run fails, but w has changed, and the other program
// must not go on with its exp of the old one.
static void a_failed_run_shows_what_it_assigned(void) {
    for (int l = 0; l < N_LEVELS; l++) {
        plb_model *model = plb_model_new();
        plb_graph *change, *use;
        const plb_type type = {PLB_F32, plb_shape_of(4)};
        int w;
        CHECK_OK(plb_model_variable(model, "w", &type, PLB_ROLE_BUFFER, (plb_init){0}, &w));
        CHECK_OK(plb_model_program(model, "change", &change));
        CHECK_OK(plb_model_program(model, "use", &use));
        plb_value i = plb_input(change, "i", PLB_I64, &plb_shape_of(1));
        plb_assign(change, w, plb_affine(change, plb_read(change, w), 1, 1));
        plb_output(change, "y", plb_take(change, plb_read(change, w), i, 0));
        plb_output(use, "y", plb_exp(use, plb_read(use, w)));
        plb_plan *changer = plan_at(change, levels[l]), *user = plan_at(use, PLB_LEVEL_PLAN);
        plb_tensor index, y;
        float now[4];
        plb_tensor to = plb_tensor_dense(now, PLB_F32, &type.shape, (plb_layout){0});
        CHECK_OK(plb_plan_run(user));
        CHECK_OK(plb_plan_input(changer, "i", &index));
        for (int run = 0; run < 3; run++) { // the second is fine
            *(int64_t *)index.data = run == 1 ? 3 : 99;
            CHECK((plb_plan_run(changer) == PLB_OK) == (run == 1));
            CHECK_OK(plb_variable_read(model, w, &to));
            CHECK_OK(plb_plan_run(user));
            CHECK_OK(plb_plan_output(user, "y", &y));
            CHECK_NEAR(((float *)y.data)[0], exp(now[0]), 1e-5 * exp(now[0]));
        }
        plb_plan_free(changer);
        plb_plan_free(user);
        plb_model_free(model);
    }
}

// What is appended after a plan was made is none of its business, nor are the arrays that move.
static void a_plan_is_of_the_program_as_it_was(void) {
    for (int l = 0; l < N_LEVELS; l++) {
        plb_model *model = plb_model_new();
        plb_graph *g;
        CHECK_OK(plb_model_program(model, "p", &g));
        plb_value x = plb_input(g, "x", PLB_F32, &plb_shape_of(3));
        plb_output(g, "y", plb_affine(g, x, 2, 1));
        plb_plan *plan = plan_at(g, levels[l]);
        set_input(plan, "x", (float[]){1, 2, 3}, 3);
        for (int run = 0; run < 2; run++) {
            plb_tensor y;
            CHECK_OK(plb_plan_run(plan));
            CHECK_OK(plb_plan_output(plan, "y", &y));
            CHECK(((float *)y.data)[2] == 7);
            for (int i = 0; i < 2000; i++) x = plb_neg(g, x);
            plb_output(g, run ? "later still" : "later", x);
            CHECK_FAILS(PLB_EINVAL, "later", plb_plan_output(plan, "later", &y));
        }
        plb_plan_free(plan);
        plb_model_free(model);
    }
}

static void numbers_that_no_enum_has_are_refused(void) {
    static const plb_plan_options bad[] = {{.level = (plb_level)7},
                                           {.math = (plb_math)9},
                                           {.autocast = (plb_autocast)5},
                                           {.autocast = (plb_autocast)-1}};
    plb_model *model = plb_model_new();
    plb_graph *g;
    plb_plan *plan;
    int index;
    const plb_type type = {PLB_F32, plb_shape_of(2)};
    CHECK_OK(plb_model_program(model, "p", &g));
    plb_output(g, "y", plb_exp(g, plb_input(g, "x", PLB_F32, &type.shape)));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_FAILS(PLB_EINVAL, "plan option", plb_plan_new(g, &bad[i], &plan));
    }
    CHECK_FAILS(PLB_EINVAL, "found 9 and 0",
                plb_model_variable(model, "w", &type, (plb_role)9, (plb_init){0}, &index));
    CHECK_FAILS(PLB_EINVAL, "found 0 and 77",
                plb_model_variable(model, "w", &type, PLB_ROLE_PARAMETER,
                                   (plb_init){.kind = (plb_init_kind)77}, &index));
    CHECK(plb_model_variable_count(model) == 0);
    CHECK(plb_param(g, "w", PLB_F32, &type.shape, (plb_role)-1, (plb_init){0}) == PLB_NONE);
    CHECK_FAILS(PLB_EINVAL, "found -1 and 0", plb_graph_status(g));
    plb_model_free(model);
}

static const check_test tests[] = {
    {"levels agree", levels_agree},
    {"reads and assigns keep their order", reads_and_assigns_keep_their_order},
    {"programs share variables", programs_share_variables},
    {"steady state allocates nothing", steady_state_allocates_nothing},
    {"chains reuse memory", chains_reuse_memory},
    {"blocks never overlap", blocks_never_overlap},
    {"what runs once runs first", what_runs_once_runs_first},
    {"errors name the place", errors_name_the_place},
    {"integers become floats in one rounding", integers_become_floats_in_one_rounding},
    {"a plan takes the kernels of an earlier one", a_plan_takes_the_kernels_of_an_earlier_one},
    {"products of one row read backwards", products_of_one_row_read_backwards},
    {"attention sees a repeated key", attention_sees_a_repeated_key},
    {"a failed run shows what it assigned", a_failed_run_shows_what_it_assigned},
    {"a plan is of the program as it was", a_plan_is_of_the_program_as_it_was},
    {"numbers that no enum has are refused", numbers_that_no_enum_has_are_refused},
};
CHECK_MAIN(tests)
