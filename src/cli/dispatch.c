// SPDX-License-Identifier: Apache-2.0
// Finds the command, parses its flags, runs it, and turns its status into an exit code.
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/log.h"
#include "base/core/status.h"
#include "cli/cli.h"
#include "plumb/version.h"

typedef struct common_options {
    bool help, json, verbose;
} common_options;

const plb_flag plb_common_flags[] = {
    {.name = "json",
     .kind = PLB_FLAG_SWITCH,
     .offset = offsetof(common_options, json),
     .help = "print one JSON document"},
    {.name = "verbose",
     .kind = PLB_FLAG_SWITCH,
     .offset = offsetof(common_options, verbose),
     .help = "say on standard error what is being done"},
    {.name = "help",
     .kind = PLB_FLAG_SWITCH,
     .offset = offsetof(common_options, help),
     .help = "print this and stop"},
};
const size_t plb_common_flag_count = sizeof plb_common_flags / sizeof *plb_common_flags;

static void log_to_stderr(void *context, plb_log_level level, const char *line) {
    const common_options *common = context;
    if (level == PLB_LOG_DEBUG && !common->verbose) return;
    plb_note("%s%s", level == PLB_LOG_WARN ? "warning: " : "", line);
}

// The command's flags and the common ones as one table over one block of memory: the command's
// options first, then the common ones.
typedef struct parser {
    plb_flag *flags;
    size_t count;
    char *options;
    const common_options *common;
} parser;

static void parser_free(parser *p) {
    plb_free(p->flags);
    plb_free(p->options);
}

static plb_status parser_new(parser *p, const plb_command *command) {
    enum { ALIGN = sizeof(max_align_t) };
    size_t common_at = (command->options_bytes + ALIGN - 1) / ALIGN * ALIGN;
    p->count = command->flag_count + plb_common_flag_count;
    p->flags = plb_alloc_array(p->count, sizeof *p->flags);
    p->options = plb_alloc(common_at + sizeof *p->common);
    if (!p->flags || !p->options) return plb_fail(PLB_ENOMEM, "out of memory");
    if (command->flag_count) {
        memcpy(p->flags, command->flags, command->flag_count * sizeof *p->flags);
    }
    for (size_t i = 0; i < plb_common_flag_count; i++) {
        plb_flag *flag = &p->flags[command->flag_count + i];
        *flag = plb_common_flags[i];
        flag->offset += common_at;
    }
    p->common = (const common_options *)(const void *)(p->options + common_at);
    plb_args_reset(p->flags, p->count, p->options);
    return PLB_OK;
}

static plb_status check_operands(const plb_command *command, const plb_call *call) {
    if (call->operand_count < command->min_operands) {
        return plb_fail(PLB_EINVAL, "expected %s, found %s", command->operands,
                        call->operand_count ? "fewer" : "nothing");
    }
    if (command->max_operands >= 0 && call->operand_count > command->max_operands) {
        return plb_fail(PLB_EINVAL, "unexpected \"%s\"", call->operands[command->max_operands]);
    }
    return PLB_OK;
}

static plb_status print_help(const plb_command *command, bool as_json) {
    plb_strbuf text = {0};
    if (as_json) {
        plb_json json;
        plb_cli_json_begin(&json, "help", 1);
        plb_cli_help_json(command, &json);
        return plb_cli_json_print(&json);
    }
    if (command)
        plb_cli_help_command(command, &text);
    else
        plb_cli_help(&text);
    return plb_cli_tell_text(&(plb_call){0}, "help", &text);
}

static plb_status run_command(const plb_command *command, int argc, char **argv, int *exit_code) {
    parser p = {0};
    plb_call call = {.operands = argv};
    plb_status status;
    PLB_TRY_OUT(parser_new(&p, command));
    PLB_TRY_OUT(plb_args_parse(p.flags, p.count, p.options, argc, argv, &call.operand_count));
    if (p.common->help) {
        status = print_help(command, p.common->json);
        goto out;
    }
    PLB_TRY_OUT(check_operands(command, &call));
    if (p.common->json && command->plain) {
        status = plb_fail(PLB_EINVAL, "--json: this speaks a protocol of its own");
        goto out;
    }
    plb_log_set_sink(log_to_stderr, (void *)p.common);
    call.options = p.options;
    call.json = p.common->json;
    PLB_TRY_OUT(command->run(&call));
    *exit_code = call.exit_code;
out:
    plb_log_set_sink(NULL, NULL);
    parser_free(&p);
    return status;
}

plb_status plb_cli_parse(const plb_command *command, int argc, char **argv, void *options,
                         int *operand_count) {
    parser p = {0};
    plb_status status;
    PLB_TRY_OUT(parser_new(&p, command));
    PLB_TRY_OUT(plb_args_parse(p.flags, p.count, p.options, argc, argv, operand_count));
    memcpy(options, p.options, command->options_bytes);
out:
    parser_free(&p);
    return status;
}

static plb_status fail_unknown_command(const char *word) {
    const char *names[64];
    size_t count = 0;
    for (size_t i = 0; i < plb_command_count && count < 64; i++) {
        if (!plb_commands[i]->hidden) names[count++] = plb_commands[i]->name;
    }
    const char *nearest = plb_nearest_name(word, names, count);
    if (nearest) {
        return plb_fail(PLB_EINVAL, "unknown command \"%s\"; did you mean %s?", word, nearest);
    }
    return plb_fail(PLB_EINVAL, "unknown command \"%s\"; `plumb --help` lists them", word);
}

static plb_status run_help(plb_call *call) {
    if (!call->operand_count) return print_help(NULL, call->json);
    const plb_command *command = plb_command_find(call->operands[0]);
    return command ? print_help(command, call->json) : fail_unknown_command(call->operands[0]);
}

const plb_command plb_cmd_help = {
    .name = "help",
    .summary = "explain Plumb or one of its commands",
    .operands = "[COMMAND]",
    .max_operands = 1,
    .run = run_help,
};

static plb_status dispatch(int argc, char **argv, const char **place, int *exit_code) {
    const char *word = argv[1];
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        return print_help(NULL, argc > 2 && strcmp(argv[2], "--json") == 0);
    if (strcmp(word, "--version") == 0) {
        plb_print("plumb %s\n", PLUMB_VERSION);
        return PLB_OK;
    }
    if (word[0] == '-') {
        return plb_fail(PLB_EINVAL, "expected a command, found %s; `plumb --help` lists them",
                        word);
    }
    const plb_command *command = plb_command_find(word);
    if (!command) return fail_unknown_command(word);
    *place = command->name;
    return run_command(command, argc - 2, argv + 2, exit_code);
}

static void pass_over(int signal_number) {
    (void)signal_number;
}

// A reader that left is seen as EPIPE, after files were closed. Not by ignoring the signal, which
// programs that we start would inherit.
static void expect_readers_to_leave(void) {
    plb_cli_handle(SIGPIPE, pass_over, SA_RESTART);
}

int plb_cli_main(int argc, char **argv) {
    expect_readers_to_leave();
    plb_cli_catch_interrupt();
    if (argc < 2) {
        fputs("usage: plumb COMMAND [FLAGS]; `plumb --help` lists the commands\n", stderr);
        return PLB_EXIT_INPUT;
    }
    const char *place = NULL;
    int exit_code = PLB_EXIT_FINE;
    plb_status status = dispatch(argc, argv, &place, &exit_code);
    if (!status) status = plb_cli_close_output();
    if (!status) return exit_code;
    // Whoever closed the pipe, as `| head` does, has seen enough and needs no words.
    if (!plb_cli_reader_left()) {
        plb_cli_say("plumb%s%s: %s", place ? " " : "", place ? place : "", plb_error_text());
    }
    (void)!fflush(stdout); // what was printed before the failure
    return plb_cli_exit_code(status);
}
