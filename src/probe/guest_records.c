// SPDX-License-Identifier: Apache-2.0
// What CUPTI hands over, and how it is added up: on threads of CUPTI's, or on ours inside a flush.
#include "base/core/clock.h"
#include "probe/buffers.h"
#include "probe/device_facts.h"
#include "probe/guest.h"

static plb_guest *const probe = &plb_guest_here;

bool plb_guest_is_windowed(void) {
    const plb_probe_options *o = &probe->options;
    return o->follow_program || o->follow_file || o->delay_ms || o->limit_ms;
}

// Recording goes on and off by itself: what is recorded outside of blocks counts, but in no share.
bool plb_guest_alternates(void) {
    return probe->options.cost || probe->governed;
}

static bool is_work(const plb_record *r) {
    return r->kind == PLB_RECORD_KERNEL || r->kind == PLB_RECORD_COPY || r->kind == PLB_RECORD_SET;
}

// A block's last words: work that had not ended, and calls after its end.
static bool is_left_out(const plb_record *r) {
    return probe->leaves && (r->aside || (is_work(r) && !r->end_ns && !probe->handing_over));
}

// Recorded outside the window too. Memory is wanted all the time: what is left must be right.
static bool is_unswitched(const plb_record *r) {
    return r->kind == PLB_RECORD_COPY || r->kind == PLB_RECORD_SET || r->kind == PLB_RECORD_CALL;
}

static void read_record(const void *raw) {
    plb_record record;
    int64_t overhead_ns;
    if (!plb_cupti_decode(&probe->cupti, raw, &record, &overhead_ns)) {
        probe->spool->cupti_ns += overhead_ns;
        return;
    }
    if (plb_guest_is_windowed() && is_unswitched(&record) &&
        !plb_recording_has(&probe->recording, record.start_ns))
        return;
    record.aside = plb_guest_alternates() && is_unswitched(&record) &&
                   plb_recording_rests(&probe->recording, record.start_ns);
    if (is_left_out(&record)) return;
    if (record.kind == PLB_RECORD_KERNEL) probe->kernels++;
    uint32_t name = plb_sum_record(probe->sum, &record);
    if (!plb_sum_has_times(&record)) return;
    if (probe->takers && record.kind == PLB_RECORD_MEMORY) plb_takers_note(probe->takers, &record);
    if (probe->ranges) plb_ranges_record(probe->ranges, &record);
    if (probe->blocks) plb_blocks_note(probe->blocks, &record);
    if (probe->trace && record.kind != PLB_RECORD_MEMORY)
        plb_trace_write(probe->trace, &record, name);
}

void plb_guest_request(uint8_t **buffer, size_t *size_bytes, size_t *max_records) {
    int64_t begin_ns = plb_now_ns();
    *buffer = plb_probe_buffer_take();
    *size_bytes = *buffer ? PLB_PROBE_BUFFER_BYTES : 0;
    *max_records = 0;
    atomic_fetch_add(&probe->app_ns, plb_now_ns() - begin_ns);
}

// On a thread of CUPTI's, or on ours inside flush_all.
void plb_guest_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size_bytes,
                        size_t valid_bytes) {
    (void)size_bytes;
    int64_t begin_ns = plb_now_ns();
    size_t dropped = 0;
    if (atomic_load(&probe->armed) && valid_bytes) {
        void *record = NULL;
        pthread_mutex_lock(&probe->lock);
        while (probe->cupti.next_record(buffer, valid_bytes, &record) == 0) read_record(record);
        probe->spool->buffers++;
        pthread_mutex_unlock(&probe->lock);
        if (atomic_load(&probe->recording.leaving) != PLB_LEAVING_NOW &&
            probe->cupti.dropped(context, stream, &dropped) == 0)
            plb_spool_lose(probe->spool, PLB_LOST_CUPTI, (int64_t)dropped);
        pthread_mutex_lock(&probe->lock);
        probe->spool->probe_ns += plb_now_ns() - begin_ns;
        pthread_mutex_unlock(&probe->lock);
    }
    if (buffer) plb_probe_buffer_give(buffer);
}

void plb_guest_settle(int all) {
    pthread_mutex_lock(&probe->lock);
    int64_t begin_ns = plb_now_ns();
    for (uint32_t i = 0; i < PLB_SPOOL_DEVICES; i++) {
        if (!probe->spool->device[i].records || probe->devices_told & 1u << i) continue;
        plb_probe_tell_device(probe->sum, i);
        probe->devices_told |= 1u << i;
    }
    plb_sum_settle(probe->sum, all);
    if (probe->trace) plb_trace_flush(probe->trace);
    probe->spool->probe_app_ns = atomic_load(&probe->app_ns);
    probe->spool->recorded_ns = plb_recording_time_ns(&probe->recording);
    probe->spool->settled_ns = plb_now_ns();
    probe->spool->probe_ns += probe->spool->settled_ns - begin_ns;
    pthread_mutex_unlock(&probe->lock);
}
