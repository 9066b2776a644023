// SPDX-License-Identifier: Apache-2.0
// Sums by stream and by thread, and the device's memory over time, in the spool's own tables. They
// are small: a program with more streams or threads than rows has the rest in its last row.
#ifndef PLB_PROBE_TALLY_H
#define PLB_PROBE_TALLY_H

#include "probe/sum.h"

// A kernel, copy, set or graph of a stream. One thread at a time.
void plb_tally_stream(plb_spool *spool, const plb_record *record);
// A call, by the thread that made it. One thread at a time.
void plb_tally_call(plb_spool *spool, const plb_record *call);
// Work of a device that this thread's call launched. One thread at a time.
void plb_tally_launched(plb_spool *spool, uint32_t thread, int64_t device_ns, int64_t started);
// How much of a device's memory is taken from `at_ns` on.
void plb_tally_memory(plb_spool_memory *memory, int64_t at_ns, int64_t bytes);

#endif
