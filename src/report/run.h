// SPDX-License-Identifier: Apache-2.0
// A run of the store as a document: verdicts in words, times of every stack, what they cost before
// the first result and in memory, sweeps, warm-up, history, all cases, proof and fingerprint.
#ifndef PLB_REPORT_RUN_H
#define PLB_REPORT_RUN_H

#include "base/core/strbuf.h"
#include "bench/verdict.h"
#include "report/document.h"
#include "store/read.h"

// Freed by plb_document_free. `store` is only read (and its cache of summaries filled).
PLB_API PLB_MUST_USE plb_status plb_report_run(plb_store *store, const plb_run_row *run,
                                               plb_document **out);

// Processors that other programs kept busy: the most of when the run began and when it was taken up
// again.
PLB_API double plb_report_others_cpus(const plb_run_row *run);

// The run's command and those by which it was taken up again, one a line.
PLB_API void plb_report_add_commands(const plb_run_row *run, plb_strbuf *out);

// Sentences of what makes every number of the run doubtful: others kept the machine busy, a quota
// stopped it, the run did not end.
PLB_API void plb_report_say_machine(const plb_run_row *run, plb_document *document);

// Slower is bad, faster and the same are good.
PLB_API plb_tone plb_verdict_tone(plb_verdict verdict);

#endif
