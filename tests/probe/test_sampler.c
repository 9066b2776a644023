// SPDX-License-Identifier: Apache-2.0
// Samples as a damaged file may have them, made fit to be told.
#include "check.h"

#include "probe/sampler.h"

static void test_times_that_cannot_be_told(void) {
    static plb_sampled s;
    s = (plb_sampled){
        .samples = INT64_C(1) << 39, .others = 5, .period_ns = INT64_C(1) << 39, .functions = 1};
    s.function[0].samples = s.samples;
    plb_sampled_mend(&s);
    CHECK(s.samples <= INT64_MAX / s.period_ns);
    CHECK(s.function[0].samples <= s.samples && s.others <= INT64_MAX / s.period_ns);
    s = (plb_sampled){.samples = 7, .lost = 1, .period_ns = -1};
    plb_sampled_mend(&s);
    CHECK(s.period_ns == 0 && s.samples == 7 && s.lost == 1);
}

// A day on 1,000 processors, a sample every millisecond.
static void test_large_ones_stay(void) {
    static plb_sampled s;
    s = (plb_sampled){.samples = INT64_C(86400000000), .period_ns = 1003000, .functions = 1};
    s.function[0].samples = s.samples;
    plb_sampled_mend(&s);
    CHECK(s.samples == INT64_C(86400000000) && s.function[0].samples == s.samples);
    CHECK(s.period_ns == 1003000);
}

static const check_test tests[] = {
    {"samples whose time is beyond 64 bits are mended", test_times_that_cannot_be_told},
    {"many samples stay as they are", test_large_ones_stay},
};
CHECK_MAIN(tests)
