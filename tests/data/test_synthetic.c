// SPDX-License-Identifier: Apache-2.0
#include "data/synthetic.h"

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "check.h"
#include "data/draw.h"
#include "data/registry.h"
#include "faults.h"

typedef plb_status (*make_set)(const plb_synthetic_options *options, plb_dataset **out);
static const make_set makers[] = {plb_synthetic_digits_new, plb_synthetic_shapes_new};

static plb_dataset *new_set(make_set make, plb_synthetic_options options) {
    plb_dataset *set = NULL;
    CHECK_OK(make(&options, &set));
    return set;
}

// The distances of a 2 x 2 square by formula, as box and as polygon.
static void distances_follow_their_formulas(void) {
    static const plb_point corner[] = {{-1, -1}, {1, -1}, {1, 1}, {-1, 1}};
    static const struct {
        plb_point p;
        double distance;
    } cases[] = {{{0, 0}, -1}, {{0.5f, 0}, -0.5},      {{0, -0.75f}, -0.25},
                 {{2, 0}, 1},  {{-1, 3}, 2},           {{4, 5}, 5},
                 {{1, 0}, 0},  {{-2, -2}, 1.41421356}, {{0.9f, 0.9f}, -0.1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        CHECK_NEAR(plb_box_distance(cases[i].p, 1, 1), cases[i].distance, 1e-6);
        CHECK_NEAR(plb_polygon_distance(cases[i].p, corner, 4), cases[i].distance, 1e-6);
    }
    CHECK_NEAR(plb_circle_distance((plb_point){3, 4}, (plb_point){0, 0}, 2), 3, 1e-6);
    plb_point a = {0, 0}, b = {2, 0};
    CHECK_NEAR(plb_segment_distance2((plb_point){1, 3}, a, b), 9, 1e-6);
    CHECK_NEAR(plb_segment_distance2((plb_point){5, 4}, a, b), 25, 1e-6);
    CHECK_NEAR(plb_segment_distance2((plb_point){3, 4}, a, a), 25, 1e-6);
    CHECK(plb_coverage(-1) == 1 && plb_coverage(1) == 0 && plb_coverage(0) == 0.5f);
}

static void a_sample_depends_on_seed_split_and_index_alone(void) {
    for (size_t m = 0; m < 2; m++) {
        plb_synthetic_options options = {.seed = 5, .count = 200};
        plb_dataset *set = new_set(makers[m], options), *copies[2] = {NULL, NULL};
        size_t bytes = plb_dataset_sample_bytes(set);
        CHECK_OK(plb_dataset_materialise(set, 1, NULL, &copies[0]));
        CHECK_OK(plb_dataset_materialise(set, 4, NULL, &copies[1]));
        options.split = PLB_TEST;
        plb_dataset *test = new_set(makers[m], options);
        options = (plb_synthetic_options){.seed = 6, .count = 200};
        plb_dataset *other = new_set(makers[m], options);
        uint8_t *sample = plb_alloc(bytes);
        plb_scratch scratch = {0};
        for (int64_t i = 199; i >= 0; i--) {
            const void *expected = copies[0]->ops->peek(copies[0], i);
            int64_t label;
            CHECK_OK(plb_dataset_get(set, i, &scratch, sample, &label));
            CHECK(!memcmp(sample, expected, bytes) && label == i % 10);
            CHECK(!memcmp(copies[1]->ops->peek(copies[1], i), expected, bytes));
            CHECK_OK(plb_dataset_get(test, i, &scratch, sample, NULL));
            CHECK(memcmp(sample, expected, bytes));
            CHECK_OK(plb_dataset_get(other, i, &scratch, sample, NULL));
            CHECK(memcmp(sample, expected, bytes));
        }
        plb_scratch_free(&scratch);
        plb_free(sample);
        plb_dataset_free(set), plb_dataset_free(test), plb_dataset_free(other);
        plb_dataset_free(copies[0]), plb_dataset_free(copies[1]);
    }
}

// Share of the test samples whose nearest neighbour among the training samples has their label.
static double nearest_neighbour_accuracy(make_set make, int64_t train_count, int64_t test_count,
                                         int64_t size) {
    plb_synthetic_options options = {.seed = 1, .count = train_count, .size = size};
    plb_dataset *train = new_set(make, options), *known = NULL;
    options.split = PLB_TEST, options.count = test_count;
    plb_dataset *test = new_set(make, options), *asked = NULL;
    CHECK_OK(plb_dataset_materialise(train, 1, NULL, &known));
    CHECK_OK(plb_dataset_materialise(test, 1, NULL, &asked));
    int64_t right = 0, elements = plb_dataset_elements(train);
    for (int64_t i = 0; i < test_count; i++) {
        const uint8_t *a = asked->ops->peek(asked, i);
        int64_t least = INT64_MAX, label = -1;
        for (int64_t j = 0; j < train_count; j++) {
            const uint8_t *b = known->ops->peek(known, j);
            int32_t sum = 0;
            for (int64_t k = 0; k < elements; k++) sum += (a[k] - b[k]) * (a[k] - b[k]);
            if (sum < least) least = sum, label = j % 10;
        }
        right += label == i % 10;
    }
    plb_dataset_free(train), plb_dataset_free(test);
    plb_dataset_free(known), plb_dataset_free(asked);
    return (double)right / (double)test_count;
}

// Ten classes: guessing gives 0.1. A convolutional network does far better; this shows that
// pictures and labels belong together, and that the test split is not the training split.
static void digits_resemble_their_class(void) {
    double share = nearest_neighbour_accuracy(plb_synthetic_digits_new, 2000, 200, 0);
    CHECK_SAY(share > 0.75 && share < 1, "nearest neighbours: %.3f right", share);
}

static void statistics_are_those_of_the_normalisation(void) {
    for (size_t m = 0; m < 2; m++) {
        plb_dataset *set = new_set(makers[m], (plb_synthetic_options){.seed = 2, .count = 1000});
        plb_dataset *all = NULL;
        CHECK_OK(plb_dataset_materialise(set, 2, NULL, &all));
        const uint8_t *pixels = all->ops->peek(all, 0);
        int64_t count = 1000 * plb_dataset_elements(set);
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < count; i++) sum += pixels[i], squares += pixels[i] * pixels[i];
        double mean = sum / (double)count / 255;
        double std = sqrt(squares / (double)count / 65025 - mean * mean);
        CHECK_NEAR(mean, set->info.mean[0], 0.02);
        CHECK_NEAR(std, set->info.std[0], 0.02);
        plb_dataset_free(set);
        plb_dataset_free(all);
    }
}

static void any_size_can_be_drawn(void) {
    for (size_t m = 0; m < 2; m++) {
        for (int64_t size = 8; size <= 256; size *= 2) {
            plb_dataset *set =
                new_set(makers[m], (plb_synthetic_options){.count = 20, .size = size});
            CHECK(set->info.height == size && set->info.width == size);
            uint8_t *sample = plb_alloc(plb_dataset_sample_bytes(set));
            plb_scratch scratch = {0};
            for (int64_t i = 0; i < 20; i++) {
                int least = 255, most = 0;
                CHECK_OK(plb_dataset_get(set, i, &scratch, sample, NULL));
                for (int64_t k = 0; k < plb_dataset_elements(set); k++) {
                    least = sample[k] < least ? sample[k] : least;
                    most = sample[k] > most ? sample[k] : most;
                }
                CHECK(most - least > 30); // something is drawn
            }
            plb_scratch_free(&scratch);
            plb_free(sample);
            plb_dataset_free(set);
        }
    }
}

static void bad_options_are_refused(void) {
    plb_dataset *set = NULL;
    plb_synthetic_options small = {.size = 7}, large = {.size = 1 << 20}, count = {.count = -1};
    CHECK_FAILS(PLB_EINVAL, "size: expected 8 to 4096 pixels, found 7",
                plb_synthetic_digits_new(&small, &set));
    CHECK_FAILS(PLB_EINVAL, "found 1048576", plb_synthetic_shapes_new(&large, &set));
    CHECK_FAILS(PLB_EINVAL, "samples: expected 0 or more, found -1",
                plb_synthetic_shapes_new(&count, &set));
}

static plb_status draw_one(void *context) {
    plb_dataset *set = NULL;
    plb_scratch scratch = {0};
    plb_synthetic_options options = {0};
    PLB_TRY((*(const make_set *)context)(&options, &set));
    uint8_t *sample = plb_alloc(plb_dataset_sample_bytes(set));
    plb_status status =
        sample ? plb_dataset_get(set, 3, &scratch, sample, NULL) : plb_fail(PLB_ENOMEM, "sample");
    plb_scratch_free(&scratch);
    plb_free(sample);
    plb_dataset_free(set);
    return status;
}

static void every_failed_allocation_is_a_status(void) {
    make_set digits = plb_synthetic_digits_new, shapes = plb_synthetic_shapes_new;
    CHECK(fault_every_allocation(draw_one, &digits) >= 4);
    CHECK(fault_every_allocation(draw_one, &shapes) >= 4);
}

// Totals and the classes at both ends of VOC 2012's published statistics.
static void voc_shapes_are_filled_as_voc(void) {
    static const struct {
        plb_data_split split;
        int64_t total, aeroplanes, persons, tvmonitors;
    } published[] = {{PLB_TRAIN, 13609, 432, 4194, 392}, {PLB_TEST, 13841, 433, 4372, 392}};
    for (int k = 0; k < 2; k++) {
        plb_dataset *set = NULL;
        int64_t found[20] = {0}, early[20] = {0};
        CHECK_OK(plb_dataset_open("voc-shapes", published[k].split, NULL, &set));
        CHECK(set->info.count == published[k].total && set->info.classes == 20);
        CHECK(set->info.height == 96 && strstr(set->info.class_names[14], "person"));
        for (int64_t i = 0; i < set->info.count; i++) {
            int64_t label = set->ops->label(set, i);
            found[label]++;
            early[label] += i < 1000;
        }
        CHECK(found[0] == published[k].aeroplanes && found[14] == published[k].persons &&
              found[19] == published[k].tvmonitors);
        CHECK_SAY(early[14] > 250 && early[14] < 370, "%d persons", (int)early[14]); // about 308
        uint8_t *plain = plb_alloc(plb_dataset_sample_bytes(set));
        CHECK_OK(plb_dataset_get(set, 1, NULL, plain, NULL));
        plb_free(plain);
        plb_dataset_free(set);
    }
}

static const check_test tests[] = {
    {"voc shapes are filled as voc", voc_shapes_are_filled_as_voc},
    {"distances follow their formulas", distances_follow_their_formulas},
    {"a sample depends on seed, split and index alone",
     a_sample_depends_on_seed_split_and_index_alone},
    {"digits resemble their class", digits_resemble_their_class},
    {"statistics are those of the normalisation", statistics_are_those_of_the_normalisation},
    {"any size can be drawn", any_size_can_be_drawn},
    {"bad options are refused", bad_options_are_refused},
    {"every failed allocation is a status", every_failed_allocation_is_a_status},
};
CHECK_MAIN(tests)
