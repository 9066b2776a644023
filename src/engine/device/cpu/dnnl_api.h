// SPDX-License-Identifier: Apache-2.0
// One face of oneDNN's C API for the versions 2.x and 3.x. Version 2 has memory descriptions that
// are plain values, and describes an operation first and a primitive of it second; version 3 has
// descriptions that somebody owns, and does both in one call. For the adapter alone.
#ifndef PLB_ENGINE_DEVICE_CPU_DNNL_API_H
#define PLB_ENGINE_DEVICE_CPU_DNNL_API_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

// Of a convolution, as the library takes them: dilation 0 is dense.
typedef struct plb_dnnl_window {
    dnnl_dims_t stride, dilation, pad_begin, pad_end;
} plb_dnnl_window;

#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t plb_md; // borrowed
typedef struct plb_md_own {
    dnnl_memory_desc_t desc; // NULL: none
} plb_md_own;

static inline plb_md plb_md_of(const plb_md_own *own) {
    return own->desc;
}

static inline void plb_md_free(plb_md_own *own) {
    if (own->desc) dnnl_memory_desc_destroy(own->desc);
    own->desc = NULL;
}

static inline dnnl_status_t plb_md_by_tag(plb_md_own *out, int rank, const dnnl_dims_t dims,
                                          dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return dnnl_memory_desc_create_with_tag(&out->desc, rank, dims, type, tag);
}

static inline dnnl_status_t plb_md_by_strides(plb_md_own *out, int rank, const dnnl_dims_t dims,
                                              dnnl_data_type_t type, const dnnl_dims_t strides) {
    return dnnl_memory_desc_create_with_strides(&out->desc, rank, dims, type, strides);
}

static inline dnnl_status_t plb_dnnl_append_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef);
}

static inline dnnl_status_t plb_dnnl_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind,
                                                    float alpha, float beta) {
    return dnnl_post_ops_append_eltwise(ops, kind, alpha, beta);
}

static inline dnnl_status_t plb_dnnl_forward(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                             plb_md x, plb_md w, plb_md bias, plb_md y,
                                             const plb_dnnl_window *d, dnnl_primitive_attr_t attr) {
    return dnnl_convolution_forward_primitive_desc_create(
        out, engine, dnnl_forward_training, dnnl_convolution_direct, x, w, bias, y, d->stride,
        d->dilation, d->pad_begin, d->pad_end, attr);
}

static inline dnnl_status_t plb_dnnl_backward_data(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                   plb_md dx, plb_md w, plb_md dy,
                                                   const plb_dnnl_window *d,
                                                   dnnl_primitive_desc_t hint,
                                                   dnnl_primitive_attr_t attr) {
    return dnnl_convolution_backward_data_primitive_desc_create(
        out, engine, dnnl_convolution_direct, dx, w, dy, d->stride, d->dilation, d->pad_begin,
        d->pad_end, hint, attr);
}

static inline dnnl_status_t plb_dnnl_backward_weights(dnnl_primitive_desc_t *out,
                                                      dnnl_engine_t engine, plb_md x, plb_md dw,
                                                      plb_md dy, const plb_dnnl_window *d,
                                                      dnnl_primitive_desc_t hint,
                                                      dnnl_primitive_attr_t attr) {
    return dnnl_convolution_backward_weights_primitive_desc_create(
        out, engine, dnnl_convolution_direct, x, dw, NULL, dy, d->stride, d->dilation, d->pad_begin,
        d->pad_end, hint, attr);
}

static inline dnnl_status_t plb_dnnl_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                            plb_md a, plb_md b, plb_md bias, plb_md c,
                                            dnnl_primitive_attr_t attr) {
    return dnnl_matmul_primitive_desc_create(out, engine, a, b, bias, c, attr);
}

// Version 3 scales operands where version 2 scales results, bias included: products of integers
// are left out with it.
static inline bool plb_dnnl_int8_isa(dnnl_cpu_isa_t isa) {
    (void)isa;
    return false;
}

static inline dnnl_status_t plb_dnnl_set_scales(dnnl_primitive_attr_t attr, dnnl_dim_t n, int mask,
                                                const float *scales) {
    (void)attr, (void)n, (void)mask, (void)scales;
    return dnnl_unimplemented;
}

static inline dnnl_status_t plb_dnnl_set_zero(dnnl_primitive_attr_t attr, const int32_t *zero) {
    (void)attr, (void)zero;
    return dnnl_unimplemented;
}

#else
typedef const dnnl_memory_desc_t *plb_md; // borrowed
typedef struct plb_md_own {
    dnnl_memory_desc_t desc; // no dimensions: none
} plb_md_own;

static inline plb_md plb_md_of(const plb_md_own *own) {
    return own->desc.ndims ? &own->desc : NULL;
}

static inline void plb_md_free(plb_md_own *own) {
    own->desc.ndims = 0;
}

static inline dnnl_status_t plb_md_by_tag(plb_md_own *out, int rank, const dnnl_dims_t dims,
                                          dnnl_data_type_t type, dnnl_format_tag_t tag) {
    return dnnl_memory_desc_init_by_tag(&out->desc, rank, dims, type, tag);
}

static inline dnnl_status_t plb_md_by_strides(plb_md_own *out, int rank, const dnnl_dims_t dims,
                                              dnnl_data_type_t type, const dnnl_dims_t strides) {
    return dnnl_memory_desc_init_by_strides(&out->desc, rank, dims, type, strides);
}

static inline dnnl_status_t plb_dnnl_append_sum(dnnl_post_ops_t ops) {
    return dnnl_post_ops_append_sum(ops, 1);
}

static inline dnnl_status_t plb_dnnl_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind,
                                                    float alpha, float beta) {
    return dnnl_post_ops_append_eltwise(ops, 1, kind, alpha, beta);
}

static inline dnnl_status_t plb_dnnl_forward(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                             plb_md x, plb_md w, plb_md bias, plb_md y,
                                             const plb_dnnl_window *d, dnnl_primitive_attr_t attr) {
    dnnl_convolution_desc_t desc;
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &desc, dnnl_forward_training, dnnl_convolution_direct, x, w, bias, y, d->stride,
        d->dilation, d->pad_begin, d->pad_end);
    return status ? status : dnnl_primitive_desc_create(out, &desc, attr, engine, NULL);
}

static inline dnnl_status_t plb_dnnl_backward_data(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                   plb_md dx, plb_md w, plb_md dy,
                                                   const plb_dnnl_window *d,
                                                   dnnl_primitive_desc_t hint,
                                                   dnnl_primitive_attr_t attr) {
    dnnl_convolution_desc_t desc;
    dnnl_status_t status = dnnl_dilated_convolution_backward_data_desc_init(
        &desc, dnnl_convolution_direct, dx, w, dy, d->stride, d->dilation, d->pad_begin,
        d->pad_end);
    return status ? status : dnnl_primitive_desc_create(out, &desc, attr, engine, hint);
}

static inline dnnl_status_t plb_dnnl_backward_weights(dnnl_primitive_desc_t *out,
                                                      dnnl_engine_t engine, plb_md x, plb_md dw,
                                                      plb_md dy, const plb_dnnl_window *d,
                                                      dnnl_primitive_desc_t hint,
                                                      dnnl_primitive_attr_t attr) {
    dnnl_convolution_desc_t desc;
    dnnl_status_t status = dnnl_dilated_convolution_backward_weights_desc_init(
        &desc, dnnl_convolution_direct, x, dw, NULL, dy, d->stride, d->dilation, d->pad_begin,
        d->pad_end);
    return status ? status : dnnl_primitive_desc_create(out, &desc, attr, engine, hint);
}

static inline dnnl_status_t plb_dnnl_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                            plb_md a, plb_md b, plb_md bias, plb_md c,
                                            dnnl_primitive_attr_t attr) {
    dnnl_matmul_desc_t desc;
    dnnl_status_t status = dnnl_matmul_desc_init(&desc, a, b, bias, c);
    return status ? status : dnnl_primitive_desc_create(out, &desc, attr, engine, NULL);
}

// Whether products of 8-bit integers neither overflow nor lose to f32.
static inline bool plb_dnnl_int8_isa(dnnl_cpu_isa_t isa) {
    return isa == dnnl_cpu_isa_avx2_vnni || isa == dnnl_cpu_isa_avx512_core_vnni ||
           isa == dnnl_cpu_isa_avx512_core_bf16 || isa == dnnl_cpu_isa_avx512_core_amx;
}

// Of the result, bias included; `mask`: bit of the axis along which there are n.
static inline dnnl_status_t plb_dnnl_set_scales(dnnl_primitive_attr_t attr, dnnl_dim_t n, int mask,
                                                const float *scales) {
    return dnnl_primitive_attr_set_output_scales(attr, n, mask, scales);
}

// Of the first operand.
static inline dnnl_status_t plb_dnnl_set_zero(dnnl_primitive_attr_t attr, const int32_t *zero) {
    return dnnl_primitive_attr_set_zero_points(attr, DNNL_ARG_SRC, 1, 0, zero);
}
#endif

#endif
