// SPDX-License-Identifier: Apache-2.0
// What backends stand on, for those who tell users about this machine.
#ifndef PLB_ENGINE_DEVICE_INVENTORY_H
#define PLB_ENGINE_DEVICE_INVENTORY_H

#include "plumb/status.h"

enum { PLB_INVENTORY_MAX = 8 };

typedef struct plb_inventory {
    int n;
    const char *name[PLB_INVENTORY_MAX], *version[PLB_INVENTORY_MAX]; // NULL: not found
} plb_inventory;

// The libraries that the backend called `backend` opens at run time. Fails as plb_backend_find.
PLB_API PLB_MUST_USE plb_status plb_backend_inventory(const char *backend, plb_inventory *out);

// Whether "cpu", "cuda" or "cuda:1" can be asked for here, without opening it: PLB_EINVAL for a
// name that is none, PLB_EMISSING for what the machine lacks. NULL is the CPU.
PLB_API PLB_MUST_USE plb_status plb_device_check(const char *name);

#endif
