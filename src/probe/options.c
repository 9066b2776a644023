// SPDX-License-Identifier: Apache-2.0
#include "probe/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_word(plb_probe_options *o, const char *word) {
    if (strcmp(word, "calls") == 0) o->all_calls = true;
    if (strcmp(word, "ranges") == 0) o->ranges = true;
    if (strcmp(word, "graphs") == 0) o->whole_graphs = true;
    if (strcmp(word, "program") == 0) o->follow_program = true;
    if (strcmp(word, "file") == 0) o->follow_file = true;
    if (strcmp(word, "sources") == 0) o->sources = true;
    if (strncmp(word, "cost=", 5) == 0) o->cost = true, o->block_ms = atoll(word + 5);
    if (strncmp(word, "rest=", 5) == 0) o->rest_ms = atoll(word + 5);
    if (strncmp(word, "budget=", 7) == 0) o->budget_ppm = atoll(word + 7);
    if (strncmp(word, "trace=", 6) == 0) o->trace_bytes = atoll(word + 6);
    if (strncmp(word, "delay=", 6) == 0) o->delay_ms = atoll(word + 6);
    if (strncmp(word, "limit=", 6) == 0) o->limit_ms = atoll(word + 6);
    if (strncmp(word, "counters=", 9) == 0) o->counters = (uint32_t)atoll(word + 9);
}

void plb_probe_read_options(plb_probe_options *options) {
    const char *folder = getenv("PLUMB_PROBE_DIR"), *cupti = getenv("PLUMB_PROBE_CUPTI");
    const char *words = getenv("PLUMB_PROBE_OPTIONS");
    char copy[256], *rest = copy, *word;
    *options = (plb_probe_options){0};
    if (folder) snprintf(options->folder, sizeof options->folder, "%s", folder);
    if (cupti) snprintf(options->cupti, sizeof options->cupti, "%s", cupti);
    snprintf(copy, sizeof copy, "%s", words ? words : "");
    while ((word = strtok_r(rest, ",", &rest))) read_word(options, word);
}
