// SPDX-License-Identifier: Apache-2.0
// A ratio estimator: time per launch from the blocks, times the launches between them. Its error
// has two parts, that of the ratio and that of what is predicted with it; both follow from how far
// the blocks are from their own ratio, each by its number of launches.
#include "probe/estimate.h"

#include <math.h>

enum { FEWEST = 6 };

static int64_t launches_of(const plb_spool_block *b) {
    return b->last_number - b->first_number + 1;
}

static bool has_graphs(const plb_spool *s) {
    if (s->device[0].graph_launches) return true;
    for (int i = 0; i < PLB_SPOOL_KERNELS; i++)
        if (s->kernel[i].hash && s->kernel[i].device == 0 && s->kernel[i].graph_calls) return true;
    return false;
}

// Between block i and the next: whether both numbers and times go on.
static bool goes_on(const plb_spool *s, int64_t i) {
    return s->block[i + 1].first_number > s->block[i].last_number &&
           s->work[i + 1].first_ns >= s->work[i].last_ns;
}

static bool is_told(const plb_spool *s) {
    if (s->blocks < FEWEST || has_graphs(s)) return false;
    for (int64_t i = 0; i < s->blocks; i++)
        if (!s->work[i].first_ns || launches_of(&s->block[i]) < 1 ||
            (i + 1 < s->blocks && !goes_on(s, i)))
            return false;
    return true;
}

typedef struct sums {
    double launches, active_ns, copying_ns; // of the blocks
    double between, between_ns;             // launches and time between them
    double active_between_ns, copying_between_ns;
} sums;

static void add_blocks(const plb_spool *s, sums *t) {
    for (int64_t i = 0; i < s->blocks; i++) {
        t->launches += (double)launches_of(&s->block[i]);
        t->active_ns += (double)s->work[i].active_ns;
        t->copying_ns += (double)s->work[i].copying_ns;
    }
}

// No more than there was time for.
static void add_between(const plb_spool *s, sums *t) {
    for (int64_t i = 0; i + 1 < s->blocks; i++) {
        const double length_ns = (double)(s->work[i + 1].first_ns - s->work[i].last_ns);
        const double n = (double)(s->block[i + 1].first_number - s->block[i].last_number - 1);
        const double active_ns = fmin(length_ns, n * t->active_ns / t->launches);
        t->between += n, t->between_ns += length_ns;
        t->active_between_ns += active_ns;
        t->copying_between_ns += fmin(length_ns - active_ns, n * t->copying_ns / t->launches);
    }
}

// Half of the 95 % interval of the active time, ns. Student's factor, by a curve that is within
// 0.04 of it from 5 degrees of freedom on.
static double half_ns(const plb_spool *s, const sums *t) {
    const double ratio = t->active_ns / t->launches;
    double squares = 0;
    for (int64_t i = 0; i < s->blocks; i++) {
        const double n = (double)launches_of(&s->block[i]);
        const double off_ns = (double)s->work[i].active_ns - ratio * n;
        squares += off_ns * off_ns / n;
    }
    const double freedom = (double)s->blocks - 1, of_launch = squares / freedom;
    const double variance = of_launch * t->between * (t->between / t->launches + 1);
    return (1.96 + 2.9 / freedom) * sqrt(variance);
}

static double within_one(double share) {
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

bool plb_estimate_of(const plb_spool *s, plb_estimate *out) {
    sums t = {0};
    *out = (plb_estimate){.blocks = s->blocks};
    if (!is_told(s)) return false;
    add_blocks(s, &t);
    add_between(s, &t);
    out->recorded = (int64_t)t.launches;
    out->launches = (int64_t)(t.launches + t.between);
    out->span_ns = s->work[s->blocks - 1].last_ns - s->work[0].first_ns;
    if (out->span_ns <= 0) return false;
    const double span_ns = (double)out->span_ns, half = half_ns(s, &t) / span_ns;
    out->active = within_one((t.active_ns + t.active_between_ns) / span_ns);
    out->active_low = within_one(out->active - half);
    out->active_high = within_one(out->active + half);
    out->copying = within_one((t.copying_ns + t.copying_between_ns) / span_ns);
    out->idle = within_one(1 - out->active - out->copying);
    return true;
}
