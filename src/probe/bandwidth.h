// SPDX-License-Identifier: Apache-2.0
// How fast a device's copies can be, measured here and now by the driver's own copies of 64 MiB:
// what a program achieved is held against it. Needs the driver, which is loaded when asked for.
#ifndef PLB_PROBE_BANDWIDTH_H
#define PLB_PROBE_BANDWIDTH_H

#include "probe/spool.h"

typedef struct plb_bandwidth {
    bool known;
    char reason[160]; // why it is not
    // Bytes a nanosecond (GB/s), the best of five: to the device and to the host, from pageable and
    // from pinned memory of the host, and inside the device.
    double host[2][2], inside; // host[plb_copy][pinned]
} plb_bandwidth;

// Of the device that CUDA gives this number.
void plb_bandwidth_measure(int device, plb_bandwidth *out);

// Of copies of that kind; 0 where it was not measured.
double plb_bandwidth_of(const plb_bandwidth *b, int copy, int pinned);

#endif
