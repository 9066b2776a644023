// SPDX-License-Identifier: Apache-2.0
// Distributions against mpmath's 30 digits, order statistics against sorting, and the intervals of
// robust locations by what share of them holds the truth.
#include "check.h"

#include "bench/stats.h"
#include "draws.h"

static void check_relative(double found, double expected, double tolerance) {
    CHECK_SAY(fabs(found / expected - 1) <= tolerance, "%.15g against %.15g", found, expected);
}

static void test_student_tail(void) {
    static const double rows[][3] = {
        {0.5, 1, 0.352416382349567},    {1, 2.5, 0.202030513639137},
        {2, 4, 0.0580582617584078},     {2.7, 41.3, 0.00500293227496945},
        {6, 7, 0.000271129171001405},   {12, 30, 2.79009270759963e-13},
        {1.5, 200, 0.0675956606135175}, {3, 5000, 0.0013565545121429},
        {40, 3, 1.71903403945793e-5},   {1.95996398454005, 1e9, 0.025},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        check_relative(plb_student_tail(rows[i][0], rows[i][1]), rows[i][2], 1e-9);
        check_relative(plb_student_cdf(-rows[i][0], rows[i][1]), rows[i][2], 1e-9);
        check_relative(plb_student_tail(-rows[i][0], rows[i][1]), 1 - rows[i][2], 1e-9);
    }
    CHECK(plb_student_tail(0, 3) == 0.5);
    CHECK(isnan(plb_student_tail(NAN, 3)) && isnan(plb_student_tail(1, 0)));
}

static void test_fisher_tail(void) {
    static const double rows[][4] = {
        {1, 2, 2, 0.5},
        {3.5, 2, 20, 0.0497350220760971},
        {9.9, 2, 20, 0.00102676069649449},
        {0.3, 5, 7.5, 0.898958537058267},
        {2.1, 30, 12, 0.0869968450327217},
        {15, 1, 4, 0.0179479131888732},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_relative(plb_fisher_tail(rows[i][0], rows[i][1], rows[i][2]), rows[i][3], 1e-9);
    CHECK(plb_fisher_tail(0, 2, 3) == 1 && isnan(plb_fisher_tail(1, 0, 3)));
}

static void test_student_quantile(void) {
    static const double rows[][3] = {
        {0.975, 1, 12.70620473617},  {0.975, 2, 4.302652729749},  {0.995, 2, 9.924843200918},
        {0.975, 4, 2.776445105198},  {0.995, 8, 3.355387331333},  {0.995, 41.3, 2.70023023116},
        {0.9995, 5, 6.868826625881}, {0.6, 0.7, 0.3560313652347}, {0.001, 3, -10.21453185241},
        {0.975, 1e9, 1.95996398454}, {0.05, 12, -1.782287555649},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_relative(plb_student_quantile(rows[i][0], rows[i][1]), rows[i][2], 1e-9);
    for (double dof = 0.3; dof < 3e7; dof *= 1.7) {
        for (double p = 1e-6; p < 0.5; p *= 3) {
            double t = plb_student_quantile(p, dof);
            check_relative(plb_student_cdf(t, dof), p, 1e-8);
            CHECK(plb_student_quantile(1 - p, dof) > 0);
        }
    }
    CHECK(isnan(plb_student_quantile(0, 3)) && isnan(plb_student_quantile(0.5, 0)));
}

// ---------------------------------------------------------------------------- order
static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void test_quantiles(void) {
    draws d = draws_start(7);
    double values[200], sorted[200], scratch[200];
    for (int trial = 0; trial < 400; trial++) {
        size_t count = 1 + (size_t)(draw_uniform(&d) * 199);
        bool ties = trial % 2;
        for (size_t i = 0; i < count; i++)
            values[i] = ties ? floor(draw_uniform(&d) * 5) : draw_normal(&d);
        memcpy(sorted, values, sizeof sorted);
        qsort(sorted, count, sizeof *sorted, compare);
        for (double p = 0; p <= 1; p += 0.0625) {
            double at = p * (double)(count - 1);
            size_t k = (size_t)at;
            double next = sorted[k + 1 < count ? k + 1 : k];
            memcpy(scratch, values, sizeof scratch);
            CHECK_NEAR(plb_quantile(scratch, count, p),
                       sorted[k] + (at - (double)k) * (next - sorted[k]), 1e-15);
        }
    }
    CHECK(isnan(plb_median(values, 0)));
}

// ---------------------------------------------------------------------------- locations
static void test_locations(void) {
    const double five[] = {1, 2, 3, 4, 10};
    plb_location mean = plb_mean_location(five, 5);
    CHECK_NEAR(mean.center, 4, 1e-15);
    CHECK_NEAR(mean.variance, 2.5, 1e-14); // 12.5 / 5
    CHECK(mean.dof == 4);
    CHECK(isnan(plb_mean_location(five, 1).variance) && isnan(plb_mean_location(five, 0).center));
    // Yuen's example by hand: one cut at each end, winsorized 2 2 3 4 4, squares 4, h = 3.
    double scratch[10];
    plb_location trimmed = plb_trimmed_location((const double[]){3, 10, 1, 4, 2}, 5, scratch);
    CHECK_NEAR(trimmed.center, 3, 1e-15);
    CHECK_NEAR(trimmed.variance, 4.0 / 6, 1e-14); // neighbours there are negatively correlated
    CHECK(trimmed.dof == 2);
    const double line[] = {1, 2, 3, 4, 5, 6, 7, 8};
    CHECK_NEAR(plb_autocorrelation(line, 8), 0.625 + 0.125, 1e-15);
    CHECK(isnan(plb_autocorrelation(line, 3)));
    CHECK(isnan(plb_autocorrelation((const double[]){2, 2, 2, 2, 2}, 5)));
}

static void test_batches(void) {
    CHECK(plb_batch_count(0) == 0 && plb_batch_count(5) == 5 && plb_batch_count(8) == 8);
    CHECK(plb_batch_count(67) == 8 && plb_batch_count(100) == 12 && plb_batch_count(9999) == 32);
    const double values[] = {1, 100, 2, 3, 3, 3, 8};
    double medians[2], scratch[4];
    plb_batch_medians(values, 7, 2, scratch, medians);
    CHECK_NEAR(medians[0], log(2), 1e-15);
    CHECK_NEAR(medians[1], log(3), 1e-15);
    plb_location location;
    CHECK_OK(plb_series_location(values, 0, &location));
    CHECK(isnan(location.center));
    CHECK_OK(plb_series_location(values, 1, &location));
    CHECK(location.center == 0 && isnan(location.variance));
}

// The share of 95 % intervals that hold the true median: `correlation` of neighbours, a spike of
// three times the time every `period` samples (0: none). With spikes the median of all samples is
// the quantile 0.5 / (1 - 1 / period) of the others.
static double coverage(size_t count, double correlation, int period, uint64_t seed) {
    enum { TRIALS = 2000 };
    double times[400];
    draws d = draws_start(seed);
    int held = 0;
    double share = period ? 0.5 / (1 - 1.0 / period) : 0.5;
    double truth = 0.01 * plb_student_quantile(share, 1e9);
    for (int trial = 0; trial < TRIALS; trial++) {
        double noise = draw_normal(&d);
        for (size_t i = 0; i < count; i++) {
            times[i] = exp(0.01 * noise);
            if (period && (i + (size_t)trial) % (size_t)period == 0) times[i] *= 3;
            noise = correlation * noise + sqrt(1 - correlation * correlation) * draw_normal(&d);
        }
        plb_location l;
        CHECK_OK(plb_series_location(times, count, &l));
        held += fabs(l.center - truth) <= plb_student_quantile(0.975, l.dof) * sqrt(l.variance);
    }
    return (double)held / TRIALS;
}

static void test_coverage(void) {
    double plain = coverage(67, 0, 0, 1), some = coverage(67, 0.3, 0, 2);
    double strong = coverage(200, 0.6, 0, 3), spikes = coverage(200, 0, 10, 4);
    double both = coverage(400, 0.5, 17, 5);
    printf("coverage: plain %.3f, r=0.3 %.3f, r=0.6 %.3f, spikes %.3f, both %.3f\n", plain, some,
           strong, spikes, both);
    CHECK(plain > 0.935 && plain < 0.99);
    CHECK(some > 0.93 && strong > 0.92 && spikes > 0.9 && both > 0.9);
}

static const check_test tests[] = {
    {"student_tail", test_student_tail},
    {"fisher_tail", test_fisher_tail},
    {"student_quantile", test_student_quantile},
    {"quantiles", test_quantiles},
    {"locations", test_locations},
    {"batches", test_batches},
    {"coverage", test_coverage},
};
CHECK_MAIN(tests)
