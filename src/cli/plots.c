// SPDX-License-Identifier: Apache-2.0
#include "cli/plots.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/core/status.h"
#include "cli/cli.h"
#include "cli/stored.h"
#include "report/terminal.h"
#include "report/write.h"
#include "study/document.h"

plb_status plb_plot_document(const plb_document *document) {
    plb_strbuf text = {0};
    plb_terminal terminal = plb_terminal_of(STDOUT_FILENO);
    terminal.plots = true;
    plb_status status = plb_document_terminal(document, &terminal, &text);
    if (!status) plb_print_text(&text);
    plb_strbuf_free(&text);
    return status;
}

plb_status plb_plot_run(plb_store *store, const plb_run_row *run) {
    plb_document *document = NULL;
    PLB_TRY(plb_study_run_document(store, run, &document));
    plb_status status = plb_plot_document(document);
    plb_document_free(document);
    return status;
}

plb_status plb_plot_stored(const char *path, int64_t id) {
    plb_store *store;
    plb_arena *arena;
    plb_run_row *rows;
    size_t count;
    plb_status status;
    const plb_run_filter filter = {.id = id};
    PLB_TRY_OUT(plb_stored_open(path, &store, &arena));
    PLB_TRY_OUT(plb_store_runs(store, &filter, arena, &rows, &count));
    status = count ? plb_plot_run(store, &rows[0])
                   : plb_fail(PLB_EMISSING, "no run %" PRId64 " in the store", id);
out:
    plb_store_close(store);
    plb_arena_free(arena);
    return status;
}
