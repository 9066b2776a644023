// SPDX-License-Identifier: Apache-2.0
#include "probe/tally.h"

#include <string.h>

// The row of a key, taken when it is new; the last one where no other is left.
static plb_spool_stream *stream_row(plb_spool *s, uint32_t device, uint32_t stream) {
    for (uint32_t i = 0; i < PLB_SPOOL_STREAMS; i++) {
        plb_spool_stream *row = &s->stream[i];
        if (row->used && (row->device != device || row->stream != stream)) continue;
        if (!row->used) row->device = device, row->stream = stream, row->used = 1;
        return row;
    }
    plb_spool_stream *last = &s->stream[PLB_SPOOL_STREAMS - 1];
    last->shared = 1;
    return last;
}

static plb_spool_thread *thread_row(plb_spool *s, uint32_t thread) {
    for (uint32_t i = 0; i < PLB_SPOOL_THREADS; i++) {
        plb_spool_thread *row = &s->thread[i];
        if (row->used && row->thread != thread) continue;
        if (!row->used) row->thread = thread, row->used = 1;
        return row;
    }
    plb_spool_thread *last = &s->thread[PLB_SPOOL_THREADS - 1];
    last->shared = 1;
    return last;
}

void plb_tally_stream(plb_spool *s, const plb_record *r) {
    plb_spool_stream *row = stream_row(s, r->device, r->stream);
    const int64_t length_ns = r->end_ns - r->start_ns;
    if (r->kind == PLB_RECORD_COPY) {
        row->copies++;
        row->copy_ns += length_ns, row->copy_bytes += r->bytes;
    } else if (r->kind == PLB_RECORD_SET) {
        row->sets++;
        row->set_ns += length_ns;
    } else { // a graph seen as a whole is one piece of work
        row->kernels++;
        row->kernel_ns += length_ns;
    }
}

void plb_tally_call(plb_spool *s, const plb_record *call) {
    plb_spool_thread *row = thread_row(s, call->thread);
    const int64_t length_ns = call->end_ns - call->start_ns;
    row->calls++;
    row->call_ns += length_ns;
    if (call->busy == PLB_BUSY_SYNCHRONIZE) row->waiting_ns += length_ns;
    if (call->busy == PLB_BUSY_COPY_CALL) row->copying_ns += length_ns;
}

void plb_tally_launched(plb_spool *s, uint32_t thread, int64_t device_ns, int64_t started) {
    plb_spool_thread *row = thread_row(s, thread);
    row->device_ns += device_ns;
    row->launched += started;
}

// Twice as long each, so that as many hold twice the time.
static void fold(plb_spool_memory *m) {
    for (int i = 0; i < PLB_SPOOL_POINTS / 2; i++) {
        const int64_t a = m->most_bytes[2 * i], b = m->most_bytes[2 * i + 1];
        m->most_bytes[i] = a > b ? a : b;
    }
    memset(m->most_bytes + PLB_SPOOL_POINTS / 2, 0, PLB_SPOOL_POINTS / 2 * sizeof *m->most_bytes);
    m->each_ns *= 2;
    m->points = (m->points + 1) / 2;
}

void plb_tally_memory(plb_spool_memory *m, int64_t at_ns, int64_t bytes) {
    if (!m->each_ns) *m = (plb_spool_memory){.first_ns = at_ns, .each_ns = PLB_SPOOL_POINT_NS};
    int64_t at = at_ns > m->first_ns ? (at_ns - m->first_ns) / m->each_ns : 0;
    while (at >= PLB_SPOOL_POINTS) {
        fold(m);
        at = (at_ns - m->first_ns) / m->each_ns;
    }
    // What was taken before stays taken up to here.
    for (; m->points <= at; m->points++) m->most_bytes[m->points] = m->now_bytes;
    if (bytes > m->most_bytes[at]) m->most_bytes[at] = bytes;
    m->now_bytes = bytes;
}
