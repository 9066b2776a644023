// SPDX-License-Identifier: Apache-2.0
#include "engine/device/cuda/conv_spec.h"

#include <string.h>

#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "engine/device/cuda/cudnn.h"

bool plb_conv_without_tensor_cores(const plb_conv_spec *s) {
    return s->dtype == PLB_F32 && !s->tf32;
}

// Padding behind that no window reads in full says nothing: where as much as in front gives the
// same outputs, the library is told that, since few of its engines pad one side alone.
static void even_padding(plb_conv_shape *s) {
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        int64_t reach = s->dilation[i] * (s->kernel[i] - 1) + 1;
        int64_t padded = s->in[i] + 2 * s->pad[i];
        bool same = padded >= reach && (padded - reach) / s->stride[i] + 1 == s->out[i];
        if (same) s->pad_end[i] = s->pad[i];
    }
}

// What is more on one side than on the other becomes a margin of x: several engines, for all three
// ops, take padding that they are told to be uneven for even, and some write past their results.
static void uneven_padding(plb_conv_spec *spec) {
    plb_conv_shape *s = &spec->shape;
    for (int i = 0; i < PLB_MAX_SPATIAL; i++) {
        const int64_t both = s->pad[i] < s->pad_end[i] ? s->pad[i] : s->pad_end[i];
        spec->margins |= s->pad[i] != s->pad_end[i];
        spec->margin[i] = s->pad[i] - both;
        s->in[i] += s->pad[i] + s->pad_end[i] - 2 * both;
        s->pad[i] = s->pad_end[i] = both;
    }
}

plb_status plb_conv_spec_of(const plb_query *q, plb_conv_spec *out) {
    const plb_conv_attrs *attrs = q->attrs;
    *out =
        (plb_conv_spec){.op = q->op,
                        .dtype = q->out[0].dtype,
                        .layout = q->in[0].layout.kind,
                        .bias = q->op == PLB_OP_conv && plb_operand_given(q, PLB_IN_BIAS),
                        .residual = q->op == PLB_OP_conv && plb_operand_given(q, PLB_IN_RESIDUAL),
                        .deterministic = q->deterministic,
                        .no_winograd = q->no_winograd};
    out->tf32 = q->math == PLB_MATH_TF32 && out->dtype == PLB_F32;
    if (q->op == PLB_OP_conv) out->epilogue = attrs->epilogue;
    PLB_TRY(plb_conv_shape_of(q->op, &q->in[0].shape, &q->in[1].shape, attrs, &out->shape));
    even_padding(&out->shape);
    uneven_padding(out);
    return PLB_OK;
}

static void append_axes(plb_strbuf *text, const char *name, const int64_t *axes) {
    plb_strbuf_printf(text, " %s=%lld,%lld,%lld", name, (long long)axes[0], (long long)axes[1],
                      (long long)axes[2]);
}

plb_status plb_conv_key_of(const plb_device *device, const plb_conv_spec *s,
                           char key[PLB_CONV_KEY_BYTES]) {
    const plb_conv_shape *c = &s->shape;
    plb_strbuf text = {0};
    plb_strbuf_printf(&text, "%s %s %s %s l%d axes=%d n=%lld c=%lld k=%lld g=%lld",
                      plb_cudnn_version(), device->fingerprint, plb_op_of(s->op)->name,
                      plb_dtype_name(s->dtype), (int)s->layout, c->axes, (long long)c->n,
                      (long long)c->c, (long long)c->k, (long long)c->groups);
    append_axes(&text, "in", c->in), append_axes(&text, "w", c->kernel);
    append_axes(&text, "s", c->stride), append_axes(&text, "d", c->dilation);
    append_axes(&text, "p", c->pad), append_axes(&text, "e", c->pad_end);
    plb_strbuf_printf(&text, " b%d r%d act=%d,%.17g,%.17g tf32=%d det=%d win=%d", s->bias,
                      s->residual, (int)s->epilogue.activation, s->epilogue.alpha, s->epilogue.beta,
                      s->tf32, s->deterministic, !s->no_winograd);
    bool fits = !text.failed && text.length < PLB_CONV_KEY_BYTES;
    if (fits) memcpy(key, text.text, text.length + 1);
    plb_strbuf_free(&text);
    return fits ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a convolution's key");
}
