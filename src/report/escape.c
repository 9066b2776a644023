// SPDX-License-Identifier: Apache-2.0
#include "report/escape.h"

#include <stdint.h>
#include <string.h>

#include "base/core/utf8.h"

static const char replacement[] = "\xef\xbf\xbd"; // U+FFFD

// Controls of the second kind (U+0080 to U+009F) move some terminals' cursors, and marks that turn
// the direction of writing around make a text look like another one.
static int is_control(const unsigned char *p, size_t length) {
    if (length == 1) return *p < 0x20 || *p == 0x7f;
    if (length == 2) return p[0] == 0xc2 && p[1] < 0xa0;
    if (length == 3 && p[0] == 0xe2)
        return (p[1] == 0x80 && p[2] >= 0xaa && p[2] <= 0xae) ||
               (p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9);
    return 0;
}

// Hands over one character after the other; `instead` says what is written for it, NULL: itself.
typedef const char *(*instead_of)(char c);

static void escape(plb_strbuf *out, const char *text, instead_of instead, const char *kept) {
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        size_t length = plb_utf8_length((const char *)p);
        const char *other = length == 1 ? instead((char)*p) : NULL;
        if (other)
            plb_strbuf_append(out, other, strlen(other));
        else if (!length || (is_control(p, length) && !(length == 1 && strchr(kept, (int)*p))))
            plb_strbuf_append(out, replacement, 3);
        else
            plb_strbuf_append(out, (const char *)p, length);
        p += length ? length : 1;
    }
}

static const char *html_of(char c) {
    switch (c) {
    case '&': return "&amp;";
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '"': return "&quot;";
    case '\'': return "&#39;";
    default: return NULL;
    }
}

void plb_escape_html(plb_strbuf *out, const char *text) {
    escape(out, text, html_of, "\n\t");
}

// A new line in an attribute would be read as a blank.
static const char *xml_of(char c) {
    return c == '\n' ? "&#10;" : html_of(c);
}

void plb_escape_xml(plb_strbuf *out, const char *text) {
    escape(out, text, xml_of, "\t");
}

// What means something inside a line of Markdown; @ would call people on some sites.
static const char *markdown_of(char c) {
    switch (c) {
    case '<': return "&lt;";
    case '>': return "&gt;";
    case '&': return "&amp;";
    case '\\': return "\\\\";
    case '`': return "\\`";
    case '*': return "\\*";
    case '_': return "\\_";
    case '[': return "\\[";
    case ']': return "\\]";
    case '#': return "\\#";
    case '|': return "\\|";
    case '~': return "\\~";
    case '$': return "\\$";
    case '@': return "&#64;";
    case '\n':
    case '\t':
    case '\r': return " ";
    default: return NULL;
    }
}

void plb_escape_markdown(plb_strbuf *out, const char *text) {
    escape(out, text, markdown_of, "");
}

static const char *skip_digits(const char *text) {
    return text + strspn(text, "0123456789");
}

// Where the mark is that makes a list or a rule of a line; NULL: there is none.
static const char *block_mark(const char *text) {
    static const char blanks[] = " \t\r\n";
    const char *mark = skip_digits(text);
    if (mark > text) return (*mark == '.' || *mark == ')') && strchr(blanks, mark[1]) ? mark : NULL;
    if (*mark == '-') return mark[1] == '-' || strchr(blanks, mark[1]) ? mark : NULL;
    return *mark == '+' && strchr(blanks, mark[1]) ? mark : NULL;
}

// Blanks at the beginning would not be shown, and four of them make code.
void plb_escape_markdown_line(plb_strbuf *out, const char *text) {
    text += strspn(text, " \t\r\n");
    const char *mark = block_mark(text);
    if (mark) {
        plb_strbuf_append(out, text, (size_t)(mark - text));
        plb_strbuf_printf(out, "\\%c", *mark);
        text = mark + 1;
    }
    plb_escape_markdown(out, text);
}

static const char *csv_of(char c) {
    return c == '"' ? "\"\"" : NULL;
}

// Whether the whole text is a decimal number below 0: "-2+3" begins like one.
static int is_negative_number(const char *text) {
    const char *end = skip_digits(text + 1);
    if (*text != '-' || end == text + 1) return 0;
    if (*end == '.') end = skip_digits(end + 1);
    if (*end != 'e' && *end != 'E') return !*end;
    end += strchr("+-", end[1]) && end[1] ? 2 : 1;
    return *end && !*skip_digits(end);
}

// A number that begins with a minus is no formula, and neither is a minus alone.
static int is_formula(const char *text) {
    if (!strchr("=+-@\t\r", *text) || !*text) return 0;
    return strcmp(text, "-") != 0 && !is_negative_number(text);
}

void plb_escape_csv(plb_strbuf *out, const char *text) {
    const int formula = is_formula(text);
    if (!formula && !text[strcspn(text, ",\"\r\n")]) {
        escape(out, text, csv_of, "\t");
        return;
    }
    plb_strbuf_append(out, formula ? "\"'" : "\"", formula ? 2 : 1);
    escape(out, text, csv_of, "\n\r\t");
    plb_strbuf_append(out, "\"", 1);
}

static const char *as_it_is(char c) {
    (void)c;
    return NULL;
}

static const char *terminal_of(char c) {
    return c == '\n' || c == '\t' ? " " : NULL;
}

void plb_escape_lines(plb_strbuf *out, const char *text) {
    escape(out, text, as_it_is, "\n\r\t");
}

void plb_escape_terminal(plb_strbuf *out, const char *text) {
    escape(out, text, terminal_of, "");
}
