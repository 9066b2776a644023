// SPDX-License-Identifier: Apache-2.0
// reorder, which passes put between a value and consumers that want it in another layout.
#ifndef PLB_ENGINE_OPS_REORDER_H
#define PLB_ENGINE_OPS_REORDER_H

#include "plumb/tensor.h"

typedef struct plb_reorder_attrs {
    plb_layout target; // of the output; the pass writes it to the value as well
} plb_reorder_attrs;

#endif
