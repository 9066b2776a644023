// SPDX-License-Identifier: Apache-2.0
// The time below which no iteration can be: by hand for a machine with round figures.
#include "bench/limits.h"
#include "check.h"

static const plb_limits machine = {.threads = 2,
                                   .flops_per_s = 1e11,
                                   .cache_bytes_per_s = 1e11,
                                   .memory_bytes_per_s = 1e10,
                                   .cache_bytes = 1e6};

static plb_facts model(double least_flops, int64_t parameters) {
    plb_facts f = {.batch = 4, .classes = 10, .n_inputs = 1, .least_flops = least_flops};
    f.input[0].dtype = PLB_F32;
    f.input[0].shape = plb_shape_of(4, 3, 10, 10); // 4800 bytes, and 160 of logits
    f.parameters = parameters;
    return f;
}

static void test_arithmetic(void) {
    const plb_facts f = model(2e8, 1000);
    CHECK_NEAR(plb_limits_least_ns(&machine, &f), 2e6, 1e-3); // 2e8 / 1e11 s
}

// Bytes over twice the rate of a copy; what does not fit into a cache for each thread comes from
// memory.
static void test_traffic(void) {
    plb_facts f = model(1, 1000); // 4000 + 4800 + 160 bytes
    CHECK_NEAR(plb_limits_least_ns(&machine, &f), 8960 / 200.0, 1e-9);
    f = model(1, 1000000);
    CHECK_NEAR(plb_limits_least_ns(&machine, &f), 2004960 / 20.0, 1e-6);
}

static void test_unknown(void) {
    const plb_facts f = model(2e8, 1000);
    CHECK(plb_limits_least_ns(&(plb_limits){0}, &f) == 0);
}

static void test_applies(void) {
    plb_facts f = model(2e8, 1000);
    plb_case c;
    plb_case_init(&c);
    CHECK(plb_limits_apply(&c, &f));
    snprintf(c.autocast, sizeof c.autocast, "bf16");
    CHECK(!plb_limits_apply(&c, &f)); // other units multiply there
    plb_case_init(&c);
    snprintf(c.region, sizeof c.region, "return");
    CHECK(!plb_limits_apply(&c, &f)); // the work may go on behind it
    plb_case_init(&c);
    snprintf(c.device, sizeof c.device, "cuda:0");
    CHECK(!plb_limits_apply(&c, &f));
    plb_case_init(&c);
    f.least_flops = 0;
    CHECK(!plb_limits_apply(&c, &f));
    f = model(2e8, 1000);
    snprintf(f.file, sizeof f.file, "/x.onnx"); // its constants may be folded
    CHECK(!plb_limits_apply(&c, &f));
}

static const check_test tests[] = {
    {"arithmetic", test_arithmetic},
    {"traffic", test_traffic},
    {"unknown", test_unknown},
    {"applies", test_applies},
};
CHECK_MAIN(tests)
