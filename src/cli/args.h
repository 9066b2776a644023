// SPDX-License-Identifier: Apache-2.0
// Flags of a command as a table. Parsing, `--help`, the manual page and the shells' completion all
// read the same table, so that they cannot disagree. A command declares a struct of options and
// one row a flag that says where in the struct the value goes:
//
//     typedef struct options { int64_t batch; const char *save; bool quick; } options;
//     static const plb_flag flags[] = {
//         {.name = "batch", .kind = PLB_FLAG_INT, .offset = offsetof(options, batch),
//          .value = "N", .min = 1, .max = 65536, .fallback = "64", .help = "samples of a step"},
//         {.name = "quick", .kind = PLB_FLAG_SWITCH, .offset = offsetof(options, quick),
//          .help = "one start instead of three"},
//     };
#ifndef PLB_CLI_ARGS_H
#define PLB_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/strbuf.h"
#include "plumb/status.h"

typedef enum plb_flag_kind {
    PLB_FLAG_SWITCH, // bool; takes no value
    PLB_FLAG_INT,    // int64_t in [min, max]
    PLB_FLAG_DOUBLE, // finite double in [low, high]
    PLB_FLAG_STRING, // const char *, borrowed from argv; NULL when not given
    PLB_FLAG_FILE,   // the same, completed by the shells as a file name
    PLB_FLAG_CHOICE, // const char *, one of the words of `value`, "sgd|adam|adamw"
} plb_flag_kind;

typedef struct plb_flag {
    const char *name; // "batch" for --batch
    char letter;      // 'o' for -o as well; 0: none
    plb_flag_kind kind;
    size_t offset;        // of the field in the options struct
    const char *value;    // what the help calls the value, "N"; the words of a choice
    const char *fallback; // the default as a user would type it; NULL: 0, false or NULL
    int64_t min, max;     // INT
    double low, high;     // DOUBLE; HUGE_VAL for "any"
    const char *help;     // one line, no full stop, without range and default
} plb_flag;

// Sets every field to its fallback.
void plb_args_reset(const plb_flag *flags, size_t count, void *options);

// Fills `options` from argv, in which --name value, --name=value and operands may be mixed; `--`
// ends the flags. Operands are moved to the front of argv and counted. A flag given twice counts
// as given last. PLB_EINVAL names the flag, what was expected and what was found. What fails may
// have set some fields.
PLB_MUST_USE plb_status plb_args_parse(const plb_flag *flags, size_t count, void *options, int argc,
                                       char **argv, int *operand_count);

// Lines "  --batch N   samples of a step (1 to 65536, default 64)".
void plb_args_help(const plb_flag *flags, size_t count, plb_strbuf *out);

// "(1 to 65536, default 64)" or nothing; begins with a space.
void plb_args_help_limits(const plb_flag *flag, plb_strbuf *out);

// `text` as an integer or a finite decimal number, whole and in range; PLB_EINVAL says what was
// expected and found.
PLB_MUST_USE plb_status plb_parse_int(const char *text, int64_t min, int64_t max, int64_t *out);
PLB_MUST_USE plb_status plb_parse_double(const char *text, double low, double high, double *out);

#endif
