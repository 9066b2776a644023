// SPDX-License-Identifier: Apache-2.0
// The ranges that a program marks (NVTX), nested as its threads nest them, and the device's work
// that each of them caused.
//
// A kernel's record does not say who launched it, but has the number of the call that did; that
// call's record says in which thread and when. Either may come first, half a second after the
// range has ended: so each thread keeps what it was in for its last few thousand changes, and calls
// and kernels wait for each other in a table by number. Work of a thread that marks nothing (the
// backward pass of PyTorch has a thread of its own) belongs to the range that the first thread
// with marks is in.
#ifndef PLB_PROBE_RANGES_H
#define PLB_PROBE_RANGES_H

#include "probe/sum.h"

typedef struct plb_ranges plb_ranges;

// NULL when out of memory. `spool` is borrowed.
plb_ranges *plb_ranges_new(plb_spool *spool);

// On the program's threads; times are CUPTI's clock. At most 64 deep; deeper ones are not seen.
void plb_ranges_push(plb_ranges *ranges, uint32_t thread, int64_t at_ns, const char *name);
// One that is in no table: what happens in it belongs to the recorded range around it.
void plb_ranges_push_unrecorded(plb_ranges *ranges, uint32_t thread);
// False when the innermost is in no table, or nothing was open; else `out` is the range that ended,
// `*name` its name in the spool.
bool plb_ranges_pop(plb_ranges *ranges, uint32_t thread, int64_t at_ns, plb_record *out,
                    uint32_t *name);
// A range that does not nest, begun and ended by any thread.
uint64_t plb_ranges_start(plb_ranges *ranges, int64_t at_ns, const char *name);
bool plb_ranges_end(plb_ranges *ranges, uint64_t id, int64_t at_ns, plb_record *out,
                    uint32_t *name);

// A call or the device's work, as it arrives: finds its range, or waits for the other half.
void plb_ranges_record(plb_ranges *ranges, const plb_record *record);

#endif
