// SPDX-License-Identifier: Apache-2.0
#include "cli/args.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"

enum { MAX_FLAGS = 64 };

plb_status plb_parse_int(const char *text, int64_t min, int64_t max, int64_t *out) {
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    bool whole = *text && !isspace((unsigned char)*text) && *end == '\0';
    if (!whole || errno || value < min || value > max) {
        if (max == INT64_MAX && min == INT64_MIN) {
            return plb_fail(PLB_EINVAL, "expected an integer, found \"%s\"", text);
        }
        if (max == INT64_MAX) {
            return plb_fail(PLB_EINVAL, "expected an integer of at least %lld, found \"%s\"",
                            (long long)min, text);
        }
        return plb_fail(PLB_EINVAL, "expected an integer from %lld to %lld, found \"%s\"",
                        (long long)min, (long long)max, text);
    }
    *out = value;
    return PLB_OK;
}

static plb_status fail_double(const char *text, double low, double high) {
    if (low == -HUGE_VAL && high == HUGE_VAL) {
        return plb_fail(PLB_EINVAL, "expected a number, found \"%s\"", text);
    }
    if (high == HUGE_VAL) {
        return plb_fail(PLB_EINVAL, "expected a number of at least %g, found \"%s\"", low, text);
    }
    return plb_fail(PLB_EINVAL, "expected a number from %g to %g, found \"%s\"", low, high, text);
}

plb_status plb_parse_double(const char *text, double low, double high, double *out) {
    // strtod also reads hexadecimal, "inf" and "nan", which nobody means here.
    bool decimal = *text && text[strspn(text, "0123456789+-.eE")] == '\0';
    char *end = NULL;
    double value = decimal ? strtod(text, &end) : 0;
    if (!decimal || *end || !isfinite(value) || value < low || value > high) {
        return fail_double(text, low, high);
    }
    *out = value;
    return PLB_OK;
}

static plb_status parse_choice(const char *text, const char *words, const char **out) {
    size_t length = strlen(text);
    for (const char *word = words; word; word = strchr(word, '|')) {
        word += *word == '|';
        size_t n = strcspn(word, "|");
        if (length && n == length && memcmp(word, text, n) == 0) {
            *out = text;
            return PLB_OK;
        }
    }
    return plb_fail(PLB_EINVAL, "expected one of %s, found \"%s\"", words, text);
}

static plb_status set_value(const plb_flag *flag, void *options, const char *text) {
    void *field = (char *)options + flag->offset;
    switch (flag->kind) {
    case PLB_FLAG_SWITCH: *(bool *)field = true; return PLB_OK;
    case PLB_FLAG_INT: return plb_parse_int(text, flag->min, flag->max, field);
    case PLB_FLAG_DOUBLE: return plb_parse_double(text, flag->low, flag->high, field);
    case PLB_FLAG_STRING:
    case PLB_FLAG_FILE:
        if (!*text) return plb_fail(PLB_EINVAL, "expected a value, found an empty one");
        *(const char **)field = text;
        return PLB_OK;
    case PLB_FLAG_CHOICE: return parse_choice(text, flag->value, field);
    }
    return plb_fail(PLB_EBROKEN, "flag --%s has no kind", flag->name);
}

static void clear_value(const plb_flag *flag, void *options) {
    void *field = (char *)options + flag->offset;
    switch (flag->kind) {
    case PLB_FLAG_SWITCH: *(bool *)field = false; return;
    case PLB_FLAG_INT: *(int64_t *)field = 0; return;
    case PLB_FLAG_DOUBLE: *(double *)field = 0; return;
    case PLB_FLAG_STRING:
    case PLB_FLAG_FILE:
    case PLB_FLAG_CHOICE: *(const char **)field = NULL; return;
    }
}

void plb_args_reset(const plb_flag *flags, size_t count, void *options) {
    for (size_t i = 0; i < count; i++) {
        clear_value(&flags[i], options);
        if (!flags[i].fallback) continue;
        plb_status status = set_value(&flags[i], options, flags[i].fallback);
        if (status) abort(); // a table with a default out of its own range is our bug
    }
}

static const plb_flag *find_flag(const plb_flag *flags, size_t count, const char *name,
                                 size_t length) {
    for (size_t i = 0; i < count; i++) {
        if (strlen(flags[i].name) == length && !memcmp(flags[i].name, name, length)) {
            return &flags[i];
        }
    }
    return NULL;
}

static const plb_flag *find_letter(const plb_flag *flags, size_t count, char letter) {
    for (size_t i = 0; i < count; i++) {
        if (flags[i].letter == letter) return &flags[i];
    }
    return NULL;
}

static plb_status fail_unknown(const plb_flag *flags, size_t count, const char *word) {
    const char *names[MAX_FLAGS];
    size_t known = count < MAX_FLAGS ? count : MAX_FLAGS;
    for (size_t i = 0; i < known; i++) names[i] = flags[i].name;
    char name[64];
    size_t skip = strspn(word, "-"), length = strcspn(word + skip, "=");
    if (length >= sizeof name) length = sizeof name - 1;
    memcpy(name, word + skip, length);
    name[length] = '\0';
    const char *nearest = plb_nearest_name(name, names, known);
    int dashes = skip > 1 ? 2 : 1;
    return plb_fail(PLB_EINVAL, "unknown flag %.*s%s%s%s%s", dashes, "--", name,
                    nearest ? "; did you mean --" : "", nearest ? nearest : "", nearest ? "?" : "");
}

// Parses argv[*at], a flag, and moves *at to the last word it used.
static plb_status parse_flag(const plb_flag *flags, size_t count, void *options, int argc,
                             char **argv, int *at) {
    const char *word = argv[*at], *equals = strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    const plb_flag *flag = NULL;
    if (length > 2 && word[1] == '-') flag = find_flag(flags, count, word + 2, length - 2);
    if (length == 2) flag = find_letter(flags, count, word[1]);
    if (!flag) return fail_unknown(flags, count, word);
    if (flag->kind == PLB_FLAG_SWITCH) {
        if (equals) return plb_fail(PLB_EINVAL, "--%s takes no value", flag->name);
        return set_value(flag, options, NULL);
    }
    const char *value = equals ? equals + 1 : NULL;
    if (!value) {
        if (*at + 1 >= argc) return plb_fail(PLB_EINVAL, "--%s needs a value", flag->name);
        value = argv[++*at];
    }
    plb_status status = set_value(flag, options, value);
    return status ? plb_fail_context(status, "--%s", flag->name) : PLB_OK;
}

plb_status plb_args_parse(const plb_flag *flags, size_t count, void *options, int argc, char **argv,
                          int *operand_count) {
    int operands = 0;
    bool only_operands = false;
    for (int i = 0; i < argc; i++) {
        bool dash = argv[i][0] == '-' && argv[i][1]; // a lone "-" is an operand
        if (!only_operands && strcmp(argv[i], "--") == 0) {
            only_operands = true;
        } else if (dash && !only_operands) {
            PLB_TRY(parse_flag(flags, count, options, argc, argv, &i));
        } else {
            argv[operands++] = argv[i];
        }
    }
    *operand_count = operands;
    return PLB_OK;
}

void plb_args_help_limits(const plb_flag *flag, plb_strbuf *out) {
    const char *opening = " (", *separator = opening;
    if (flag->kind == PLB_FLAG_INT && flag->max != INT64_MAX) {
        plb_strbuf_printf(out, "%s%lld to %lld", separator, (long long)flag->min,
                          (long long)flag->max);
        separator = ", ";
    } else if (flag->kind == PLB_FLAG_INT && flag->min != INT64_MIN) {
        plb_strbuf_printf(out, "%sat least %lld", separator, (long long)flag->min);
        separator = ", ";
    } else if (flag->kind == PLB_FLAG_DOUBLE && flag->high != HUGE_VAL) {
        plb_strbuf_printf(out, "%s%g to %g", separator, flag->low, flag->high);
        separator = ", ";
    } else if (flag->kind == PLB_FLAG_DOUBLE && flag->low != -HUGE_VAL) {
        plb_strbuf_printf(out, "%sat least %g", separator, flag->low);
        separator = ", ";
    }
    if (flag->fallback) {
        plb_strbuf_printf(out, "%sdefault %s", separator, flag->fallback);
        separator = ", ";
    }
    if (separator != opening) plb_strbuf_printf(out, ")");
}

static size_t flag_width(const plb_flag *flag) {
    return strlen(flag->name) + (flag->value ? strlen(flag->value) + 1 : 0);
}

void plb_args_help(const plb_flag *flags, size_t count, plb_strbuf *out) {
    enum { WIDEST = 30 }; // a longer flag has its help on the next line
    size_t widest = 0;
    for (size_t i = 0; i < count; i++) {
        size_t width = flag_width(&flags[i]);
        if (width > widest && width <= WIDEST) widest = width;
    }
    for (size_t i = 0; i < count; i++) {
        const plb_flag *flag = &flags[i];
        size_t width = flag_width(flag);
        plb_strbuf_printf(out, "  --%s%s%s", flag->name, flag->value ? " " : "",
                          flag->value ? flag->value : "");
        if (width > WIDEST)
            plb_strbuf_printf(out, "\n%*s", (int)widest + 6, "");
        else
            plb_strbuf_printf(out, "%*s", (int)(widest - width) + 2, "");
        plb_strbuf_printf(out, "%s", flag->help);
        plb_args_help_limits(flag, out);
        plb_strbuf_printf(out, "\n");
    }
}
