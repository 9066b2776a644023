// SPDX-License-Identifier: Apache-2.0
// Matrix products by cuBLASLt. Batch axes that lie evenly in both factors are one launch; where
// they do not (a factor broadcasts along an outer axis), there is a launch for each outer index.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cuda/gemm.h"

enum { MAX_LAUNCHES = 256 };

// Batch axes that are left once those that lie evenly are merged, innermost first.
typedef struct batches {
    int n;
    int64_t dim[PLB_MAX_RANK], a[PLB_MAX_RANK], b[PLB_MAX_RANK], d[PLB_MAX_RANK];
} batches;

typedef struct matmul {
    plb_gemm_spec spec;
    plb_gemm *lt;
    batches outer; // all but the innermost, which is the library's
    int64_t launches;
} matmul;

static int64_t step_of(const plb_tensor *t, int axis, int rank) {
    int own = axis - (rank - t->shape.rank);
    return own < 0 || t->shape.dim[own] == 1 ? 0 : t->stride[own];
}

static void merge(const plb_query *q, batches *out) {
    const plb_tensor *y = &q->out[0];
    const int rank = y->shape.rank;
    *out = (batches){0};
    for (int axis = rank - 3; axis >= 0; axis--) {
        int64_t dim = y->shape.dim[axis], a = step_of(&q->in[0], axis, rank);
        int64_t b = step_of(&q->in[1], axis, rank), d = y->stride[axis];
        if (dim == 1) continue;
        int last = out->n - 1;
        if (last >= 0 && a == out->a[last] * out->dim[last] && b == out->b[last] * out->dim[last] &&
            d == out->d[last] * out->dim[last]) {
            out->dim[last] *= dim;
            continue;
        }
        out->dim[out->n] = dim, out->a[out->n] = a, out->b[out->n] = b, out->d[out->n] = d;
        out->n++;
    }
}

static void read_query(const plb_query *q, matmul *m) {
    const plb_matmul_attrs *attrs = q->attrs;
    const plb_tensor *a = &q->in[0], *y = &q->out[0];
    const int rank = y->shape.rank;
    batches all;
    merge(q, &all);
    m->spec = (plb_gemm_spec){.dtype = y->dtype,
                              .m = y->shape.dim[rank - 2],
                              .n = y->shape.dim[rank - 1],
                              .k = a->shape.dim[a->shape.rank - (attrs->trans_a ? 2 : 1)],
                              .trans_a = attrs->trans_a,
                              .trans_b = attrs->trans_b,
                              .batch = all.n ? all.dim[0] : 1,
                              .a_step = all.a[0],
                              .b_step = all.b[0],
                              .d_step = all.d[0],
                              .bias = plb_operand_given(q, PLB_IN_BIAS),
                              .residual = plb_operand_given(q, PLB_IN_RESIDUAL),
                              .epilogue = attrs->epilogue,
                              .tf32 = q->math == PLB_MATH_TF32 && y->dtype == PLB_F32,
                              .deterministic = q->deterministic};
    m->launches = 1;
    m->outer = (batches){0};
    for (int i = 1; i < all.n; i++) {
        int at = m->outer.n++;
        m->outer.dim[at] = all.dim[i], m->outer.a[at] = all.a[i];
        m->outer.b[at] = all.b[i], m->outer.d[at] = all.d[i];
        m->launches *= all.dim[i];
    }
}

static const char *refuse(const plb_query *q) {
    const char *reason = plb_gemm_missing();
    if (!reason) reason = plb_operands_refuse(q);
    if (reason) return reason;
    for (int k = 0; k < q->n_in; k++) {
        if (plb_operand_given(q, k) && q->in[k].layout.kind != PLB_LAYOUT_PLAIN) {
            return "plain layouts only";
        }
    }
    if (q->out[0].layout.kind != PLB_LAYOUT_PLAIN) return "plain layouts only";
    matmul m;
    read_query(q, &m);
    return m.launches > MAX_LAUNCHES ? "too many batches that broadcast" : NULL;
}

static int choices(const plb_query *q, char out[][PLB_CHOICE_BYTES], int max) {
    matmul m;
    read_query(q, &m);
    return plb_gemm_choices(q->device, &m.spec, out, max);
}

static const void *shifted(const void *data, int64_t elements, size_t size_bytes) {
    return data ? (const char *)data + elements * (int64_t)size_bytes : NULL;
}

static plb_status run(void *state, const plb_call *call, plb_stream *stream) {
    matmul *m = state;
    const size_t size = plb_dtype_size(m->spec.dtype);
    const void *bias = m->spec.bias ? call->in[PLB_IN_BIAS].data : NULL;
    const void *residual = m->spec.residual ? call->in[PLB_IN_RESIDUAL].data : NULL;
    for (int64_t i = 0; i < m->launches; i++) {
        int64_t rest = i, a = 0, b = 0, d = 0;
        for (int axis = 0; axis < m->outer.n; axis++) {
            int64_t index = rest % m->outer.dim[axis];
            rest /= m->outer.dim[axis];
            a += index * m->outer.a[axis], b += index * m->outer.b[axis];
            d += index * m->outer.d[axis];
        }
        plb_gemm_args args = {.a = shifted(call->in[0].data, a, size),
                              .b = shifted(call->in[1].data, b, size),
                              .bias = bias,
                              .residual = shifted(residual, d, size),
                              .d = (char *)call->out[0].data + d * (int64_t)size,
                              .workspace = call->workspace};
        PLB_TRY(plb_gemm_run(m->lt, &args, stream));
    }
    return PLB_OK;
}

static void release(void *state) {
    matmul *m = state;
    plb_gemm_free(m->lt);
    plb_free(m);
}

static plb_status prepare(const plb_query *q, const char *choice, plb_launch *out) {
    matmul *m = plb_alloc(sizeof *m);
    if (!m) return plb_fail(PLB_ENOMEM, "out of memory for a product");
    read_query(q, m);
    plb_status status = plb_gemm_new(q->device, &m->spec, choice, &m->lt);
    if (status) {
        release(m);
        return status;
    }
    *out = (plb_launch){.state = m,
                        .release = release,
                        .run = run,
                        .workspace_bytes = plb_gemm_workspace_bytes(m->lt),
                        .flops = plb_operands_flops(q),
                        .bytes = plb_operands_bytes(q)};
    return PLB_OK;
}

const plb_kernel plb_cuda_kernel_matmul_lt = {.name = "cublaslt",
                                              .op = PLB_OP_matmul,
                                              .refuse = refuse,
                                              .choices = choices,
                                              .prepare = prepare,
                                              .tuned = true};
