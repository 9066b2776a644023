// SPDX-License-Identifier: Apache-2.0
// Memory over time against what each stretch had at most, worked out from all events; and more
// streams and threads than there are rows.
#include <string.h>

#include "base/core/alloc.h"
#include "check.h"
#include "probe/tally.h"

enum { EVENTS = 3000 };

// Of all that was taken at any moment of [from_ns, to_ns).
static int64_t most_within(const int64_t *at_ns, const int64_t *bytes, int64_t from_ns,
                           int64_t to_ns) {
    int64_t most = 0;
    for (int i = 0; i < EVENTS; i++) {
        const int64_t until_ns = i + 1 < EVENTS ? at_ns[i + 1] : at_ns[i] + 1;
        if (at_ns[i] < to_ns && until_ns > from_ns && bytes[i] > most) most = bytes[i];
    }
    return most;
}

static void memory_over_time(void) {
    static int64_t at_ns[EVENTS], bytes[EVENTS];
    plb_spool_memory m = {0};
    uint32_t random = 7;
    int64_t now_ns = 1000;
    for (int i = 0; i < EVENTS; i++) {
        random = random * 1664525u + 1013904223u;
        at_ns[i] = now_ns, bytes[i] = random >> 12;
        now_ns += random % 2000000;
        plb_tally_memory(&m, at_ns[i], bytes[i]);
    }
    CHECK(m.first_ns == 1000 && m.each_ns >= PLB_SPOOL_POINT_NS);
    CHECK(m.points > PLB_SPOOL_POINTS / 4 && m.points <= PLB_SPOOL_POINTS);
    CHECK(m.first_ns + m.points * m.each_ns > at_ns[EVENTS - 1]);
    for (int64_t i = 0; i < m.points; i++) {
        const int64_t from_ns = m.first_ns + i * m.each_ns;
        const int64_t most = most_within(at_ns, bytes, from_ns, from_ns + m.each_ns);
        CHECK_SAY(m.most_bytes[i] == most, "stretch %d: %lld, not %lld", (int)i,
                  (long long)m.most_bytes[i], (long long)most);
    }
}

static void a_late_event_changes_no_later_stretch(void) {
    plb_spool_memory m = {0};
    plb_tally_memory(&m, 100, 5);
    plb_tally_memory(&m, 100 + 3 * PLB_SPOOL_POINT_NS, 9);
    plb_tally_memory(&m, 50, 2);
    CHECK(m.points == 4 && m.most_bytes[0] == 5 && m.most_bytes[2] == 5 && m.most_bytes[3] == 9);
}

static void more_streams_than_rows(void) {
    plb_spool *s = plb_alloc(sizeof *s);
    for (int n = 0; n < 2; n++)
        for (uint32_t i = 0; i < PLB_SPOOL_STREAMS + 10; i++) {
            const plb_record r = {.kind = PLB_RECORD_KERNEL, .end_ns = 3, .stream = i};
            plb_tally_stream(s, &r);
        }
    CHECK(s->stream[5].stream == 5 && s->stream[5].kernels == 2 && s->stream[5].kernel_ns == 6);
    CHECK(!s->stream[5].shared && s->stream[PLB_SPOOL_STREAMS - 1].shared);
    CHECK(s->stream[PLB_SPOOL_STREAMS - 1].kernels == 22);
    for (uint32_t i = 0; i < PLB_SPOOL_THREADS + 1; i++) plb_tally_launched(s, 1000 + i, 4, 1);
    CHECK(s->thread[PLB_SPOOL_THREADS - 1].launched == 2 && s->thread[0].device_ns == 4);
    plb_free(s);
}

static const check_test tests[] = {
    {"memory over time", memory_over_time},
    {"a late event changes no later stretch", a_late_event_changes_no_later_stretch},
    {"more streams than rows", more_streams_than_rows},
};
CHECK_MAIN(tests)
