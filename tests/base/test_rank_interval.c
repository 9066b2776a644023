// SPDX-License-Identifier: Apache-2.0
// The ranks against the binomial distribution, summed exactly where 64 bits hold it.
#include "base/rank_interval.h"

#include <math.h>

#include "check.h"

// P(low < B < count - low) of Binomial(count, 1/2): how often the median lies between the values of
// the ranks `low` and count - 1 - low.
static long double coverage(size_t count, size_t low) {
    long double choose = 1, sum = 0;
    for (size_t k = 0; k <= low; k++) {
        sum += choose;
        choose = choose * (long double)(count - k) / (long double)(k + 1);
    }
    return 1 - 2 * ldexpl(sum, -(int)count);
}

static void ranks_hold_95_percent_and_no_inner_ones_do(void) {
    size_t low, high;
    for (size_t count = 0; count < PLB_RANKS_FEWEST; count++)
        CHECK_SAY(!plb_median_ranks(count, &low, &high), "%zu values have one", count);
    for (size_t count = PLB_RANKS_FEWEST; count <= 1200; count++) {
        CHECK(plb_median_ranks(count, &low, &high));
        CHECK_SAY(high == count - 1 - low, "%zu: %zu to %zu", count, low, high);
        CHECK_SAY(coverage(count, low) >= 0.95L, "%zu from %zu: %Lg", count, low,
                  coverage(count, low));
        CHECK_SAY(coverage(count, low + 1) < 0.95L, "%zu from %zu: wider than it need be", count,
                  low);
    }
}

// As tables of the sign test have them, counted from 1: 1 and 6, 2 and 9, 6 and 15, 40 and 61.
static void ranks_are_those_of_tables(void) {
    static const size_t rows[][3] = {{6, 0, 5}, {10, 1, 8}, {20, 5, 14}, {100, 39, 60}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        size_t low = 0, high = 0;
        CHECK(plb_median_ranks(rows[i][0], &low, &high));
        CHECK_SAY(low == rows[i][1] && high == rows[i][2], "%zu: %zu to %zu", rows[i][0], low,
                  high);
    }
}

static void values_come_in_any_order(void) {
    double ten[] = {70, 10, 90, 30, 50, 100, 20, 80, 40, 60}, five[] = {5, 1, 4, 2, 3};
    plb_rank_interval found = plb_rank_interval_of(ten, 10);
    CHECK(found.median == 55 && found.low == 20 && found.high == 90);
    found = plb_rank_interval_of(five, 5);
    CHECK(found.median == 3 && isnan(found.low) && isnan(found.high));
    CHECK(isnan(plb_rank_interval_of(NULL, 0).median));
}

static const check_test tests[] = {
    {"ranks_hold_95_percent_and_no_inner_ones_do", ranks_hold_95_percent_and_no_inner_ones_do},
    {"ranks_are_those_of_tables", ranks_are_those_of_tables},
    {"values_come_in_any_order", values_come_in_any_order},
};
CHECK_MAIN(tests)
