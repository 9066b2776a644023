// SPDX-License-Identifier: Apache-2.0
// Whether a profile is whole, or of nothing.
#include "cli/profile_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/profile_numbers.h"

const char *plb_profile_lost_name(int reason) {
    static const char *const names[PLB_LOST_COUNT] = {
        "dropped by CUPTI",           "no row for the name", "without times",
        "device beyond the last row", "no memory",           "beyond the trace's limit"};
    return names[reason];
}

const char *plb_profile_direction(int direction) {
    static const char *const names[PLB_COPY_COUNT] = {"to the device",   "to the host",
                                                      "inside a device", "between devices",
                                                      "on the host",     "other"};
    return names[direction];
}

const char *plb_profile_host_memory(const plb_profile_copies *copies) {
    if (copies->direction > PLB_COPY_OUT) return "";
    return copies->pinned ? "pinned" : "pageable";
}

// One place on, the sizes first; false behind the last.
static bool step(const plb_profile *p, plb_profile_copies *at) {
    int *const digit[] = {&at->size, &at->pinned, &at->direction, &at->device};
    static const int extent[] = {PLB_SPOOL_SIZES, 2, PLB_COPY_COUNT, PLB_SPOOL_DEVICES};
    for (int i = 0; i < 4; i++) {
        if (++*digit[i] < extent[i]) return true;
        *digit[i] = 0;
    }
    return ++at->process < p->processes;
}

bool plb_profile_next_copies(const plb_profile *p, plb_profile_copies *at) {
    bool there = at->sums ? step(p, at) : p->processes > 0;
    for (; there; there = step(p, at)) {
        const plb_spool_device *d = &p->process[at->process]->device[at->device];
        at->sums = &d->copies[at->direction][at->pinned][at->size];
        if (at->sums->calls) return true;
    }
    return false;
}

bool plb_profile_incomplete(const plb_profile_report *r, char *why, size_t why_bytes) {
    const plb_profile *p = r->profile;
    if (p->processes_unread) {
        snprintf(why, why_bytes, "the probe was in %d processes: %d are told",
                 PLB_PROFILE_PROCESSES + p->processes_unread, PLB_PROFILE_PROCESSES);
        return true;
    }
    if (p->problems) {
        snprintf(why, why_bytes, "%s", p->problem[0]);
        return true;
    }
    for (int i = 0; i < p->counteds; i++) {
        const plb_counted *c = &p->counted[i];
        if (!c->uncounted && !c->reason[0]) continue;
        if (c->reason[0])
            snprintf(why, why_bytes, "counters: %s", c->reason);
        else
            snprintf(why, why_bytes, "%" PRId64 " launches could not be counted", c->uncounted);
        return true;
    }
    for (int i = 0; i < p->processes; i++) {
        const plb_spool *s = p->process[i];
        int64_t lost = 0;
        for (int k = 0; k < PLB_LOST_COUNT; k++) lost += s->lost[k];
        // A worker that became another program before it was looked at: nothing is missing.
        if (r->words && strcmp(r->words, "file") == 0 && s->state == PLB_PROBE_ARMED &&
            !s->recorded_ns)
            continue;
        if (s->state == PLB_PROBE_ASIDE)
            snprintf(why, why_bytes, "the probe stepped aside in %s: %s", s->program, s->reason);
        else if (lost)
            snprintf(why, why_bytes, "%" PRId64 " records of %s were lost", lost, s->program);
        else if (s->state != PLB_PROBE_ENDED)
            snprintf(why, why_bytes, "%s ended without leaving: what it did last is missing",
                     s->program);
        else
            continue;
        return true;
    }
    if (r->run && r->run->threads_unseen) {
        snprintf(why, why_bytes, "%d threads of the program have no row: there is room for %d",
                 r->run->threads_unseen, PLB_COMMAND_THREADS);
        return true;
    }
    return false;
}

static bool worked(const plb_profile *p) {
    for (int i = 0; i < p->processes; i++)
        for (int d = 0; d < PLB_SPOOL_DEVICES; d++)
            if (p->process[i]->device[d].records) return true;
    return false;
}

static bool counted(const plb_profile *p) {
    for (int i = 0; i < p->counteds; i++)
        if (p->counted[i].launches) return true;
    return false;
}

bool plb_profile_empty(const plb_profile_report *r, char *why, size_t why_bytes) {
    const plb_profile *p = r->profile;
    int64_t recorded_ns = 0;
    if (worked(p) || counted(p) || (r->words && strcmp(r->words, "host") == 0)) return false;
    for (int i = 0; i < p->processes; i++) recorded_ns += p->process[i]->recorded_ns;
    for (int i = 0; i < p->counteds; i++)
        if (p->counted[i].reason[0]) {
            snprintf(why, why_bytes, "no counters: %s", p->counted[i].reason);
            return true;
        }
    const bool windowed = r->words && strstr(r->words, "program,");
    if (!p->processes && r->run && r->run->started && r->run->error_text[0])
        snprintf(why, why_bytes, "%s", r->run->error_text);
    else if (!p->processes)
        snprintf(why, why_bytes,
                 "the program loaded no CUDA driver: if it should have, see what "
                 "`plumb doctor` says of the device; if not, --host-only");
    else if (p->counteds && !windowed)
        snprintf(why, why_bytes,
                 "the program launched no kernel by itself, and those of graphs "
                 "are not counted");
    else if (!recorded_ns && windowed)
        snprintf(why, why_bytes,
                 "the program never called cudaProfilerStart, for which --range "
                 "profiler-api waits");
    else if (!recorded_ns)
        snprintf(why, why_bytes,
                 "nothing was recorded: the program had ended before --delay had "
                 "passed, or the probe could not work in it");
    else
        snprintf(why, why_bytes,
                 "the program loaded CUDA's driver and started nothing while it "
                 "was recorded: does it fall back to the processor?");
    return true;
}
