// SPDX-License-Identifier: Apache-2.0
// Dropout (Srivastava et al. 2014), inverted: y = x / (1 - p) with probability 1 - p, else 0. The
// mask is a function of the random state and the node's id, so it is never stored: the gradient is
// dropout of dy with the same state and id. `channels` drops whole channels of x[N,C,…] (Tompson
// et al. 2015), for which element n C + c of the sequence decides.
#include "base/core/status.h"
#include "engine/graph/graph.h"
#include "engine/ops/random.h"

static plb_status infer(plb_signature *s) {
    const plb_random_attrs *a = s->attrs;
    if (!plb_dtype_is_float(s->in[0].dtype)) return plb_fail(PLB_EINVAL, "dropout: floats only");
    if (!(a->p >= 0 && a->p <= 1)) {
        return plb_fail(PLB_EINVAL, "dropout: expected a probability, found %g", a->p);
    }
    if (a->channels && s->in[0].shape.rank < 2) {
        return plb_fail(PLB_EINVAL, "dropout of channels: expected [N,C,…]");
    }
    PLB_TRY(plb_random_check_state(&s->in[1], "dropout"));
    s->out[0] = s->in[0];
    return PLB_OK;
}

static plb_status ref(const plb_call *call) {
    const plb_random_attrs *a = call->attrs;
    const plb_tensor *x = &call->in[0];
    plb_tensor *y = &call->out[0];
    const uint64_t *state = call->in[1].data;
    int64_t count = plb_shape_count(&x->shape), of_channel = 1;
    for (int i = 2; i < x->shape.rank && a->channels; i++) of_channel *= x->shape.dim[i];
    double scale = a->p < 1 ? 1 / (1 - a->p) : 0;
    for (int64_t i = 0; i < count; i++) {
        uint32_t word = plb_random_word(state, a->id, (uint64_t)(i / of_channel));
        bool keep = (double)plb_uniform_f32(word) >= a->p;
        double value = plb_load_f64(x->data, x->dtype, plb_tensor_offset_linear(x, i));
        plb_store_f64(y->data, y->dtype, plb_tensor_offset_linear(y, i), keep ? value * scale : 0);
    }
    return PLB_OK;
}

static void grad(plb_graph *graph, int node, const plb_value *dout, const bool *needed,
                 plb_value *din) {
    plb_value in[] = {dout[0], plb_node_in(graph, node, 1)};
    if (needed[0]) din[0] = plb_emit(graph, PLB_OP_dropout, in, 2, plb_node_attrs(graph, node));
}

static void describe(const void *attrs, plb_strbuf *text) {
    const plb_random_attrs *a = attrs;
    plb_strbuf_printf(text, "\"p\":%.17g,\"channels\":%s,\"id\":%lld", a->p,
                      a->channels ? "true" : "false", (long long)a->id);
}

#define STATE PLB_TYPE_OF(PLB_U64, 2)
static const plb_random_attrs half = {.p = 0.5, .id = 1}, few = {.p = 0.1, .id = 2},
                              never = {.p = 0, .id = 3}, always = {.p = 1, .id = 4},
                              channels = {.p = 0.4, .id = 5, .channels = 1};
#define CASE(title, settings, ...)                                                                \
    {                                                                                             \
        .name = title, .in = {PLB_T(__VA_ARGS__), STATE}, .n_in = 2, .attrs = settings, .high = { \
            0,                                                                                    \
            1000                                                                                  \
        }                                                                                         \
    }
static const plb_sample samples[] = {
    CASE("half", &half, 4, 9),
    CASE("few", &few, 37),
    CASE("never", &never, 3, 2),
    CASE("always", &always, 5),
    CASE("channels", &channels, 3, 5, 2, 2),
    CASE("empty", &half, 0, 3),
};

const plb_op plb_op_dropout = {.name = "dropout",
                               .flags = PLB_OP_RANDOM | PLB_OP_FOLLOWS,
                               .attrs_bytes = sizeof(plb_random_attrs),
                               .types_at = 1 + offsetof(plb_random_attrs, type),
                               .n_types = 1,
                               .min_in = 2,
                               .max_in = 2,
                               .overwrites = {{0, 0}},
                               .n_overwrites = 1,
                               .infer = infer,
                               .grad = grad,
                               .ref = ref,
                               .describe = describe,
                               PLB_SAMPLES(samples)};

static plb_value dropout(plb_graph *graph, plb_value x, double p, bool of_channels) {
    if (!plb_graph_training(graph) || p == 0) return x;
    plb_value in[] = {x, plb_random_state(graph)};
    plb_random_attrs attrs = {.p = p, .id = graph->next_random++, .channels = of_channels};
    return plb_emit(graph, PLB_OP_dropout, in, 2, &attrs);
}

plb_value plb_dropout(plb_graph *graph, plb_value x, double p) {
    return dropout(graph, x, p, false);
}

plb_value plb_dropout_channels(plb_graph *graph, plb_value x, double p) {
    return dropout(graph, x, p, true);
}
