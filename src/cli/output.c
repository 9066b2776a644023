// SPDX-License-Identifier: Apache-2.0
// What the program says, and how it ends: standard output with its errors, notes, Ctrl-C, exit
// codes.
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/atomic_file.h"
#include "base/core/status.h"
#include "base/core/stop.h"
#include "cli/cli.h"
#include "plumb/version.h"
#include "report/escape.h"

static int output_errno; // of the first write that failed; 0 while all is well

static void remember_error(int result) {
    if (result < 0 && !output_errno) output_errno = errno ? errno : EIO;
}

void plb_print_text(const plb_strbuf *text) {
    if (text->text && fwrite(text->text, 1, text->length, stdout) != text->length) {
        remember_error(-1);
    }
}

// A name from a file may hold what steers a terminal.
void plb_print(const char *format, ...) {
    plb_strbuf text = {0}, plain = {0};
    va_list args;
    va_start(args, format);
    plb_strbuf_vprintf(&text, format, args);
    va_end(args);
    if (text.text) plb_escape_lines(&plain, text.text);
    plb_print_text(&plain);
    if (text.failed || plain.failed) errno = ENOMEM, remember_error(-1);
    plb_strbuf_free(&text);
    plb_strbuf_free(&plain);
}

// A name from a file or a shell may hold what ends a line or steers a terminal.
static void say(const char *prefix, const char *format, va_list args) {
    plb_strbuf text = {0}, line = {0};
    plb_strbuf_printf(&line, "%s", prefix);
    plb_strbuf_vprintf(&text, format, args);
    plb_escape_terminal(&line, text.text ? text.text : "");
    plb_strbuf_printf(&line, "\n");
    fputs(line.failed || text.failed ? "plumb: out of memory\n" : line.text, stderr);
    plb_strbuf_free(&text);
    plb_strbuf_free(&line);
}

void plb_note(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say("plumb: ", format, args);
    va_end(args);
}

void plb_cli_say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    say("", format, args);
    va_end(args);
}

plb_status plb_cli_close_output(void) {
    // errno of an earlier failure is gone by now, but a full disk is still full.
    remember_error(fflush(stdout));
    if (!output_errno && ferror(stdout)) output_errno = EIO;
    if (!output_errno) return PLB_OK;
    errno = output_errno;
    return plb_fail_errno("cannot write to standard output");
}

bool plb_cli_reader_left(void) {
    return output_errno == EPIPE;
}

void plb_cli_json_begin(plb_json *json, const char *document, int document_version) {
    *json = (plb_json){0};
    plb_json_begin_object(json, NULL);
    plb_json_string(json, "plumb", PLUMB_VERSION);
    plb_json_string(json, "document", document);
    plb_json_int(json, "document_version", document_version);
}

plb_status plb_cli_json_print(plb_json *json) {
    plb_json_end(json);
    plb_status status = plb_json_status(json);
    if (!status) {
        plb_print_text(&json->text);
        plb_print("\n");
    }
    plb_json_free(json);
    return status;
}

plb_status plb_cli_tell_text(const plb_call *call, const char *document, plb_strbuf *text) {
    plb_status status = text->failed ? plb_fail(PLB_ENOMEM, "out of memory") : PLB_OK;
    if (!status && call->json) {
        plb_json json;
        plb_cli_json_begin(&json, document, 1);
        plb_json_string(&json, "text", text->text);
        status = plb_cli_json_print(&json);
    } else if (!status) {
        plb_print_text(text);
    }
    plb_strbuf_free(text);
    return status;
}

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

// Code that oneDNN makes at run time keeps other things than a stack in the stack pointer, so that
// a handler that began there would write over the heap. Sanitizers bring such a stack themselves.
static void give_handlers_a_stack(void) {
    enum { STACK_BYTES = 1 << 16 }; // the registers of a wide processor alone take 12 KiB
    static _Alignas(64) char stack[STACK_BYTES];
    const stack_t own = {.ss_sp = stack, .ss_size = sizeof stack};
    stack_t before;
    if (sigaltstack(NULL, &before) == 0 && before.ss_flags & SS_DISABLE) sigaltstack(&own, NULL);
}

void plb_cli_handle(int signal_number, void (*handler)(int), int flags) {
    const struct sigaction action = {.sa_handler = handler, .sa_flags = flags | SA_ONSTACK};
    struct sigaction before;
    give_handlers_a_stack();
    if (sigaction(signal_number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(signal_number, &action, NULL);
}

void plb_cli_catch_interrupt(void) {
    // SA_RESETHAND: the second Ctrl-C finds the default action and kills. No SA_RESTART: a read
    // that waits for data returns, and its loop asks.
    plb_cli_handle(SIGINT, on_interrupt, (int)SA_RESETHAND);
    plb_cli_handle(SIGTERM, on_interrupt, (int)SA_RESETHAND); // of timeout(1) and job schedulers
}

bool plb_cli_interrupted(void) {
    return interrupted;
}

bool plb_cli_stop(void *context) {
    (void)context;
    return interrupted;
}

plb_status plb_cli_go_on(void) {
    return interrupted ? plb_fail(PLB_ECANCELLED, "interrupted") : PLB_OK;
}

void plb_cli_stop_engine(void) {
    plb_stop_set(plb_cli_stop, NULL);
}

plb_status plb_cli_check_writable(const char *flag, const char *path) {
    plb_status status = path ? plb_atomic_check(path) : PLB_OK;
    return status ? plb_fail_context(status, "--%s", flag) : PLB_OK;
}

int plb_cli_exit_code(plb_status status) {
    switch (status) {
    case PLB_OK: return PLB_EXIT_FINE;
    case PLB_EINVAL:
    case PLB_EUNSUPPORTED:
    case PLB_EIO: return PLB_EXIT_INPUT;
    case PLB_EMISSING:
    case PLB_EFULL:
    case PLB_ENOMEM: return PLB_EXIT_MACHINE;
    case PLB_ECANCELLED: return PLB_EXIT_INTERRUPTED;
    case PLB_EBROKEN: return PLB_EXIT_BROKEN;
    }
    return PLB_EXIT_BROKEN;
}
