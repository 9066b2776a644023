// SPDX-License-Identifier: Apache-2.0
// Dropout and random numbers. The random state stays on the device, so that a captured step draws
// new numbers in every replay.
#include "engine/ops/random.h"

#include "base/core/status.h"
#include "engine/device/cpu/nest.h"
#include "engine/device/cuda/kernels/random.h"
#include "engine/device/cuda/own.h"

_Static_assert((int)PLB_RANDOM_RANK == (int)PLB_NEST_RANK, "a nest's rank");
enum { WAVES = 16 };

static const char *refuse(const plb_query *q) {
    if (q->op != PLB_OP_dropout && !plb_own_is_plain(&q->out[0])) return "plain only";
    return plb_own_refuse(q);
}

static plb_random_params params_of(const plb_query *q) {
    const plb_random_attrs *a = q->attrs;
    const plb_shape *shape = &q->out[0].shape;
    const uint64_t none[2] = {0, 0};
    plb_random_params p = {.p = a->p,
                           .low = a->low,
                           .high = a->high,
                           .most = plb_uniform_most(q->out[0].dtype, a->low, a->high),
                           .mix = plb_random_key(none, a->id),
                           .count = plb_shape_count(shape),
                           .of_channel = 1,
                           .kind = q->op == PLB_OP_random_normal};
    if (q->op != PLB_OP_dropout) return p;
    for (int i = 2; i < shape->rank && a->channels; i++) p.of_channel *= (int32_t)shape->dim[i];
    const plb_tensor logical = plb_tensor_dense(NULL, PLB_F32, shape, (plb_layout){0});
    plb_nest nest = plb_nest_of(shape);
    plb_nest_add(&nest, &q->out[0]);
    plb_nest_add(&nest, &q->in[0]);
    plb_nest_add(&nest, &logical);
    plb_nest_simplify(&nest, 1);
    p.rank = nest.rank;
    for (int i = 0; i < nest.rank; i++) {
        p.dim[i] = nest.dim[i];
        p.y[i] = nest.stride[0][i], p.x[i] = nest.stride[1][i];
        p.logical[i] = nest.stride[2][i];
    }
    p.plain = p.of_channel == 1 && plb_own_is_plain(&q->in[0]) && plb_own_is_plain(&q->out[0]);
    return p;
}

static plb_cuda_grid grid_of(const plb_query *q, int64_t threads) {
    return (plb_cuda_grid){
        .blocks = {plb_cuda_blocks(q->device, threads, PLB_RANDOM_THREADS, WAVES)},
        .threads = {PLB_RANDOM_THREADS}};
}

static plb_status add_steps(const plb_query *q, plb_own *own, const plb_random_params *p) {
    const plb_dtype dtype = q->out[0].dtype;
    const plb_cuda_grid fours = grid_of(q, (p->count + 3) / 4);
    if (p->count == 0) return PLB_OK;
    if (q->op != PLB_OP_dropout) return plb_own_add(own, &own->any, "random", dtype, fours);
    if (p->plain) PLB_TRY(plb_own_add(own, &own->aligned, "dropout_plain", dtype, fours));
    return plb_own_add(own, &own->any, "dropout", dtype, grid_of(q, p->count));
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    const plb_random_params p = params_of(q);
    plb_own *own;
    PLB_TRY(plb_own_begin(q, choice, &p, sizeof p, out, &own));
    out->flops = (double)p.count;
    return plb_own_end(out, add_steps(q, own, &p));
}

const plb_kernel plb_cuda_kernel_random = {
    .name = "philox", .op = PLB_OP_dropout, .refuse = refuse, .prepare = prepare};
