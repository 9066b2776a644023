// SPDX-License-Identifier: Apache-2.0
#include "probe/shares.h"

static double share(int64_t part_ns, int64_t whole_ns) {
    return whole_ns > 0 ? (double)part_ns / (double)whole_ns : 0;
}

void plb_shares_of(const plb_spool *s, int device, const plb_breakdown *b, plb_shares *out) {
    const plb_busy_sums *sums = &s->device[device].sums;
    *out = (plb_shares){.span_ns = b->span_ns,
                        .recorded = 1,
                        .in_part = s->alternates,
                        .active = share(b->active_ns, b->span_ns),
                        .copying = share(b->copying_ns, b->span_ns),
                        .idle = share(b->idle_ns, b->span_ns)};
    if (!s->alternates || !b->span_ns) return;
    out->span_ns = sums->last_ns - sums->first_ns;
    out->recorded = share(b->span_ns, out->span_ns);
    if (device != 0 || !plb_estimate_of(s, &out->estimate) || !out->estimate.known) return;
    out->active = out->estimate.active, out->copying = out->estimate.copying;
    out->idle = out->estimate.idle;
}
