// SPDX-License-Identifier: Apache-2.0
// What a command is and what it may use. A command is one file, cmd_NAME.c, that ends in
// `const plb_command plb_cmd_NAME`, and one line in commands.def.
//
// Only the CLI prints. Results go to standard output through plb_print, so that a full disk or a
// closed pipe is noticed; progress and remarks go to standard error through plb_note. With --json
// a command prints exactly one document, begun by plb_cli_json_begin.
#ifndef PLB_CLI_CLI_H
#define PLB_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "cli/args.h"
#include "plumb/status.h"

// Exit codes of every command.
enum {
    PLB_EXIT_FINE = 0,
    PLB_EXIT_NEGATIVE = 1,     // an answer, but a bad one: slower, not equal
    PLB_EXIT_INPUT = 2,        // bad usage or bad input
    PLB_EXIT_MACHINE = 3,      // the machine lacks something, or its disk or memory is full
    PLB_EXIT_UNSURE = 4,       // where told to fail on it
    PLB_EXIT_NOTHING = 5,      // nothing was measured
    PLB_EXIT_BROKEN = 6,       // a part of Plumb broke
    PLB_EXIT_INTERRUPTED = 130 // by the user
};

typedef struct plb_call {
    const void *options; // the command's own struct, filled
    char **operands;     // the words that are not flags
    int operand_count;   // within the command's limits
    bool json;           // --json was given
    int exit_code;       // set by the command for an answer that is not 0; see above
} plb_call;

typedef struct plb_command {
    const char *name;
    const char *summary;     // one line, no full stop
    const char *operands;    // "[NAME]", "IMAGE..."; NULL for none
    const char *description; // for --help and the manual: short paragraphs, separated by "\n\n"
    int min_operands;
    int max_operands; // -1: any number
    const plb_flag *flags;
    size_t flag_count;
    size_t options_bytes;  // of the struct that the flags fill
    bool hidden;           // left out of help and completion
    bool plain;            // refuses --json
    const char *completes; // words that complete the operands: "list get check"; "" for files

    // Does the work. A status other than PLB_OK becomes one line on standard error and the exit
    // code that belongs to it.
    plb_status (*run)(plb_call *call);
} plb_command;

// All commands, in the order of the help.
extern const plb_command *const plb_commands[];
extern const size_t plb_command_count;
const plb_command *plb_command_find(const char *name); // NULL if there is none
extern const plb_flag plb_common_flags[];              // of every command: --help, --json
extern const size_t plb_common_flag_count;

// Flags of commands that compute, for a struct with `const char *device, *math, *autocast`.
#define PLB_DEVICE_FLAGS                                                            \
    {FLAG("device", STRING, device), .value = "D",                                  \
     .help = "cpu, cuda or cuda:1, ...; default cpu"},                              \
        {FLAG("math", CHOICE, math), .value = "f32|tf32",                           \
         .help = "how a device multiplies f32; default f32"},                       \
        {FLAG("tune-time", INT, tune_seconds), .value = "S", .min = 1, .max = 3600, \
         .help = "seconds for timing new kernels; on a device 20"},                 \
    {                                                                               \
        FLAG("autocast", CHOICE, autocast),                                         \
            .value = "none|bf16|f16",                                               \
            .help = "mixed precision: matrix ops in 16 bits; default none"          \
    }

// Text to standard output; the first error is kept for plb_cli_close_output.
void plb_print(const char *format, ...) PLB_PRINTF(1);
void plb_print_text(const plb_strbuf *text);
// Prints a text that was generated, with --json as `document` with the one key "text", and frees
// it. PLB_ENOMEM if it failed.
PLB_MUST_USE plb_status plb_cli_tell_text(const plb_call *call, const char *document,
                                          plb_strbuf *text);
// One line, "plumb: ...", to standard error. Control characters are replaced, so that it is one
// line whatever the names in it hold.
void plb_note(const char *format, ...) PLB_PRINTF(1);
void plb_cli_say(const char *format, ...) PLB_PRINTF(1); // the same without "plumb: "

// Begins the document: {"plumb": version, "document": "doctor", "document_version": 1.
void plb_cli_json_begin(plb_json *json, const char *document, int document_version);
// Ends and prints it, and frees it.
PLB_MUST_USE plb_status plb_cli_json_print(plb_json *json);

// Flushes standard output: PLB_EFULL or PLB_EIO if anything that was printed got lost.
PLB_MUST_USE plb_status plb_cli_close_output(void);
// Whether what was lost went into a pipe whose reader had left.
bool plb_cli_reader_left(void);

// Has `handler` called at a signal, on a stack of its own and with these flags of sigaction; unless
// it is ignored, as shells have Ctrl-C for jobs in the background: then it stays so. For the main
// thread, to which signals of the process come first.
void plb_cli_handle(int signal_number, void (*handler)(int), int flags);
// From now on the first Ctrl-C only sets a flag; a second one kills. Unless it is ignored: then it
// stays so.
void plb_cli_catch_interrupt(void);
// For long loops to ask: then stop, and return PLB_ECANCELLED.
bool plb_cli_interrupted(void);
bool plb_cli_stop(void *context);            // the same as a callback
PLB_MUST_USE plb_status plb_cli_go_on(void); // PLB_ECANCELLED, with its text, if it was
// From now on Ctrl-C also ends what the engine does between such questions: for commands that have
// nothing to save.
void plb_cli_stop_engine(void);

// Whether a file can be put at `path`, which is asked before long work; NULL is fine.
PLB_MUST_USE plb_status plb_cli_check_writable(const char *flag, const char *path);

int plb_cli_exit_code(plb_status status);

// Fills a command's `options` from words as it gets them, which come out with the operands in
// front. PLB_EINVAL as plb_args_parse has it.
PLB_MUST_USE plb_status plb_cli_parse(const plb_command *command, int argc, char **argv,
                                      void *options, int *operand_count);

// The whole program but for main: finds the command, runs it, returns the exit code.
int plb_cli_main(int argc, char **argv);

// Generated from the tables.
void plb_cli_help(plb_strbuf *out);
void plb_cli_help_command(const plb_command *command, plb_strbuf *out);
void plb_cli_help_json(const plb_command *command, plb_json *json); // NULL: all but hidden ones

#endif
