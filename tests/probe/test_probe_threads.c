// SPDX-License-Identifier: Apache-2.0
// The probe's sums while the program marks ranges and CUPTI hands over records at the same time.
#include <pthread.h>
#include <stdio.h>

#include "base/core/alloc.h"
#include "check.h"
#include "probe/ranges.h"
#include "probe/spool.h"
#include "probe/sum.h"

enum { NAMES = 200000 }; // many more than there are rows

static pthread_barrier_t begin;

static void *mark_ranges(void *context) {
    char name[32];
    pthread_barrier_wait(&begin);
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "range %d", i);
        plb_ranges_start(context, i, name);
    }
    return NULL;
}

static void *hand_over_calls(void *context) {
    char name[32];
    pthread_barrier_wait(&begin);
    for (int i = 0; i < NAMES; i++) {
        snprintf(name, sizeof name, "call %d", i);
        const plb_record r = {
            .kind = PLB_RECORD_CALL, .start_ns = i, .end_ns = i + 1, .name = name};
        plb_sum_record(context, &r);
    }
    return NULL;
}

static void what_both_lose_is_counted_once(void) {
    pthread_t marks, calls;
    plb_spool *spool = plb_alloc(sizeof *spool);
    plb_sum *sum = plb_sum_new(spool);
    plb_ranges *ranges = plb_ranges_new(spool);
    CHECK(spool && sum && ranges);
    spool->name_bytes = 1;
    pthread_barrier_init(&begin, NULL, 2);
    CHECK(!pthread_create(&marks, NULL, mark_ranges, ranges));
    CHECK(!pthread_create(&calls, NULL, hand_over_calls, sum));
    pthread_join(marks, NULL);
    pthread_join(calls, NULL);
    int64_t rows = 0;
    for (int i = 0; i < PLB_SPOOL_RANGES; i++) rows += spool->range[i].hash != 0;
    for (int i = 0; i < PLB_SPOOL_CALLS; i++) rows += spool->call[i].hash != 0;
    CHECK(rows > PLB_SPOOL_RANGES / 2);
    CHECK_SAY(spool->lost[PLB_LOST_TABLE] == 2 * NAMES - rows, "%lld lost, %lld expected",
              (long long)spool->lost[PLB_LOST_TABLE], (long long)(2 * NAMES - rows));
    pthread_barrier_destroy(&begin);
    plb_sum_free(sum);
    plb_free(ranges);
    plb_free(spool);
}

static const check_test tests[] = {
    {"what_both_lose_is_counted_once", what_both_lose_is_counted_once},
};

CHECK_MAIN(tests)
