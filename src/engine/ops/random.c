// SPDX-License-Identifier: Apache-2.0
// Random numbers as values: a state variable that one assign a program advances, and ops that map
// the state to numbers.
#include "engine/ops/random.h"

#include <math.h>

#include "base/core/status.h"
#include "engine/graph/graph.h"

plb_status plb_random_check_state(const plb_type *type, const char *op) {
    if (type->dtype == PLB_U64 && type->shape.rank == 1 && type->shape.dim[0] == 2) return PLB_OK;
    char text[160];
    return plb_fail(PLB_EINVAL, "%s: expected a random state u64 [2], found %s %s", op,
                    plb_dtype_name(type->dtype), plb_shape_format(&type->shape, text, sizeof text));
}

static plb_status infer(plb_signature *s) {
    const plb_random_attrs *a = s->attrs;
    PLB_TRY(plb_random_check_state(&s->in[0], "random"));
    if (!plb_dtype_is_float(a->type.dtype)) return plb_fail(PLB_EINVAL, "random: floats only");
    s->out[0] = a->type;
    return PLB_OK;
}

double plb_uniform_most(plb_dtype dtype, double low, double high) {
    if (!(low < high) || !plb_dtype_is_float(dtype)) return INFINITY;
    uint64_t bits = 0; // little-endian: a narrower number's are the lowest
    plb_store_f64(&bits, dtype, 0, high);
    if (plb_load_f64(&bits, dtype, 0) < high) return plb_load_f64(&bits, dtype, 0);
    const uint64_t sign = UINT64_C(1) << (8 * plb_dtype_size(dtype) - 1);
    if (bits & ~sign) {
        bits = bits & sign ? bits + 1 : bits - 1;
    } else {
        bits = sign | 1; // the next below zero
    }
    return plb_load_f64(&bits, dtype, 0);
}

bool plb_uniform_reaches(plb_dtype dtype, double low, double high) {
    return low + (high - low) * (1 - 0x1p-24) > plb_uniform_most(dtype, low, high);
}

static plb_status uniform_ref(const plb_call *call) {
    const plb_random_attrs *a = call->attrs;
    const uint64_t *state = call->in[0].data;
    plb_tensor *y = &call->out[0];
    int64_t count = plb_shape_count(&y->shape);
    // As many bits as the dtype keeps, so that in [0, 1) rounding never makes a 1.
    int bits = y->dtype == PLB_BF16 ? 8 : y->dtype == PLB_F16 ? 11 : 24;
    const double most = plb_uniform_most(y->dtype, a->low, a->high);
    for (int64_t i = 0; i < count; i++) {
        uint32_t word = plb_random_word(state, a->id, (uint64_t)i) >> (32 - bits) << (32 - bits);
        double value = a->low + (a->high - a->low) * (double)plb_uniform_f32(word);
        plb_store_f64(y->data, y->dtype, plb_tensor_offset_linear(y, i),
                      value > most ? most : value);
    }
    return PLB_OK;
}

// Box, Muller: "A Note on the Generation of Random Normal Deviates", 1958. Elements 2i and 2i + 1
// are the cosine and the sine of one pair of words.
static double normal(const uint64_t *state, int64_t id, uint64_t element) {
    uint64_t pair = element & ~(uint64_t)1;
    double radius = sqrt(-2 * log(plb_uniform_open(plb_random_word(state, id, pair))));
    double angle = 6.283185307179586 * plb_uniform_open(plb_random_word(state, id, pair + 1));
    return radius * (element & 1 ? sin(angle) : cos(angle));
}

static plb_status normal_ref(const plb_call *call) {
    const plb_random_attrs *a = call->attrs;
    const uint64_t *state = call->in[0].data;
    plb_tensor *y = &call->out[0];
    int64_t count = plb_shape_count(&y->shape);
    for (int64_t i = 0; i < count; i++) {
        plb_store_f64(y->data, y->dtype, plb_tensor_offset_linear(y, i),
                      a->low + a->high * normal(state, a->id, (uint64_t)i));
    }
    return PLB_OK;
}

static void describe(const void *attrs, plb_strbuf *text) {
    const plb_random_attrs *a = attrs;
    plb_strbuf_printf(text, "\"low\":%.17g,\"high\":%.17g,\"id\":%lld", a->low, a->high,
                      (long long)a->id);
}

#define STATE PLB_TYPE_OF(PLB_U64, 2)
static const plb_random_attrs unit = {.high = 1, .id = 3, .type = PLB_T(5, 7)};
static const plb_random_attrs wide = {.low = -2, .high = 5, .id = 4, .type = PLB_T(3)};
static const plb_random_attrs none = {.high = 1, .type = PLB_T(0, 4)};
#define CASES                                                                   \
    {.name = "unit",                                                            \
     .in = {STATE},                                                             \
     .n_in = 1,                                                                 \
     .attrs = &unit,                                                            \
     .high = {1000},                                                            \
     .no_gradient = true,                                                       \
     .f32_only = true},                                                         \
        {.name = "wide",                                                        \
         .in = {STATE},                                                         \
         .n_in = 1,                                                             \
         .attrs = &wide,                                                        \
         .high = {1000},                                                        \
         .no_gradient = true,                                                   \
         .f32_only = true},                                                     \
    {                                                                           \
        .name = "empty", .in = {STATE}, .n_in = 1, .attrs = &none, .high = {9}, \
        .no_gradient = true, .f32_only = true                                   \
    }
static const plb_sample samples[] = {CASES};

const plb_op plb_op_random_uniform = {.name = "random_uniform",
                                      .flags = PLB_OP_RANDOM | PLB_OP_NO_GRAD,
                                      .attrs_bytes = sizeof(plb_random_attrs),
                                      .types_at = 1 + offsetof(plb_random_attrs, type),
                                      .n_types = 1,
                                      .min_in = 1,
                                      .max_in = 1,
                                      .infer = infer,
                                      .ref = uniform_ref,
                                      .describe = describe,
                                      PLB_SAMPLES(samples)};
const plb_op plb_op_random_normal = {.name = "random_normal",
                                     .flags = PLB_OP_RANDOM | PLB_OP_NO_GRAD,
                                     .attrs_bytes = sizeof(plb_random_attrs),
                                     .types_at = 1 + offsetof(plb_random_attrs, type),
                                     .n_types = 1,
                                     .min_in = 1,
                                     .max_in = 1,
                                     .infer = infer,
                                     .ref = normal_ref,
                                     .describe = describe,
                                     PLB_SAMPLES(samples)};

// One read a program, so that all its random nodes see one state; the assign behind it advances
// the step for the next run.
plb_value plb_random_state(plb_graph *graph) {
    if (graph->status || graph->random_state > 0) return graph->random_state - 1;
    plb_scope_enter(graph, "");
    plb_value state = plb_param(graph, "random", PLB_U64, &plb_shape_of(2), PLB_ROLE_STATE,
                                (plb_init){.kind = PLB_INIT_SEED});
    plb_value next =
        plb_add(graph, state, plb_constant(graph, PLB_U64, &plb_shape_of(2), (uint64_t[]){0, 1}));
    plb_assign(graph, plb_value_variable(graph, state), next);
    plb_scope_pop(graph);
    if (!graph->status) graph->random_state = state + 1;
    return state;
}

static plb_value draw(plb_graph *graph, plb_op_id op, plb_dtype dtype, const plb_shape *shape,
                      double low, double high) {
    plb_value state = plb_random_state(graph);
    plb_random_attrs attrs = {
        .low = low, .high = high, .id = graph->next_random++, .type = {dtype, *shape}};
    return plb_emit(graph, op, &state, 1, &attrs);
}

plb_value plb_random_uniform(plb_graph *graph, plb_dtype dtype, const plb_shape *shape, double low,
                             double high) {
    return draw(graph, PLB_OP_random_uniform, dtype, shape, low, high);
}

plb_value plb_random_normal(plb_graph *graph, plb_dtype dtype, const plb_shape *shape, double mean,
                            double deviation) {
    return draw(graph, PLB_OP_random_normal, dtype, shape, mean, deviation);
}
