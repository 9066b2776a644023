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

static void write_flags(plb_json *json, const plb_flag *flags, size_t count) {
    plb_json_begin_array(json, "flags");
    for (size_t i = 0; i < count; i++) {
        plb_strbuf words = {0};
        plb_strbuf_printf(&words, "%s", flags[i].help);
        plb_args_help_limits(&flags[i], &words);
        if (words.failed) json->text.failed = true;
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", flags[i].name);
        plb_json_string(json, "value", flags[i].value);
        plb_json_string(json, "help", words.text);
        plb_json_end(json);
        plb_strbuf_free(&words);
    }
    plb_json_end(json);
}

void plb_cli_help_json(const plb_command *command, plb_json *json) {
    plb_json_begin_array(json, "commands");
    for (size_t i = 0; i < plb_command_count; i++) {
        const plb_command *one = plb_commands[i];
        if (command ? one != command : one->hidden) continue;
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", one->name);
        plb_json_string(json, "summary", one->summary);
        plb_json_string(json, "operands", one->operands);
        plb_json_string(json, "description", one->description);
        write_flags(json, one->flags, one->flag_count);
        plb_json_end(json);
    }
    plb_json_end(json);
    write_flags(json, plb_common_flags, plb_common_flag_count);
}
