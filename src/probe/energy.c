// SPDX-License-Identifier: Apache-2.0
#include "probe/energy.h"

#include <string.h>

enum { FEWEST_LOOKS = 3 };

bool plb_energy_between(const plb_command_result *run, int64_t from_ns, int64_t to_ns,
                        double *joules) {
    int64_t before_ns[PLB_COMMAND_CARDS];
    int looks[PLB_COMMAND_CARDS] = {0};
    *joules = 0;
    for (int c = 0; c < run->cards; c++) before_ns[c] = run->begin_ns;
    for (int i = 0; i < run->samples; i++) {
        const plb_command_sample *s = &run->sample[i];
        if (s->card < 0 || s->card >= run->cards) continue;
        const int64_t begin_ns = before_ns[s->card] > from_ns ? before_ns[s->card] : from_ns;
        const int64_t end_ns = s->at_ns < to_ns ? s->at_ns : to_ns;
        before_ns[s->card] = s->at_ns;
        if (end_ns <= begin_ns) continue;
        looks[s->card]++;
        *joules += (double)s->watts * (double)(end_ns - begin_ns) / 1e9;
    }
    for (int c = 0; c < run->cards; c++)
        if (looks[c] < FEWEST_LOOKS) return false;
    return run->cards > 0;
}

// A moment of CUPTI's clock on CLOCK_MONOTONIC; what a damaged file says may be any number.
static int64_t on_our_clock(const plb_spool *s, int64_t cupti_ns) {
    return (int64_t)((uint64_t)cupti_ns - (uint64_t)s->begin_cupti_ns + (uint64_t)s->begin_ns);
}

// From the first work of any device to the last, on CLOCK_MONOTONIC.
static bool span_of(const plb_profile *p, int64_t *from_ns, int64_t *to_ns) {
    bool any = false;
    for (int i = 0; i < p->processes; i++) {
        const plb_spool *s = p->process[i];
        for (int d = 0; d < PLB_SPOOL_DEVICES; d++) {
            if (!s->device[d].records) continue;
            const int64_t first_ns = on_our_clock(s, s->device[d].sums.first_ns);
            const int64_t last_ns = on_our_clock(s, s->device[d].sums.last_ns);
            if (!any || first_ns < *from_ns) *from_ns = first_ns;
            if (!any || last_ns > *to_ns) *to_ns = last_ns;
            any = true;
        }
    }
    return any;
}

static int64_t steps_marked(const plb_profile *p) {
    int64_t steps = 0;
    for (int i = 0; i < p->ranges; i++)
        if (strcmp(p->range[i].name, "step") == 0) steps += p->range[i].calls;
    return steps;
}

bool plb_step_cost_of(const plb_profile *p, const plb_command_result *run, int64_t steps,
                      plb_step_cost *out) {
    int64_t from_ns = 0, to_ns = 0;
    *out = (plb_step_cost){.steps = steps ? steps : steps_marked(p)};
    if (!out->steps || !span_of(p, &from_ns, &to_ns)) return false;
    out->ms = ((double)to_ns - (double)from_ns) / 1e6 / (double)out->steps;
    out->known = run && plb_energy_between(run, from_ns, to_ns, &out->joules);
    out->joules /= (double)out->steps;
    return true;
}
