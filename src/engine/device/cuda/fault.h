// SPDX-License-Identifier: Apache-2.0
// Data that makes a run fail (an index or a target out of range) is met on the device, long after
// the host has gone on. The kernel leaves such an element out and notes the first one in host
// memory; whoever waits for the device finds the note.
#ifndef PLB_ENGINE_DEVICE_CUDA_FAULT_H
#define PLB_ENGINE_DEVICE_CUDA_FAULT_H

#include "engine/device/cuda/cuda.h"
#include "engine/device/cuda/kernels/own.h"

// The note of a device; one for all its streams, made on first use. Stays for the process's life.
PLB_MUST_USE plb_status plb_cuda_fault_of(plb_device *device, plb_fault **out);
// PLB_EINVAL with the note's words where there is one, which is then forgotten. The device must
// have nothing more to do.
PLB_MUST_USE plb_status plb_cuda_fault_take(plb_device *device);

#endif
