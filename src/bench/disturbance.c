// SPDX-License-Identifier: Apache-2.0
#include "bench/disturbance.h"

#include <stdio.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "bench/machine_state.h"
#include "bench/usage.h"
#include "store/store.h"

static const int64_t every_ns = 1000000000;
static const double busy_cpus = 0.05, coarse_cpus = 0.02; // ticks of 10 ms are read in a second
static const int64_t pace_every_ns = 4000000000;
static const double slow = 2; // times the best: the worst of sixty on an idle machine was 1.8

// Processor time of all programs since boot, what a hypervisor took aside; -1: unknown.
static int64_t machine_busy_ns(void) {
    long long user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, soft = 0;
    FILE *file = fopen("/proc/stat", "re");
    int n = file ? fscanf(file, "cpu %lld %lld %lld %lld %lld %lld %lld", &user, &nice, &system,
                          &idle, &waiting, &irq, &soft)
                 : 0;
    if (file) fclose(file);
    if (n != 7) return -1;
    return (user + nice + system + irq + soft) * (1000000000 / sysconf(_SC_CLK_TCK));
}

uint32_t plb_disturbance_look(plb_disturbance *d) {
    const int64_t now = plb_now_ns();
    if (d->known && now - d->looked_ns < every_ns) return d->marks;
    plb_machine_state state;
    const plb_disturbance before = *d;
    plb_machine_state_read("", 0, &state);
    *d = (plb_disturbance){.known = true,
                           .looked_ns = now,
                           .busy_ns = machine_busy_ns(),
                           .own_ns = plb_usage_cpu_ns(getpid()),
                           .quota_throttled = state.quota_throttled,
                           .pace = before.pace,
                           .paced_ns = before.paced_ns,
                           .slowdown = before.slowdown};
    if (!d->paced_ns || now - d->paced_ns >= pace_every_ns) {
        d->slowdown = plb_pace_look(&d->pace);
        d->paced_ns = now;
    }
    if (d->slowdown > slow) d->marks |= PLB_MARK_SLOW;
    const int64_t own = d->own_ns - before.own_ns;
    // Workers that ended since take their time with them: then nothing can be told of others.
    if (!before.known || d->busy_ns < 0 || before.busy_ns < 0 || own < 0) return d->marks;
    const double wall = (double)(now - before.looked_ns);
    d->others_cpus = (double)(d->busy_ns - before.busy_ns - own) / wall;
    if (d->others_cpus > busy_cpus + coarse_cpus) d->marks |= PLB_MARK_BUSY;
    if (d->quota_throttled > before.quota_throttled) d->marks |= PLB_MARK_THROTTLED;
    return d->marks;
}

void plb_disturbance_free(plb_disturbance *d) {
    plb_pace_free(&d->pace);
}
