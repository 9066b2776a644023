// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "cli/cli.h"

#define PLB_COMMAND(name) extern const plb_command plb_cmd_##name;
#include "cli/commands.def"
#undef PLB_COMMAND

#define PLB_COMMAND(name) &plb_cmd_##name,
const plb_command *const plb_commands[] = {
#include "cli/commands.def"
};
#undef PLB_COMMAND
const size_t plb_command_count = sizeof plb_commands / sizeof *plb_commands;

const plb_command *plb_command_find(const char *name) {
    for (size_t i = 0; i < plb_command_count; i++) {
        if (strcmp(plb_commands[i]->name, name) == 0) return plb_commands[i];
    }
    return NULL;
}
