// SPDX-License-Identifier: Apache-2.0
// Every op of the table × sample × dtype, with no code for any op: what infer promises and ref
// writes, ref in narrow dtypes against ref in f64, gradients of first and second order against
// finite differences, and everything against numbers that PyTorch computed (golden/ops.json,
// written by tools/torch_ops from what `test_ops --dump FILE` writes).
#include <jansson.h>

#include "op_case.h"
#include "op_graph.h"

enum { PATTERN = 0xa5, OTHER_PATTERN = 0x5a };

static const plb_dtype dtypes[] = {PLB_F32, PLB_F64, PLB_F16, PLB_BF16};
enum { N_DTYPES = sizeof dtypes / sizeof *dtypes };

static const char *label(const op_case *c) { // until the next call
    static char text[160];
    snprintf(text, sizeof text, "%s, %s, %s", c->op->name, c->sample->name,
             plb_dtype_name(c->dtype));
    return text;
}

// Calls `check` for every case of every op. PLB_TEST_OP=name: of that op alone.
static void each_case(plb_dtype dtype, void (*check)(op_case *c)) {
    const char *only = getenv("PLB_TEST_OP");
    for (int id = 0; id < PLB_OP_COUNT; id++) {
        const plb_op *op = plb_op_of((plb_op_id)id);
        if (!op || (only && strcmp(only, op->name) != 0)) continue;
        for (int i = 0; i < op->n_samples; i++) {
            if (!op_case_exists(&op->samples[i], dtype)) continue;
            op_case c;
            plb_status status = op_case_open(&c, (plb_op_id)id, &op->samples[i], dtype, PATTERN);
            CHECK_SAY(!status, "%s: %s", label(&c), plb_error_text());
            if (!status) check(&c);
            op_case_close(&c);
        }
    }
}

// ---------------------------------------------------------------------------- the table
// Ops that no case of one node can show: they own regions.
static bool owns_regions(plb_op_id id) {
    return id == PLB_OP_if || id == PLB_OP_loop || id == PLB_OP_scan;
}

static void every_op_has_samples(void) {
    static const char *const names[] = {
#define PLB_OP(name) #name,
#include "engine/ops/ops.def"
#undef PLB_OP
    };
    for (int id = 0; id < PLB_OP_COUNT; id++) {
        const plb_op *op = plb_op_of((plb_op_id)id);
        if (owns_regions((plb_op_id)id)) continue;
        CHECK_SAY(op, "%s is in ops.def and has no table", names[id]);
        if (!op || (op->flags & PLB_OP_FRAME)) continue;
        CHECK_SAY(strcmp(op->name, names[id]) == 0, "%s calls itself %s", names[id], op->name);
        CHECK_SAY(op->n_samples > 0, "%s", names[id]);
        CHECK_SAY(op->infer && op->ref, "%s", names[id]);
        bool made_late = id == PLB_OP_reorder; // by passes after autodiff
        CHECK_SAY(op->grad || made_late || op->flags & (PLB_OP_NO_GRAD | PLB_OP_RANDOM),
                  "%s has no gradient and does not say so", names[id]);
    }
}

static bool names_differ(const plb_op *op) {
    for (int i = 0; i < op->n_samples; i++) {
        for (int k = 0; k < i; k++) {
            if (strcmp(op->samples[i].name, op->samples[k].name) == 0) return false;
        }
    }
    return true;
}

static char *attributes(const op_case *c) { // as a JSON object; free it
    plb_strbuf text = {0};
    plb_strbuf_printf(&text, "{");
    if (c->op->describe) c->op->describe(c->sample->attrs, &text);
    plb_strbuf_printf(&text, "}");
    char *copy = strdup(text.text);
    plb_strbuf_free(&text);
    return copy;
}

static void check_description(op_case *c) {
    char *text = attributes(c);
    for (char *at; (at = strstr(text, "-Infinity"));) memcpy(at, "-1       ", 9);
    for (char *at; (at = strstr(text, "Infinity"));) memcpy(at, "1       ", 8);
    json_error_t error;
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    CHECK_SAY(json, "%s: %s in %s", label(c), error.text, text);
    json_decref(json);
    free(text);
    CHECK_SAY(names_differ(c->op), "%s: two samples of one name", c->op->name);
}

static void attributes_are_json(void) {
    each_case(PLB_F32, check_description);
}

// ---------------------------------------------------------------------------- ref alone
static size_t bytes_of(const plb_tensor *t) {
    return plb_layout_bytes(&t->shape, t->dtype, t->layout);
}

// Two runs over memory with different contents: what differs was not written.
static void check_writes(op_case *c) {
    op_case again;
    CHECK_OK(op_case_open(&again, c->id, c->sample, c->dtype, OTHER_PATTERN));
    CHECK_OK(op_case_ref(c));
    CHECK_OK(op_case_ref(&again));
    for (int k = 0; k < c->n_out; k++) {
        CHECK_SAY(memcmp(c->out[k].data, again.out[k].data, bytes_of(&c->out[k])) == 0,
                  "%s: output %d is not written everywhere", label(c), k);
        CHECK_SAY(op_case_guarded(&c->out[k], PATTERN), "%s: output %d", label(c), k);
    }
    for (int k = 0; k < c->n_in; k++) {
        if (!c->in[k].data) continue;
        CHECK_SAY(memcmp(c->in[k].data, again.in[k].data, bytes_of(&c->in[k])) == 0,
                  "%s: input %d was written", label(c), k);
        CHECK_SAY(op_case_guarded(&c->in[k], PATTERN), "%s: input %d", label(c), k);
    }
    op_case_close(&again);
}

static void outputs_are_written_and_no_more(void) {
    for (int d = 0; d < N_DTYPES; d++) each_case(dtypes[d], check_writes);
}

// NaN in every float input: any result, but no crash and no stray write.
static void check_nan(op_case *c) {
    for (int k = 0; k < c->n_in; k++) {
        int64_t n = c->in[k].data ? plb_shape_count(&c->in[k].shape) : 0;
        for (int64_t i = 0; i < n && plb_dtype_is_float(c->in[k].dtype); i++) {
            plb_store_f64(c->in[k].data, c->in[k].dtype, i, NAN);
        }
    }
    CHECK_OK(op_case_ref(c));
    for (int k = 0; k < c->n_out; k++) CHECK(op_case_guarded(&c->out[k], PATTERN));
}

static void nan_inputs_do_no_harm(void) {
    for (int d = 0; d < N_DTYPES; d++) each_case(dtypes[d], check_nan);
}

static double greatest(const plb_tensor *t) {
    double max = 0;
    for (int64_t i = 0; i < plb_shape_count(&t->shape); i++) {
        max = fmax(max, fabs(plb_load_f64(t->data, t->dtype, i)));
    }
    return max;
}

static void check_close(const op_case *c, int k, const plb_tensor *found,
                        const plb_tensor *expected) {
    double eps = plb_dtype_epsilon(found->dtype), scale = greatest(expected);
    if (found->dtype == PLB_F16) scale = fmax(scale, 0x1p-14); // below, f16 loses digits
    for (int64_t i = 0; i < plb_shape_count(&found->shape); i++) {
        double a = plb_load_f64(found->data, found->dtype, i);
        double b = plb_load_f64(expected->data, expected->dtype, i);
        bool close = fabs(a - b) <= 8 * eps * scale || a == b || (isnan(a) && isnan(b));
        CHECK_SAY(close, "%s: output %d[%lld]: expected %.9g, found %.9g", label(c), k,
                  (long long)i, b, a);
        if (!close) return;
    }
}

// The same (rounded) inputs in f64 give the same up to a few roundings.
static void check_dtype(op_case *c) {
    op_case wide;
    CHECK_OK(op_case_open(&wide, c->id, c->sample, PLB_F64, PATTERN));
    for (int k = 0; k < c->n_in; k++) {
        if (c->in[k].data) CHECK_OK(plb_tensor_copy(&wide.in[k], &c->in[k]));
    }
    CHECK_OK(op_case_ref(c));
    CHECK_OK(op_case_ref(&wide));
    CHECK_SAY(c->n_out == wide.n_out, "%s", label(c));
    for (int k = 0; k < c->n_out; k++) {
        bool same = plb_shape_equal(&c->out_type[k].shape, &wide.out_type[k].shape);
        CHECK_SAY(same, "%s: output %d has another shape in f64", label(c), k);
        if (same) check_close(c, k, &c->out[k], &wide.out[k]);
    }
    op_case_close(&wide);
}

static void narrow_dtypes_follow_f64(void) {
    for (int d = 0; d < N_DTYPES; d++) {
        if (dtypes[d] == PLB_F64) continue;
        each_case(dtypes[d], check_dtype);
    }
}

// ---------------------------------------------------------------------------- gradients
static const double step = 1e-5;

// Derivative of the scalar `of` along the fixed direction of input k, by central differences.
static double difference(op_graph *g, plb_value of, int k) {
    double side[2];
    for (int i = 0; i < 2; i++) {
        op_graph_inputs(g, k, i ? step : -step);
        CHECK_OK(op_graph_run(g, of));
        side[i] = op_graph_scalar(g, of);
    }
    return (side[1] - side[0]) / (2 * step);
}

// The same from a gradient; *size: the sum of the terms' magnitudes.
static double directional(op_graph *g, plb_value gradient, int k, double *size) {
    double sum = 0;
    *size = 0;
    if (gradient == PLB_NONE) return 0;
    op_graph_inputs(g, -1, 0);
    CHECK_OK(op_graph_run(g, gradient));
    const double *data = g->value[gradient].data;
    for (int64_t i = 0; i < plb_shape_count(&g->value[gradient].shape); i++) {
        double term = data[i] * op_graph_number(g->c, OP_STREAM_DIRECTION + k, i);
        sum += term, *size += fabs(term);
    }
    return sum;
}

static bool differentiable(const op_case *c) {
    if (c->sample->no_gradient || c->op->flags & (PLB_OP_NO_GRAD | PLB_OP_FRAME)) return false;
    return c->op->grad != NULL;
}

static void check_order(op_case *c, bool second) {
    if (!differentiable(c)) return;
    op_graph g;
    plb_status status = op_graph_open(&g, c, second);
    CHECK_SAY(!status, "%s: %s", label(c), plb_error_text());
    plb_value of = second ? g.slope : g.loss;
    const plb_value *grad = second ? g.grad2 : g.grad;
    for (int k = 0; k < c->n_in && !status && of != PLB_NONE; k++) {
        if (!op_graph_wanted(c, k)) continue;
        double size, found = directional(&g, grad[k], k, &size), expected = difference(&g, of, k);
        double tolerance = (second ? 1e-5 : 1e-6) * (1 + size);
        CHECK_SAY(fabs(found - expected) <= tolerance,
                  "%s: %s of input %d: expected %.12g, found %.12g", label(c),
                  second ? "second derivative" : "gradient", k, expected, found);
        if (grad[k] == PLB_NONE) continue;
        plb_type type = plb_value_type(g.graph, grad[k]);
        CHECK_SAY(type.dtype == PLB_F64 && plb_shape_equal(&type.shape, &c->in_type[k].shape),
                  "%s: gradient of input %d has another type", label(c), k);
    }
    op_graph_close(&g);
}

static void check_first(op_case *c) {
    check_order(c, false);
}

static void check_second(op_case *c) {
    check_order(c, true);
}

static void gradients_are_differences(void) {
    each_case(PLB_F64, check_first);
}

static void gradients_differentiate_again(void) {
    each_case(PLB_F64, check_second);
}

// In 16 bits gradients must be of the input's type, whatever they pass through.
static void check_narrow_gradient(op_case *c) {
    if (!differentiable(c)) return;
    plb_model *model = plb_model_new();
    plb_graph *graph;
    CHECK_OK(plb_model_program(model, "test", &graph));
    plb_value in[PLB_SAMPLE_INPUTS], grad[PLB_SAMPLE_INPUTS], loss = PLB_NONE;
    for (int k = 0; k < c->n_in; k++) {
        char name[16];
        snprintf(name, sizeof name, "in%d", k);
        in[k] = c->in[k].data ? plb_input(graph, name, c->in_type[k].dtype, &c->in_type[k].shape)
                              : PLB_NONE;
    }
    plb_value out = plb_emit(graph, c->id, in, c->n_in, c->sample->attrs);
    for (int k = 0; k < c->n_out && loss == PLB_NONE; k++) {
        bool real = plb_dtype_is_float(c->out_type[k].dtype);
        if (real) loss = plb_sum(graph, plb_cast(graph, out + k, PLB_F32), 0, false);
    }
    for (int k = 0; k < c->n_in; k++) {
        if (!op_graph_wanted(c, k)) in[k] = PLB_NONE;
    }
    if (loss != PLB_NONE) plb_gradients(graph, loss, in, c->n_in, grad);
    plb_status status = plb_graph_status(graph);
    CHECK_SAY(!status, "%s: %s", label(c), plb_error_text());
    for (int k = 0; k < c->n_in && loss != PLB_NONE && !status; k++) {
        if (grad[k] == PLB_NONE) continue;
        plb_type type = plb_value_type(graph, grad[k]);
        CHECK_SAY(type.dtype == c->in_type[k].dtype, "%s: gradient of input %d is %s", label(c), k,
                  plb_dtype_name(type.dtype));
    }
    plb_model_free(model);
}

static void gradients_keep_16_bits(void) {
    each_case(PLB_F16, check_narrow_gradient);
    each_case(PLB_BF16, check_narrow_gradient);
}

// ---------------------------------------------------------------------------- PyTorch's numbers
// A tensor's fingerprint: its L2 norm and its product with a fixed vector.
typedef struct print {
    double norm, dot;
} print;

static double fixed(int64_t i) { // tools/torch_ops/__main__.py has the same
    return (double)((uint64_t)i * UINT64_C(2654435761) & UINT64_C(0xffffffff)) * 0x1p-31 - 1;
}

static print print_of(const plb_tensor *t) {
    print p = {0};
    for (int64_t i = 0; i < plb_shape_count(&t->shape); i++) {
        double x = plb_load_f64(t->data, t->dtype, i);
        p.norm += x * x, p.dot += x * fixed(i);
    }
    p.norm = sqrt(p.norm);
    return p;
}

static json_t *golden; // golden/ops.json

// `list[k]` is [norm, dot], or null for a gradient that is zero.
static void check_print(const op_case *c, const char *what, int k, const json_t *list, print p) {
    const json_t *pair = json_array_get(list, (size_t)k);
    double norm = json_number_value(json_array_get(pair, 0));
    double dot = json_number_value(json_array_get(pair, 1));
    double tolerance = 1e-9 * (1e-3 + norm);
    CHECK_SAY(fabs(p.norm - norm) <= tolerance && fabs(p.dot - dot) <= 10 * tolerance,
              "%s: %s %d: expected norm %.12g and product %.12g, found %.12g and %.12g", label(c),
              what, k, norm, dot, p.norm, p.dot);
}

static void check_golden_gradients(op_case *c, const json_t *list) {
    op_graph g;
    plb_status status = op_graph_open(&g, c, false);
    CHECK_SAY(!status, "%s: %s", label(c), plb_error_text());
    for (int k = 0; k < c->n_in && !status; k++) {
        print p = {0};
        if (g.grad[k] != PLB_NONE) {
            op_graph_inputs(&g, -1, 0);
            CHECK_OK(op_graph_run(&g, g.grad[k]));
            p = print_of(&g.value[g.grad[k]]);
        }
        if (op_graph_wanted(c, k)) check_print(c, "gradient", k, list, p);
    }
    op_graph_close(&g);
}

static void check_golden(op_case *c) {
    const json_t *entry = json_object_get(json_object_get(golden, c->op->name), c->sample->name);
    CHECK_SAY(entry, "%s: not in tests/golden/ops.json; run tools/torch_ops with --write",
              label(c));
    if (!entry || json_object_get(entry, "without")) return; // PyTorch has no such op
    CHECK_OK(op_case_ref(c));
    for (int k = 0; k < c->n_in; k++) {
        if (!c->in[k].data) continue;
        check_print(c, "input", k, json_object_get(entry, "inputs"), print_of(&c->in[k]));
    }
    const json_t *outputs = json_object_get(entry, "outputs");
    for (int k = 0; k < c->n_out; k++) {
        if (json_is_null(json_array_get(outputs, (size_t)k))) continue; // not compared
        check_print(c, "output", k, outputs, print_of(&c->out[k]));
    }
    const json_t *gradients = json_object_get(entry, "gradients");
    if (gradients && differentiable(c)) check_golden_gradients(c, gradients);
}

// In f64 where there is a float input, else as the sample is.
static void each_widest_case(void (*check)(op_case *c)) {
    const char *only = getenv("PLB_TEST_OP");
    for (int id = 0; id < PLB_OP_COUNT; id++) {
        const plb_op *op = plb_op_of((plb_op_id)id);
        if (!op || (only && strcmp(only, op->name) != 0)) continue;
        for (int i = 0; i < op->n_samples; i++) {
            const plb_sample *s = &op->samples[i];
            op_case c;
            plb_dtype dtype = op_case_exists(s, PLB_F64) ? PLB_F64 : PLB_F32;
            plb_status status = op_case_open(&c, (plb_op_id)id, s, dtype, PATTERN);
            CHECK_SAY(!status, "%s: %s", label(&c), plb_error_text());
            if (!status) check(&c);
            op_case_close(&c);
        }
    }
}

static void refs_agree_with_pytorch(void) {
    json_error_t error;
    golden = json_load_file("tests/golden/ops.json", 0, &error);
    CHECK_SAY(golden, "tests/golden/ops.json: %s", error.text);
    if (golden) each_widest_case(check_golden);
    json_decref(golden);
}

// ---------------------------------------------------------------------------- --dump
static FILE *dump;
static int dumped;

static void dump_number(const plb_tensor *t, int64_t i) {
    if (!plb_dtype_is_float(t->dtype)) {
        fprintf(dump, "%lld", (long long)plb_load_i64(t->data, t->dtype, i));
        return;
    }
    double x = plb_load_f64(t->data, t->dtype, i);
    if (isfinite(x)) {
        fprintf(dump, "%.17g", x);
    } else { // as Python's json module reads them
        fputs(isnan(x) ? "NaN" : x < 0 ? "-Infinity" : "Infinity", dump);
    }
}

static void dump_tensor(const plb_tensor *t) {
    if (!t) {
        fputs("null", dump);
        return;
    }
    char shape[160];
    fprintf(dump, "{\"dtype\":\"%s\",\"shape\":%s,\"data\":[", plb_dtype_name(t->dtype),
            plb_shape_format(&t->shape, shape, sizeof shape));
    for (int64_t i = 0; i < plb_shape_count(&t->shape); i++) {
        if (i) fputc(',', dump);
        dump_number(t, i);
    }
    fputs("]}", dump);
}

static void dump_weights(const op_case *c) {
    fputs(",\n \"weights\":[", dump);
    for (int k = 0; k < c->n_out; k++) {
        if (k) fputc(',', dump);
        if (!plb_dtype_is_float(c->out_type[k].dtype)) {
            fputs("null", dump);
            continue;
        }
        plb_type type = {PLB_F64, c->out_type[k].shape};
        plb_tensor w = op_case_tensor(&type, 0);
        for (int64_t i = 0; i < plb_shape_count(&type.shape); i++) {
            ((double *)w.data)[i] = op_graph_number(c, OP_STREAM_WEIGHT + k, i);
        }
        dump_tensor(&w);
        op_case_tensor_free(&w);
    }
    fputc(']', dump);
}

static void dump_gradients(op_case *c) {
    if (!differentiable(c)) return;
    op_graph g;
    CHECK_OK(op_graph_open(&g, c, false));
    fputs(",\n \"asked\":[", dump);
    for (int k = 0; k < c->n_in; k++) {
        fprintf(dump, "%s%s", k ? "," : "", op_graph_wanted(c, k) ? "true" : "false");
    }
    fputs("],\n \"gradients\":[", dump);
    for (int k = 0; k < c->n_in; k++) {
        bool some = g.grad[k] != PLB_NONE && g.value;
        if (some) {
            op_graph_inputs(&g, -1, 0);
            CHECK_OK(op_graph_run(&g, g.grad[k]));
        }
        if (k) fputc(',', dump);
        dump_tensor(some ? &g.value[g.grad[k]] : NULL);
    }
    fputc(']', dump);
    op_graph_close(&g);
}

static void dump_case(op_case *c) {
    char *attrs = attributes(c);
    fprintf(dump, "%s{\"op\":\"%s\",\"sample\":\"%s\",\"attrs\":%s,\n \"inputs\":[",
            dumped++ ? ",\n" : "", c->op->name, c->sample->name, attrs);
    free(attrs);
    for (int k = 0; k < c->n_in; k++) {
        if (k) fputc(',', dump);
        dump_tensor(c->in[k].data ? &c->in[k] : NULL);
    }
    fputs("],\n \"outputs\":[", dump);
    CHECK_OK(op_case_ref(c));
    for (int k = 0; k < c->n_out; k++) {
        if (k) fputc(',', dump);
        dump_tensor(&c->out[k]);
    }
    fputc(']', dump);
    dump_weights(c);
    dump_gradients(c);
    fputc('}', dump);
}

static int dump_to(const char *path) {
    dump = fopen(path, "w");
    if (!dump) {
        perror(path);
        return 2;
    }
    fputs("[\n", dump);
    each_widest_case(dump_case);
    fputs("\n]\n", dump);
    bool bad = ferror(dump) != 0;
    bad |= fclose(dump) != 0;
    return bad || check_failures;
}

static const check_test tests[] = {
    {"every op has samples", every_op_has_samples},
    {"attributes are JSON", attributes_are_json},
    {"outputs are written and no more", outputs_are_written_and_no_more},
    {"NaN inputs do no harm", nan_inputs_do_no_harm},
    {"narrow dtypes follow f64", narrow_dtypes_follow_f64},
    {"gradients are differences", gradients_are_differences},
    {"gradients differentiate again", gradients_differentiate_again},
    {"gradients keep 16 bits", gradients_keep_16_bits},
    {"refs agree with PyTorch", refs_agree_with_pytorch},
};

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--dump") == 0) return dump_to(argv[2]);
    return check_main(tests, sizeof tests / sizeof *tests);
}
