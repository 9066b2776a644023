// SPDX-License-Identifier: Apache-2.0
// The energy of the processors, as they count it themselves (RAPL, through Linux's powercap): of
// whole packages and, where told apart, of cores and memory, whoever uses them.
#ifndef PLB_PROBE_RAPL_H
#define PLB_PROBE_RAPL_H

#include "probe/command.h"

typedef struct plb_rapl plb_rapl;

// `root`: the folder of powercap's zones, NULL for the system's. NULL when out of memory, which the
// other two take.
plb_rapl *plb_rapl_open(const char *root);
// Often enough that no counter goes round twice; one of 2^32 microjoules takes half a minute at
// least.
void plb_rapl_sample(plb_rapl *rapl);
// The last look, and the joules since it was opened; frees. Without zones `out` has the reason.
void plb_rapl_close(plb_rapl *rapl, plb_command_result *out);

#endif
