// SPDX-License-Identifier: Apache-2.0
// Shows what became of a model on this machine: passes, kernels, times against the roof, memory.
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/philox.h"
#include "base/core/status.h"
#include "base/machine.h"
#include "cli/cli.h"
#include "cli/explain_document.h"
#include "cli/explain_file.h"
#include "cli/explain_report.h"
#include "cli/typed.h"
#include "engine/device/inventory.h"
#include "engine/graph/device_roof.h"
#include "plumb/step.h"
#include "plumb/zoo.h"
#include "report/write.h"
#include "train/options.h"

typedef struct explain_flags {
    const char *task, *device, *math, *autocast, *dim, *out;
    int64_t batch, size, classes, threads, runs, tune_seconds;
    bool no_winograd, no_fusion, deterministic, recompute, plot;
} explain_flags;

#define FLAG(flag, what, field) \
    .name = flag, .kind = PLB_FLAG_##what, .offset = offsetof(explain_flags, field)
static const plb_flag flags[] = {
    {FLAG("task", CHOICE, task), .value = "infer|train", .fallback = "infer",
     .help = "forward alone, or a training step with sgd and momentum"},
    {FLAG("batch", INT, batch), .value = "N", .min = 1, .max = 1 << 20,
     .help = "samples; default: the model's"},
    {FLAG("size", INT, size), .value = "N", .min = 1, .max = 16384,
     .help = "height and width of the input; default: the model's"},
    {FLAG("classes", INT, classes), .value = "N", .min = 1, .max = 1 << 24,
     .help = "outputs; default: the model's"},
    {FLAG("threads", INT, threads), .value = "N", .min = 1, .max = 1024,
     .help = "default: as many as this process may use"},
    {FLAG("runs", INT, runs), .value = "N", .min = 1, .max = 100000, .fallback = "5",
     .help = "runs to take the shortest times of"},
    {FLAG("dim", STRING, dim), .value = "NAME=N,...",
     .help = "of an ONNX file: numbers for extents that it names; default 1"},
    PLB_DEVICE_FLAGS,
    {FLAG("recompute", SWITCH, recompute),
     .help = "on a device: save memory by computing again what is cheap"},
    {FLAG("no-winograd", SWITCH, no_winograd), .help = "no Winograd convolutions"},
    {FLAG("no-fusion", SWITCH, no_fusion), .help = "leave every op as it was built"},
    {FLAG("deterministic", SWITCH, deterministic),
     .help = "choose kernels by rule and not by timing"},
    {FLAG("out", FILE, out), .letter = 'o', .value = "FILE",
     .help = "a page, or its figures: .html, .md, .csv, .png, ..."},
    {FLAG("plot", SWITCH, plot), .help = "print it with figures as plots"},
};

static bool trains(const explain_flags *f) {
    return strcmp(f->task, "train") == 0;
}

static plb_status choose_step(const explain_flags *f, plb_step_options *step) {
    PLB_TRY(plb_step_options_for("sgd", step));
    step->sgd.momentum = 0.9;
    if (f->autocast && strcmp(f->autocast, "f16") == 0) step->loss_scale = 65536; // as `train` does
    return PLB_OK;
}

static plb_status build(plb_model *model, const explain_flags *f, const char *name,
                        const plb_step_options *step, plb_graph **out) {
    const plb_zoo_options zoo = {.batch = f->batch, .size = f->size, .classes = f->classes};
    if (!trains(f)) {
        PLB_TRY(plb_zoo_build_infer(model, name, &zoo));
        *out = plb_model_find_program(model, "infer");
        return PLB_OK;
    }
    plb_value loss;
    PLB_TRY(plb_zoo_build_train(model, name, &zoo, out, &loss));
    return plb_train_step(*out, loss, step);
}

static int64_t count_parameters(const plb_model *model) {
    int64_t count = 0;
    for (int i = 0; i < plb_model_variable_count(model); i++) {
        const plb_variable_info info = plb_model_variable_info(model, i);
        if (info.role == PLB_ROLE_PARAMETER) count += plb_shape_count(&info.type.shape);
    }
    return count;
}

// Numbers like those of normalised pictures, and targets spread over the classes.
static plb_status fill_inputs(plb_explained *e, int64_t classes) {
    plb_tensor x, y;
    PLB_TRY(plb_plan_input(e->plan, "x", &x));
    for (int64_t i = 0; i < plb_shape_count(&x.shape); i++) {
        plb_philox_block block = plb_philox(1, (uint64_t)i, 0);
        float sum = -2; // of four uniform numbers: nearly normal, with deviation 0.58
        for (int k = 0; k < 4; k++) sum += plb_uniform_f32(block.word[k]);
        ((float *)x.data)[i] = 1.7f * sum;
    }
    e->batch = x.shape.dim[0], e->channels = x.shape.dim[1];
    e->height = x.shape.dim[2], e->width = x.shape.dim[3];
    if (strcmp(e->task, "infer") == 0) return PLB_OK;
    PLB_TRY(plb_plan_input(e->plan, "y", &y));
    for (int64_t i = 0; i < e->batch; i++) ((int64_t *)y.data)[i] = i * 7 % classes;
    return PLB_OK;
}

static plb_status build_any(plb_onnx_model *m, const explain_flags *f, const char *name) {
    const plb_zoo_info *info;
    const char *of_zoo = f->size ? "size" : f->classes ? "classes" : NULL;
    plb_step_options step;
    if (f->batch && !trains(f)) of_zoo = "batch";
    PLB_TRY(plb_cli_onnx_check(name, of_zoo, f->dim));
    PLB_TRY(choose_step(f, &step));
    if (plb_cli_is_onnx(name))
        return plb_explain_file(name, f->dim, f->batch, trains(f) ? &step : NULL, m);
    PLB_TRY(plb_zoo_find(name, &info));
    m->model = plb_model_new();
    if (!m->model) return plb_fail(PLB_ENOMEM, "out of memory for a model");
    return build(m->model, f, name, &step, &m->graph);
}

static plb_status fill_any(plb_explained *e, const plb_onnx_model *m, const explain_flags *f) {
    const plb_zoo_info *info;
    if (m->file) return plb_explain_fill_file(e->plan, m->graph, f->dim, trains(f));
    PLB_TRY(plb_zoo_find(e->model, &info));
    return fill_inputs(e, f->classes ? f->classes : info->classes);
}

static void keep_shortest(plb_explained *e) {
    for (int i = 0; i < e->n_ops; i++) {
        const plb_plan_op op = plb_plan_op_info(e->plan, i);
        if (!op.calls) continue; // of the prologue
        double seconds = (double)op.time_ns / (double)op.calls / 1e9;
        if (e->ops[i].seconds == 0 || seconds < e->ops[i].seconds) e->ops[i].seconds = seconds;
    }
}

// One more run than asked for: the first is slower, and the only one with the prologue.
static plb_status time_ops(plb_explained *e) {
    e->n_ops = plb_plan_op_count(e->plan);
    e->ops = plb_alloc_array((size_t)e->n_ops + 1, sizeof *e->ops);
    if (!e->ops) return plb_fail(PLB_ENOMEM, "out of memory for the times of ops");
    for (int run = 0; run <= e->runs; run++) {
        PLB_TRY(plb_cli_go_on());
        plb_plan_reset_times(e->plan);
        int64_t begin = plb_now_ns();
        PLB_TRY(plb_plan_run(e->plan));
        double seconds = (double)(plb_now_ns() - begin) / 1e9;
        if (run == 1 || (run > 1 && seconds < e->seconds)) e->seconds = seconds;
        keep_shortest(e);
    }
    for (int i = 0; i < e->n_ops; i++) {
        plb_explained_op *op = &e->ops[i];
        op->op = plb_plan_op_info(e->plan, i);
        op->least = plb_roof_seconds(&e->roof, op->op.flops, op->op.bytes, &op->in_cache);
    }
    return PLB_OK;
}

static void tell_path(void *context, const char *path) {
    (void)context;
    plb_print("%s\n", path);
}

// As a document: a file, plots, or both.
static plb_status tell_document(const plb_explained *e, const explain_flags *f, plb_format format,
                                plb_written written) {
    plb_document *d = NULL;
    plb_strbuf text = {0};
    plb_status status;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    PLB_TRY_OUT(plb_explain_document(e, plb_typed_command(arena), &d));
    if (f->plot) {
        plb_terminal terminal = plb_terminal_of(STDOUT_FILENO);
        terminal.plots = true;
        PLB_TRY_OUT(plb_document_terminal(d, &terminal, &text));
        plb_print_text(&text);
    }
    const char *part = format == PLB_FORMAT_CSV ? "ops" : NULL; // which holds but one table
    if (f->out) PLB_TRY_OUT(plb_document_write(d, format, part, f->out, written, NULL));
    status = PLB_OK;
out:
    plb_strbuf_free(&text);
    plb_document_free(d);
    plb_arena_free(arena);
    return status;
}

static plb_status tell(const plb_explained *e, const explain_flags *f, plb_format format,
                       bool as_json) {
    if (f->plot || f->out) PLB_TRY(tell_document(e, f, format, as_json ? NULL : tell_path));
    if (!as_json) {
        if (!f->plot && !f->out) plb_explain_print(e);
        return PLB_OK;
    }
    plb_json json;
    plb_cli_json_begin(&json, "explain", 1);
    plb_explain_json(e, &json);
    return plb_cli_json_print(&json);
}

static plb_status find_roof(plb_explained *e) {
    if (e->options.device && strcmp(e->options.device, "cpu") != 0) {
        return plb_device_roof(&e->options, &e->roof);
    }
    return plb_cpu_roof(e->options.threads, plb_cli_interrupted, &e->roof);
}

static plb_status run_explain(plb_call *call) {
    const explain_flags *f = call->options;
    plb_explained e = {.model = call->operands[0], .task = f->task, .runs = (int)f->runs};
    e.options = (plb_plan_options){.threads = f->threads ? (int)f->threads : plb_machine_threads(),
                                   .device = f->device,
                                   .deterministic = f->deterministic,
                                   .no_winograd = f->no_winograd,
                                   .no_fusion = f->no_fusion,
                                   .recompute = f->recompute,
                                   .tune_ms = f->tune_seconds * 1000,
                                   .profile = true};
    plb_onnx_model m = {0};
    plb_format format = PLB_FORMAT_HTML;
    plb_status status;
    if (f->out) PLB_TRY(plb_format_of_path(f->out, &format));
    PLB_TRY(plb_cli_check_writable("out", f->out));
    plb_cli_stop_engine();
    if (f->plot && call->json) return plb_fail(PLB_EINVAL, "--plot prints no JSON");
    PLB_TRY_OUT(plb_device_check(f->device));
    PLB_TRY_OUT(plb_math_from_name(f->math, &e.options.math));
    PLB_TRY_OUT(plb_autocast_from_name(f->autocast, &e.options.autocast));
    PLB_TRY_OUT(build_any(&m, f, e.model));
    e.parameters = count_parameters(m.model);
    PLB_TRY_OUT(find_roof(&e));
    PLB_TRY_OUT(plb_plan_new(m.graph, &e.options, &e.plan));
    PLB_TRY_OUT(fill_any(&e, &m, f));
    PLB_TRY_OUT(time_ops(&e));
    status = tell(&e, f, format, call->json);
out:
    plb_free(e.ops);
    plb_plan_free(e.plan);
    plb_cli_onnx_free(&m);
    return status;
}

const plb_command plb_cmd_explain = {
    .name = "explain",
    .summary = "show what each op of a model costs on this machine, and why",
    .operands = "MODEL|F.onnx",
    .description =
        "Prepares and runs a model with first weights and random input, and shows what each\n"
        "pass did to it; for every op the kernel that was chosen and why better ones refused,\n"
        "the arithmetic that this kernel executes, the bytes that it must at least move, its\n"
        "time, and how near that is to the roof; and the planned memory.\n\n"
        "The roof of an op is the least time for its arithmetic at the processor's peak rate,\n"
        "or for its bytes at the bandwidth of the cache or of memory, whichever is longer.\n"
        "Rates are measured before, with the same threads, on a machine that others may be\n"
        "using: run it when all is quiet. An op whose operands were left in a cache by the\n"
        "one before can be above the roof of memory.",
    .min_operands = 1,
    .max_operands = 1,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(explain_flags),
    .run = run_explain,
};
