// SPDX-License-Identifier: Apache-2.0
#ifndef PLB_PROBE_DEVICE_FACTS_H
#define PLB_PROBE_DEVICE_FACTS_H

#include "probe/sum.h"

// Asks the driver that is in this process for the device's name and size and tells them to `sum`.
void plb_probe_tell_device(plb_sum *sum, uint32_t device);

#endif
