// SPDX-License-Identifier: Apache-2.0
// The manual page plumb(1) in roff (man(7)), written from the tables of commands and flags. `make
// install` stores what this prints.
#include <string.h>

#include "base/core/status.h"
#include "cli/cli.h"
#include "plumb/version.h"

// Text whose lines cannot be taken for requests and whose dashes stay ASCII. "\n\n" ends a
// paragraph.
static void append_text(plb_strbuf *out, const char *text) {
    bool line_start = true;
    for (; *text; text++) {
        if (line_start && (*text == '.' || *text == '\'')) plb_strbuf_printf(out, "\\&");
        line_start = *text == '\n';
        if (*text == '-')
            plb_strbuf_printf(out, "\\-");
        else if (*text == '\\')
            plb_strbuf_printf(out, "\\e");
        else if (text[0] == '\n' && text[1] == '\n')
            plb_strbuf_printf(out, "\n.PP"), line_start = 0;
        else
            plb_strbuf_append(out, text, 1);
    }
}

static void append_flags(plb_strbuf *out, const plb_flag *flags, size_t count) {
    for (size_t i = 0; i < count; i++) {
        plb_strbuf_printf(out, ".TP\n\\fB\\-\\-");
        append_text(out, flags[i].name);
        plb_strbuf_printf(out, "\\fR");
        if (flags[i].value) {
            plb_strbuf_printf(out, " \\fI");
            append_text(out, flags[i].value);
            plb_strbuf_printf(out, "\\fR");
        }
        plb_strbuf_printf(out, "\n");
        append_text(out, flags[i].help);
        plb_strbuf limits = {0};
        plb_args_help_limits(&flags[i], &limits);
        if (limits.failed) out->failed = true;
        if (limits.text) append_text(out, limits.text);
        plb_strbuf_free(&limits);
        plb_strbuf_printf(out, "\n");
    }
}

static void append_command(plb_strbuf *out, const plb_command *command) {
    plb_strbuf_printf(out, ".SS plumb %s", command->name);
    if (command->operands) plb_strbuf_printf(out, " %s", command->operands);
    plb_strbuf_printf(out, "\n");
    append_text(out, command->description ? command->description : command->summary);
    plb_strbuf_printf(out, "\n");
    append_flags(out, command->flags, command->flag_count);
}

static void append_exit_codes(plb_strbuf *out) {
    static const struct {
        const char *code, *meaning;
    } rows[] = {
        {"0", "fine"},
        {"1", "a negative result"},
        {"2", "bad usage or bad input"},
        {"3", "the machine lacks something, or its memory or disk is full"},
        {"4", "unsure, where told to fail on it"},
        {"5", "nothing was measured"},
        {"6", "a part of Plumb broke"},
        {"130", "interrupted"},
    };
    plb_strbuf_printf(out, ".SH EXIT STATUS\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        plb_strbuf_printf(out, ".TP\n.B %s\n%s\n", rows[i].code, rows[i].meaning);
    }
}

static void append_environment(plb_strbuf *out) {
    plb_strbuf_printf(out, ".SH ENVIRONMENT\n.TP\n.B PLUMB_DATA\n"
                           "folder of the data sets; $XDG_DATA_HOME/plumb/data (that is, "
                           "~/.local/share/plumb/data) if it is not set\n");
}

static plb_status run_manual(plb_call *call) {
    plb_strbuf out = {0};
    plb_strbuf_printf(&out, ".TH PLUMB 1 \"\" \"plumb %s\" \"User Commands\"\n", PLUMB_VERSION);
    plb_strbuf_printf(&out, ".SH NAME\nplumb \\- a depth gauge for deep\\-learning stacks\n"
                            ".SH SYNOPSIS\n.B plumb\n.I COMMAND\n[FLAGS]\n.SH COMMANDS\n");
    for (size_t i = 0; i < plb_command_count; i++) {
        if (!plb_commands[i]->hidden) append_command(&out, plb_commands[i]);
    }
    plb_strbuf_printf(&out, ".SH FLAGS OF EVERY COMMAND\n");
    append_flags(&out, plb_common_flags, plb_common_flag_count);
    append_exit_codes(&out);
    append_environment(&out);
    return plb_cli_tell_text(call, "manual", &out);
}

const plb_command plb_cmd_manual = {
    .name = "manual",
    .summary = "print the manual page in roff",
    .hidden = true,
    .run = run_manual,
};
