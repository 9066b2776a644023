// SPDX-License-Identifier: Apache-2.0
#include "cli/explain_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/units.h"
#include "train/options.h"

static double intensity(const plb_plan_op *op) {
    return op->bytes > 0 ? op->flops / op->bytes : 0;
}

// NAN where nothing was measured, or nothing is to be done.
static double percent(const plb_explained_op *e) {
    return e->seconds > 0 && e->least > 0 ? 100 * e->least / e->seconds : NAN;
}

// What holds an op back when it runs at its roof.
static const char *bound(const plb_explained *e, const plb_explained_op *op) {
    bool arithmetic = op->op.flops / e->roof.flops_per_s >= op->least;
    return arithmetic ? "arithmetic" : op->in_cache ? "cache" : "memory";
}

// ---------------------------------------------------------------------------- text
// Each line of `text`, moved in by two.
static void print_lines(const char *text) {
    while (*text) {
        int length = (int)strcspn(text, "\n");
        plb_print("  %.*s\n", length, text);
        text += length + (text[length] == '\n');
    }
}

static void print_roof(const plb_roof *r) {
    if (r->threads) {
        plb_print("\nRoof, measured with %d thread%s and %s\n", r->threads,
                  r->threads == 1 ? "" : "s", r->isa);
    } else {
        plb_print("\nRoof, measured on %s\n", r->isa);
    }
    plb_print("  arithmetic  %s/s%s\n", plb_show_flops(r->flops_per_s).text,
              r->threads ? " of f32" : "");
    if (!r->cache_bytes) {
        plb_print("  memory      %s/s read and written, measured on %s\n",
                  plb_show_bytes(r->memory_bytes_per_s).text,
                  plb_show_bytes((double)r->memory_buffer_bytes).text);
        return;
    }
    plb_print("  cache       %s/s read and written, working sets up to %s\n",
              plb_show_bytes(r->cache_bytes_per_s).text,
              plb_show_bytes((double)r->cache_bytes).text);
    plb_print("  memory      %s/s read and written, measured on %s\n",
              plb_show_bytes(r->memory_bytes_per_s).text,
              plb_show_bytes((double)r->memory_buffer_bytes).text);
}

// Whether the variant's text says the kernel's name by itself.
static bool names_kernel(const plb_plan_op *o) {
    return strncmp(o->choice, o->kernel, strlen(o->kernel)) == 0;
}

static void print_op(const plb_explained *e, const plb_explained_op *op, double sum) {
    const plb_plan_op *o = &op->op;
    const char *kernel = names_kernel(o) ? "" : o->kernel;
    char shape[160], roof[16] = "-";
    if (!isnan(percent(op))) snprintf(roof, sizeof roof, "%.0f", percent(op));
    plb_print("%9.3f%6.1f%6s  %-11s%10s%11s%8.1f  %s%s%s%s %s  %s%s%s\n", 1e3 * op->seconds,
              100 * op->seconds / sum, roof, bound(e, op), plb_show_flops(o->flops).text,
              plb_show_bytes(o->bytes).text, intensity(o), o->scope, *o->scope ? ": " : "", o->op,
              o->backward ? " (backward)" : "",
              plb_shape_format(&o->type.shape, shape, sizeof shape), kernel,
              *kernel && *o->choice ? " " : "", o->choice);
    if (*o->refused) plb_print("%65s(%s)\n", "", o->refused);
}

static void print_ops(const plb_explained *e) {
    double sum = 0, least = 0, flops = 0, once_seconds = 0;
    int once = 0;
    for (int i = 0; i < e->n_ops; i++) {
        const plb_explained_op *op = &e->ops[i];
        if (op->op.prologue) {
            once_seconds += op->seconds, once++;
        } else {
            sum += op->seconds, least += op->least, flops += op->op.flops;
        }
    }
    plb_print("\nOps in the order of execution; the shortest time of %d runs\n", e->runs);
    plb_print("%9s%6s%6s  %-11s%10s%11s%8s  %s\n", "ms", "%", "% of", "roof is", "flops", "bytes",
              "flops", "op, output, kernel and its variant");
    plb_print("%9s%6s%6s  %-11s%10s%11s%8s  %s\n", "", "", "roof", "", "", "", "/byte",
              "(better kernels, and why they refused)");
    for (int i = 0; i < e->n_ops; i++) {
        if (!e->ops[i].op.prologue) print_op(e, &e->ops[i], sum);
    }
    plb_print("%9.3f in all of these; the shortest run took %.3f ms: %s/s, %.0f %% of the roof\n",
              1e3 * sum, 1e3 * e->seconds, plb_show_flops(flops / e->seconds).text,
              100 * least / e->seconds);
    if (once) {
        plb_print("%9.3f in %d ops that ran once, before (--json lists them)\n", 1e3 * once_seconds,
                  once);
    }
}

enum { PLOT_COLUMNS = 72, PLOT_ROWS = 8 };

// The most that lives in each column's share of the ops; returns the columns used.
static int plot_columns(const plb_explained *e, size_t *most) {
    int columns = e->n_ops < PLOT_COLUMNS ? e->n_ops : PLOT_COLUMNS;
    memset(most, 0, PLOT_COLUMNS * sizeof *most);
    for (int i = 0; i < e->n_ops; i++) {
        size_t *column = &most[(int64_t)i * columns / e->n_ops];
        if (e->ops[i].op.live_bytes > *column) *column = e->ops[i].op.live_bytes;
    }
    return columns;
}

static void print_plot(const plb_explained *e) {
    size_t most[PLOT_COLUMNS], peak = 1;
    int columns = plot_columns(e, most);
    for (int c = 0; c < columns; c++) peak = most[c] > peak ? most[c] : peak;
    plb_print("\nTransient memory alive while each op runs, first to last\n");
    for (int row = PLOT_ROWS; row > 0; row--) {
        char line[PLOT_COLUMNS + 1];
        for (int c = 0; c < columns; c++) {
            double height = (double)most[c] / (double)peak * PLOT_ROWS;
            line[c] = height > row - 0.5 ? '#' : height > row - 1 ? '.' : ' ';
        }
        line[columns] = '\0';
        plb_print("%10s |%s\n", row == PLOT_ROWS ? plb_show_bytes((double)peak).text : "", line);
    }
    plb_print("%10s +%.*s\n", "0", columns,
              "------------------------------------------------------------------------");
}

static void print_memory(const plb_explained *e) {
    const plb_plan_bytes b = plb_plan_memory(e->plan);
    print_plot(e);
    plb_print("\nPlanned memory: %s\n", plb_show_bytes((double)b.total).text);
    plb_print("  weights      %10s  with packed copies\n", plb_show_bytes((double)b.weights).text);
    plb_print("  optimizer    %10s\n", plb_show_bytes((double)b.optimizer).text);
    plb_print("  kernels      %10s  their code, measured\n",
              plb_show_bytes((double)b.kernels).text);
    plb_print("  activations  %10s\n", plb_show_bytes((double)b.activations).text);
    plb_print("  gradients    %10s\n", plb_show_bytes((double)b.gradients).text);
    plb_print("  workspace    %10s\n", plb_show_bytes((double)b.workspace).text);
    plb_print("  The last three, but for inputs and outputs, share a slab of %s.\n",
              plb_show_bytes((double)b.transient).text);
}

void plb_explain_print(const plb_explained *e) {
    plb_print("%s, %s, ", e->model, e->task);
    if (e->batch) { // not of a file
        plb_print("batch %" PRId64 " of %" PRId64 "x%" PRId64 "x%" PRId64 ", ", e->batch,
                  e->channels, e->height, e->width);
    }
    if (e->options.device) {
        plb_print("%s, products in %s", e->options.device, plb_math_name(e->options.math));
        if (e->options.autocast) {
            plb_print(", autocast to %s", plb_autocast_name(e->options.autocast));
        }
        plb_print("\n");
    } else {
        plb_print("%d thread%s\n", e->options.threads, e->options.threads == 1 ? "" : "s");
    }
    plb_print("\nPasses\n");
    print_lines(plb_plan_report(e->plan));
    print_roof(&e->roof);
    print_ops(e);
    print_memory(e);
}

// ---------------------------------------------------------------------------- JSON
static void json_passes(const plb_explained *e, plb_json *json) {
    plb_json_begin_array(json, "passes");
    for (const char *line = plb_plan_report(e->plan); *line;) {
        size_t length = strcspn(line, "\n");
        plb_strbuf copy = {0};
        plb_strbuf_append(&copy, line, length);
        plb_json_string(json, NULL, copy.text);
        plb_strbuf_free(&copy);
        line += length + (line[length] == '\n');
    }
    plb_json_end(json);
}

static void json_roof(const plb_roof *r, plb_json *json) {
    plb_json_begin_object(json, "roof");
    plb_json_string(json, "isa", r->isa);
    plb_json_double(json, "flops_per_s", r->flops_per_s);
    plb_json_double(json, "cache_bytes_per_s", r->cache_bytes_per_s);
    plb_json_double(json, "memory_bytes_per_s", r->memory_bytes_per_s);
    plb_json_int(json, "cache_bytes", (int64_t)r->cache_bytes);
    plb_json_int(json, "memory_buffer_bytes", (int64_t)r->memory_buffer_bytes);
    plb_json_end(json);
}

static void json_output(const plb_plan_op *o, plb_json *json) {
    plb_json_string(json, "dtype", plb_dtype_name(o->type.dtype));
    plb_json_string(json, "layout", plb_layout_name(o->layout));
    plb_json_begin_array(json, "shape");
    for (int d = 0; d < o->type.shape.rank; d++) plb_json_int(json, NULL, o->type.shape.dim[d]);
    plb_json_end(json);
}

static void json_op(const plb_explained *e, const plb_explained_op *op, plb_json *json) {
    const plb_plan_op *o = &op->op;
    plb_json_begin_object(json, NULL);
    plb_json_string(json, "scope", o->scope);
    plb_json_string(json, "op", o->op);
    plb_json_bool(json, "backward", o->backward);
    plb_json_bool(json, "once", o->prologue);
    json_output(o, json);
    plb_json_string(json, "kernel", o->kernel);
    plb_json_string(json, "choice", o->choice);
    plb_json_string(json, "refused", o->refused);
    plb_json_double(json, "flops", o->flops);
    plb_json_double(json, "bytes", o->bytes);
    plb_json_double(json, "flops_per_byte", o->bytes > 0 ? intensity(o) : NAN);
    plb_json_double(json, "ms", op->seconds > 0 ? 1e3 * op->seconds : NAN);
    plb_json_string(json, "bound", bound(e, op));
    plb_json_double(json, "percent_of_roof", percent(op));
    plb_json_int(json, "live_bytes", (int64_t)o->live_bytes);
    plb_json_end(json);
}

static void json_memory(const plb_explained *e, plb_json *json) {
    const plb_plan_bytes b = plb_plan_memory(e->plan);
    plb_json_begin_object(json, "planned_bytes");
    plb_json_int(json, "weights", (int64_t)b.weights);
    plb_json_int(json, "optimizer", (int64_t)b.optimizer);
    plb_json_int(json, "activations", (int64_t)b.activations);
    plb_json_int(json, "gradients", (int64_t)b.gradients);
    plb_json_int(json, "workspace", (int64_t)b.workspace);
    plb_json_int(json, "kernels", (int64_t)b.kernels);
    plb_json_int(json, "transient", (int64_t)b.transient);
    plb_json_int(json, "total", (int64_t)b.total);
    plb_json_end(json);
}

void plb_explain_json(const plb_explained *e, plb_json *json) {
    plb_json_string(json, "model", e->model);
    plb_json_string(json, "task", e->task);
    if (e->batch) { // not of a file
        plb_json_int(json, "batch", e->batch);
        plb_json_begin_array(json, "input");
        plb_json_int(json, NULL, e->channels);
        plb_json_int(json, NULL, e->height);
        plb_json_int(json, NULL, e->width);
        plb_json_end(json);
    }
    plb_json_int(json, "parameters", e->parameters);
    plb_json_string(json, "device", e->options.device ? e->options.device : "cpu");
    plb_json_string(json, "math", plb_math_name(e->options.math));
    plb_json_string(json, "autocast", plb_autocast_name(e->options.autocast));
    plb_json_int(json, "threads", e->options.threads);
    plb_json_bool(json, "winograd", !e->options.no_winograd);
    plb_json_bool(json, "fusion", !e->options.no_fusion);
    plb_json_bool(json, "deterministic", e->options.deterministic);
    plb_json_int(json, "runs", e->runs);
    plb_json_double(json, "ms", 1e3 * e->seconds);
    json_passes(e, json);
    json_roof(&e->roof, json);
    plb_json_begin_array(json, "ops");
    for (int i = 0; i < e->n_ops; i++) json_op(e, &e->ops[i], json);
    plb_json_end(json);
    json_memory(e, json);
}
