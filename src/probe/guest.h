// SPDX-License-Identifier: Apache-2.0
// The probe as a guest in a process: what its parts share, which are inject.c (coming and going),
// guest_records.c (what CUPTI hands over), guest_blocks.c (recording part of the time) and
// guest_marks.c (the program's NVTX ranges). Private to these.
#ifndef PLB_PROBE_GUEST_H
#define PLB_PROBE_GUEST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "probe/blocks.h"
#include "probe/counted.h"
#include "probe/cupti.h"
#include "probe/governor.h"
#include "probe/options.h"
#include "probe/ranges.h"
#include "probe/recording.h"
#include "probe/spool.h"
#include "probe/sum.h"
#include "probe/takers.h"
#include "probe/trace.h"

typedef struct plb_guest {
    atomic_bool armed;    // records are wanted; false in a forked child
    pthread_mutex_t lock; // over the sums; never held across a call into CUPTI
    plb_probe_options options;
    plb_cupti cupti;
    plb_recording recording;
    plb_spool *spool;
    plb_sum *sum;
    plb_ranges *ranges;    // NULL: none were asked for
    plb_takers *takers;    // NULL: the same
    plb_trace *trace;      // NULL: the same
    plb_counted *counted;  // NULL: the same
    uint32_t devices_told; // bit i: facts of device i are in the spool
    plb_blocks *blocks;    // what is being recorded, when that alternates or may
    plb_governor governor; // when `governed`
    bool governed;         // there is a budget that is kept
    bool leaves;           // CUPTI leaves the process between blocks
    atomic_bool away;      // it has left
    atomic_bool handing_over;
    pthread_mutex_t turning; // while it comes or goes, or a block begins or ends
    int64_t kernels;         // records of them that came in
    plb_gap window;          // of the open block, on CUPTI's clock
    pthread_t thread;
    pthread_mutex_t wake_lock;
    pthread_cond_t wake;
    bool ending;
    int64_t armed_ns;    // on CLOCK_MONOTONIC
    atomic_llong app_ns; // spent on the program's threads
} plb_guest;

extern plb_guest plb_guest_here;

// From now on nothing is recorded; the file says why.
void plb_guest_step_aside(const char *reason);
int64_t plb_guest_cupti_now_ns(void); // 0: CUPTI does not say
bool plb_guest_sleep_ms(int64_t ms);  // of our thread; true when the program ends
bool plb_guest_is_windowed(void);     // some time, or what the program marks, is recorded

// ---- records (guest_records.c)
// Recording goes on and off by itself: what is recorded outside of blocks counts, but in no share.
bool plb_guest_alternates(void);
// CUPTI's two callbacks.
void plb_guest_request(uint8_t **buffer, size_t *size_bytes, size_t *max_records);
void plb_guest_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size_bytes,
                        size_t valid_bytes);
// Brings the sums in the file up to date: but for the last lag, or with `all` to the end.
void plb_guest_settle(int all);

// ---- blocks (guest_blocks.c)
// Asks CUPTI for what is complete, or with `all` everything; nothing while CUPTI is away.
void plb_guest_flush(bool all);
// Keeps another profiler from taking over, until it is given back. False: one has.
bool plb_guest_take_turn(void);
void plb_guest_give_turn(void);
void plb_guest_close_block(void); // if one is open
void plb_guest_turn_block(void);  // ends the block, or begins the next
void plb_guest_mind_budget(void); // recording costs no more than its share of the time

#endif
