// SPDX-License-Identifier: Apache-2.0
// What stands behind each address. Pages are made from the store as it is at that moment.
//
//     /                 all runs
//     /run/12           a run, as `plumb report 12` shows it; loads anew while it is measured
//     /case/HASH        a case in every run that has it
//     /compare/11/12    two runs, case by case
#ifndef PLB_SERVE_PAGES_H
#define PLB_SERVE_PAGES_H

#include "base/core/strbuf.h"
#include "store/store.h"

// The page at `path` into `out`. *status is HTTP's: 200, or 404 with a page that says what there is
// not. An error is the server's own.
PLB_API PLB_MUST_USE plb_status plb_serve_page(plb_store *store, const char *path, plb_strbuf *out,
                                               int *status);

#endif
