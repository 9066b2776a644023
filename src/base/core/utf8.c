// SPDX-License-Identifier: Apache-2.0
#include "base/core/utf8.h"

#include <stdbool.h>
#include <string.h>

size_t plb_utf8_length(const char *text) {
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    size_t length = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
    unsigned char low = s[0] == 0xe0 ? 0xa0 : s[0] == 0xf0 ? 0x90 : 0x80;
    unsigned char high = s[0] == 0xed ? 0x9f : s[0] == 0xf4 ? 0x8f : 0xbf;
    if (s[1] < low || s[1] > high) return 0;
    for (size_t i = 2; i < length; i++) {
        if ((s[i] & 0xc0) != 0x80) return 0;
    }
    return length;
}

// Whether the text ends in the middle of what may have been a character.
static bool is_cut(const char *text) {
    const unsigned char first = (unsigned char)*text;
    const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4, left = strlen(text);
    if (first < 0xc2 || first > 0xf4 || left >= length) return false;
    for (size_t i = 1; i < left; i++) {
        if (((unsigned char)text[i] & 0xc0) != 0x80) return false;
    }
    return true;
}

void plb_utf8_make_line(char *text) {
    for (char *at = text; *at;) {
        const size_t length = plb_utf8_length(at);
        if (!length && is_cut(at)) {
            *at = 0;
            return;
        }
        if (!length) *at = '?';
        if (length == 1 && ((unsigned char)*at < ' ' || *at == 0x7f)) *at = ' ';
        at += length ? length : 1;
    }
}
