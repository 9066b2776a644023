// SPDX-License-Identifier: Apache-2.0
// How `plumb train` tells what it did: a line while it runs, a table of epochs, memory and ops, or
// one JSON document.
#ifndef PLB_CLI_TRAIN_REPORT_H
#define PLB_CLI_TRAIN_REPORT_H

#include "train/loop.h"

typedef struct plb_train_report {
    const plb_train_options *options;
    const plb_train_result *result;
    int64_t train_count, test_count; // samples used
    int64_t loaded_rss_bytes;        // resident before the model was built
    int64_t peak_rss_bytes;
} plb_train_report;

// One line on standard error that each call replaces; only where that is a terminal.
void plb_train_show_progress(const plb_train_event *event);
void plb_train_clear_progress(void);

void plb_train_print_head(const plb_train_report *report);
void plb_train_print_epoch(const plb_train_epoch *epoch);
void plb_train_print_end(const plb_train_report *report);
PLB_MUST_USE plb_status plb_train_print_json(const plb_train_report *report);

#endif
