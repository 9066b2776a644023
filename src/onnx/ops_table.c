// SPDX-License-Identifier: Apache-2.0
// The table of mappings, made from the list.
#include <string.h>

#include "onnx/build.h"
#include "onnx/map.h"

static const plb_onnx_op table[] = {
#define PLB_ONNX_OP(name, since, map, note) {#name, since, plb_onnx_map_##map, note},
#include "onnx/ops.def"
#undef PLB_ONNX_OP
};
enum { ROWS = sizeof table / sizeof *table };

const plb_onnx_op *plb_onnx_find_op(const char *name, int64_t opset) {
    const plb_onnx_op *found = NULL;
    for (int i = 0; i < ROWS; i++) {
        if (table[i].since > opset || strcmp(table[i].name, name) != 0) continue;
        if (!found || table[i].since > found->since) found = &table[i];
    }
    return found;
}

const plb_onnx_op *plb_onnx_op_at(int index) {
    return index >= 0 && index < ROWS ? &table[index] : NULL;
}
