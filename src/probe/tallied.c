// SPDX-License-Identifier: Apache-2.0
#include "probe/tallied.h"

#include <stdlib.h>

#include "base/core/status.h"

static int64_t time_of(const plb_tallied_stream *t) {
    return t->sums.kernel_ns + t->sums.copy_ns + t->sums.set_ns;
}

static int by_time(const void *left, const void *right) {
    const plb_tallied_stream *a = left, *b = right;
    if (time_of(a) != time_of(b)) return time_of(a) < time_of(b) ? 1 : -1;
    if (a->pid != b->pid) return a->pid < b->pid ? -1 : 1;
    return (a->sums.stream > b->sums.stream) - (a->sums.stream < b->sums.stream);
}

static int by_calls(const void *left, const void *right) {
    const plb_tallied_thread *a = left, *b = right;
    if (a->sums.call_ns != b->sums.call_ns) return a->sums.call_ns < b->sums.call_ns ? 1 : -1;
    return (a->sums.thread > b->sums.thread) - (a->sums.thread < b->sums.thread);
}

plb_status plb_tallied_streams(const plb_profile *p, plb_arena *arena, plb_tallied_stream **out,
                               int *out_count) {
    const size_t most = (size_t)p->processes * PLB_SPOOL_STREAMS + 1;
    plb_tallied_stream *row = plb_arena_alloc(arena, most * sizeof *row);
    int count = 0;
    *out = NULL, *out_count = 0;
    if (!row) return plb_fail(PLB_ENOMEM, "no memory for streams");
    for (int i = 0; i < p->processes; i++)
        for (int k = 0; k < PLB_SPOOL_STREAMS; k++)
            if (p->process[i]->stream[k].used)
                row[count++] = (plb_tallied_stream){p->process[i]->pid, p->process[i]->program,
                                                    p->process[i]->stream[k]};
    qsort(row, (size_t)count, sizeof *row, by_time);
    *out = row, *out_count = count;
    return PLB_OK;
}

plb_status plb_tallied_threads(const plb_profile *p, plb_arena *arena, plb_tallied_thread **out,
                               int *out_count) {
    const size_t most = (size_t)p->processes * PLB_SPOOL_THREADS + 1;
    plb_tallied_thread *row = plb_arena_alloc(arena, most * sizeof *row);
    int count = 0;
    *out = NULL, *out_count = 0;
    if (!row) return plb_fail(PLB_ENOMEM, "no memory for threads");
    for (int i = 0; i < p->processes; i++)
        for (int k = 0; k < PLB_SPOOL_THREADS; k++)
            if (p->process[i]->thread[k].used)
                row[count++] = (plb_tallied_thread){p->process[i]->pid, p->process[i]->program,
                                                    p->process[i]->thread[k]};
    qsort(row, (size_t)count, sizeof *row, by_calls);
    *out = row, *out_count = count;
    return PLB_OK;
}
