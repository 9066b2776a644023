// SPDX-License-Identifier: Apache-2.0
#include "cli/typed.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
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

// Copies the word at *text without its quotes, and moves *text behind it.
static plb_status take_word(const char **text, char *out) {
    bool quoted = false;
    const char *at = *text;
    for (; *at && (quoted || *at != ' '); at++) {
        if (*at == '\'')
            quoted = !quoted;
        else if (!quoted && *at == '\\' && at[1])
            *out++ = *++at;
        else
            *out++ = *at;
    }
    *out = '\0';
    if (quoted) return plb_fail(PLB_EINVAL, "%s: a quote without its end", *text);
    *text = at;
    return PLB_OK;
}

plb_status plb_typed_words(const char *text, plb_arena *arena, char ***words, int *count) {
    const size_t most = strlen(text) / 2 + 2; // a letter and a blank each
    *count = 0;
    *words = plb_arena_alloc(arena, most * sizeof **words);
    if (!*words) return plb_fail(PLB_ENOMEM, "out of memory for a command");
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        char *word = plb_arena_alloc(arena, strlen(text) + 1);
        if (!word) return plb_fail(PLB_ENOMEM, "out of memory for a command");
        PLB_TRY(take_word(&text, word));
        (*words)[(*count)++] = word;
    }
    return PLB_OK;
}
