// SPDX-License-Identifier: Apache-2.0
// Fresh weights of a model, as a file.
#include <inttypes.h>
#include <stddef.h>

#include "base/core/status.h"
#include "cli/cli.h"
#include "cli/onnx_model.h"
#include "plumb/weights.h"
#include "plumb/zoo.h"

typedef struct init_flags {
    int64_t seed, classes;
    const char *save;
} init_flags;

static const plb_flag flags[] = {
    {.name = "seed",
     .kind = PLB_FLAG_INT,
     .offset = offsetof(init_flags, seed),
     .value = "N",
     .min = 0,
     .max = INT64_MAX,
     .fallback = "1",
     .help = "other seeds give other weights"},
    {.name = "save",
     .kind = PLB_FLAG_FILE,
     .offset = offsetof(init_flags, save),
     .value = "F",
     .help = "the safetensors file to write"},
    {.name = "classes",
     .kind = PLB_FLAG_INT,
     .offset = offsetof(init_flags, classes),
     .value = "N",
     .min = 1,
     .max = 1 << 24,
     .help = "outputs; default: the model's"},
};

static void count(const plb_model *model, int64_t *parameters, int64_t *buffers) {
    *parameters = *buffers = 0;
    for (int i = 0; i < plb_model_variable_count(model); i++) {
        const plb_variable_info info = plb_model_variable_info(model, i);
        int64_t *sum = info.role == PLB_ROLE_PARAMETER ? parameters : buffers;
        *sum += plb_shape_count(&info.type.shape);
    }
}

static plb_status report(const plb_call *call, const plb_model *model) {
    const init_flags *f = call->options;
    int64_t parameters, buffers;
    count(model, &parameters, &buffers);
    if (!call->json) {
        plb_print("%s: %" PRId64 " parameters and %" PRId64 " buffers of %s, seed %" PRId64 "\n",
                  f->save, parameters, buffers, call->operands[0], f->seed);
        return PLB_OK;
    }
    plb_json json;
    plb_cli_json_begin(&json, "init", 1);
    plb_json_string(&json, "model", call->operands[0]);
    plb_json_int(&json, "seed", f->seed);
    plb_json_string(&json, "file", f->save);
    plb_json_int(&json, "parameters", parameters);
    plb_json_int(&json, "buffers", buffers);
    return plb_cli_json_print(&json);
}

static plb_status run_init(plb_call *call) {
    const init_flags *f = call->options;
    if (!f->save) return plb_fail(PLB_EINVAL, "expected --save F.safetensors");
    if (plb_cli_is_onnx(f->save))
        return plb_fail(PLB_EINVAL,
                        "--save: writes safetensors, found %s; `plumb export-onnx %s -o F.onnx` "
                        "writes ONNX",
                        f->save, call->operands[0]);
    PLB_TRY(plb_cli_check_writable("save", f->save));
    plb_model *model = plb_model_new();
    if (!model) return plb_fail(PLB_ENOMEM, "out of memory for a model");
    const plb_zoo_options options = {.batch = 1, .classes = f->classes};
    plb_status status;
    plb_cli_stop_engine();
    PLB_TRY_OUT(plb_zoo_build_infer(model, call->operands[0], &options));
    PLB_TRY_OUT(plb_model_init(model, (uint64_t)f->seed));
    PLB_TRY_OUT(plb_cli_go_on());
    PLB_TRY_OUT(plb_weights_write(f->save, model));
    status = report(call, model);
out:
    plb_model_free(model);
    return status;
}

const plb_command plb_cmd_init = {
    .name = "init",
    .summary = "write fresh weights of a model",
    .operands = "MODEL",
    .description = "Writes the weights that a model begins with, parameters and running\n"
                   "statistics, as a safetensors file with torchvision's names. The same seed\n"
                   "gives the same file on every machine with the same mathematical library.",
    .min_operands = 1,
    .max_operands = 1,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(init_flags),
    .run = run_init,
};
