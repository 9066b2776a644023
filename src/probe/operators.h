// SPDX-License-Identifier: Apache-2.0
// Ranges by name, wherever they stand in the tree: of PyTorch, whose operators become ranges under
// its emit_nvtx, a table of operators.
#ifndef PLB_PROBE_OPERATORS_H
#define PLB_PROBE_OPERATORS_H

#include "base/core/arena.h"
#include "probe/profile.h"

typedef struct plb_operator {
    const char *name;
    int64_t calls;
    int64_t self_cpu_ns, cpu_ns; // self: in no range inside it; the other counts a range that is
                                 // inside one of the same name once
    int64_t self_device_ns, device_ns; // of the work launched in it
    int64_t work;                      // launches in it and in no range inside it
} plb_operator;

typedef enum plb_operator_order {
    PLB_OPERATORS_BY_SELF_CPU,
    PLB_OPERATORS_BY_CPU,
    PLB_OPERATORS_BY_CPU_AVERAGE,
    PLB_OPERATORS_BY_SELF_DEVICE,
    PLB_OPERATORS_BY_DEVICE,
    PLB_OPERATORS_BY_CALLS,
    PLB_OPERATORS_BY_NAME,
} plb_operator_order;

// Names are the profile's, rows the arena's; largest first, names from A on.
PLB_MUST_USE plb_status plb_operators_of(const plb_profile *profile, plb_operator_order order,
                                         plb_arena *arena, plb_operator **out, int *out_count);

#endif
