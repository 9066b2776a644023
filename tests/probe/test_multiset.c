// SPDX-License-Identifier: Apache-2.0
// Sequences of bytes counted: against numbers that are known, up to the bound and beyond it.
#include <string.h>

#include "check.h"
#include "faults.h"
#include "probe/multiset.h"

enum { MOST = 5000 };

// `size` bytes of which the first four are the number.
static plb_status add(plb_multiset *set, uint32_t number, size_t size, int64_t times) {
    uint8_t bytes[64] = {0};
    memcpy(bytes, &number, sizeof number);
    return plb_multiset_add(set, bytes, size, times);
}

static void check_element(const plb_multiset *set, uint32_t i, uint32_t number, size_t size,
                          int64_t times) {
    const plb_multiset_element e = plb_multiset_at(set, i);
    CHECK(e.size_bytes == size && e.times == times && memcmp(e.bytes, &number, 4) == 0);
}

// One that is the beginning of another is another.
static void test_counts(void) {
    plb_multiset *set = plb_multiset_new(MOST);
    for (int turn = 0; turn < 3; turn++)
        for (uint32_t i = 0; i < MOST; i++) CHECK_OK(add(set, i / 2, i % 2 ? 64 : 4, i));
    CHECK(plb_multiset_count(set) == MOST && plb_multiset_is_full(set));
    CHECK(plb_multiset_beyond(set) == 0);
    for (uint32_t i = 0; i < MOST; i++) check_element(set, i, i / 2, i % 2 ? 64 : 4, 3 * i);
    plb_multiset_free(set);
}

static void test_beyond(void) {
    plb_multiset *set = plb_multiset_new(2);
    CHECK_OK(add(set, 1, 4, 1));
    CHECK(!plb_multiset_is_full(set));
    CHECK_OK(add(set, 2, 4, 1));
    CHECK_OK(add(set, 3, 4, 5));
    CHECK_OK(add(set, 2, 4, 1));
    CHECK(plb_multiset_count(set) == 2 && plb_multiset_beyond(set) == 5);
    check_element(set, 1, 2, 4, 2);
    plb_multiset_clear(set);
    CHECK(plb_multiset_count(set) == 0 && plb_multiset_beyond(set) == 0);
    CHECK_OK(add(set, 3, 4, 7));
    check_element(set, 0, 3, 4, 7);
    plb_multiset_free(set);
}

static plb_status make(void *unused) {
    plb_multiset *set = plb_multiset_new(MOST);
    plb_status status = set ? PLB_OK : PLB_ENOMEM;
    for (uint32_t i = 0; i < MOST && !status; i++) {
        status = add(set, i, 64, 1);
        CHECK(plb_multiset_count(set) == i + !status);
    }
    plb_multiset_free(set);
    (void)unused;
    return status;
}

static void test_out_of_memory(void) {
    CHECK(fault_every_allocation(make, NULL) > 5);
}

static const check_test tests[] = {
    {"sequences are counted", test_counts},
    {"those without room are counted together", test_beyond},
    {"without memory it says so", test_out_of_memory},
};
CHECK_MAIN(tests)
