// SPDX-License-Identifier: Apache-2.0
#ifndef PLB_BASE_MACHINE_GPU_H
#define PLB_BASE_MACHINE_GPU_H

#include "base/machine.h"

// Fills the gpu_… fields. NVML tells most; where it is lacking, the driver's files name the cards.
void plb_machine_read_gpus(const char *root, plb_machine *out);

// How a card is doing; what cannot be found out is −1.
typedef struct plb_gpu_state {
    int temperature_c, clock_mhz, memory_clock_mhz;
    int64_t throttle_reasons; // NVML's bits, 0: none (idle and user-set clocks left out)
    int clock_max_mhz, memory_clock_max_mhz;
    double power_w, power_limit_w;
} plb_gpu_state;

// "hardware slowdown" for one bit of throttle_reasons; NULL for one that is not known.
PLB_API const char *plb_machine_throttle_reason(int bit);

// Fills states[PLB_MACHINE_MAX_GPUS]; returns how many cards NVML knows.
PLB_API int plb_machine_gpu_states(plb_gpu_state *states);

// In which share of NVML's last sampling period (a sixth of a second to a whole one) some kernel
// ran on the card that CUDA numbers so (see CUDA_VISIBLE_DEVICES); −1: unknown.
PLB_API double plb_machine_gpu_busy(int cuda_device);

#endif
