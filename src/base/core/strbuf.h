// SPDX-License-Identifier: Apache-2.0
// A growing string. Appending after a failed append does nothing, so that callers check once.
#ifndef PLB_BASE_CORE_STRBUF_H
#define PLB_BASE_CORE_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "plumb/status.h"

typedef struct plb_strbuf {
    char *text; // NUL-terminated once something was appended; NULL before
    size_t length, capacity;
    bool failed; // an allocation failed; text holds what came before
} plb_strbuf;

PLB_API void plb_strbuf_printf(plb_strbuf *buf, const char *format, ...) PLB_PRINTF(2);
PLB_API void plb_strbuf_vprintf(plb_strbuf *buf, const char *format, va_list args);
PLB_API void plb_strbuf_append(plb_strbuf *buf, const char *bytes, size_t length);
PLB_API void plb_strbuf_free(plb_strbuf *buf); // back to {0}

// Distance of two words (insertions, deletions, substitutions, swaps of neighbours count 1).
PLB_API size_t plb_edit_distance(const char *a, const char *b);

// The nearest of `count` names to `word`, or NULL if none is near enough to suggest. Borrowed.
PLB_API const char *plb_nearest_name(const char *word, const char *const *names, size_t count);

#endif
