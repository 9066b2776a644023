// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/class_loss.h"

#include <string.h>

#include "base/core/status.h"
#include "engine/ops/walk.h"

static plb_status misfit(const char *op, const char *what, const plb_type *scores,
                         const plb_type *found) {
    char a[160], b[160];
    return plb_fail(PLB_EINVAL, "%s: %s for scores %s %s: found %s %s", op, what,
                    plb_dtype_name(scores->dtype), plb_shape_format(&scores->shape, a, sizeof a),
                    plb_dtype_name(found->dtype), plb_shape_format(&found->shape, b, sizeof b));
}

static bool fits_target(const plb_type *scores, const plb_type *target) {
    const plb_shape *x = &scores->shape, *t = &target->shape;
    if (target->dtype != PLB_I64 || t->rank != x->rank - 1 || t->dim[0] != x->dim[0]) return false;
    return memcmp(t->dim + 1, x->dim + 2, (size_t)(t->rank - 1) * sizeof *t->dim) == 0;
}

plb_status plb_class_check(const char *op, const plb_loss_attrs *attrs, const plb_type *scores,
                           const plb_type *target, const plb_type *weight) {
    if (attrs->reduction < PLB_REDUCE_MEAN || attrs->reduction > PLB_REDUCE_NONE) {
        return plb_fail(PLB_EINVAL, "%s: reduction %lld", op, (long long)attrs->reduction);
    }
    if (!(attrs->smoothing >= 0 && attrs->smoothing <= 1)) {
        return plb_fail(PLB_EINVAL, "%s: label smoothing: expected 0 to 1, found %g", op,
                        attrs->smoothing);
    }
    if (!plb_dtype_is_float(scores->dtype) || scores->shape.rank < 2) {
        return misfit(op, "expected float scores [N, C, ...]", scores, scores);
    }
    if (!fits_target(scores, target))
        return misfit(op, "expected targets i64 [N, ...]", scores, target);
    if (plb_type_absent(weight)) return PLB_OK;
    bool fits = weight->dtype == scores->dtype && weight->shape.rank == 1 &&
                weight->shape.dim[0] == scores->shape.dim[1];
    return fits ? PLB_OK
                : misfit(op, "expected weights [C] of one dtype with them", scores, weight);
}

plb_type plb_class_loss_type(const plb_loss_attrs *attrs, plb_dtype dtype, const plb_type *target) {
    plb_type type = {dtype, plb_scalar_shape};
    if (attrs->reduction == PLB_REDUCE_NONE) type.shape = target->shape;
    return type;
}

plb_status plb_class_infer(plb_signature *s, const char *op) {
    static const plb_type absent = {.dtype = PLB_DTYPE_COUNT};
    const plb_loss_attrs *attrs = s->attrs;
    PLB_TRY(plb_class_check(op, attrs, &s->in[0], &s->in[1], s->n_in > 2 ? &s->in[2] : &absent));
    s->out[0] = plb_class_loss_type(attrs, s->in[0].dtype, &s->in[1]);
    return PLB_OK;
}

static plb_status bad_target(const char *op, const plb_class_loss *loss, const int64_t *position,
                             int64_t found) {
    plb_shape place = {.rank = loss->target->shape.rank};
    memcpy(place.dim, position, (size_t)place.rank * sizeof *position);
    char text[160];
    return plb_fail(PLB_EINVAL, "%s: target at %s: expected 0 to %lld, found %lld", op,
                    plb_shape_format(&place, text, sizeof text), (long long)loss->classes - 1,
                    (long long)found);
}

plb_status plb_class_begin(const char *op, plb_class_loss *loss) {
    const plb_shape *shape = &loss->target->shape;
    int64_t position[PLB_MAX_RANK] = {0}, count = plb_shape_count(shape), c;
    loss->total = 0;
    for (int64_t n = 0; n < count; n++, plb_walk_next(shape, position)) {
        if (!plb_class_at(loss, position, &c)) continue;
        if (c < 0 || c >= loss->classes) return bad_target(op, loss, position, c);
        loss->total += plb_class_weight(loss, c);
    }
    return PLB_OK;
}

bool plb_class_at(const plb_class_loss *loss, const int64_t *position, int64_t *out_class) {
    const plb_tensor *t = loss->target;
    *out_class = plb_load_i64(t->data, t->dtype, plb_tensor_offset(t, position));
    return *out_class != loss->attrs->ignore_index;
}

double plb_class_weight(const plb_class_loss *loss, int64_t of_class) {
    const plb_tensor *w = loss->weight;
    return w ? plb_load_f64(w->data, w->dtype, plb_tensor_offset(w, &of_class)) : 1;
}

double plb_class_scale(const plb_class_loss *loss, const plb_tensor *dy, const int64_t *position) {
    double scale = plb_load_f64(dy->data, dy->dtype, plb_tensor_offset(dy, position));
    return loss->attrs->reduction == PLB_REDUCE_MEAN ? scale / loss->total : scale;
}

plb_status plb_class_ref(const plb_call *call, const char *op, plb_class_loss_at at) {
    const plb_tensor *x = &call->in[0], *y = &call->out[0];
    const bool weighted = call->n_in > 2 && call->in[2].data;
    plb_class_loss loss = {.attrs = call->attrs,
                           .target = &call->in[1],
                           .weight = weighted ? &call->in[2] : NULL,
                           .classes = x->shape.dim[1]};
    PLB_TRY(plb_class_begin(op, &loss));
    const bool reduced = loss.attrs->reduction != PLB_REDUCE_NONE;
    const plb_shape *shape = &loss.target->shape;
    int64_t position[PLB_MAX_RANK] = {0}, count = plb_shape_count(shape), t;
    double sum = 0;
    for (int64_t n = 0; n < count; n++, plb_walk_next(shape, position)) {
        double here = plb_class_at(&loss, position, &t) ? at(&loss, x, position, t) : 0;
        sum += here;
        if (!reduced) plb_store_f64(y->data, y->dtype, plb_tensor_offset(y, position), here);
    }
    if (loss.attrs->reduction == PLB_REDUCE_MEAN) sum /= loss.total;
    if (reduced) plb_store_f64(y->data, y->dtype, 0, sum);
    return PLB_OK;
}

int64_t plb_class_offset(const plb_tensor *scores, const int64_t *position, int64_t c) {
    int64_t index[PLB_MAX_RANK] = {position[0], c};
    for (int i = 2; i < scores->shape.rank; i++) index[i] = position[i - 1];
    return plb_tensor_offset(scores, index);
}

void plb_class_describe(const void *attrs, plb_strbuf *text) {
    static const char *const reductions[] = {"mean", "sum", "none"};
    const plb_loss_attrs *a = attrs;
    plb_strbuf_printf(text, "\"reduction\":\"%s\",\"ignore_index\":%lld,\"smoothing\":%.17g",
                      reductions[a->reduction], (long long)a->ignore_index, a->smoothing);
    if (a->classes) plb_strbuf_printf(text, ",\"classes\":%lld", (long long)a->classes);
}

bool plb_class_weight_refused(plb_graph *graph, const char *op, bool needed) {
    if (!needed) return false;
    plb_graph_fail(graph, plb_fail(PLB_EUNSUPPORTED, "%s: no gradient for the class weights", op));
    return true;
}
