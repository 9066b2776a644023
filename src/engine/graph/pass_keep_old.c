// SPDX-License-Identifier: Apache-2.0
// A read is the variable's own storage. Where its value must survive an assign, a cast to the same
// dtype stands between: a copy like any other node.
#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/pass.h"
#include "engine/ops/pointwise.h"

static void copy_read(plb_rewrite *rw, int index) {
    plb_value old = rw->from->nodes[index].out, read = rw->map[old];
    plb_type type = rw->from->values[old].type;
    plb_cast_attrs attrs = {type.dtype};
    plb_node cast = {.op = PLB_OP_cast,
                     .n_in = 1,
                     .n_out = 1,
                     .in = &read,
                     .attrs = &attrs,
                     .scope = rw->from->nodes[index].scope};
    rw->map[old] = plb_append_node(rw->to, &cast, &type);
}

plb_status plb_pass_keep_old(plb_graph **graph, const plb_pass_context *context) {
    const plb_graph *from = *graph;
    plb_rewrite rw;
    int copies = 0;
    bool *seen = plb_alloc_array((size_t)from->n_values + 1, sizeof *seen);
    if (!seen) return plb_fail(PLB_ENOMEM, "out of memory for a pass");
    plb_status status = plb_rewrite_begin(from, &rw);
    for (int i = 0; i < from->n_nodes && !status; i++) {
        plb_rewrite_copy(&rw, i);
        if (rw.to->status || from->nodes[i].op != PLB_OP_read) continue;
        if (!plb_read_outlives_assign(from, i, seen)) continue;
        copy_read(&rw, i);
        copies++;
    }
    plb_free(seen);
    if (status) return status;
    PLB_TRY(plb_pass_commit(&rw, graph));
    if (copies) {
        plb_strbuf_printf(context->report, "keep old: %d variables copied before they change\n",
                          copies);
    }
    return PLB_OK;
}
