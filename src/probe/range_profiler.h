// SPDX-License-Identifier: Apache-2.0
// Hardware counters of each kernel through CUPTI's range profiler. Every kernel is a range of its
// own; what cannot be counted at once is counted in further passes, for which CUPTI saves the
// memory that the kernel writes and runs the kernel again ("kernel replay"). So the program
// computes what it always does, slowly: its times mean nothing, and none are recorded.
//
// Counting begins with the first launch in a context and needs CUPTI's one subscription. The
// counters of a few dozen kernels lie in an image, which is read out when it is full.
#ifndef PLB_PROBE_RANGE_PROFILER_H
#define PLB_PROBE_RANGE_PROFILER_H

#include "probe/counted.h"
#include "probe/cupti.h"

// Subscribes. `asked`: bits of plb_counted_total. `cupti` and `counted` are borrowed for good. With
// `follow_program` it counts between the program's cudaProfilerStart and Stop alone.
PLB_MUST_USE plb_status plb_range_profiler_begin(const plb_cupti *cupti, uint32_t asked,
                                                 bool follow_program, plb_counted *counted);
// Reads what is left and stops. Any thread; harmless when nothing was begun.
void plb_range_profiler_end(void);

#endif
