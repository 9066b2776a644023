// SPDX-License-Identifier: Apache-2.0
// Convolutions and matrix products by oneDNN (https://oneapi-src.github.io/oneDNN), versions 2.x
// and 3.x.
#include "engine/device/cpu/dnnl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/cpu.h"

#ifdef PLB_HAVE_DNNL
#include <omp.h>
#include <pthread.h>

#include "engine/device/cpu/dnnl_api.h"

const char *plb_dnnl_version(void) {
    static char text[48];
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, sizeof text, "dnnl%d.%d.%d", v->major, v->minor, v->patch);
    return text;
}

enum { MAX_ARGS = 6 };

struct plb_dnnl {
    dnnl_primitive_desc_t desc;
    dnnl_primitive_t primitive, pack, unpack; // unpack: of weight gradients, to the plain order
    dnnl_memory_t first, second, bias, result, scratch, plain_weights, packed_result;
    size_t scratch_bytes, packed_bytes, result_bytes; // result_bytes: of a packed result
    char implementation[64];
};

// The engine and the stream are the library's handles to "this CPU, now"; they hold no work.
static dnnl_engine_t engine;
static dnnl_stream_t stream;
static dnnl_status_t engine_status;
static pthread_once_t engine_once = PTHREAD_ONCE_INIT;

static void open_engine(void) {
    engine_status = dnnl_engine_create(&engine, dnnl_cpu, 0);
    if (!engine_status) engine_status = dnnl_stream_create(&stream, engine, dnnl_stream_in_order);
}

static plb_status check(dnnl_status_t status, const char *what) {
    switch (status) {
    case dnnl_success: return PLB_OK;
    case dnnl_out_of_memory: return plb_fail(PLB_ENOMEM, "oneDNN: out of memory in %s", what);
    case dnnl_unimplemented: return plb_fail(PLB_EUNSUPPORTED, "oneDNN: %s: unimplemented", what);
    default: return plb_fail(PLB_EUNSUPPORTED, "oneDNN: %s: status %d", what, (int)status);
    }
}

// ---------------------------------------------------------------------------- descriptors
static dnnl_format_tag_t tag_of(const plb_tensor *t) {
    static const dnnl_format_tag_t plain[] = {dnnl_a,   dnnl_a,    dnnl_ab,
                                              dnnl_abc, dnnl_abcd, dnnl_abcde};
    static const dnnl_format_tag_t last[] = {dnnl_a,   dnnl_a,    dnnl_ab,
                                             dnnl_acb, dnnl_acdb, dnnl_acdeb};
    return (t->layout.kind == PLB_LAYOUT_NHWC ? last : plain)[t->shape.rank];
}

static dnnl_data_type_t type_of(const plb_tensor *t) {
    return t->dtype == PLB_U8 ? dnnl_u8 : t->dtype == PLB_I8 ? dnnl_s8 : dnnl_f32;
}

static plb_status describe(plb_md_own *md, int rank, const int64_t *extents, dnnl_data_type_t type,
                           dnnl_format_tag_t tag) {
    dnnl_dims_t all = {0};
    memcpy(all, extents, (size_t)rank * sizeof *extents);
    return check(plb_md_by_tag(md, rank, all, type, tag), "a description");
}

static plb_status describe_tensor(plb_md_own *md, const plb_tensor *t, bool any) {
    return describe(md, t->shape.rank, t->shape.dim, type_of(t),
                    any ? dnnl_format_tag_any : tag_of(t));
}

// w[K,C/g,…] as [g,K/g,C/g,…]: the same bytes.
static plb_status describe_weights(plb_md_own *md, const plb_tensor *w, int64_t groups, bool any) {
    static const dnnl_format_tag_t plain[] = {dnnl_a,    dnnl_a,     dnnl_ab,    dnnl_abc,
                                              dnnl_abcd, dnnl_abcde, dnnl_abcdef};
    if (groups == 1) return describe_tensor(md, w, any);
    int64_t extents[PLB_MAX_RANK + 1] = {groups, w->shape.dim[0] / groups};
    memcpy(extents + 2, w->shape.dim + 1, (size_t)(w->shape.rank - 1) * sizeof *extents);
    int rank = w->shape.rank + 1;
    return describe(md, rank, extents, type_of(w), any ? dnnl_format_tag_any : plain[rank]);
}

// The zero point of y is part of the bias (int8_dnnl.c), so that bounds are those of y.
static dnnl_status_t add_bounds(dnnl_post_ops_t ops, const plb_dnnl_spec *spec) {
    const plb_int8_attrs *a = spec->int8;
    bool is_signed = a->dtype == PLB_I8, real = a->dtype == PLB_F32;
    double low = real ? -(double)INFINITY : is_signed ? -128 : 0;
    double high = real ? (double)INFINITY : is_signed ? 127 : 255;
    if (a->low <= low && a->high >= high) return dnnl_success; // the type has the same
    return plb_dnnl_append_eltwise(ops, dnnl_eltwise_clip, (float)fmax(a->low, low),
                                   (float)fmin(a->high, high));
}

static plb_status add_int8(dnnl_primitive_attr_t attr, const plb_dnnl_spec *spec) {
    const plb_shape *y = &spec->result->shape;
    const int axis = spec->kind == PLB_DNNL_CONV ? 1 : y->rank - 1;
    const float one = 1;
    dnnl_status_t status = spec->scale
                               ? plb_dnnl_set_scales(attr, y->dim[axis], 1 << axis, spec->scale)
                               : plb_dnnl_set_scales(attr, 1, 0, &one);
    const int32_t zero = (int32_t)spec->int8->x_zero;
    if (!status && zero) status = plb_dnnl_set_zero(attr, &zero);
    return check(status, "scales");
}

static plb_status add_epilogue(dnnl_primitive_attr_t attr, const plb_dnnl_spec *spec) {
    dnnl_post_ops_t ops;
    PLB_TRY(check(dnnl_post_ops_create(&ops), "post-ops"));
    dnnl_status_t status = dnnl_success;
    if (spec->residual) status = plb_dnnl_append_sum(ops);
    if (spec->int8) status = add_bounds(ops, spec);
    const plb_epilogue *e = &spec->epilogue;
    if (!status && e->activation == PLB_ACT_RELU) {
        status = plb_dnnl_append_eltwise(ops, dnnl_eltwise_relu, 0, 0);
    }
    if (!status && e->activation == PLB_ACT_CLAMP) {
        status = plb_dnnl_append_eltwise(ops, dnnl_eltwise_clip, (float)e->alpha, (float)e->beta);
    }
    if (!status && e->activation == PLB_ACT_SILU) {
        status = plb_dnnl_append_eltwise(ops, dnnl_eltwise_swish, 1, 0);
    }
    if (!status) status = dnnl_primitive_attr_set_post_ops(attr, ops);
    dnnl_post_ops_destroy(ops);
    return check(status, "post-ops");
}

static plb_dnnl_window window_of(const plb_conv_attrs *a, int axes) {
    plb_dnnl_window window = {0};
    for (int i = 0; i < axes; i++) {
        window.stride[i] = a->stride[i] ? a->stride[i] : 1;
        window.dilation[i] = a->dilation[i] ? a->dilation[i] - 1 : 0; // the library counts gaps
        window.pad_begin[i] = a->pad_begin[i];
        window.pad_end[i] = a->pad_end[i];
    }
    return window;
}

// What a primitive reads and writes: of convolutions x, w, y, of products a, b, c.
typedef struct operands {
    plb_md_own first, second, bias, result;
} operands;

static void free_operands(operands *o) {
    plb_md_free(&o->first);
    plb_md_free(&o->second);
    plb_md_free(&o->bias);
    plb_md_free(&o->result);
}

static dnnl_status_t gradient_desc(const plb_dnnl_spec *s, const operands *o,
                                   const plb_dnnl_window *window, dnnl_primitive_attr_t attr,
                                   plb_dnnl *p) {
    dnnl_primitive_desc_t hint = NULL;
    plb_md x = plb_md_of(&o->first), w = plb_md_of(&o->second), y = plb_md_of(&o->result);
    dnnl_status_t status = plb_dnnl_forward(&hint, engine, x, w, NULL, y, window, NULL);
    if (status) return status;
    status = s->kind == PLB_DNNL_INPUT_GRAD
                 ? plb_dnnl_backward_data(&p->desc, engine, x, w, y, window, hint, attr)
                 : plb_dnnl_backward_weights(&p->desc, engine, x, w, y, window, hint, attr);
    dnnl_primitive_desc_destroy(hint);
    return status;
}

// Convolutions of all three kinds are described from x, w, y.
static plb_status conv_desc(const plb_dnnl_spec *s, dnnl_primitive_attr_t attr, operands *o,
                            plb_dnnl *p) {
    const plb_tensor *x = s->kind == PLB_DNNL_INPUT_GRAD ? s->result : s->first;
    const plb_tensor *w = s->kind == PLB_DNNL_WEIGHT_GRAD ? s->result : s->second;
    const plb_tensor *y = s->kind == PLB_DNNL_CONV         ? s->result
                          : s->kind == PLB_DNNL_INPUT_GRAD ? s->first
                                                           : s->second;
    const plb_dnnl_window window = window_of(s->conv, x->shape.rank - 2);
    PLB_TRY(describe_tensor(&o->first, x, false));
    PLB_TRY(describe_weights(&o->second, w, s->conv->groups ? s->conv->groups : 1, true));
    PLB_TRY(describe_tensor(&o->result, y, false));
    if (s->bias) PLB_TRY(describe_tensor(&o->bias, s->bias, false));
    if (s->kind != PLB_DNNL_CONV) {
        return check(gradient_desc(s, o, &window, attr, p), "convolution gradient");
    }
    return check(plb_dnnl_forward(&p->desc, engine, plb_md_of(&o->first), plb_md_of(&o->second),
                                  plb_md_of(&o->bias), plb_md_of(&o->result), &window, attr),
                 "convolution");
}

// a[…,M,K] as the library sees it: the last two axes swapped by strides when transposed. Operands
// are dense, but where an extent is 1 a view may have any stride, as a flip's -1, which the library
// refuses: it gets those of dense memory.
static plb_status describe_matrix(plb_md_own *md, const plb_tensor *t, bool trans, bool any) {
    dnnl_dims_t extents = {0}, strides = {0};
    const plb_tensor dense = plb_tensor_dense(t->data, t->dtype, &t->shape, t->layout);
    int rank = t->shape.rank;
    for (int i = 0; i < rank; i++) {
        int from = trans && i >= rank - 2 ? 2 * rank - 3 - i : i;
        extents[i] = t->shape.dim[from];
        strides[i] = dense.stride[from];
    }
    dnnl_status_t status = any ? plb_md_by_tag(md, rank, extents, type_of(t), dnnl_format_tag_any)
                               : plb_md_by_strides(md, rank, extents, type_of(t), strides);
    return check(status, "a matrix");
}

static plb_status describe_row(plb_md_own *md, const plb_tensor *bias, int rank) {
    static const dnnl_format_tag_t plain[] = {dnnl_a,    dnnl_a,     dnnl_ab,    dnnl_abc,
                                              dnnl_abcd, dnnl_abcde, dnnl_abcdef};
    int64_t extents[PLB_MAX_RANK];
    for (int i = 0; i < rank; i++) extents[i] = 1;
    extents[rank - 1] = bias->shape.dim[0];
    return describe(md, rank, extents, dnnl_f32, plain[rank]);
}

static bool b_is_transposed(const plb_dnnl_spec *s) {
    return s->int8 ? s->int8->trans_b : s->matmul->trans_b;
}

static plb_status matmul_desc(const plb_dnnl_spec *s, dnnl_primitive_attr_t attr, operands *o,
                              plb_dnnl *p) {
    PLB_TRY(describe_matrix(&o->first, s->first, !s->int8 && s->matmul->trans_a, false));
    PLB_TRY(describe_matrix(&o->second, s->second, b_is_transposed(s), s->pack));
    PLB_TRY(describe_matrix(&o->result, s->result, false, false));
    if (s->bias) PLB_TRY(describe_row(&o->bias, s->bias, s->result->shape.rank));
    return check(plb_dnnl_matmul(&p->desc, engine, plb_md_of(&o->first), plb_md_of(&o->second),
                                 plb_md_of(&o->bias), plb_md_of(&o->result), attr),
                 "matmul");
}

// ---------------------------------------------------------------------------- memories
static plb_md query(const plb_dnnl *p, dnnl_query_t what) {
    return dnnl_primitive_desc_query_md(p->desc, what, 0);
}

static plb_status memory_of(plb_md md, dnnl_memory_t *out) {
    return check(dnnl_memory_create(out, md, engine, DNNL_MEMORY_NONE), "a memory");
}

static plb_status make_reorder(plb_md from, plb_md to, dnnl_primitive_t *out) {
    dnnl_primitive_desc_t desc;
    PLB_TRY(check(dnnl_reorder_primitive_desc_create(&desc, from, engine, to, engine, NULL),
                  "reorder"));
    dnnl_status_t status = dnnl_primitive_create(out, desc);
    dnnl_primitive_desc_destroy(desc);
    return check(status, "reorder");
}

static plb_status plain_weights_desc(const plb_dnnl_spec *s, plb_md_own *md) {
    if (s->kind == PLB_DNNL_MATMUL) {
        return describe_matrix(md, s->second, b_is_transposed(s), false);
    }
    const plb_tensor *w = s->kind == PLB_DNNL_WEIGHT_GRAD ? s->result : s->second;
    return describe_weights(md, w, s->conv->groups ? s->conv->groups : 1, false);
}

// The second operand gets a reorder into the library's order, unless that is the plain one.
static plb_status prepare_packing(plb_dnnl *p, const plb_dnnl_spec *s, plb_md plain,
                                  plb_md wanted) {
    if (dnnl_memory_desc_equal(plain, wanted)) return PLB_OK;
    if (!s->pack) return plb_fail(PLB_EUNSUPPORTED, "oneDNN: an operand in its own order");
    PLB_TRY(make_reorder(plain, wanted, &p->pack));
    p->packed_bytes = dnnl_memory_desc_get_size(wanted);
    return memory_of(plain, &p->plain_weights);
}

static plb_status prepare_weight_result(plb_dnnl *p, plb_md plain, plb_md made) {
    PLB_TRY(memory_of(plain, &p->result));
    if (dnnl_memory_desc_equal(plain, made)) return PLB_OK;
    PLB_TRY(make_reorder(made, plain, &p->unpack));
    p->result_bytes = (dnnl_memory_desc_get_size(made) + 63) & ~(size_t)63;
    return memory_of(made, &p->packed_result);
}

static plb_status prepare_weights(plb_dnnl *p, const plb_dnnl_spec *s, plb_md theirs) {
    plb_md_own plain = {0};
    plb_status status = plain_weights_desc(s, &plain);
    if (!status) {
        status = s->kind == PLB_DNNL_WEIGHT_GRAD
                     ? prepare_weight_result(p, plb_md_of(&plain), theirs)
                     : prepare_packing(p, s, plb_md_of(&plain), theirs);
    }
    plb_md_free(&plain);
    return status;
}

static plb_status make_memories(plb_dnnl *p, const plb_dnnl_spec *s) {
    plb_md scratch = query(p, dnnl_query_scratchpad_md);
    p->scratch_bytes = dnnl_memory_desc_get_size(scratch);
    if (p->scratch_bytes) PLB_TRY(memory_of(scratch, &p->scratch));
    dnnl_query_t first = dnnl_query_src_md, second = dnnl_query_weights_md;
    dnnl_query_t result = dnnl_query_dst_md;
    if (s->kind == PLB_DNNL_INPUT_GRAD) {
        first = dnnl_query_diff_dst_md, result = dnnl_query_diff_src_md;
    } else if (s->kind == PLB_DNNL_WEIGHT_GRAD) {
        second = dnnl_query_diff_dst_md, result = dnnl_query_diff_weights_md;
    }
    PLB_TRY(memory_of(query(p, first), &p->first));
    PLB_TRY(memory_of(query(p, second), &p->second));
    if (s->bias) {
        PLB_TRY(
            memory_of(dnnl_primitive_desc_query_md(p->desc, dnnl_query_weights_md, 1), &p->bias));
    }
    if (s->kind == PLB_DNNL_WEIGHT_GRAD) return prepare_weights(p, s, query(p, result));
    PLB_TRY(memory_of(query(p, result), &p->result));
    return prepare_weights(p, s, query(p, second));
}

// ---------------------------------------------------------------------------- the interface
static plb_status make(plb_dnnl *p, const plb_dnnl_spec *spec) {
    dnnl_primitive_attr_t attr;
    PLB_TRY(check(dnnl_primitive_attr_create(&attr), "attributes"));
    dnnl_status_t mode = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    plb_status status = check(mode, "attributes");
    if (!status) status = add_epilogue(attr, spec);
    if (!status && spec->int8) status = add_int8(attr, spec);
    operands o = {0};
    if (!status) {
        status = spec->kind == PLB_DNNL_MATMUL ? matmul_desc(spec, attr, &o, p)
                                               : conv_desc(spec, attr, &o, p);
    }
    free_operands(&o);
    dnnl_primitive_attr_destroy(attr);
    PLB_TRY(status);
    const char *text = "";
    dnnl_primitive_desc_query(p->desc, dnnl_query_impl_info_str, 0, &text);
    snprintf(p->implementation, sizeof p->implementation, "%s", text);
    PLB_TRY(check(dnnl_primitive_create(&p->primitive, p->desc), "a primitive"));
    return make_memories(p, spec);
}

bool plb_dnnl_has_int8(void) {
    return plb_dnnl_int8_isa(dnnl_get_effective_cpu_isa());
}

plb_status plb_dnnl_new(const plb_dnnl_spec *spec, plb_dnnl **out) {
    *out = NULL;
    pthread_once(&engine_once, open_engine);
    PLB_TRY(check(engine_status, "engine"));
    plb_dnnl *p = plb_alloc(sizeof *p);
    if (!p) return plb_fail(PLB_ENOMEM, "out of memory for a primitive");
    plb_status status = make(p, spec);
    if (status) {
        plb_dnnl_free(p);
        return status;
    }
    *out = p;
    return PLB_OK;
}

void plb_dnnl_free(plb_dnnl *p) {
    if (!p) return;
    dnnl_memory_t memories[] = {p->first,   p->second,        p->bias,         p->result,
                                p->scratch, p->plain_weights, p->packed_result};
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++) {
        if (memories[i]) dnnl_memory_destroy(memories[i]);
    }
    if (p->pack) dnnl_primitive_destroy(p->pack);
    if (p->unpack) dnnl_primitive_destroy(p->unpack);
    if (p->primitive) dnnl_primitive_destroy(p->primitive);
    if (p->desc) dnnl_primitive_desc_destroy(p->desc);
    plb_free(p);
}

size_t plb_dnnl_workspace_bytes(const plb_dnnl *p) {
    return p->result_bytes + p->scratch_bytes;
}

size_t plb_dnnl_packed_bytes(const plb_dnnl *p) {
    return p->packed_bytes;
}

const char *plb_dnnl_implementation(const plb_dnnl *p) {
    return p->implementation;
}

static plb_status reorder(dnnl_primitive_t primitive, dnnl_memory_t from, dnnl_memory_t to) {
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    return check(dnnl_primitive_execute(primitive, stream, 2, args), "reorder");
}

plb_status plb_dnnl_pack(plb_dnnl *p, const void *plain, void *packed) {
    dnnl_memory_set_data_handle(p->plain_weights, (void *)plain);
    dnnl_memory_set_data_handle(p->second, packed);
    return reorder(p->pack, p->plain_weights, p->second);
}

static bool is_weight_grad(const plb_dnnl *p) {
    dnnl_primitive_kind_t kind;
    dnnl_prop_kind_t prop = dnnl_prop_kind_undef;
    dnnl_primitive_desc_query(p->desc, dnnl_query_primitive_kind, 0, &kind);
    if (kind == dnnl_convolution)
        dnnl_primitive_desc_query(p->desc, dnnl_query_prop_kind, 0, &prop);
    return prop == dnnl_backward_weights;
}

static int arguments(const plb_dnnl *p, dnnl_exec_arg_t args[MAX_ARGS]) {
    dnnl_prop_kind_t prop = dnnl_prop_kind_undef;
    dnnl_primitive_kind_t kind;
    dnnl_primitive_desc_query(p->desc, dnnl_query_primitive_kind, 0, &kind);
    if (kind == dnnl_convolution)
        dnnl_primitive_desc_query(p->desc, dnnl_query_prop_kind, 0, &prop);
    int n = 0;
    if (prop == dnnl_backward_data) {
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_DIFF_DST, p->first};
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, p->second};
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_DIFF_SRC, p->result};
    } else if (prop == dnnl_backward_weights) {
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SRC, p->first};
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_DIFF_DST, p->second};
        dnnl_memory_t made = p->unpack ? p->packed_result : p->result;
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_DIFF_WEIGHTS, made};
    } else {
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SRC, p->first};
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, p->second};
        args[n++] = (dnnl_exec_arg_t){DNNL_ARG_DST, p->result};
    }
    if (p->bias) args[n++] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, p->bias};
    if (p->scratch_bytes) args[n++] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, p->scratch};
    return n;
}

plb_status plb_dnnl_run(plb_dnnl *p, const plb_dnnl_args *a) {
    dnnl_exec_arg_t args[MAX_ARGS];
    dnnl_memory_set_data_handle(p->first, (void *)a->first);
    dnnl_memory_set_data_handle(p->second, (void *)a->second);
    dnnl_memory_set_data_handle(p->result, a->result);
    if (p->bias) dnnl_memory_set_data_handle(p->bias, (void *)a->bias);
    if (p->unpack) dnnl_memory_set_data_handle(p->packed_result, a->workspace);
    if (p->scratch) {
        dnnl_memory_set_data_handle(p->scratch, (char *)a->workspace + p->result_bytes);
    }
    int n = arguments(p, args);
    PLB_TRY(check(dnnl_primitive_execute(p->primitive, stream, n, args), "a primitive"));
    if (p->unpack && is_weight_grad(p)) return reorder(p->unpack, p->packed_result, p->result);
    return PLB_OK;
}

// The library takes a team wherever it is not in one, for a product of a microsecond too.
plb_status plb_dnnl_product(const plb_dnnl_gemm *g) {
    const int threads = omp_get_max_threads();
    const bool fewer = g->alone && threads > 1 && !omp_in_parallel();
    if (fewer) omp_set_num_threads(1);
    const dnnl_status_t status =
        dnnl_sgemm(g->trans_a ? 'T' : 'N', g->trans_b ? 'T' : 'N', g->m, g->n, g->k, g->alpha, g->a,
                   g->lda, g->b, g->ldb, g->beta, g->c, g->ldc);
    if (fewer) omp_set_num_threads(threads);
    return check(status, "a product");
}

#else

const char *plb_dnnl_version(void) {
    return "no-dnnl";
}

bool plb_dnnl_has_int8(void) {
    return false;
}

static plb_status absent(void) {
    return plb_fail(PLB_EUNSUPPORTED, "built without oneDNN");
}

plb_status plb_dnnl_new(const plb_dnnl_spec *spec, plb_dnnl **out) {
    (void)spec;
    *out = NULL;
    return absent();
}

void plb_dnnl_free(plb_dnnl *p) {
    (void)p;
}

size_t plb_dnnl_workspace_bytes(const plb_dnnl *p) {
    (void)p;
    return 0;
}

size_t plb_dnnl_packed_bytes(const plb_dnnl *p) {
    (void)p;
    return 0;
}

const char *plb_dnnl_implementation(const plb_dnnl *p) {
    (void)p;
    return "";
}

plb_status plb_dnnl_pack(plb_dnnl *p, const void *plain, void *packed) {
    (void)p, (void)plain, (void)packed;
    return absent();
}

plb_status plb_dnnl_run(plb_dnnl *p, const plb_dnnl_args *args) {
    (void)p, (void)args;
    return absent();
}

plb_status plb_dnnl_product(const plb_dnnl_gemm *g) {
    for (int64_t i = 0; i < g->m; i++) {
        float *c = g->c + i * g->ldc;
        for (int64_t j = 0; j < g->n; j++) c[j] = g->beta == 0 ? 0 : g->beta * c[j];
        for (int64_t l = 0; l < g->k; l++) {
            const float a = g->alpha * g->a[g->trans_a ? l * g->lda + i : i * g->lda + l];
            const float *b = g->trans_b ? g->b + l : g->b + l * g->ldb;
            const int64_t step = g->trans_b ? g->ldb : 1;
            for (int64_t j = 0; j < g->n; j++) c[j] += a * b[j * step];
        }
    }
    return PLB_OK;
}
#endif
