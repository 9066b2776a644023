// SPDX-License-Identifier: Apache-2.0
// Recording part of the time: blocks, between which CUPTI leaves the process where it can, and the
// budget that says how long they are. All but taking turns is done by the probe's own thread.
#include "base/core/clock.h"
#include "base/core/status.h"
#include "probe/guest.h"

enum { BEHIND_MS = 30 }; // that the device may be behind the host with what was recorded last

static plb_guest *const probe = &plb_guest_here;

// What is complete, or with `all` everything; nothing while CUPTI is away.
void plb_guest_flush(bool all) {
    if (!atomic_load(&probe->away)) probe->cupti.flush_all(all);
}

// The first block under a budget stands apart: it is what the program began with.
void plb_guest_close_block(void) {
    pthread_mutex_lock(&probe->lock);
    if (probe->spool->open_ns)
        plb_blocks_close(probe->blocks, probe->window, probe->governed && !probe->spool->blocks);
    probe->spool->open_ns = 0;
    pthread_mutex_unlock(&probe->lock);
}

static void open_block(void) {
    probe->window = (plb_gap){plb_guest_cupti_now_ns(), INT64_MAX};
    pthread_mutex_lock(&probe->lock);
    probe->spool->open_ns = probe->window.start_ns;
    plb_sum_resume(probe->sum, probe->window.start_ns);
    pthread_mutex_unlock(&probe->lock);
}

// Keeps another profiler from taking over, until it is given back. False: one has.
bool plb_guest_take_turn(void) {
    pthread_mutex_lock(&probe->turning);
    if (atomic_load(&probe->armed)) return true;
    pthread_mutex_unlock(&probe->turning);
    return false;
}

void plb_guest_give_turn(void) {
    pthread_mutex_unlock(&probe->turning);
}

// The budget cannot be kept: all is recorded from now on.
static void stop_rationing(void) {
    pthread_mutex_lock(&probe->lock);
    probe->governed = false;
    probe->options.cost = false;
    probe->spool->unbudgeted = 1;
    pthread_mutex_unlock(&probe->lock);
}

// By now the last block's work has ended, too, however far the device was behind the host.
static void begin_block(void) {
    if (!plb_guest_take_turn()) return;
    plb_guest_flush(true);
    plb_guest_close_block();
    open_block();
    if (probe->leaves) plb_recording_turn(&probe->recording, PLB_RECORD_COPIES | PLB_RECORD_CALLS);
    plb_recording_switch(&probe->recording, true);
    plb_guest_give_turn();
}

// Another profiler may have come meanwhile: it was here first then.
static void come_back(void) {
    plb_status status = PLB_OK;
    if (!plb_guest_take_turn()) return;
    if (!plb_recording_may_return(&probe->recording)) {
        status = plb_fail(PLB_EMISSING, "another profiler took over CUPTI between two blocks");
    } else {
        atomic_store(&probe->away, false);
        probe->cupti.register_callbacks(plb_guest_request, plb_guest_complete);
        if (probe->cupti.set_thread_id_type) probe->cupti.set_thread_id_type(1);
        open_block();
        status = plb_recording_begin(&probe->recording, true);
    }
    if (status) {
        plb_guest_settle(1);
        plb_guest_step_aside(plb_error_text());
    }
    plb_guest_give_turn();
}

// What CUPTI hands over as it goes is the block's last.
static void leave(void) {
    if (plb_guest_sleep_ms(BEHIND_MS) || !plb_guest_take_turn())
        return; // the program ends, or another one came
    plb_guest_flush(true);
    const plb_left left = plb_recording_leave(&probe->recording);
    atomic_store(&probe->away, left == PLB_LEFT);
    if (left == PLB_LEFT) plb_guest_close_block();
    plb_guest_give_turn();
    if (left == PLB_LEFT) return;
    if (left == PLB_LEFT_REFUSED) stop_rationing();
    plb_governor_stay(&probe->governor, plb_now_ns());
    begin_block();
}

static void end_block(void) {
    if (!plb_guest_take_turn()) return;
    plb_recording_switch(&probe->recording, false);
    probe->window.end_ns = plb_guest_cupti_now_ns();
    probe->spool->alternates = probe->leaves ? 2 : 1;
    if (probe->leaves) plb_recording_turn(&probe->recording, 0);
    plb_guest_give_turn();
    if (probe->leaves) leave();
}

void plb_guest_turn_block(void) {
    if (atomic_load(&probe->recording.on))
        end_block();
    else if (atomic_load(&probe->away))
        come_back();
    else
        begin_block();
}

// Recording costs no more than its share of the time.
void plb_guest_mind_budget(void) {
    pthread_mutex_lock(&probe->lock);
    const int64_t kernels = probe->kernels;
    pthread_mutex_unlock(&probe->lock);
    if (plb_governor_look(&probe->governor, plb_now_ns(), kernels) !=
        atomic_load(&probe->recording.on))
        plb_guest_turn_block();
}
