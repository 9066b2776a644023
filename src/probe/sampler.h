// SPDX-License-Identifier: Apache-2.0
// Where a program's processors spend their time, function by function: the kernel stops each of its
// threads after every few milliseconds of processor time and notes the address it was at
// (perf_event_open's clock of the processor, which needs no counter of the hardware). Addresses
// become functions by the symbols of the files they were mapped from. The program itself is left
// alone; its children are seen too.
#ifndef PLB_PROBE_SAMPLER_H
#define PLB_PROBE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/core/strbuf.h"
#include "plumb/status.h"

enum {
    PLB_SAMPLED_FUNCTIONS = 256,
    PLB_SAMPLED_REASON_BYTES = 152,
    PLB_SAMPLED_MOMENTS = 1 << 15, // at 10 ms five minutes of a processor
};

typedef struct plb_sampled_function {
    char name[128];  // demangled; "" where the file has no symbol for it
    char module[64]; // the file's name without its folder, or what the kernel calls the place
    int64_t samples;
} plb_sampled_function;

// When one sample was taken.
typedef struct plb_sampled_moment {
    int64_t at_ns;    // CLOCK_MONOTONIC
    int32_t function; // its row, or -1
    uint32_t pid;
} plb_sampled_moment;

// Plain data: it is kept in files.
typedef struct plb_sampled {
    int64_t samples; // all of them; each stands for `period_ns` on a processor
    int64_t lost;    // that the kernel had no room for
    int64_t others;  // of `samples`: in functions that have no row
    int64_t period_ns;
    int32_t functions;
    int32_t kernel_too; // 0: only the program's own code could be sampled, not the kernel's for it
    char reason[PLB_SAMPLED_REASON_BYTES]; // why there are none, and how to allow it; or ""
    int64_t in_other_chains; // of `samples`: calls for which there was no room. Older versions kept
                             // the last bytes of a longer reason here: zeros
    plb_sampled_function function[PLB_SAMPLED_FUNCTIONS]; // the most samples first
    // From here on: zeros in what older versions kept. Of the first samples.
    int64_t moments;
    plb_sampled_moment moment[PLB_SAMPLED_MOMENTS];
} plb_sampled;

enum { PLB_SAMPLED_BYTES_1 = offsetof(plb_sampled, moments) }; // of the first version

// How much of it is used.
size_t plb_sampled_bytes(const plb_sampled *sampled);

typedef struct plb_sampler plb_sampler;

// Begins with the program that `pid`, which waits, is about to become; a sample is after every
// `period_ms` of processor time, 1 to 1000; with `calls` who called whom is noted, too. Never
// fails: what keeps it from sampling is the reason that plb_sampler_close tells. NULL when out of
// memory, which the others take.
plb_sampler *plb_sampler_open(pid_t pid, int period_ms, bool calls);
// Takes what the kernel has noted so far.
void plb_sampler_drain(plb_sampler *sampler);
// After how long at most to drain again, or samples may be lost: half the kernel's room for them.
int64_t plb_sampler_room_ns(const plb_sampler *sampler);
// The last of it, as functions, and the end of the sampler; `out` NULL: only its end. To `folded`,
// if that is given and calls were noted, as plb_chains_fold has it.
void plb_sampler_close(plb_sampler *sampler, plb_sampled *out, plb_strbuf *folded);

// Makes what was read from a file fit to be told.
void plb_sampled_mend(plb_sampled *sampled);

#endif
