// SPDX-License-Identifier: Apache-2.0
// What is served: the engine's ops by type, device and gradient; ONNX's ops by version.
#include <inttypes.h>
#include <stddef.h>

#include "base/core/status.h"
#include "cli/cli.h"
#include "engine/device/coverage.h"
#include "plumb/onnx.h"

typedef struct coverage_flags {
    bool onnx;
} coverage_flags;

static const plb_flag flags[] = {
    {.name = "onnx",
     .kind = PLB_FLAG_SWITCH,
     .offset = offsetof(coverage_flags, onnx),
     .help = "ops of ONNX files in place of the engine's"},
};

static void engine_ops(plb_json *json) {
    plb_coverage_row r;
    if (json)
        plb_json_begin_array(json, "ops");
    else
        plb_print("%-24s %-15s %-36s %-30s %s\n", "op", "gradient", "cpu", "cuda", "types");
    for (int i = 0; plb_coverage(i, &r); i++) {
        if (!json) {
            plb_print("%-24s %-15s %-36s %-30s %s\n", r.name, r.gradient, r.cpu,
                      r.cuda[0] ? r.cuda : "-", r.dtypes);
            continue;
        }
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "op", r.name);
        plb_json_string(json, "gradient", r.gradient);
        plb_json_string(json, "cpu", r.cpu);
        plb_json_string(json, "cuda", r.cuda[0] ? r.cuda : NULL);
        plb_json_string(json, "types", r.dtypes);
        plb_json_end(json);
    }
    if (json) plb_json_end(json);
}

static void onnx_ops(plb_json *json) {
    const char *name, *note;
    int64_t since;
    if (json)
        plb_json_begin_array(json, "onnx");
    else
        plb_print("%-28s %-12s %s\n", "op", "from version", "not served");
    for (int i = 0; plb_onnx_served(i, &name, &since, &note); i++) {
        if (!json) {
            plb_print("%-28s %-12" PRId64 " %s\n", name, since, note);
            continue;
        }
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "op", name);
        plb_json_int(json, "since", since);
        plb_json_string(json, "not_served", note);
        plb_json_end(json);
    }
    if (json) plb_json_end(json);
}

static plb_status run_coverage(plb_call *call) {
    const coverage_flags *f = call->options;
    plb_json json;
    if (call->json) plb_cli_json_begin(&json, "coverage", 1);
    plb_json *to = call->json ? &json : NULL;
    if (f->onnx)
        onnx_ops(to);
    else
        engine_ops(to);
    return to ? plb_cli_json_print(to) : PLB_OK;
}

const plb_command plb_cmd_coverage = {
    .name = "coverage",
    .summary = "list the ops that are served, by type, device and gradient",
    .description =
        "Every op of the engine: whether it has a gradient, its kernels on the CPU and on\n"
        "CUDA devices, best first (\"reference\": plain loops; -: none, and a plan that needs\n"
        "it is refused there), and the element types that it takes. Kernels refuse cases that\n"
        "others then serve: `plumb explain` tells for a model.\n\n"
        "With --onnx: every op of ONNX files, the first version of the operator set that is\n"
        "served, and what of it is not. docs/coverage.md has both, with what passes of\n"
        "ONNX's own tests.",
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(coverage_flags),
    .run = run_coverage,
};
