// SPDX-License-Identifier: Apache-2.0
// What a profile's text and its JSON work out alike.
#ifndef PLB_CLI_PROFILE_NUMBERS_H
#define PLB_CLI_PROFILE_NUMBERS_H

#include <sys/time.h>

#include "cli/profile_report.h"

static inline double plb_profile_share(int64_t part_ns, int64_t whole_ns) {
    return whole_ns ? (double)part_ns / (double)whole_ns : 0;
}

static inline double plb_profile_ms(int64_t ns) {
    return (double)ns / 1e6;
}

// Rows of a table of `count` that are shown.
static inline int plb_profile_rows(const plb_profile_report *r, int count) {
    return r->top && r->top < count ? r->top : count;
}

static inline bool plb_profile_was_asked(const plb_profile *p, int total) {
    for (int i = 0; i < p->counteds; i++)
        if (p->counted[i].asked & 1u << total) return true;
    return false;
}

// Of the time that the probe was in the process: how much of it was recorded.
static inline double plb_profile_recorded(const plb_spool *s) {
    const double there_ns = (double)s->settled_ns - (double)s->begin_ns;
    const double on = there_ns > 0 ? (double)s->recorded_ns / there_ns : 0;
    return on < 0 ? 0 : on > 1 ? 1 : on;
}

// Between the last block that was recorded and the end; what a damaged file says may be any number.
static inline int64_t plb_profile_unseen_ns(const plb_spool *s) {
    if (!s->alternates || !s->blocks) return 0;
    const int64_t last_ns = (int64_t)((uint64_t)s->work[s->blocks - 1].last_ns -
                                      (uint64_t)s->begin_cupti_ns + (uint64_t)s->begin_ns);
    return s->settled_ns > last_ns && last_ns > 0 ? s->settled_ns - last_ns : 0;
}

static inline double plb_profile_seconds(struct timeval t) {
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

// Copies of one direction, kind of memory and class of sizes, of one device of one process.
typedef struct plb_profile_copies {
    int process, device, direction, pinned, size;
    const plb_spool_size *sums; // of copies from 2^size bytes on
} plb_profile_copies;

// The next ones that were made, after `at`, which begins as zeros; false behind the last.
bool plb_profile_next_copies(const plb_profile *profile, plb_profile_copies *at);
const char *plb_profile_direction(int direction); // "to the device", …; static
// "pinned", "pageable", or "" where the host has no part in it; static.
const char *plb_profile_host_memory(const plb_profile_copies *copies);

// Why records were lost, by plb_lost; static.
const char *plb_profile_lost_name(int reason);

#endif
