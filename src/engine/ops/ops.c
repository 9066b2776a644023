// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "engine/ops/op.h"

#define PLB_OP(name) extern const plb_op plb_op_##name;
#include "engine/ops/ops.def"
#undef PLB_OP

static const plb_op *const table[PLB_OP_COUNT] = {
#define PLB_OP(name) [PLB_OP_##name] = &plb_op_##name,
#include "engine/ops/ops.def"
#undef PLB_OP
};

const plb_op *plb_op_of(plb_op_id id) {
    return table[id];
}

plb_op_id plb_op_find(const char *name) {
    for (int id = 0; id < PLB_OP_COUNT; id++) {
        if (strcmp(table[id]->name, name) == 0) return (plb_op_id)id;
    }
    return PLB_OP_COUNT;
}
