// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/index.h"

#include <string.h>

#include "base/core/status.h"
#include "engine/ops/walk.h"

plb_status plb_index_check(const char *op, const plb_tensor *index, int64_t extent) {
    int64_t position[PLB_MAX_RANK] = {0}, count = plb_shape_count(&index->shape);
    for (int64_t n = 0; n < count; n++, plb_walk_next(&index->shape, position)) {
        int64_t found = plb_index_at(index, position);
        if (found >= 0 && found < extent) continue;
        plb_shape place = {.rank = index->shape.rank};
        memcpy(place.dim, position, (size_t)place.rank * sizeof *position);
        char text[160];
        return plb_fail(PLB_EINVAL, "%s: index at %s: expected 0 to %lld, found %lld", op,
                        plb_shape_format(&place, text, sizeof text), (long long)extent - 1,
                        (long long)found);
    }
    return PLB_OK;
}

plb_status plb_index_fits(const char *op, int64_t axis, const plb_type *x, const plb_type *index) {
    PLB_TRY(plb_axis_check(op, axis, x->shape.rank));
    bool fits = index->dtype == PLB_I64 && index->shape.rank == x->shape.rank;
    for (int i = 0; fits && i < x->shape.rank; i++) {
        fits = i == axis || index->shape.dim[i] <= x->shape.dim[i];
    }
    if (fits) return PLB_OK;
    char a[160], b[160];
    return plb_fail(PLB_EINVAL, "%s along axis %lld of %s: expected an i64 index, found %s %s", op,
                    (long long)axis, plb_shape_format(&x->shape, a, sizeof a),
                    plb_dtype_name(index->dtype), plb_shape_format(&index->shape, b, sizeof b));
}

void plb_index_describe(const void *attrs, plb_strbuf *text) {
    const plb_index_attrs *a = attrs;
    plb_strbuf_printf(text, "\"axis\":%lld", (long long)a->axis);
    if (a->extent) plb_strbuf_printf(text, ",\"extent\":%lld", (long long)a->extent);
}
