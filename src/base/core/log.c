// SPDX-License-Identifier: Apache-2.0
#include "base/core/log.h"

#include <stdarg.h>
#include <stdio.h>

static plb_log_sink sink_function;
static void *sink_context;

void plb_log_set_sink(plb_log_sink sink, void *context) {
    sink_function = sink;
    sink_context = context;
}

void plb_log_line(plb_log_level level, const char *format, ...) {
    if (!sink_function) return;
    char line[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    sink_function(sink_context, level, line);
}
