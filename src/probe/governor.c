// SPDX-License-Identifier: Apache-2.0
#include "probe/governor.h"

enum {
    PERIODS = 200,            // of this part of the program's age a block and its rest are
    LEAST_REST_NS = 50000000, // the last block's records come in meanwhile
    LONGEST_WAIT_NS = 500000000,
};

void plb_governor_begin(plb_governor *g, double budget, int64_t now_ns, uint64_t seed) {
    *g = (plb_governor){.budget = budget,
                        .began_ns = now_ns,
                        .looked_ns = now_ns,
                        .until_ns = now_ns,
                        .turned_ns = now_ns,
                        .credit_ns = PLB_GOVERNOR_ALLOWANCE_NS,
                        .on = true,
                        .random = seed};
}

// From a half to three halves.
static double uneven(plb_governor *g) {
    g->random = g->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return .5 + (double)(g->random >> 11) / (double)(UINT64_C(1) << 53);
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double smaller(double a, double b) {
    return a < b ? a : b;
}

// What a long pause may save up: more where blocks are longer.
static double most_credit(const plb_governor *g, int64_t now_ns) {
    const double grown = 2 * g->budget * (double)(now_ns - g->began_ns) / PERIODS;
    return larger(PLB_GOVERNOR_ALLOWANCE_NS, grown);
}

// On average; the longest costs less than the most that can be saved up.
static double block_ns(const plb_governor *g, int64_t now_ns) {
    const double cost = g->rate * PLB_GOVERNOR_RECORD_NS; // share of the time
    if (cost <= 0) return PLB_GOVERNOR_BLOCK_NS;
    const double grown = (double)(now_ns - g->began_ns) / PERIODS * smaller(1, g->budget / cost);
    const double most = (.8 * most_credit(g, now_ns) - PLB_GOVERNOR_SWITCH_NS) / cost;
    return smaller(most / 1.5, larger(PLB_GOVERNOR_BLOCK_NS, grown));
}

static double cost_of(const plb_governor *g, double length_ns) {
    return g->rate * length_ns * PLB_GOVERNOR_RECORD_NS;
}

static void pay(plb_governor *g, int64_t now_ns, int64_t records) {
    const double passed_ns = (double)(now_ns - g->looked_ns),
                 fresh = (double)(records - g->records);
    g->credit_ns = smaller(g->credit_ns + g->budget * passed_ns, most_credit(g, now_ns));
    g->credit_ns -= fresh * PLB_GOVERNOR_RECORD_NS;
    // Records come in late, some of a block after its end: a rate falls by steps.
    if (g->on && passed_ns > 0) g->rate = larger(fresh / passed_ns, g->rate * .3);
    g->looked_ns = now_ns, g->records = records;
}

static void turn(plb_governor *g, int64_t now_ns, bool on) {
    g->on = on, g->turned_ns = now_ns;
    if (on) g->credit_ns -= PLB_GOVERNOR_SWITCH_NS;
}

bool plb_governor_look(plb_governor *g, int64_t now_ns, int64_t records) {
    pay(g, now_ns, records);
    const double length_ns = block_ns(g, now_ns);
    const double need_ns = cost_of(g, 1.5 * length_ns) + PLB_GOVERNOR_SWITCH_NS;
    if (!g->on) {
        if (g->credit_ns < need_ns || now_ns - g->turned_ns < LEAST_REST_NS) return false;
        turn(g, now_ns, true);
        g->until_ns = now_ns + (int64_t)(length_ns * uneven(g));
        return true;
    }
    if (now_ns < g->until_ns && g->credit_ns > -PLB_GOVERNOR_ALLOWANCE_NS / 2) return true;
    if (g->credit_ns >= need_ns) // no need for a rest
        g->until_ns = now_ns + PLB_GOVERNOR_LOOK_NS;
    else
        turn(g, now_ns, false);
    return g->on;
}

void plb_governor_stay(plb_governor *g, int64_t now_ns) {
    g->on = true, g->turned_ns = now_ns, g->until_ns = now_ns + PLB_GOVERNOR_LOOK_NS;
}

int64_t plb_governor_wait_ns(const plb_governor *g, int64_t now_ns) {
    double wait_ns = PLB_GOVERNOR_LOOK_NS;
    if (g->on && g->until_ns > now_ns) {
        wait_ns = smaller(wait_ns, (double)(g->until_ns - now_ns));
    } else if (!g->on) {
        const double need_ns =
            cost_of(g, 1.5 * block_ns(g, now_ns)) + PLB_GOVERNOR_SWITCH_NS - g->credit_ns;
        wait_ns = smaller(LONGEST_WAIT_NS, larger(LEAST_REST_NS, need_ns / g->budget));
    }
    return (int64_t)larger(1000000, wait_ns);
}
