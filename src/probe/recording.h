// SPDX-License-Identifier: Apache-2.0
// What CUPTI is asked to record, and when: from the start, in a window of time, between the
// program's cudaProfilerStart and Stop, or in blocks that show what recording costs.
#ifndef PLB_PROBE_RECORDING_H
#define PLB_PROBE_RECORDING_H

#include <stdatomic.h>
#include <stdbool.h>

#include "plumb/status.h"
#include "probe/cupti.h"

// What a switch turns.
typedef enum plb_recorded {
    PLB_RECORD_KERNELS = 1,
    PLB_RECORD_COPIES = 2, // and sets
    PLB_RECORD_CALLS = 4,
    PLB_RECORD_ALL = 7,
} plb_recorded;

enum { PLB_RECORDING_WINDOWS = 64 };

typedef struct plb_recording {
    const plb_cupti *cupti;
    bool all_calls;    // every call of CUDA
    bool launch_calls; // those that launch, beside those that wait or take memory
    bool whole_graphs;
    bool sources; // which library takes memory
    atomic_bool on;
    atomic_llong since_ns, recorded_ns; // on CLOCK_MONOTONIC: when it went on; before that in all
    // The last windows, on CUPTI's clock: an even number opens one, the odd one after it closes it.
    atomic_llong edge_ns[2 * PLB_RECORDING_WINDOWS];
    atomic_uint edges;
    void *subscriber;     // of CUPTI's callbacks, while follow_program is in force, or leaving
    atomic_int leaving;   // plb_leaving
    atomic_bool unwanted; // somebody waits for the end of leaving: it is given up at once
} plb_recording;

typedef enum plb_leaving {
    PLB_LEAVING_NOT,
    PLB_LEAVING_WANTED, // at the end of the next launch
    PLB_LEAVING_NOW,
    PLB_LEAVING_DONE, // and what follows: nothing more comes of it
    PLB_LEAVING_FAILED,
} plb_leaving;

// Asks once for everything that is wanted, so that what CUPTI refuses becomes known, and leaves it
// on or off. Memory and CUPTI's own overhead are recorded from here on, whatever is switched.
PLB_MUST_USE plb_status plb_recording_begin(plb_recording *r, bool on);
// Any thread, and CUPTI's callbacks about calls. Kernels alone are switched: for calls CUPTI heeds
// a change of mind only sometimes (seen with 13.0), so these go on, and plb_recording_has tells
// which of them to drop. True when that changed anything.
bool plb_recording_switch(plb_recording *r, bool on);
// Whether something that happened then belongs to what was asked for.
bool plb_recording_has(plb_recording *r, int64_t at_ns);
// Whether it was off then, after it had been on.
bool plb_recording_rests(plb_recording *r, int64_t at_ns);
// For measuring what each costs: turns on what is in the mask of plb_recorded, and off the rest.
void plb_recording_turn(plb_recording *r, int recorded);
// Takes CUPTI out of the process, at the end of a launch, as CUPTI wants it; whatever it recorded
// and nobody has flushed is gone. Even with all recording off it costs each launch a microsecond.
// Unless it is left it stays. Not for a recording that follows the program.
typedef enum plb_left {
    PLB_LEFT,
    PLB_LEFT_NO_LAUNCH, // for a while
    PLB_LEFT_REFUSED,   // another profiler has the callbacks
} plb_left;
plb_left plb_recording_leave(plb_recording *r);
// Whether no other profiler holds the callbacks; between leaving and plb_recording_begin.
bool plb_recording_may_return(plb_recording *r);
// Asks for nothing any more.
void plb_recording_end(plb_recording *r);
// How long it was on, until now.
int64_t plb_recording_time_ns(plb_recording *r);

// Recording follows the program's own cudaProfilerStart and Stop; needs CUPTI's one subscription,
// which another profiler may hold or want.
PLB_MUST_USE plb_status plb_recording_follow_program(plb_recording *r);
void plb_recording_unfollow(plb_recording *r);

#endif
