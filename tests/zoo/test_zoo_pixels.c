// SPDX-License-Identifier: Apache-2.0
// Programs that take pixels as they are stored compute what programs on normalised pictures do, bit
// for bit: the loader's arithmetic and the program's are the same.
#include "check.h"
#include "plumb/plan.h"
#include "plumb/zoo.h"

enum { BATCH = 2, SIZE = 32, CHANNELS = 3 };

static const plb_zoo_pixels how = {{0.485f, 0.456f, 0.406f, 0}, {0.229f, 0.224f, 0.225f, 1}};

static plb_plan *plan_of(plb_model *model, const char *program, const plb_zoo_pixels *pixels) {
    const plb_zoo_options options = {
        .batch = BATCH, .size = SIZE, .program = program, .pixels = pixels};
    const plb_plan_options plain = {.no_tuning = true, .threads = 1};
    plb_plan *plan = NULL;
    CHECK_OK(plb_zoo_build_infer(model, "squeezenet1_1", &options));
    CHECK_OK(plb_model_init(model, 3));
    CHECK_OK(plb_plan_new(plb_model_find_program(model, program), &plain, &plan));
    return plan;
}

static void fill(plb_plan *pixels, plb_plan *floats) {
    plb_tensor stored, normalised;
    CHECK_OK(plb_plan_input(pixels, "x", &stored));
    CHECK_OK(plb_plan_input(floats, "x", &normalised));
    CHECK(stored.dtype == PLB_U8 && normalised.dtype == PLB_F32);
    for (int64_t i = 0; i < (int64_t)BATCH * CHANNELS * SIZE * SIZE; i++) {
        const int c = (int)(i / (SIZE * SIZE) % CHANNELS);
        const uint8_t pixel = (uint8_t)(i * 97 % 251);
        ((uint8_t *)stored.data)[i] = pixel;
        ((float *)normalised.data)[i] = ((float)pixel / 255.0f - how.mean[c]) / how.std[c];
    }
}

static void pixels_give_the_same_logits(void) {
    plb_model *a = plb_model_new(), *b = plb_model_new();
    plb_plan *pixels = plan_of(a, "pixels", &how), *floats = plan_of(b, "floats", NULL);
    plb_tensor found, wanted;
    fill(pixels, floats);
    CHECK_OK(plb_plan_run(pixels));
    CHECK_OK(plb_plan_run(floats));
    CHECK_OK(plb_plan_output(pixels, "logits", &found));
    CHECK_OK(plb_plan_output(floats, "logits", &wanted));
    double sum = 0;
    for (int64_t i = 0; i < plb_shape_count(&wanted.shape); i++) {
        double x = plb_load_f64(found.data, found.dtype, i);
        double y = plb_load_f64(wanted.data, wanted.dtype, i);
        CHECK_SAY(x == y, "logit %lld: %.9g, expected %.9g", (long long)i, x, y);
        sum += y * y;
    }
    CHECK(sum > 0);
    plb_plan_free(pixels);
    plb_plan_free(floats);
    plb_model_free(a);
    plb_model_free(b);
}

int main(void) {
    static const check_test tests[] = {
        {"pixels give the same logits", pixels_give_the_same_logits},
    };
    return check_main(tests, sizeof tests / sizeof *tests);
}
