// SPDX-License-Identifier: Apache-2.0
// Data that makes a run fail (an index or a target out of range) is met on the device, long after
// the host has gone on. The kernel leaves such an element out and notes the first one in host
// memory; whoever waits for the device finds the note.
#ifndef PLB_ENGINE_DEVICE_CUDA_FAULT_H
#define PLB_ENGINE_DEVICE_CUDA_FAULT_H

#include "engine/device/cuda/cuda.h"
#include "engine/device/cuda/kernels/own.h"

// The box of a device, in its memory; one for all its streams, made on first use. Stays for the
// process's life.
PLB_MUST_USE plb_status plb_cuda_fault_of(plb_device *device, plb_fault_box **out);
// PLB_EINVAL with the note's words where there is one, which is then forgotten. Call it when the
// work in question has ended.
PLB_MUST_USE plb_status plb_cuda_fault_take(plb_device *device);

#endif
