// SPDX-License-Identifier: Apache-2.0
// The completion scripts of bash and zsh, written from the tables of commands and flags. `make
// install` stores what this prints.
#include <string.h>

#include "base/core/status.h"
#include "cli/cli.h"

static void append_commands(plb_strbuf *out) {
    for (size_t i = 0, n = 0; i < plb_command_count; i++) {
        if (plb_commands[i]->hidden) continue;
        plb_strbuf_printf(out, "%s%s", n++ ? " " : "", plb_commands[i]->name);
    }
}

static const char *operand_words(const plb_command *command) {
    return command->completes && *command->completes ? command->completes : NULL;
}

// The words of "sgd|adam", separated by blanks.
static void append_choices(plb_strbuf *out, const char *words) {
    for (; *words; words++) plb_strbuf_append(out, *words == '|' ? " " : words, 1);
}

static void bash_value(plb_strbuf *out, const plb_flag *flag) {
    if (flag->kind == PLB_FLAG_SWITCH) return;
    plb_strbuf_printf(out, "        --%s) ", flag->name);
    if (flag->kind == PLB_FLAG_FILE) {
        plb_strbuf_printf(out, "compopt -o default; return ;;\n");
    } else if (flag->kind == PLB_FLAG_CHOICE) {
        plb_strbuf_printf(out, "COMPREPLY=($(compgen -W '");
        append_choices(out, flag->value);
        plb_strbuf_printf(out, "' -- \"$word\")); return ;;\n");
    } else {
        plb_strbuf_printf(out, "return ;;\n"); // a number or a word that only the user knows
    }
}

static void bash_command(plb_strbuf *out, const plb_command *command) {
    plb_strbuf_printf(out, "    %s)\n        case $before in\n", command->name);
    for (size_t i = 0; i < command->flag_count; i++) bash_value(out, &command->flags[i]);
    plb_strbuf_printf(out, "        esac\n        flags='");
    for (size_t i = 0; i < command->flag_count; i++) {
        plb_strbuf_printf(out, "--%s ", command->flags[i].name);
    }
    for (size_t i = 0; i < plb_common_flag_count; i++) {
        plb_strbuf_printf(out, "%s--%s", i ? " " : "", plb_common_flags[i].name);
    }
    plb_strbuf_printf(out, "'\n");
    if (strcmp(command->name, "help") == 0) {
        plb_strbuf_printf(out, "        words='");
        append_commands(out);
        plb_strbuf_printf(out, "'\n");
    } else if (operand_words(command)) {
        plb_strbuf_printf(out, "        words='%s'\n", operand_words(command));
    } else if (command->completes) {
        plb_strbuf_printf(out, "        [[ $word == -* ]] || compopt -o default\n");
    }
    plb_strbuf_printf(out, "        ;;\n");
}

static void write_bash(plb_strbuf *out) {
    plb_strbuf_printf(out, "# bash completion for plumb; written by `plumb completion bash`\n"
                           "_plumb() {\n"
                           "    local word=${COMP_WORDS[COMP_CWORD]} flags= words=\n"
                           "    local before=${COMP_WORDS[COMP_CWORD - 1]}\n"
                           "    COMPREPLY=()\n"
                           "    if ((COMP_CWORD == 1)); then\n"
                           "        COMPREPLY=($(compgen -W '");
    append_commands(out);
    plb_strbuf_printf(out, " --help --version' -- \"$word\"))\n        return\n    fi\n"
                           "    case ${COMP_WORDS[1]} in\n");
    for (size_t i = 0; i < plb_command_count; i++) {
        if (!plb_commands[i]->hidden) bash_command(out, plb_commands[i]);
    }
    plb_strbuf_printf(out, "    esac\n"
                           "    [[ $word != -* ]] || words=$flags\n"
                           "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                           "}\n"
                           "complete -F _plumb plumb\n");
}

// Text inside single quotes and _arguments' brackets.
static void zsh_text(plb_strbuf *out, const char *text) {
    for (; *text; text++) {
        if (*text == '\'')
            plb_strbuf_printf(out, "'\\''");
        else if (strchr("[]:\\", *text))
            plb_strbuf_printf(out, "\\%c", *text);
        else
            plb_strbuf_append(out, text, 1);
    }
}

static void zsh_flag(plb_strbuf *out, const plb_flag *flag) {
    plb_strbuf_printf(out, " \\\n            '--%s%s[", flag->name,
                      flag->kind == PLB_FLAG_SWITCH ? "" : "=");
    zsh_text(out, flag->help);
    plb_strbuf_printf(out, "]");
    if (flag->kind != PLB_FLAG_SWITCH) {
        plb_strbuf_printf(out, ":");
        zsh_text(out, flag->kind == PLB_FLAG_CHOICE ? flag->name : flag->value);
        plb_strbuf_printf(out, ":");
        if (flag->kind == PLB_FLAG_FILE) plb_strbuf_printf(out, "_files");
        if (flag->kind == PLB_FLAG_CHOICE) {
            plb_strbuf_printf(out, "(");
            append_choices(out, flag->value);
            plb_strbuf_printf(out, ")");
        }
    }
    plb_strbuf_printf(out, "'");
}

static void zsh_command(plb_strbuf *out, const plb_command *command) {
    plb_strbuf_printf(out, "    %s)\n        _arguments", command->name);
    for (size_t i = 0; i < command->flag_count; i++) zsh_flag(out, &command->flags[i]);
    for (size_t i = 0; i < plb_common_flag_count; i++) zsh_flag(out, &plb_common_flags[i]);
    if (strcmp(command->name, "help") == 0) {
        plb_strbuf_printf(out, " \\\n            '*:command:(");
        append_commands(out);
        plb_strbuf_printf(out, ")'");
    } else if (operand_words(command)) {
        plb_strbuf_printf(out, " \\\n            '*:word:(%s)'", operand_words(command));
    } else if (command->completes) {
        plb_strbuf_printf(out, " \\\n            '*:file:_files'");
    }
    plb_strbuf_printf(out, "\n        ;;\n");
}

static void write_zsh(plb_strbuf *out) {
    plb_strbuf_printf(out, "#compdef plumb\n# written by `plumb completion zsh`\n"
                           "local -a commands=(\n");
    for (size_t i = 0; i < plb_command_count; i++) {
        if (plb_commands[i]->hidden) continue;
        plb_strbuf_printf(out, "    '%s:", plb_commands[i]->name);
        zsh_text(out, plb_commands[i]->summary);
        plb_strbuf_printf(out, "'\n");
    }
    plb_strbuf_printf(out, ")\nif ((CURRENT == 2)); then\n"
                           "    _describe command commands\n    return\nfi\n"
                           "local command=${words[2]}\nshift words\n((CURRENT--))\n"
                           "case $command in\n");
    for (size_t i = 0; i < plb_command_count; i++) {
        if (!plb_commands[i]->hidden) zsh_command(out, plb_commands[i]);
    }
    plb_strbuf_printf(out, "esac\n");
}

static plb_status run_completion(plb_call *call) {
    plb_strbuf out = {0};
    if (strcmp(call->operands[0], "bash") == 0)
        write_bash(&out);
    else if (strcmp(call->operands[0], "zsh") == 0)
        write_zsh(&out);
    else
        return plb_fail(PLB_EINVAL, "expected bash or zsh, found \"%s\"", call->operands[0]);
    return plb_cli_tell_text(call, "completion", &out);
}

const plb_command plb_cmd_completion = {
    .name = "completion",
    .summary = "print the completion script of a shell",
    .operands = "bash|zsh",
    .min_operands = 1,
    .max_operands = 1,
    .completes = "bash zsh",
    .hidden = true,
    .run = run_completion,
};
