// SPDX-License-Identifier: Apache-2.0
#include "bench/case.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/core/hash.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"

// The keys in the order of the canonical text. The settings stand where "set." belongs.
typedef struct field {
    const char *key;
    size_t offset;
    size_t word_bytes;  // of a word; 0: a number
    const char *word;   // default of a word
    int64_t number;     // default of a number
    const char *before; // in titles: "b" makes "b16"
} field;

#define PLB_WORD(name, fallback) \
    { #name, offsetof(plb_case, name), sizeof(((plb_case *)0)->name), fallback, 0, "" }
#define PLB_NUMBER(name, fallback, before) \
    { #name, offsetof(plb_case, name), 0, NULL, fallback, before }

static const field fields[] = {
    PLB_WORD(autocast, "none"),
    PLB_NUMBER(batch, 1, "b"),
    PLB_WORD(cache, "hot"),
    PLB_NUMBER(classes, 0, "classes "),
    PLB_WORD(device, "cpu"),
    PLB_WORD(dtype, "f32"),
    PLB_NUMBER(in_flight, 1, "in flight "),
    PLB_WORD(input, "normal"),
    PLB_WORD(input_digest, "none"),
    PLB_WORD(layout, "default"),
    PLB_WORD(math, "f32"),
    PLB_WORD(model, "none"),
    PLB_WORD(region, "latency"),
    PLB_NUMBER(size, 0, "size "),
    PLB_WORD(stack, "none"),
    PLB_WORD(task, "infer"),
    PLB_NUMBER(threads, 1, "threads "),
};
enum { FIELDS = sizeof fields / sizeof *fields };
static const char settings_before[] = "size";

static char *word_of(const plb_case *c, const field *f) {
    return (char *)(uintptr_t)c + f->offset;
}

static int64_t *number_of(const plb_case *c, const field *f) {
    return (int64_t *)(void *)((char *)(uintptr_t)c + f->offset);
}

void plb_case_init(plb_case *out) {
    memset(out, 0, sizeof *out);
    for (int i = 0; i < FIELDS; i++) {
        if (fields[i].word_bytes)
            snprintf(word_of(out, &fields[i]), fields[i].word_bytes, "%s", fields[i].word);
        else
            *number_of(out, &fields[i]) = fields[i].number;
    }
}

static bool plain(const char *text) {
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7f) return false;
    }
    return true;
}

plb_status plb_case_set(plb_case *c, const char *key, const char *value) {
    if (!*key || strlen(key) >= sizeof c->settings[0].key) {
        return plb_fail(PLB_EINVAL, "setting \"%s\": expected a name of 1 to %zu bytes", key,
                        sizeof c->settings[0].key - 1);
    }
    if (strlen(value) >= sizeof c->settings[0].value) {
        return plb_fail(PLB_EINVAL, "setting %s: expected a value of at most %zu bytes", key,
                        sizeof c->settings[0].value - 1);
    }
    int at = 0;
    while (at < c->setting_count && strcmp(c->settings[at].key, key) < 0) at++;
    bool there = at < c->setting_count && strcmp(c->settings[at].key, key) == 0;
    if (!there) {
        if (c->setting_count == PLB_CASE_MAX_SETTINGS) {
            return plb_fail(PLB_EINVAL, "setting %s: at most %d settings a case", key,
                            PLB_CASE_MAX_SETTINGS);
        }
        memmove(&c->settings[at + 1], &c->settings[at],
                (size_t)(c->setting_count - at) * sizeof c->settings[0]);
        c->setting_count++;
        snprintf(c->settings[at].key, sizeof c->settings[at].key, "%s", key);
    }
    snprintf(c->settings[at].value, sizeof c->settings[at].value, "%s", value);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- text
typedef struct writer {
    char *text;
    size_t length;
    const char *bad; // a word that canonical texts cannot hold
    bool full;
} writer;

static void put_text(writer *w, const char *text) {
    size_t length = strlen(text);
    if (w->length + length >= PLB_CASE_TEXT_BYTES) {
        w->full = true;
        return;
    }
    memcpy(w->text + w->length, text, length + 1);
    w->length += length;
}

static void put_word(writer *w, const char *prefix, const char *key, const char *value) {
    if (!plain(key)) w->bad = key;
    if (!plain(value)) w->bad = value;
    put_text(w, w->length > 1 ? ",\"" : "\"");
    put_text(w, prefix);
    put_text(w, key);
    put_text(w, "\":\"");
    put_text(w, value);
    put_text(w, "\"");
}

static void put_number(writer *w, const char *key, int64_t value) {
    char number[80];
    snprintf(number, sizeof number, "%s\"%s\":%" PRId64, w->length > 1 ? "," : "", key, value);
    put_text(w, number);
}

plb_status plb_case_text(const plb_case *c, char *text) {
    writer w = {.text = text};
    put_text(&w, "{");
    for (int i = 0; i < FIELDS; i++) {
        const field *f = &fields[i];
        if (strcmp(f->key, settings_before) == 0) {
            for (int k = 0; k < c->setting_count; k++)
                put_word(&w, "set.", c->settings[k].key, c->settings[k].value);
        }
        if (f->word_bytes)
            put_word(&w, "", f->key, word_of(c, f));
        else
            put_number(&w, f->key, *number_of(c, f));
    }
    put_text(&w, "}");
    if (w.bad) {
        return plb_fail(PLB_EINVAL, "\"%s\": expected no quotes, backslashes or control characters",
                        w.bad);
    }
    if (w.full) {
        return plb_fail(PLB_EINVAL, "a case of more than %d bytes", PLB_CASE_TEXT_BYTES - 1);
    }
    return PLB_OK;
}

plb_status plb_case_hash_of(const plb_case *c, plb_case_hash *out) {
    char text[PLB_CASE_TEXT_BYTES];
    PLB_TRY(plb_case_text(c, text));
    snprintf(out->text, sizeof out->text, "%016" PRIx64,
             plb_hash_bytes(PLB_HASH_SEED, text, strlen(text)));
    return PLB_OK;
}

// ---------------------------------------------------------------------------- parsing
static plb_status fail_unknown(const char *key) {
    const char *names[FIELDS];
    for (int i = 0; i < FIELDS; i++) names[i] = fields[i].key;
    const char *nearest = plb_nearest_name(key, names, FIELDS);
    if (nearest) {
        return plb_fail(PLB_EINVAL, "case: unknown key \"%s\"; did you mean %s?", key, nearest);
    }
    return plb_fail(PLB_EINVAL, "case: unknown key \"%s\"", key);
}

static plb_status parse_field(const char *key, const json_t *value, plb_case *out) {
    if (strncmp(key, "set.", 4) == 0 && json_is_string(value)) {
        return plb_case_set(out, key + 4, json_string_value(value));
    }
    const field *f = fields;
    while (f < fields + FIELDS && strcmp(f->key, key) != 0) f++;
    if (f == fields + FIELDS) return fail_unknown(key);
    if (!f->word_bytes) {
        if (!json_is_integer(value)) {
            return plb_fail(PLB_EINVAL, "case: key %s: expected an integer", key);
        }
        *number_of(out, f) = json_integer_value(value);
        return PLB_OK;
    }
    const char *word = json_string_value(value);
    if (!word || !*word || strlen(word) >= f->word_bytes) {
        return plb_fail(PLB_EINVAL, "case: key %s: expected a word of 1 to %zu bytes", key,
                        f->word_bytes - 1);
    }
    snprintf(word_of(out, f), f->word_bytes, "%s", word);
    return PLB_OK;
}

plb_status plb_case_parse(const char *text, plb_case *out) {
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!root) {
        return plb_fail(PLB_EINVAL, "case: byte %d: %s", error.position, error.text);
    }
    plb_case_init(out);
    plb_status status = PLB_OK;
    if (!json_is_object(root)) {
        status = plb_fail(PLB_EINVAL, "case: expected a JSON object");
        goto out;
    }
    const char *key;
    json_t *value;
    json_object_foreach(root, key, value) {
        PLB_TRY_OUT(parse_field(key, value, out));
    }
out:
    json_decref(root);
    return status;
}

// ---------------------------------------------------------------------------- differences
typedef struct collector {
    plb_case_difference *out;
    int count;
} collector;

static void add_difference(collector *to, const char *prefix, const char *key, const char *a,
                           const char *b) {
    if (strcmp(a, b) == 0 || to->count == PLB_CASE_MAX_DIFFERENCES) return;
    plb_case_difference *d = &to->out[to->count++];
    snprintf(d->key, sizeof d->key, "%s%s", prefix, key);
    snprintf(d->a, sizeof d->a, "%s", a);
    snprintf(d->b, sizeof d->b, "%s", b);
}

static void compare_settings(collector *to, const plb_case *a, const plb_case *b) {
    int i = 0, k = 0;
    while (i < a->setting_count || k < b->setting_count) {
        const plb_setting *p = i < a->setting_count ? &a->settings[i] : NULL;
        const plb_setting *q = k < b->setting_count ? &b->settings[k] : NULL;
        int order = !p ? 1 : !q ? -1 : strcmp(p->key, q->key);
        const plb_setting *named = order <= 0 ? p : q;
        add_difference(to, "set.", named->key, order <= 0 ? p->value : "",
                       order >= 0 ? q->value : "");
        i += order <= 0, k += order >= 0;
    }
}

int plb_case_differences(const plb_case *a, const plb_case *b, plb_case_difference *out) {
    collector to = {.out = out};
    for (int i = 0; i < FIELDS; i++) {
        const field *f = &fields[i];
        if (strcmp(f->key, settings_before) == 0) compare_settings(&to, a, b);
        if (f->word_bytes) {
            add_difference(&to, "", f->key, word_of(a, f), word_of(b, f));
        } else {
            char left[24], right[24];
            snprintf(left, sizeof left, "%" PRId64, *number_of(a, f));
            snprintf(right, sizeof right, "%" PRId64, *number_of(b, f));
            add_difference(&to, "", f->key, left, right);
        }
    }
    return to.count;
}

// ---------------------------------------------------------------------------- title
static bool in_title(const char *key) {
    static const char *const always[] = {"model", "task", "stack", "device", "batch"};
    static const char *const never[] = {"classes", "input_digest"};
    for (size_t i = 0; i < sizeof always / sizeof *always; i++)
        if (strcmp(key, always[i]) == 0) return false;
    for (size_t i = 0; i < sizeof never / sizeof *never; i++)
        if (strcmp(key, never[i]) == 0) return false;
    return true;
}

void plb_case_title(const plb_case *c, char *out, size_t size) {
    int n = snprintf(out, size, "%s %s %s %s b%" PRId64, c->model, c->task, c->stack, c->device,
                     c->batch);
    size_t length = n > 0 ? (size_t)n : 0;
    for (int i = 0; i < FIELDS && length < size; i++) {
        const field *f = &fields[i];
        if (!in_title(f->key)) continue;
        if (f->word_bytes && strcmp(word_of(c, f), f->word) != 0) {
            n = snprintf(out + length, size - length, " %s %s", f->key, word_of(c, f));
        } else if (!f->word_bytes && *number_of(c, f) != f->number) {
            n = snprintf(out + length, size - length, " %s%" PRId64, f->before, *number_of(c, f));
        } else {
            continue;
        }
        length += n > 0 ? (size_t)n : 0;
    }
    for (int i = 0; i < c->setting_count && length < size; i++) {
        n = snprintf(out + length, size - length, " %s=%s", c->settings[i].key,
                     c->settings[i].value);
        length += n > 0 ? (size_t)n : 0;
    }
}

const char *const *plb_case_levels(void) {
    static const char *const levels[] = {"plumb-replay", "plumb-plan", "plumb-interp", NULL};
    return levels;
}

bool plb_case_is_device(const char *name) {
    if (strcmp(name, "cpu") == 0 || strcmp(name, "cuda") == 0) return true;
    if (strncmp(name, "cuda:", 5) != 0 || (name[5] == '0' && name[6])) return false;
    return name[5] && !name[5 + strspn(name + 5, "0123456789")];
}

const char *plb_case_device(const char *name) {
    return strcmp(name, "cuda") == 0 ? "cuda:0" : name;
}
