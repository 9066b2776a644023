// SPDX-License-Identifier: Apache-2.0
// Which devices there are, by name: "cpu", "cuda:1". Modules are opened when somebody first asks
// for one of their devices, and stay open.
#ifndef PLB_ENGINE_DEVICE_BACKEND_H
#define PLB_ENGINE_DEVICE_BACKEND_H

#include "engine/device/device.h"

// The backend called "cpu" or "cuda". PLB_EMISSING says what the machine lacks; PLB_EINVAL a name
// that is none. Thread-safe.
PLB_API PLB_MUST_USE plb_status plb_backend_find(const char *name, const plb_backend **out);

// Splits "cuda:1" (or "cuda": index 0) and finds its backend; NULL is the CPU. The device is not
// opened.
PLB_API PLB_MUST_USE plb_status plb_device_find(const char *name, const plb_backend **out_backend,
                                                int *out_index);

#endif
