// SPDX-License-Identifier: Apache-2.0
// What the models cost, from their graphs alone: all of them in a table, or one layer by layer.
#include <inttypes.h>
#include <stdio.h>

#include "base/core/status.h"
#include "cli/cli.h"
#include "cli/onnx_model.h"
#include "cli/units.h"
#include "zoo/summary.h"

typedef struct models_flags {
    int64_t size, classes, batch;
    const char *dim;
} models_flags;

static const plb_flag flags[] = {
    {.name = "size",
     .kind = PLB_FLAG_INT,
     .offset = offsetof(models_flags, size),
     .value = "N",
     .min = 1,
     .max = 16384,
     .help = "height and width of the input; default: the model's"},
    {.name = "classes",
     .kind = PLB_FLAG_INT,
     .offset = offsetof(models_flags, classes),
     .value = "N",
     .min = 1,
     .max = 1 << 24,
     .help = "outputs; default: the model's"},
    {.name = "batch",
     .kind = PLB_FLAG_INT,
     .offset = offsetof(models_flags, batch),
     .value = "N",
     .min = 1,
     .max = 1 << 20,
     .help = "samples; default 1"},
    {.name = "dim",
     .kind = PLB_FLAG_STRING,
     .offset = offsetof(models_flags, dim),
     .value = "NAME=N,...",
     .help = "of an ONNX file: numbers for extents that it names; default 1"},
};

// ---------------------------------------------------------------------------- all
static void print_line(const plb_zoo_info *info, const plb_zoo_summary *s) {
    char input[64];
    snprintf(input, sizeof input, "%" PRId64 "x%" PRId64 "x%" PRId64, info->channels, info->height,
             info->width);
    plb_print("%-20s%-16s%12s%15" PRId64 "%14s%14s\n", info->name, info->task, input, s->parameters,
              plb_show_flops(s->flops_infer).text, plb_show_flops(s->flops_train).text);
}

static void json_input(plb_json *json, const plb_zoo_info *info, int64_t size) {
    plb_json_begin_array(json, "input");
    plb_json_int(json, NULL, info->channels);
    plb_json_int(json, NULL, size ? size : info->height);
    plb_json_int(json, NULL, size ? size : info->width);
    plb_json_end(json);
}

static void json_costs(plb_json *json, const plb_zoo_info *info, const plb_zoo_summary *s,
                       const models_flags *f) {
    plb_json_string(json, "name", info->name);
    plb_json_string(json, "task", info->task);
    plb_json_string(json, "domain", info->domain);
    plb_json_string(json, "peer", info->peer);
    json_input(json, info, f->size);
    plb_json_int(json, "classes", f->classes ? f->classes : info->classes);
    plb_json_int(json, "parameters", s->parameters);
    plb_json_int(json, "buffers", s->buffers);
    plb_json_double(json, "forward_flops_per_sample", s->flops_infer);
    plb_json_double(json, "training_flops_per_sample", s->flops_train);
    plb_json_double(json, "multiply_adds_per_sample", s->products_infer);
}

static plb_status list_models(plb_json *json) {
    const models_flags none = {0};
    if (!json) {
        plb_print("%-20s%-16s%12s%15s%14s%14s\n", "model", "task", "input", "parameters", "forward",
                  "training");
        plb_print("%-20s%-16s%12s%15s%14s%14s\n", "", "", "", "", "flops/sample", "flops/sample");
    } else {
        plb_json_begin_array(json, "models");
    }
    for (int i = 0; i < plb_zoo_count(); i++) {
        const plb_zoo_info *info = plb_zoo_at(i);
        plb_zoo_summary s;
        plb_status status = plb_zoo_summarize(info->name, NULL, &s);
        if (!status && json) {
            plb_json_begin_object(json, NULL);
            json_costs(json, info, &s, &none);
            plb_json_end(json);
        } else if (!status) {
            print_line(info, &s);
        }
        plb_zoo_summary_free(&s);
        PLB_TRY(status);
    }
    if (json) plb_json_end(json);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- one
static int scope_width(const plb_zoo_summary *s) {
    int width = 5;
    for (int i = 0; i < s->n_rows; i++) {
        int length = (int)snprintf(NULL, 0, "%s", s->rows[i].scope);
        if (length > width) width = length;
    }
    return width;
}

static void print_layers(const plb_zoo_info *info, const plb_zoo_summary *s) {
    int width = scope_width(s);
    double bytes = 0, flops = 0;
    plb_print("%-*s  %-19s%-22s%13s%12s%12s\n", width, "scope", "op", "output", "parameters",
              "flops", "bytes");
    for (int i = 0; i < s->n_rows; i++) {
        const plb_zoo_row *row = &s->rows[i];
        char shape[160];
        plb_print("%-*s  %-19s%-22s%13" PRId64 "%12s%12s\n", width, row->scope, row->op,
                  plb_shape_format(&row->type.shape, shape, sizeof shape), row->parameters,
                  plb_show_flops(row->flops).text, plb_show_bytes(row->bytes).text);
        bytes += row->bytes, flops += row->flops;
    }
    plb_print("\n%s (%s), batch %" PRId64 "\n", info->name, info->peer, s->batch);
    plb_print("  parameters   %" PRId64 ", and %" PRId64 " of running statistics\n", s->parameters,
              s->buffers);
    plb_print(
        "  forward      %s in all, %s a sample, of these %s multiply-adds of convolutions and "
        "products\n",
        plb_show_flops(flops).text, plb_show_flops(s->flops_infer).text,
        plb_show_count(s->products_infer).text);
    plb_print("  training     %s a sample, without the optimizer\n",
              plb_show_flops(s->flops_train).text);
    plb_print(
        "  memory       %s read and written, if every op reads and writes all of its values\n",
        plb_show_bytes(bytes).text);
}

static void json_layers(plb_json *json, const plb_zoo_summary *s) {
    plb_json_int(json, "batch", s->batch);
    plb_json_begin_array(json, "layers");
    for (int i = 0; i < s->n_rows; i++) {
        const plb_zoo_row *row = &s->rows[i];
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "scope", row->scope);
        plb_json_string(json, "op", row->op);
        plb_json_string(json, "dtype", plb_dtype_name(row->type.dtype));
        plb_json_begin_array(json, "shape");
        for (int d = 0; d < row->type.shape.rank; d++) {
            plb_json_int(json, NULL, row->type.shape.dim[d]);
        }
        plb_json_end(json);
        plb_json_int(json, "parameters", row->parameters);
        plb_json_double(json, "flops", row->flops);
        plb_json_double(json, "bytes", row->bytes);
        plb_json_end(json);
    }
    plb_json_end(json);
}

static plb_status show_model(const char *name, const models_flags *f, plb_json *json) {
    const plb_zoo_info *info;
    PLB_TRY(plb_zoo_find(name, &info));
    const plb_zoo_options options = {.batch = f->batch, .size = f->size, .classes = f->classes};
    plb_zoo_summary s;
    plb_status status = plb_zoo_summarize(name, &options, &s);
    if (!status && json) {
        json_costs(json, info, &s, f);
        json_layers(json, &s);
    } else if (!status) {
        print_layers(info, &s);
    }
    plb_zoo_summary_free(&s);
    return status;
}

static plb_status run_models(plb_call *call) {
    const models_flags *f = call->options;
    const char *name = call->operand_count ? call->operands[0] : NULL;
    const char *flag = f->size ? "size" : f->classes ? "classes" : f->batch ? "batch" : NULL;
    if (!name && f->dim) flag = "dim";
    if (!name && flag) return plb_fail(PLB_EINVAL, "--%s: expected the NAME of a model too", flag);
    if (name) PLB_TRY(plb_cli_onnx_check(name, flag, f->dim));
    if (f->dim) PLB_TRY(plb_cli_onnx_check_dims(call->operands, 1, f->dim));
    plb_json json;
    if (call->json) plb_cli_json_begin(&json, name ? "model" : "models", 1);
    plb_json *to = call->json ? &json : NULL;
    plb_status status = !name                   ? list_models(to)
                        : plb_cli_is_onnx(name) ? plb_cli_onnx_describe(name, f->dim, to)
                                                : show_model(name, f, to);
    if (!call->json) return status;
    if (!status) return plb_cli_json_print(&json);
    plb_json_free(&json);
    return status;
}

const plb_command plb_cmd_models = {
    .name = "models",
    .summary = "list the models and what they cost, or the layers of one",
    .operands = "[NAME|F.onnx]",
    .description =
        "Lists the models: task, input (channels, height, width), parameters, and the\n"
        "arithmetic of one sample, forward and in training, where a multiply-add counts as\n"
        "two. With NAME it lists that model's layers: output, parameters, arithmetic, and the\n"
        "bytes of all that an op reads and writes, for the whole batch. Nothing is run: this\n"
        "is what the ops say of themselves. Training is forward and backward without the\n"
        "optimizer.\n\n"
        "With an ONNX file it lists the ops that the file uses and whether they are served, its\n"
        "inputs and outputs, parameters and arithmetic.",
    .max_operands = 1,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(models_flags),
    .run = run_models,
};
