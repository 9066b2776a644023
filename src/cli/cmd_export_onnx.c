// SPDX-License-Identifier: Apache-2.0
// Writes a model as an ONNX file.
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "base/folder.h"
#include "cli/cli.h"
#include "cli/onnx_model.h"
#include "cli/units.h"
#include "plumb/weights.h"
#include "plumb/zoo.h"

typedef struct export_flags {
    const char *output, *weights, *dim;
    int64_t batch, size, classes, seed;
    bool external;
} export_flags;

#define FLAG(flag, what, field) \
    .name = flag, .kind = PLB_FLAG_##what, .offset = offsetof(export_flags, field)
static const plb_flag flags[] = {
    {FLAG("output", FILE, output), .letter = 'o', .value = "F.onnx",
     .help = "the file to write; also -o"},
    {FLAG("weights", FILE, weights), .value = "F.safetensors",
     .help = "weights of the model; default: first ones, drawn from the seed"},
    {FLAG("batch", INT, batch), .value = "N", .min = 1, .max = 1 << 20,
     .help = "samples; default: the model's"},
    {FLAG("size", INT, size), .value = "N", .min = 1, .max = 16384,
     .help = "height and width of the input; default: the model's"},
    {FLAG("classes", INT, classes), .value = "N", .min = 1, .max = 1 << 24,
     .help = "outputs; default: the model's"},
    {FLAG("seed", INT, seed), .value = "N", .min = 0, .max = INT64_MAX, .fallback = "1",
     .help = "of weights that no file gives"},
    {FLAG("dim", STRING, dim), .value = "NAME=N,...",
     .help = "of an ONNX file: numbers for extents that it names; default 1"},
    {FLAG("external", SWITCH, external), .help = "put the values into F.onnx.data"},
};

static plb_status build_zoo(const char *name, const export_flags *f, plb_onnx_model *m) {
    const plb_zoo_options options = {.batch = f->batch, .size = f->size, .classes = f->classes};
    m->model = plb_model_new();
    if (!m->model) return plb_fail(PLB_ENOMEM, "out of memory for a model");
    PLB_TRY(plb_zoo_build_infer(m->model, name, &options));
    m->graph = plb_model_find_program(m->model, "infer");
    if (f->weights) return plb_weights_load(f->weights, m->model, m->graph, 0);
    return plb_model_init(m->model, (uint64_t)f->seed);
}

static plb_status check(const char *name, const export_flags *f) {
    const char *of_zoo = f->weights ? "weights" : f->batch ? "batch" : f->size ? "size" : NULL;
    if (!of_zoo && f->classes) of_zoo = "classes";
    return plb_cli_onnx_check(name, of_zoo, f->dim);
}

static plb_status build(const char *name, const export_flags *f, plb_onnx_model *m) {
    return plb_cli_is_onnx(name) ? plb_cli_onnx_load(name, f->dim, m) : build_zoo(name, f, m);
}

static bool is_safetensors(const char *path) {
    static const char ending[] = ".safetensors";
    const size_t length = strlen(path), most = sizeof ending - 1;
    return length > most && strcmp(path + length - most, ending) == 0;
}

// Values of a file that was there before stay, for a copy of it may need them.
static void tell_of_old_values(const char *path) {
    enum { NAMES = 9 }; // as external values are named
    for (int i = 1; i <= NAMES; i++) {
        char data[PATH_MAX], number[8] = "";
        if (i > 1) snprintf(number, sizeof number, ".%d", i);
        const int length = snprintf(data, sizeof data, "%s%s.data", path, number);
        if (length < PATH_MAX && plb_file_exists(data))
            plb_note("%s is of an older file: %s has its values in itself", data, path);
    }
}

static plb_status tell(const char *model, const char *path, uint64_t digest,
                       const plb_onnx_written *w, bool as_json) {
    char hash[24];
    snprintf(hash, sizeof hash, "%016" PRIx64, digest);
    if (!as_json) {
        plb_print("%s: %" PRId64 " nodes, %" PRId64 " initializers, %s, operator set %" PRId64
                  ", graph %s%s\n",
                  path, w->nodes, w->initializers, plb_show_bytes((double)w->size_bytes).text,
                  w->opset, hash, w->external ? ", values in a file beside it" : "");
        return PLB_OK;
    }
    plb_json json;
    plb_cli_json_begin(&json, "export_onnx", 1);
    plb_json_string(&json, "model", model);
    plb_json_string(&json, "file", path);
    plb_json_int(&json, "opset", w->opset);
    plb_json_int(&json, "nodes", w->nodes);
    plb_json_int(&json, "initializers", w->initializers);
    plb_json_int(&json, "bytes", (int64_t)w->size_bytes);
    plb_json_bool(&json, "external", w->external);
    plb_json_string(&json, "graph", hash);
    return plb_cli_json_print(&json);
}

static plb_status run_export_onnx(plb_call *call) {
    const export_flags *f = call->options;
    const char *name = call->operands[0];
    plb_onnx_model m = {0};
    plb_onnx_written written = {0};
    uint64_t digest = 0;
    PLB_TRY(check(name, f));
    if (!f->output) return plb_fail(PLB_EINVAL, "expected --output F.onnx");
    if (is_safetensors(f->output))
        return plb_fail(PLB_EINVAL,
                        "--output: writes ONNX, found %s; `plumb init MODEL --save F` writes "
                        "safetensors",
                        f->output);
    PLB_TRY(plb_cli_check_writable("output", f->output));
    plb_cli_stop_engine();
    plb_status status = build(name, f, &m);
    if (!status) status = plb_cli_go_on();
    if (!status) status = plb_onnx_digest(m.graph, &digest);
    if (!status) status = plb_cli_go_on();
    if (!status) status = plb_onnx_write(m.graph, f->output, f->external, &written);
    if (!status && !written.external) tell_of_old_values(f->output);
    if (!status) status = tell(name, f->output, digest, &written, call->json);
    plb_cli_onnx_free(&m);
    return status;
}

const plb_command plb_cmd_export_onnx = {
    .name = "export-onnx",
    .summary = "write a model as an ONNX file",
    .operands = "MODEL|F.onnx",
    .description =
        "Writes the forward pass at one batch and size, in evaluation mode, for programs that\n"
        "read ONNX. Initializers have the names of the weights (torchvision's), nodes those of\n"
        "their scopes. An ONNX file is written as it was understood: at numbers for all\n"
        "extents, functions inlined, and all that depends on constants computed.\n\n"
        "The graph's digest is that of what the file computes; `plumb models F.onnx` shows the\n"
        "same one.",
    .min_operands = 1,
    .max_operands = 1,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(export_flags),
    .run = run_export_onnx,
};
