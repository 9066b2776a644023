// SPDX-License-Identifier: Apache-2.0
#include "probe/breakdown.h"

static bool has(unsigned mask, plb_busy what) {
    return mask >> what & 1;
}

// The first in this order names the reason of an idle moment.
static const plb_busy reasons[] = {PLB_BUSY_ALLOCATE,    PLB_BUSY_FREE,   PLB_BUSY_COPY_CALL,
                                   PLB_BUSY_SYNCHRONIZE, PLB_BUSY_LAUNCH, PLB_BUSY_OTHER_CALL};

static void add_idle(plb_breakdown *b, unsigned mask, int64_t ns) {
    b->idle_ns += ns;
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (has(mask, reasons[i])) {
            b->idle_by[reasons[i]] += ns;
            return;
        }
    b->idle_unknown_ns += ns;
}

static void add_busy(plb_breakdown *b, unsigned mask, int64_t ns) {
    const unsigned device = mask & PLB_BUSY_DEVICE, active = mask & PLB_BUSY_ACTIVE;
    const bool copies = has(device, PLB_BUSY_COPY_IN) || has(device, PLB_BUSY_COPY_OUT);
    if (!active)
        b->copying_ns += ns;
    else
        b->active_ns += ns;
    if (active == 1u << PLB_BUSY_MEMSET) b->memset_ns += ns;
    if (active == 1u << PLB_BUSY_COPY_INSIDE) b->copy_inside_ns += ns;
    if (active == 1u << PLB_BUSY_COMMUNICATION) b->communication_ns += ns;
    if (has(device, PLB_BUSY_KERNEL) && copies) b->kernel_copy_ns += ns;
}

void plb_breakdown_of(const plb_busy_sums *sums, plb_breakdown *out) {
    *out = (plb_breakdown){.kernels_overlap_ns = sums->kernels_overlap_ns,
                           .copies_overlap_ns = sums->copies_overlap_ns};
    for (unsigned mask = 0; mask < PLB_BUSY_MASKS; mask++) {
        if (mask & PLB_BUSY_DEVICE)
            add_busy(out, mask, sums->mask_ns[mask]);
        else
            add_idle(out, mask, sums->mask_ns[mask]);
    }
    out->span_ns = out->active_ns + out->copying_ns + out->idle_ns;
}

const char *plb_busy_name(plb_busy busy) {
    switch (busy) {
    case PLB_BUSY_SYNCHRONIZE: return "synchronising";
    case PLB_BUSY_COPY_CALL: return "in a copy's call";
    case PLB_BUSY_ALLOCATE: return "allocating";
    case PLB_BUSY_FREE: return "freeing";
    case PLB_BUSY_LAUNCH: return "launching";
    case PLB_BUSY_OTHER_CALL: return "in another call";
    case PLB_BUSY_KERNEL: return "kernels";
    case PLB_BUSY_COMMUNICATION: return "communication";
    case PLB_BUSY_MEMSET: return "memsets";
    case PLB_BUSY_COPY_INSIDE: return "copies inside the device";
    case PLB_BUSY_COPY_IN: return "copies in";
    case PLB_BUSY_COPY_OUT: return "copies out";
    case PLB_BUSY_COUNT: break;
    }
    return "?";
}
