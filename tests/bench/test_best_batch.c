// SPDX-License-Identifier: Apache-2.0
// The search for the best batch, on throughputs that a formula gives: an iteration of n samples
// takes a + b n, so that n / (a + b n) rises towards 1 / b and is within 2 % of what 4 n reach
// from n = 37 a / b on.
#include "bench/best_batch.h"
#include "check.h"

typedef struct machine {
    double fixed_ns, sample_ns;
    int64_t room; // samples that fit
    plb_outcome beyond;
} machine;

static plb_batch_search search_on(const machine *m, int64_t first, double longest_ns) {
    plb_batch_search s;
    int64_t batch;
    plb_batch_search_begin(&s, first, longest_ns);
    while ((batch = plb_batch_search_next(&s))) {
        plb_batch_trial t = {.batch = batch, .bytes = -1};
        t.iteration_ns = m->fixed_ns + m->sample_ns * (double)batch;
        if (batch > m->room) t.outcome = m->beyond;
        plb_batch_search_add(&s, &t);
    }
    return s;
}

static void check_tried(const plb_batch_search *s, const int64_t *batches, int n) {
    CHECK_SAY(s->count == n, "%d tried", s->count);
    for (int i = 0; i < n && i < s->count; i++) {
        CHECK_SAY(s->trial[i].batch == batches[i], "number %d is %lld", i,
                  (long long)s->trial[i].batch);
    }
}

static void test_plateau(void) {
    const machine m = {.fixed_ns = 1e5, .sample_ns = 1e5, .room = 1 << 20};
    const plb_batch_search s = search_on(&m, 1, 1e12);
    const int64_t tried[] = {1, 2, 4, 8, 16, 32, 64, 128};
    // 64 gains 1.5 % over 32, 128 gains 0.8 % over 64: two in a row without 2 %.
    check_tried(&s, tried, 8);
    CHECK(s.stop == PLB_BATCH_NO_GAIN);
    // n / (n + 1): 32 gives 0.970, 64 gives 0.985, 128 gives 0.992; 2 % below that is 0.973.
    CHECK_SAY(s.found == 64, "found %lld", (long long)s.found);
}

static void test_slower_when_larger(void) {
    plb_batch_search s;
    int64_t batch;
    plb_batch_search_begin(&s, 1, 1e12);
    while ((batch = plb_batch_search_next(&s))) { // a cache that 8 samples fill
        const double n = (double)batch;
        const plb_batch_trial t = {.batch = batch,
                                   .iteration_ns = 1000 + 100 * n * (batch > 8 ? 3 : 1)};
        plb_batch_search_add(&s, &t);
    }
    const int64_t tried[] = {1, 2, 4, 8, 16, 32};
    check_tried(&s, tried, 6);
    CHECK(s.found == 8 && s.stop == PLB_BATCH_NO_GAIN);
}

static void test_memory(void) {
    machine m = {.fixed_ns = 1e6, .sample_ns = 1e3, .room = 13, .beyond = PLB_OUTCOME_OOM};
    plb_batch_search s = search_on(&m, 1, 1e12);
    const int64_t tried[] = {1, 2, 4, 8, 16, 12};
    check_tried(&s, tried, 6);
    CHECK(s.found == 12 && s.stop == PLB_BATCH_MEMORY);
    m.room = 11;
    s = search_on(&m, 1, 1e12);
    check_tried(&s, tried, 6);
    CHECK(s.found == 8 && s.stop == PLB_BATCH_MEMORY);
    m.room = 1; // nothing lies half-way
    s = search_on(&m, 1, 1e12);
    check_tried(&s, tried, 2);
    CHECK(s.found == 1 && s.stop == PLB_BATCH_MEMORY);
    m.room = 0;
    s = search_on(&m, 1, 1e12);
    check_tried(&s, tried, 1);
    CHECK(s.found == 0 && s.stop == PLB_BATCH_MEMORY);
}

static void test_other_ends(void) {
    machine m = {.fixed_ns = 1e6, .sample_ns = 1e3, .room = 5, .beyond = PLB_OUTCOME_CRASH};
    plb_batch_search s = search_on(&m, 2, 1e12);
    const int64_t tried[] = {2, 4, 8};
    check_tried(&s, tried, 3); // half-way is for memory alone
    CHECK(s.found == 4 && s.stop == PLB_BATCH_FAILED);
    m.room = 1 << 20;
    s = search_on(&m, 1, 1.1e6); // an iteration of 128 samples takes longer
    CHECK(s.found == 128 && s.stop == PLB_BATCH_TIME);
    m.fixed_ns = 1e12;
    s = search_on(&m, 1, 1e18);
    CHECK(s.found == PLB_BATCH_MOST_SAMPLES && s.stop == PLB_BATCH_MOST);
    CHECK(s.count <= PLB_BATCH_MAX_TRIALS);
}

static void test_document(void) {
    const machine m = {.fixed_ns = 1e6, .sample_ns = 0, .room = 1, .beyond = PLB_OUTCOME_OOM};
    plb_batch_search s = search_on(&m, 1, 1e12);
    snprintf(s.trial[1].reason, sizeof s.trial[1].reason, "no room");
    s.trial[0].bytes = 4096;
    json_t *json = plb_batch_search_json(&s);
    char *text = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(6));
    CHECK_SAY(text && strcmp(text, "{\"stop\":\"memory\",\"trials\":["
                                   "{\"batch\":1,\"outcome\":\"ok\",\"throughput\":1000.0,"
                                   "\"bytes\":4096,\"reason\":null},"
                                   "{\"batch\":2,\"outcome\":\"oom\",\"throughput\":null,"
                                   "\"bytes\":null,\"reason\":\"no room\"}]}") == 0,
              "%s", text ? text : "none");
    free(text);
    json_decref(json);
}

static const check_test tests[] = {
    {"plateau", test_plateau},   {"slower when larger", test_slower_when_larger},
    {"memory", test_memory},     {"other ends", test_other_ends},
    {"document", test_document},
};
CHECK_MAIN(tests)
