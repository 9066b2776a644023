// SPDX-License-Identifier: Apache-2.0
// What a device with memory of its own can do at most, measured with what the engine itself uses:
// a large product and a large copy.
#ifndef PLB_ENGINE_GRAPH_DEVICE_ROOF_H
#define PLB_ENGINE_GRAPH_DEVICE_ROOF_H

#include "engine/device/cpu/roof.h"
#include "plumb/plan.h"

// `device` as plb_plan_options has it; `math` of the product, f32. No cache is measured: its bytes
// are 0. Errors of the device, and of a plan that it cannot run.
PLB_API PLB_MUST_USE plb_status plb_device_roof(const char *device, plb_math math, plb_roof *out);

#endif
