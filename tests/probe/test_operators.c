// SPDX-License-Identifier: Apache-2.0
// A tree of ranges whose sums by name are worked out by hand.
#include <string.h>

#include "check.h"
#include "probe/operators.h"

// step 100 { conv 60 { copy 10, conv 20 { copy 5 } }, copy 30 }, conv 7; of the device likewise.
static const plb_profile_range tree[] = {
    {.name = "step",
     .depth = 0,
     .calls = 2,
     .total_ns = 100,
     .device_ns = 50,
     .self_device_ns = 1,
     .device_work = 9},
    {.name = "conv",
     .depth = 1,
     .calls = 4,
     .total_ns = 60,
     .device_ns = 40,
     .self_device_ns = 20,
     .device_work = 6},
    {.name = "copy",
     .depth = 2,
     .calls = 1,
     .total_ns = 10,
     .device_ns = 5,
     .self_device_ns = 5,
     .device_work = 1},
    {.name = "conv",
     .depth = 2,
     .calls = 3,
     .total_ns = 20,
     .device_ns = 15,
     .self_device_ns = 8,
     .device_work = 3},
    {.name = "copy",
     .depth = 3,
     .calls = 1,
     .total_ns = 5,
     .device_ns = 7,
     .self_device_ns = 7,
     .device_work = 2},
    {.name = "copy",
     .depth = 1,
     .calls = 1,
     .total_ns = 30,
     .device_ns = 9,
     .self_device_ns = 9,
     .device_work = 2},
    {.name = "conv",
     .depth = 0,
     .calls = 1,
     .total_ns = 7,
     .device_ns = 3,
     .self_device_ns = 3,
     .device_work = 1},
};

static void check_row(const plb_operator *o, const char *name, const int64_t expected[6]) {
    CHECK_SAY(strcmp(o->name, name) == 0, "found %s, expected %s", o->name, name);
    const int64_t found[6] = {o->calls,          o->self_cpu_ns, o->cpu_ns,
                              o->self_device_ns, o->device_ns,   o->work};
    for (int i = 0; i < 6; i++)
        CHECK_SAY(found[i] == expected[i], "%s, %d: found %d, expected %d", name, i, (int)found[i],
                  (int)expected[i]);
}

static void sums_by_name(void) {
    plb_profile_range ranges[7];
    memcpy(ranges, tree, sizeof tree);
    const plb_profile profile = {.range = ranges, .ranges = 7};
    plb_arena *arena = plb_arena_new();
    plb_operator *o;
    int count;
    CHECK(plb_operators_of(&profile, PLB_OPERATORS_BY_SELF_CPU, arena, &o, &count) == PLB_OK);
    CHECK_SAY(count == 3, "found %d", count);
    // conv: 60 + 20 + 7 without 10, 20 and 5 inside; in all 60 and 7, the 20 are of the 60.
    check_row(&o[0], "conv", (int64_t[]){8, 52, 67, 31, 43, 4});
    check_row(&o[1], "copy", (int64_t[]){3, 45, 45, 21, 21, 5});
    check_row(&o[2], "step", (int64_t[]){2, 10, 100, 1, 50, 1});
    CHECK(o[0].self_cpu_ns + o[1].self_cpu_ns + o[2].self_cpu_ns == 100 + 7);
    CHECK(o[0].work + o[1].work + o[2].work == 9 + 1);
    static const struct {
        plb_operator_order order;
        const char *first, *last;
    } orders[] = {{PLB_OPERATORS_BY_CPU, "step", "copy"},
                  {PLB_OPERATORS_BY_CPU_AVERAGE, "step", "conv"},
                  {PLB_OPERATORS_BY_SELF_DEVICE, "conv", "step"},
                  {PLB_OPERATORS_BY_DEVICE, "step", "copy"},
                  {PLB_OPERATORS_BY_CALLS, "conv", "step"},
                  {PLB_OPERATORS_BY_NAME, "conv", "step"}};
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        CHECK(plb_operators_of(&profile, orders[i].order, arena, &o, &count) == PLB_OK);
        CHECK_SAY(strcmp(o[0].name, orders[i].first) == 0, "order %d: %s", (int)i, o[0].name);
        CHECK_SAY(strcmp(o[2].name, orders[i].last) == 0, "order %d: %s", (int)i, o[2].name);
    }
    plb_arena_free(arena);
}

static void no_ranges_no_rows(void) {
    const plb_profile profile = {0};
    plb_arena *arena = plb_arena_new();
    plb_operator *o;
    int count = 7;
    CHECK(plb_operators_of(&profile, PLB_OPERATORS_BY_CPU, arena, &o, &count) == PLB_OK);
    CHECK(count == 0);
    plb_arena_free(arena);
}

static const check_test tests[] = {
    {"sums by name", sums_by_name},
    {"no ranges, no rows", no_ranges_no_rows},
};
CHECK_MAIN(tests)
