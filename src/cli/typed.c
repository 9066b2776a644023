// SPDX-License-Identifier: Apache-2.0
#include "cli/typed.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/strbuf.h"
#include "base/file.h"

static void put_word(plb_strbuf *out, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "-_=+,./:@%";
    if (*word && !word[strspn(word, plain)]) {
        plb_strbuf_printf(out, "%s", word);
        return;
    }
    plb_strbuf_append(out, "'", 1);
    for (; *word; word++) {
        if (*word == '\'')
            plb_strbuf_printf(out, "'\\''");
        else
            plb_strbuf_append(out, word, 1);
    }
    plb_strbuf_append(out, "'", 1);
}

const char *plb_typed_command(plb_arena *arena) {
    uint8_t *bytes = NULL;
    size_t size = 0;
    plb_strbuf text = {0};
    if (plb_file_read("/proc/self/cmdline", 1 << 20, &bytes, &size)) return NULL;
    plb_strbuf_printf(&text, "plumb");
    const char *all = (const char *)bytes;
    size_t at = strnlen(all, size) + 1; // beyond the program
    while (at < size) {
        size_t length = strnlen(all + at, size - at);
        char *word = plb_arena_alloc(arena, length + 1);
        if (!word) break;
        memcpy(word, all + at, length);
        plb_strbuf_append(&text, " ", 1);
        put_word(&text, word);
        at += length + 1;
    }
    const char *copy = text.failed || at < size ? NULL : plb_arena_strdup(arena, text.text);
    plb_strbuf_free(&text);
    plb_free(bytes);
    return copy;
}
