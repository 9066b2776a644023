// SPDX-License-Identifier: Apache-2.0
// What a device with memory of its own can do at most, measured with what the engine itself uses:
// a large product and a large copy.
#ifndef PLB_ENGINE_GRAPH_DEVICE_ROOF_H
#define PLB_ENGINE_GRAPH_DEVICE_ROOF_H

#include "engine/device/cpu/roof.h"
#include "plumb/plan.h"

// `options`: device, math and autocast decide in what the product is computed. No cache is
// measured: its bytes are 0. Errors of the device, and of a plan that it cannot run.
PLB_API PLB_MUST_USE plb_status plb_device_roof(const plb_plan_options *options, plb_roof *out);

#endif
