// SPDX-License-Identifier: Apache-2.0
#ifndef PLB_BASE_SPIN_WAIT_H
#define PLB_BASE_SPIN_WAIT_H

// To be called first in main, in programs that compute. Lets threads that wait at the end of a
// parallel loop spin briefly and then sleep, unless the environment already says how they shall
// wait (OMP_WAIT_POLICY, GOMP_SPINCOUNT). The OpenMP library reads that before main, so the program
// executes itself once more; what it starts later sees the environment as it was. Where that cannot
// be done, nothing changes.
void plb_bound_spin_wait(char **argv);

#endif
