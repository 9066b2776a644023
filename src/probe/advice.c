// SPDX-License-Identifier: Apache-2.0
#include "probe/advice.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe/shares.h"

enum {
    TINY_KERNEL_NS = 5000, // shorter than a launch costs on the host
    TINY_COPY_CLASS = 12,  // copies below 4 KiB: the call costs more than the bytes
    FEW = 100,             // what happened less often is part of starting up
};

typedef struct list {
    plb_advice *row;
    int count;
} list;

static PLB_PRINTF(3) void say(list *l, double ns, const char *format, ...) {
    if (ns <= 0 || l->count == PLB_ADVICE_MAX) return;
    plb_advice *a = &l->row[l->count++];
    a->seconds = ns / 1e9;
    va_list words;
    va_start(words, format);
    vsnprintf(a->text, sizeof a->text, format, words);
    va_end(words);
}

// Over all devices of all processes, of which there may be more than an integer holds: what a file
// says of one is checked, not what all say together.
typedef struct totals {
    double idle_unknown_ns, idle_by[PLB_BUSY_COUNT];
    double pageable_ns, pageable_calls, pageable_bytes;
    double tiny_calls[2], tiny_ns[2]; // copies in, copies out
} totals;

static void add_copies(totals *t, const plb_spool_device *d) {
    for (int kind = PLB_COPY_IN; kind <= PLB_COPY_OUT; kind++)
        for (int k = 0; k < PLB_SPOOL_SIZES; k++) {
            const plb_spool_size *paged = &d->copies[kind][0][k], *pinned = &d->copies[kind][1][k];
            t->pageable_calls += (double)paged->calls, t->pageable_bytes += (double)paged->bytes;
            t->pageable_ns += (double)paged->total_ns;
            if (k >= TINY_COPY_CLASS) continue;
            t->tiny_calls[kind] += (double)(paged->calls + pinned->calls);
            t->tiny_ns[kind] += (double)(paged->total_ns + pinned->total_ns);
        }
}

// Where a part was recorded, what the device idled in all is divided as in that part.
static void add_device(totals *t, const plb_spool *s, int device) {
    plb_breakdown b;
    plb_shares of;
    plb_breakdown_of(&s->device[device].sums, &b);
    plb_shares_of(s, device, &b, &of);
    const double idle_ns = of.idle * (double)of.span_ns;
    const double scale = of.in_part && b.idle_ns ? idle_ns / (double)b.idle_ns : 1;
    t->idle_unknown_ns += scale * (double)b.idle_unknown_ns;
    for (int i = 0; i < PLB_BUSY_COUNT; i++) t->idle_by[i] += scale * (double)b.idle_by[i];
    add_copies(t, &s->device[device]);
}

static void about_calls(list *l, const plb_profile *p, const totals *t) {
    int64_t calls[PLB_BUSY_COUNT] = {0};
    for (int i = 0; i < p->calls; i++) calls[p->call[i].busy] += p->call[i].calls;
    say(l, t->idle_by[PLB_BUSY_SYNCHRONIZE],
        "The device idled while the host waited for it in %" PRId64
        " calls that synchronise: it had run out of work. Queue more work before waiting.",
        calls[PLB_BUSY_SYNCHRONIZE]);
    say(l, t->idle_by[PLB_BUSY_COPY_CALL],
        "The device idled while the host was in %" PRId64
        " calls of copies: copy from pinned memory, asynchronously, ahead of use.",
        calls[PLB_BUSY_COPY_CALL]);
    if (calls[PLB_BUSY_ALLOCATE] + calls[PLB_BUSY_FREE] >= FEW)
        say(l, t->idle_by[PLB_BUSY_ALLOCATE] + t->idle_by[PLB_BUSY_FREE],
            "The device idled during %" PRId64 " calls that take and %" PRId64
            " that free memory: reuse it.",
            calls[PLB_BUSY_ALLOCATE], calls[PLB_BUSY_FREE]);
    say(l, t->idle_by[PLB_BUSY_LAUNCH],
        "The device idled while the host launched: capture the work into a graph, or fuse it.");
}

// And not as a node of a graph.
static double launched_alone(const plb_profile_kernel *k) {
    const double alone = (double)(k->calls - k->graph_calls);
    return alone * k->whole.calls / (double)(k->calls ? k->calls : 1);
}

static bool is_tiny(const plb_profile_kernel *k) {
    return (double)k->total_ns < TINY_KERNEL_NS * (double)k->calls;
}

static void about_kernels(list *l, const plb_profile *p, const totals *t) {
    double tiny = 0, all = 0;
    for (int i = 0; i < p->kernels; i++) {
        const plb_profile_kernel *k = &p->kernel[i];
        const double own = launched_alone(k);
        all += own;
        if (is_tiny(k)) tiny += own;
    }
    if (tiny >= FEW && 2 * tiny > all)
        say(l, t->idle_unknown_ns,
            "%.0f of %.0f kernels that were launched one by one ran under %d us, and "
            "the device idled while the host was in code of its own: replay a graph, compile the "
            "model, or use larger batches.",
            tiny, all, TINY_KERNEL_NS / 1000);
    else
        say(l, t->idle_unknown_ns,
            "The device idled while the host was in code of its own, in none of the recorded "
            "calls: prepare input and results beside the device's work.");
    for (int i = 0; i < p->kernels; i++) {
        const plb_profile_kernel *k = &p->kernel[i];
        if (launched_alone(k) < 1000 || !is_tiny(k)) continue;
        char name[96];
        plb_kernel_shorten(k->name, 80, name, sizeof name);
        say(l, k->whole.ns, "%s ran %.0f times for %.1f us: one fused launch would do.", name,
            k->whole.calls, (double)k->total_ns / (double)k->calls / 1e3);
    }
}

static void about_copies(list *l, const totals *t) {
    if (t->pageable_calls >= FEW)
        say(l, t->pageable_ns,
            "%.0f copies of pageable memory moved %.1f MB: pinned memory is faster and "
            "lets them overlap with kernels.",
            t->pageable_calls, t->pageable_bytes / 1e6);
    static const char *const way[2] = {"to the device", "to the host"};
    for (int kind = 0; kind < 2; kind++)
        if (t->tiny_calls[kind] >= FEW)
            say(l, t->tiny_ns[kind],
                "%.0f copies %s of less than 4 KiB each: gather them, or keep the values "
                "where they are used.",
                t->tiny_calls[kind], way[kind]);
}

static int most_first(const void *a, const void *b) {
    double x = ((const plb_advice *)a)->seconds, y = ((const plb_advice *)b)->seconds;
    return (x < y) - (x > y);
}

int plb_advice_of(const plb_profile *p, plb_advice out[PLB_ADVICE_MAX]) {
    totals t = {0};
    list l = {.row = out};
    for (int i = 0; i < p->processes; i++)
        for (int d = 0; d < PLB_SPOOL_DEVICES; d++)
            if (p->process[i]->device[d].records) add_device(&t, p->process[i], d);
    about_calls(&l, p, &t);
    about_kernels(&l, p, &t);
    about_copies(&l, &t);
    qsort(out, (size_t)l.count, sizeof *out, most_first);
    return l.count;
}
