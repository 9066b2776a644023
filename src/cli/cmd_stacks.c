// SPDX-License-Identifier: Apache-2.0
// The stacks that models are compared on: which there are, adding, testing, removing one.
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "cli/bench_flags.h"
#include "cli/cli.h"
#include "stacks/family.h"
#include "stacks/install.h"
#include "stacks/inventory.h"

typedef struct stacks_flags {
    const char *torch_index, *python;
} stacks_flags;

static const plb_flag flags[] = {
    {.name = "torch-index",
     .kind = PLB_FLAG_STRING,
     .offset = offsetof(stacks_flags, torch_index),
     .value = "URL",
     .help = "add torch: package index that has torch and torchvision"},
    {.name = "python",
     .kind = PLB_FLAG_FILE,
     .offset = offsetof(stacks_flags, python),
     .value = "PATH",
     .help = "add: use this Python and what it has, instead of a new environment"},
};

static void json_entry(plb_json *json, const plb_stack_entry *e) {
    plb_json_begin_object(json, NULL);
    plb_json_string(json, "name", e->name);
    plb_json_string(json, "state", plb_stack_state_name(e->state));
    plb_json_string(json, "family", e->family);
    plb_json_string(json, "versions", e->versions);
    plb_json_string(json, "folder", e->folder);
    plb_json_string(json, "python", e->python);
    plb_json_string(json, "reason", e->wrong);
    plb_json_end(json);
}

static void print_entry(const plb_stack_entry *e) {
    plb_print("%-16s  %-8s  ", e->name, plb_stack_state_name(e->state));
    if (e->state == PLB_STACK_MISSING)
        plb_print("plumb stacks add %s\n", e->family);
    else if (e->state == PLB_STACK_BROKEN && e->family)
        plb_print("%s; plumb stacks add %s\n", e->wrong, e->family);
    else if (e->state == PLB_STACK_BROKEN)
        plb_print("%s\n", e->wrong);
    else
        plb_print("%s\n", e->versions ? e->versions : e->folder);
}

static plb_status list(bool as_json) {
    plb_json json = {0};
    plb_stack_entry *entries;
    size_t count;
    plb_status status;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    PLB_TRY_OUT(plb_stacks_inventory(arena, &entries, &count));
    if (as_json) {
        plb_cli_json_begin(&json, "stacks", 1);
        plb_json_begin_array(&json, "stacks");
        for (size_t i = 0; i < count; i++) json_entry(&json, &entries[i]);
        plb_json_end(&json);
        status = plb_cli_json_print(&json);
    } else {
        for (size_t i = 0; i < count; i++) print_entry(&entries[i]);
    }
out:
    plb_json_free(&json);
    plb_arena_free(arena);
    return status;
}

// What `add` shows: a line a step, and on a terminal what the installer says, over itself.
typedef struct display {
    bool terminal;
    bool open; // a line without its end
} display;

static void end_line(display *d) {
    if (d->open) fputs("\r\033[K", stderr);
    d->open = false;
}

static void show_step(void *context, const char *title) {
    end_line(context);
    plb_note("%s", title);
}

static bool show_line(void *context, const char *line) {
    enum { COLUMNS = 76 };
    display *d = context;
    if (line && d->terminal && *line) {
        fprintf(stderr, "\r\033[K  %.*s", COLUMNS, line);
        fflush(stderr);
        d->open = true;
    }
    return !plb_cli_interrupted();
}

static plb_status answer(const char *what, const plb_stack_family *family, const char *name,
                         bool as_json) {
    if (!as_json) {
        plb_print("%s: %s", what, name);
        for (int i = 0; family && i < PLB_FAMILY_NAMES && family->stacks[i][0]; i++) {
            if (strcmp(family->stacks[i], name) != 0) {
                plb_print("%s%s", i ? ", " : " (", family->stacks[i]);
            }
        }
        plb_print("%s\n", family && strcmp(family->stacks[0], name) != 0 ? ")" : "");
        return PLB_OK;
    }
    plb_json json;
    plb_cli_json_begin(&json, "stacks", 1);
    plb_json_string(&json, what, name);
    return plb_cli_json_print(&json);
}

static plb_status add(const plb_call *call, const char *name) {
    const stacks_flags *f = call->options;
    plb_stack_family family;
    display d = {.terminal = isatty(STDERR_FILENO)};
    const plb_stack_add options = {
        .name = name,
        .torch_index = f->torch_index,
        .python = f->python,
        .step = show_step,
        .line = show_line,
        .context = &d,
    };
    plb_cli_catch_interrupt();
    PLB_TRY(plb_stack_family_get(name, &family));
    plb_status status = plb_stacks_add(&options);
    end_line(&d);
    return status ? status : answer("added", &family, family.name, call->json);
}

extern const plb_command plb_cmd_verify;

// The proof of the smallest model, for a stack or all of a family.
static plb_status test(plb_call *call, const char *name) {
    plb_strbuf stacks = {0};
    for (size_t i = 0; i < plb_stack_family_count(); i++) {
        const plb_stack_family family = plb_stack_family_at(i);
        if (strcmp(family.name, name) != 0) continue;
        for (int s = 0; s < PLB_FAMILY_NAMES && family.stacks[s][0]; s++) {
            plb_strbuf_printf(&stacks, "%s%s", s ? "," : "", family.stacks[s]);
        }
    }
    if (!stacks.length) plb_strbuf_printf(&stacks, "%s", name);
    const plb_bench_flags verify_flags = {
        .task = "infer,train",
        .stack = stacks.text,
        .device = strcmp(name, "torch-cudagraph") == 0 ? "cuda" : "cpu",
        .batch = "4",
        .dtype = "f32",
        .math = "f32",
        .autocast = "none",
        .timeout = 900,
        .proof_time = 60,
    };
    char model[] = "mnist_cnn", *models[] = {model};
    plb_call verify = {
        .options = &verify_flags, .operands = models, .operand_count = 1, .json = call->json};
    plb_status status =
        stacks.failed ? plb_fail(PLB_ENOMEM, "out of memory") : plb_cmd_verify.run(&verify);
    call->exit_code = verify.exit_code;
    plb_strbuf_free(&stacks);
    return status;
}

static plb_status run_stacks(plb_call *call) {
    const stacks_flags *f = call->options;
    const char *verb = call->operand_count ? call->operands[0] : "list";
    bool is_list = strcmp(verb, "list") == 0, is_add = strcmp(verb, "add") == 0;
    bool is_test = strcmp(verb, "test") == 0;
    if (!is_list && !is_add && !is_test && strcmp(verb, "remove") != 0) {
        return plb_fail(PLB_EINVAL, "expected list, add, test or remove NAME, found \"%s\"", verb);
    }
    if (!is_add && (f->torch_index || f->python)) {
        return plb_fail(PLB_EINVAL, "--torch-index and --python are for add, not for %s", verb);
    }
    if (is_list && call->operand_count > 1) {
        return plb_fail(PLB_EINVAL, "unexpected \"%s\"", call->operands[1]);
    }
    if (is_list) return list(call->json);
    if (call->operand_count < 2) {
        return plb_fail(PLB_EINVAL, "%s: expected a stack's name", verb);
    }
    if (is_add) return add(call, call->operands[1]);
    if (is_test) return test(call, call->operands[1]);
    PLB_TRY(plb_stacks_remove(call->operands[1]));
    return answer("removed", NULL, call->operands[1], call->json);
}

const plb_command plb_cmd_stacks = {
    .name = "stacks",
    .summary = "list, add, test or remove the stacks that models are compared on",
    .operands = "[list|add NAME|test NAME|remove NAME]",
    .description =
        "A stack is a way to run a model: a framework, a compiler, a run time. Lists\n"
        "those that there are and those that can be added; adds one, proves that it\n"
        "computes mnist_cnn as the reference does, or removes it.\n\n"
        "add torch makes a private Python environment and installs PyTorch in the\n"
        "version that this release was tested with; it serves torch-eager, torch-script,\n"
        "torch-compile and torch-cudagraph; libtorch compiles a worker against its C++\n"
        "library. onnxruntime and openvino run ONNX files that plumb writes. With --python a\n"
        "stack runs in an environment that exists already, in whatever versions it has.\n\n"
        "Stacks live in $XDG_DATA_HOME/plumb/stacks, else ~/.local/share/plumb/stacks, one\n"
        "folder each; others are found in the folders that PLUMB_STACKS names. What is\n"
        "interrupted leaves everything as it was.",
    .max_operands = 2,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(stacks_flags),
    .completes = "list add test remove",
    .run = run_stacks,
};
