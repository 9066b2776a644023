// SPDX-License-Identifier: Apache-2.0
// Libraries never print: they hand lines to a sink that the program sets (the CLI's goes to
// stderr). Without a sink, lines vanish.
#ifndef PLB_BASE_CORE_LOG_H
#define PLB_BASE_CORE_LOG_H

#include "plumb/status.h"

typedef enum plb_log_level { PLB_LOG_WARN, PLB_LOG_INFO, PLB_LOG_DEBUG } plb_log_level;

typedef void (*plb_log_sink)(void *context, plb_log_level level, const char *line);

// Set before threads start; NULL removes it.
PLB_API void plb_log_set_sink(plb_log_sink sink, void *context);
PLB_API void plb_log_line(plb_log_level level, const char *format, ...) PLB_PRINTF(2);

#endif
