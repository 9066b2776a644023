// SPDX-License-Identifier: Apache-2.0
#ifndef PLB_BASE_MACHINE_GPU_H
#define PLB_BASE_MACHINE_GPU_H

#include "base/machine.h"

// Fills the gpu_… fields. NVML tells most; where it is lacking, the driver's files name the cards.
void plb_machine_read_gpus(const char *root, plb_machine *out);

#endif
