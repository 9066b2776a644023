// SPDX-License-Identifier: Apache-2.0
// What `--plot` of several commands does: a report in the terminal, its figures as plots.
#ifndef PLB_CLI_PLOTS_H
#define PLB_CLI_PLOTS_H

#include "report/document.h"
#include "store/read.h"

// Prints the document, which stays the caller's, in colours where standard output is a terminal.
PLB_MUST_USE plb_status plb_plot_document(const plb_document *document);
// The report of a run.
PLB_MUST_USE plb_status plb_plot_run(plb_store *store, const plb_run_row *run);
// The report of run `id` of the store at `path`; NULL: the default one.
PLB_MUST_USE plb_status plb_plot_stored(const char *path, int64_t id);

#endif
