// SPDX-License-Identifier: Apache-2.0
// Ratio estimators: what there was a launch (or a nanosecond) in the blocks, times the launches (or
// nanoseconds) between them. The error has two parts, that of the ratio and that of what is
// predicted with it; both follow from how far the blocks are from their own ratio, each by its
// weight.
#include "probe/estimate.h"

#include <math.h>

#include "base/core/alloc.h"

enum { FEWEST = 4 };

static int64_t launches_of(const plb_spool_block *b) {
    return b->last_number - b->first_number + 1;
}

static bool has_graphs(const plb_spool *s) {
    if (s->device[0].graph_launches) return true;
    for (int i = 0; i < PLB_SPOOL_KERNELS; i++)
        if (s->kernel[i].hash && s->kernel[i].device == 0 && s->kernel[i].graph_calls) return true;
    return false;
}

static bool has_other_devices(const plb_spool *s) {
    for (int i = 1; i < PLB_SPOOL_DEVICES; i++)
        if (s->device[i].kernels) return true;
    return false;
}

// A block as it stands for the rest.
typedef struct sample {
    const plb_spool *s;
    int64_t at;       // in the spool's table
    int64_t from, to; // its time
    double weight;    // launches, or nanoseconds
    double between;   // the same, up to the next
} sample;

typedef struct samples {
    sample of[PLB_SPOOL_BLOCKS];
    int64_t count, first; // `first` of those that stand for the rest
    bool by_launches;
    double weight, between; // of those; of all gaps
} samples;

static int64_t kernels_recorded(const plb_spool *s) {
    int64_t sum = 0;
    for (int i = 0; i < PLB_SPOOL_DEVICES; i++) sum += s->device[i].kernels;
    return sum;
}

// Blocks with work, in the order of its launches. False where numbers do not tell.
static bool by_launches(const plb_spool *s, samples *out) {
    if (has_graphs(s) || has_other_devices(s)) return false;
    *out = (samples){.by_launches = true};
    for (int64_t i = 0; i < s->blocks; i++) {
        const plb_spool_block *b = &s->block[i];
        const plb_spool_work *w = &s->work[i];
        if (!w->first_ns || !b->first_ns) continue;
        if (launches_of(b) < 1) return false;
        sample *before = out->count ? &out->of[out->count - 1] : NULL;
        if (before) {
            const int64_t between = b->first_number - s->block[before->at].last_number - 1;
            if (between < 0 || w->first_ns < before->to) return false;
            before->between = (double)between;
        }
        if (i < s->blocks_apart) out->first++;
        out->of[out->count++] = (sample){s, i, w->first_ns, w->last_ns, (double)launches_of(b), 0};
    }
    return out->count > 0;
}

// All blocks by their length, from the first work to the last.
static bool by_time(const plb_spool *s, samples *out) {
    *out = (samples){.first = s->blocks_apart};
    for (int64_t i = 0; i < s->blocks; i++) {
        int64_t from = s->window[i].start_ns, to = s->window[i].end_ns;
        if (i == 0 && s->work[0].first_ns > from) from = s->work[0].first_ns;
        if (i + 1 == s->blocks && s->work[i].first_ns) to = s->work[i].last_ns;
        sample *before = out->count ? &out->of[out->count - 1] : NULL;
        if (to <= from || (before && from < before->to)) return false;
        if (before) before->between = (double)(from - before->to);
        out->of[out->count++] = (sample){s, i, from, to, (double)(to - from), 0};
    }
    return out->count > 0;
}

static bool take_samples(const plb_spool *s, samples *out) {
    if (!by_launches(s, out) && !by_time(s, out)) return false;
    if (out->count - out->first < 2) out->first = 0;
    for (int64_t i = out->first; i < out->count; i++) out->weight += out->of[i].weight;
    for (int64_t i = 0; i + 1 < out->count; i++) out->between += out->of[i].between;
    return true;
}

typedef double (*quantity)(const sample *b);

static double active_of(const sample *b) {
    return (double)b->s->work[b->at].active_ns;
}

static double copying_of(const sample *b) {
    return (double)b->s->work[b->at].copying_ns;
}

static double kernels_of(const sample *b) {
    return (double)b->s->block_kernels[b->at];
}

static double total(const samples *t, quantity of, int64_t from) {
    double sum = 0;
    for (int64_t i = from; i < t->count; i++) sum += of(&t->of[i]);
    return sum;
}

// Of a sum over all gaps, from what the blocks are off their ratio.
static double variance(double of_weight, double between, double sum) {
    return fmax(0, of_weight) * between * (between / sum + 1);
}

static double variance_between(const samples *t, quantity of) {
    const double ratio = total(t, of, t->first) / t->weight;
    double squares = 0;
    for (int64_t i = t->first; i < t->count; i++) {
        const double off = of(&t->of[i]) - ratio * t->of[i].weight;
        squares += off * off / t->of[i].weight;
    }
    return variance(squares / (double)(t->count - t->first - 1), t->between, t->weight);
}

static double within_one(double share) {
    return share < 0 ? 0 : share > 1 ? 1 : share;
}

// In each gap no more than there was time for.
static void tell_shares(const samples *t, plb_estimate *out) {
    const double active = total(t, active_of, t->first) / t->weight;
    const double copying = total(t, copying_of, t->first) / t->weight;
    double active_ns = total(t, active_of, 0), copying_ns = total(t, copying_of, 0);
    for (int64_t i = 0; i + 1 < t->count; i++) {
        const double length = (double)(t->of[i + 1].from - t->of[i].to);
        const double part = fmin(length, active * t->of[i].between);
        active_ns += part;
        copying_ns += fmin(length - part, copying * t->of[i].between);
    }
    const double span_ns = (double)out->span_ns;
    const double half = out->factor * sqrt(variance_between(t, active_of)) / span_ns;
    out->active = within_one(active_ns / span_ns);
    out->active_low = within_one(out->active - half);
    out->active_high = within_one(out->active + half);
    out->copying = within_one(copying_ns / span_ns);
    out->idle = within_one(1 - out->active - out->copying);
}

static void tell_kernels(const samples *t, plb_estimate *out) {
    out->sampled = total(t, kernels_of, t->first);
    if (t->by_launches) {
        out->between = t->between;
    } else {
        out->between = out->sampled / t->weight * t->between;
        out->between_variance = variance_between(t, kernels_of);
    }
    out->kernels = out->recorded + out->between;
    out->kernels_half = out->factor * sqrt(out->between_variance);
}

// Of 95 %, within 0.02 from 3 degrees of freedom on.
static double student(int64_t freedom) {
    const double one = 1 / (double)freedom;
    return 1.96 + 2.14 * one + 4.58 * one * one;
}

static bool estimate(const plb_spool *s, samples *t, plb_estimate *out) {
    if (!take_samples(s, t)) return false;
    out->blocks = t->count - t->first;
    out->by_launches = t->by_launches;
    out->span_ns = t->of[t->count - 1].to - t->of[0].from;
    for (int64_t i = 0; i < t->count; i++) out->recorded_ns += t->of[i].to - t->of[i].from;
    out->recorded = total(t, kernels_of, 0);
    out->known = out->blocks >= FEWEST && out->recorded > 0;
    if (!out->known) return out->span_ns > 0;
    out->factor = student(out->blocks - 1);
    tell_shares(t, out);
    tell_kernels(t, out);
    return true;
}

bool plb_estimate_of(const plb_spool *s, plb_estimate *out) {
    *out = (plb_estimate){.blocks = 0};
    samples *t = s->alternates ? plb_alloc(sizeof *t) : NULL;
    const bool told = t && estimate(s, t, out);
    plb_free(t);
    return told;
}

static double half_of(const plb_estimate *e, double sum, double squares) {
    const double n = e->sampled, ratio = sum / n;
    const double of_kernel =
        (squares - 2 * ratio * sum + ratio * ratio * n) / (double)(e->blocks - 1);
    return e->factor *
           sqrt(variance(of_kernel, e->between, n) + ratio * ratio * e->between_variance);
}

plb_estimated plb_estimate_kernel(const plb_spool *s, const plb_estimate *e, int row) {
    const plb_spool_spread *t = &s->spread[row];
    const plb_spool_times *r = &s->kernel[row].times;
    plb_estimated out = {(double)r->calls, 0, (double)r->total_ns, 0};
    if (!e->known) { // as the span to the blocks' time, but for what a block has that never ended
        const double all = (double)kernels_recorded(s);
        const double part = all > 0 ? fmin(1, e->recorded / all) : 1;
        const double scale =
            1 + part * ((double)e->span_ns / (double)(e->recorded_ns ? e->recorded_ns : 1) - 1);
        return (plb_estimated){out.calls * scale, (double)NAN, out.ns * scale, (double)NAN};
    }
    if (e->sampled <= 0) return out;
    out.calls += (double)t->calls / e->sampled * e->between;
    out.ns += (double)t->ns / e->sampled * e->between;
    out.calls_half = half_of(e, (double)t->calls, t->calls2);
    out.ns_half = half_of(e, (double)t->ns, t->ns2);
    return out;
}
