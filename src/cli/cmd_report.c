// SPDX-License-Identifier: Apache-2.0
// What was measured, as people look at it: a page, a text, pictures, or plots in the terminal.
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/file.h"
#include "base/folder.h"
#include "cli/cli.h"
#include "cli/stored.h"
#include "report/json_read.h"
#include "report/write.h"
#include "store/study.h"
#include "study/document.h"

typedef struct report_flags {
    const char *db, *out, *format, *part;
    bool plot;
} report_flags;

static const plb_flag flags[] = {
    PLB_FLAG_DB(offsetof(report_flags, db)),
    {.name = "out",
     .letter = 'o',
     .kind = PLB_FLAG_FILE,
     .offset = offsetof(report_flags, out),
     .value = "FILE",
     .help = "where to (-o too); the suffix says the format"},
    {.name = "format",
     .kind = PLB_FLAG_CHOICE,
     .offset = offsetof(report_flags, format),
     .value = PLB_FORMAT_WORDS,
     .help = "default html; md and csv go to standard output"},
    {.name = "part",
     .kind = PLB_FLAG_STRING,
     .offset = offsetof(report_flags, part),
     .value = "NAME",
     .help = "only this figure or table"},
    {.name = "plot",
     .kind = PLB_FLAG_SWITCH,
     .offset = offsetof(report_flags, plot),
     .help = "print it, with figures as plots"},
};

enum { MOST_JSON_BYTES = 256 << 20 };

// ---------------------------------------------------------------------------- what
static plb_status read_file(const char *path, plb_document **out) {
    uint8_t *bytes;
    size_t size;
    PLB_TRY(plb_file_read(path, MOST_JSON_BYTES, &bytes, &size));
    plb_status status = plb_document_read_json((const char *)bytes, size, path, out);
    plb_free(bytes);
    return status;
}

// The run of the operand, the newest run of the study of that name, or the newest of all.
static plb_status read_run(const report_flags *f, const char *word, plb_document **out,
                           plb_strbuf *stem) {
    plb_store *store;
    plb_arena *arena;
    plb_run_row run;
    plb_study_row study = {0};
    plb_status status;
    PLB_TRY_OUT(plb_stored_open(f->db, &store, &arena));
    if (word && plb_store_find_study(store, 0, word, arena, &study) == PLB_OK) {
        plb_strbuf_printf(stem, "%s", word);
        status = plb_study_document(store, study.run, out);
        goto out;
    }
    if (word) {
        PLB_TRY_OUT(plb_stored_run(store, word, arena, &run));
    } else {
        plb_run_row *rows;
        size_t count;
        const plb_run_filter newest = {.limit = 1};
        PLB_TRY_OUT(plb_store_runs(store, &newest, arena, &rows, &count));
        if (!count) {
            status = plb_fail(PLB_EINVAL, "%s holds no run yet: plumb bench makes one",
                              plb_store_path(store));
            goto out;
        }
        run = rows[0];
    }
    plb_strbuf_printf(stem, "run-%" PRId64, run.id);
    status = plb_study_run_document(store, &run, out);
out:
    plb_store_close(store);
    plb_arena_free(arena);
    return status;
}

static bool ends_in(const char *text, const char *end) {
    const size_t length = strlen(text), tail = strlen(end);
    return length >= tail && strcmp(text + length - tail, end) == 0;
}

static plb_status read_document(const report_flags *f, const char *word, plb_document **out,
                                plb_strbuf *stem) {
    if (!word || !ends_in(word, ".json")) return read_run(f, word, out, stem);
    const char *slash = strrchr(word, '/');
    const char *name = slash ? slash + 1 : word;
    plb_strbuf_printf(stem, "%.*s", (int)(strlen(name) - strlen(".json")), name);
    return read_file(word, out);
}

// ---------------------------------------------------------------------------- where to
static plb_status choose_format(const report_flags *f, plb_format *out) {
    *out = PLB_FORMAT_HTML;
    if (f->format) return plb_format_parse(f->format, out);
    return f->out ? plb_format_of_path(f->out, out) : PLB_OK;
}

// reports/STEM.html beside the store's default place.
static plb_status default_path(const char *stem, plb_format format, plb_strbuf *out) {
    char store[4096];
    PLB_TRY(plb_store_default_path(store, sizeof store));
    char *slash = strrchr(store, '/');
    if (slash) *slash = '\0';
    plb_strbuf_printf(out, "%s/reports", store);
    if (out->failed) return plb_fail(PLB_ENOMEM, "out of memory for a path");
    PLB_TRY(plb_folder_make(out->text));
    plb_strbuf_printf(out, "/%s.%s", stem, plb_format_word(format));
    return out->failed ? plb_fail(PLB_ENOMEM, "out of memory for a path") : PLB_OK;
}

// Whether the path is where standard output goes: /dev/stdout, or the file it was redirected to.
static bool is_own_output(const char *path) {
    struct stat own, other;
    return !fstat(STDOUT_FILENO, &own) && !stat(path, &other) && own.st_dev == other.st_dev &&
           own.st_ino == other.st_ino;
}

// Paths that were written: lines, or elements of a JSON array. Not behind the page itself.
static void tell(void *context, const char *path) {
    plb_json *json = context;
    if (json)
        plb_json_string(json, NULL, path);
    else if (!is_own_output(path))
        plb_print("%s\n", path);
}

static plb_status write_files(const plb_call *call, const plb_document *d, plb_format format,
                              const char *stem) {
    const report_flags *f = call->options;
    plb_strbuf path = {0};
    plb_json json = {0};
    plb_status status;
    if (f->out)
        plb_strbuf_printf(&path, "%s", f->out);
    else
        PLB_TRY_OUT(default_path(stem, format, &path));
    if (call->json) {
        plb_cli_json_begin(&json, "report", 1);
        plb_json_begin_array(&json, "files");
    }
    PLB_TRY_OUT(plb_document_write(d, format, f->part, path.text, tell, call->json ? &json : NULL));
    if (call->json) {
        plb_json_end(&json);
        status = plb_cli_json_print(&json);
    }
out:
    plb_json_free(&json);
    plb_strbuf_free(&path);
    return status;
}

static plb_status print_text(const report_flags *f, const plb_document *d, plb_format format) {
    plb_strbuf text = {0};
    plb_status status;
    if (f->plot) {
        plb_terminal terminal = plb_terminal_of(STDOUT_FILENO);
        terminal.plots = true;
        status = plb_document_terminal(d, &terminal, &text);
    } else if (format == PLB_FORMAT_MARKDOWN) {
        status = plb_document_markdown(d, &text);
    } else {
        status = plb_document_csv(d, f->part, &text);
    }
    if (!status) plb_print_text(&text);
    plb_strbuf_free(&text);
    return status;
}

static plb_status run_report(plb_call *call) {
    const report_flags *f = call->options;
    plb_document *document = NULL;
    plb_strbuf stem = {0};
    plb_format format;
    plb_status status;
    PLB_TRY(choose_format(f, &format));
    if (f->plot && call->json) return plb_fail(PLB_EINVAL, "--plot prints no JSON");
    PLB_TRY_OUT(read_document(f, call->operand_count ? call->operands[0] : NULL, &document, &stem));
    if (f->part) PLB_TRY_OUT(plb_document_keep(document, f->part));
    const bool text = format == PLB_FORMAT_MARKDOWN || format == PLB_FORMAT_CSV;
    const bool prints = f->plot || (text && !f->out && !call->json);
    if (prints) PLB_TRY_OUT(print_text(f, document, format));
    status = prints && !f->out
                 ? PLB_OK
                 : write_files(call, document, format, stem.text ? stem.text : "report");
out:
    plb_document_free(document);
    plb_strbuf_free(&stem);
    return status;
}

const plb_command plb_cmd_report = {
    .name = "report",
    .summary = "show a run as a page, a text, pictures or plots",
    .operands = "[RUN|FILE.json]",
    .description =
        "RUN is a number, a label or a git revision; without one the newest run is shown. A\n"
        "FILE.json holds a report that somebody wrote (docs/report.md).\n\n"
        "The page is one file that opens without a network. Without -o it is written to\n"
        "plumb/reports in $XDG_DATA_HOME, and its path is printed. --plot prints the same\n"
        "figures in the terminal; colours only there, and not if NO_COLOR is set. png and pdf\n"
        "need cairo; png and svg write a file a figure, F-NAME.png.",
    .min_operands = 0,
    .max_operands = 1,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(report_flags),
    .completes = "",
    .run = run_report,
};
