// SPDX-License-Identifier: Apache-2.0
// Help, as a terminal shows it.
#include <string.h>

#include "cli/cli.h"

static int name_width(void) {
    size_t width = 0;
    for (size_t i = 0; i < plb_command_count; i++) {
        size_t length = strlen(plb_commands[i]->name);
        if (!plb_commands[i]->hidden && length > width) width = length;
    }
    return (int)width;
}

void plb_cli_help(plb_strbuf *out) {
    plb_strbuf_printf(out, "Usage: plumb COMMAND [FLAGS]\n\n"
                           "A depth gauge for deep-learning stacks.\n\nCommands:\n");
    for (size_t i = 0; i < plb_command_count; i++) {
        const plb_command *command = plb_commands[i];
        if (command->hidden) continue;
        plb_strbuf_printf(out, "  %-*s  %s\n", name_width(), command->name, command->summary);
    }
    plb_strbuf_printf(out, "\nEvery command knows --help and --json. `plumb --version` prints the "
                           "version.\n"
                           "Exit codes: 0 fine, 1 a negative result, 2 bad usage or input, 3 the "
                           "machine lacks\n"
                           "something, 4 unsure, 5 nothing was measured, 6 a part broke, 130 "
                           "interrupted.\n");
}

void plb_cli_help_command(const plb_command *command, plb_strbuf *out) {
    plb_strbuf_printf(out, "Usage: plumb %s%s%s [FLAGS]\n\n", command->name,
                      command->operands ? " " : "", command->operands ? command->operands : "");
    if (command->description)
        plb_strbuf_printf(out, "%s\n", command->description);
    else
        plb_strbuf_printf(out, "Does this: %s.\n", command->summary);
    if (command->flag_count) {
        plb_strbuf_printf(out, "\nFlags:\n");
        plb_args_help(command->flags, command->flag_count, out);
    }
    plb_strbuf_printf(out, "\nFlags of every command:\n");
    plb_args_help(plb_common_flags, plb_common_flag_count, out);
}
