// SPDX-License-Identifier: Apache-2.0
#include "base/core/strbuf.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"

static bool reserve(plb_strbuf *buf, size_t more) {
    if (buf->failed || more > SIZE_MAX / 4 - buf->length) return !(buf->failed = true);
    size_t need = buf->length + more + 1;
    if (need <= buf->capacity) return true;
    size_t capacity = need < 128 ? 128 : need * 2;
    char *text = plb_realloc_array(buf->text, capacity, 1);
    if (!text) return !(buf->failed = true);
    buf->text = text;
    buf->capacity = capacity;
    return true;
}

void plb_strbuf_append(plb_strbuf *buf, const char *bytes, size_t length) {
    if (!reserve(buf, length)) return;
    if (length) memcpy(buf->text + buf->length, bytes, length);
    buf->length += length;
    buf->text[buf->length] = '\0';
}

void plb_strbuf_printf(plb_strbuf *buf, const char *format, ...) {
    va_list args;
    va_start(args, format);
    plb_strbuf_vprintf(buf, format, args);
    va_end(args);
}

void plb_strbuf_vprintf(plb_strbuf *buf, const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, args);
    if (n >= 0 && reserve(buf, (size_t)n)) {
        vsnprintf(buf->text + buf->length, (size_t)n + 1, format, again);
        buf->length += (size_t)n;
    }
    va_end(again);
}

void plb_strbuf_free(plb_strbuf *buf) {
    plb_free(buf->text);
    *buf = (plb_strbuf){0};
}

enum { MAX_WORD = 64 };

// Optimal string alignment, row by row; words longer than MAX_WORD are cut.
size_t plb_edit_distance(const char *a, const char *b) {
    size_t n = strnlen(a, MAX_WORD), m = strnlen(b, MAX_WORD);
    size_t row[3][MAX_WORD + 1];
    for (size_t j = 0; j <= m; j++) row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = row[i % 3], *before = row[(i + 2) % 3], *earlier = row[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = before[j - 1] + (a[i - 1] != b[j - 1]);
            if (before[j] + 1 < best) best = before[j] + 1;
            if (now[j - 1] + 1 < best) best = now[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && earlier[j - 2] + 1 < best) best = earlier[j - 2] + 1;
            now[j] = best;
        }
    }
    return row[n % 3][m];
}

const char *plb_nearest_name(const char *word, const char *const *names, size_t count) {
    const char *nearest = NULL;
    size_t least = strnlen(word, MAX_WORD) / 3 + 2; // further away is no suggestion
    for (size_t i = 0; i < count; i++) {
        size_t distance = plb_edit_distance(word, names[i]);
        if (distance < least) least = distance, nearest = names[i];
    }
    return nearest;
}
