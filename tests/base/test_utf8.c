// SPDX-License-Identifier: Apache-2.0
// What is a character (RFC 3629, and the examples of Markus Kuhn's "UTF-8 decoder capability and
// stress test"), and lines made of what is none.
#include <stdio.h>
#include <string.h>

#include "base/core/utf8.h"
#include "check.h"

static void what_is_a_character(void) {
    static const struct {
        const char *text;
        size_t length;
    } cases[] = {
        {"a", 1},        {"\x7f", 1},         {"\xc3\xa9", 2},         {"\xe2\x82\xac", 3},
        {"\x80", 0},     {"\xc0\xaf", 0},     {"\xe0\x80\xaf", 0},     {"\xf0\x9f\x98\x80", 4},
        {"\xc3", 0},     {"\xed\xa0\x80", 0}, {"\xf4\x8f\xbf\xbf", 4}, {"\xf4\x90\x80\x80", 0},
        {"\xe2\x82", 0}, {"\xfe", 0},         {"\xf8\x88\x80\x80", 0}, {"\xed\x9f\xbf", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t found = plb_utf8_length(cases[i].text);
        CHECK_SAY(found == cases[i].length, "case %zu: %zu", i, found);
    }
}

static void lines_are_made(void) {
    static const struct {
        const char *text, *line;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"two\nlines\ttab\x7f", "two lines tab "},
        {"caf\xe9 latin", "caf? latin"},      // Latin-1
        {"caf\xc3\xa9", "caf\xc3\xa9"},       // the same in UTF-8
        {"price 5 \xe2\x82", "price 5 "},     // cut in the middle
        {"\xe2\x82 in front", "?? in front"}, // not cut, but broken
        {"\xc3", ""},                         // nothing but a beginning
        {"\xf0\x9f\x98\x80\xf0\x9f", "\xf0\x9f\x98\x80"},
        {"\xff\xfe", "??"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        snprintf(text, sizeof text, "%s", cases[i].text);
        plb_utf8_make_line(text);
        CHECK_SAY(strcmp(text, cases[i].line) == 0, "case %zu: '%s'", i, text);
    }
}

static const check_test tests[] = {
    {"what is a character", what_is_a_character},
    {"lines are made", lines_are_made},
};
CHECK_MAIN(tests)
