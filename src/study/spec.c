// SPDX-License-Identifier: Apache-2.0
#include "study/spec.h"

#include <errno.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "base/file.h"
#include "base/folder.h"
#include "bench/case.h"
#include "bench/facts.h"
#include "study/results.h"

enum { MAX_FIELDS = 48, MAX_NUMBERS = 64, MAX_PARTS = 64, STUDY_FOLDERS = 3 };
static const size_t file_limit_bytes = (size_t)1 << 20;

// SET: words of which none is there twice; THREADS: numbers, or "all"; NAME: of files.
typedef enum field_kind {
    NAME,
    TEXT,
    INT,
    REAL,
    BOOL,
    WORDS,
    SET,
    NUMBERS,
    THREADS,
    KIND,
    ANY
} field_kind;

// `wants` says what is legal: these words, or numbers from low to high; NULL: all of the kind are.
typedef struct field {
    const char *key;
    field_kind kind;
    size_t offset;
    const char *wants;
    const char *const *words; // ends in NULL; NULL: numbers
    double low, high;
} field;

// The limits are those of the flags of `bench` and `train`.
#define FROM_1  "numbers from 1 to 1048576"
#define BELOW_1 0x1.fffffffffffffp-1
static const char *const task_words[] = {"infer", "train", NULL};
static const char *const region_words[] = {"latency", "queued", "host", "return", NULL};
static const char *const optimizer_words[] = {"sgd", "adam", "adamw", NULL};

#define PART(name, what) \
    { #name, what, offsetof(plb_study_part, name), NULL, NULL, 0, 0 }
#define ONE_OF(name, what, words, wants) \
    { #name, what, offsetof(plb_study_part, name), wants, words, 0, 0 }
#define WITHIN(name, what, low, high, wants) \
    { #name, what, offsetof(plb_study_part, name), wants, NULL, low, high }
static const field part_fields[] = {
    PART(name, NAME),
    PART(title, TEXT),
    PART(about, TEXT),
    PART(kind, KIND),
    PART(models, SET),
    PART(stacks, SET),
    PART(devices, WORDS),
    ONE_OF(tasks, SET, task_words, "infer or train"),
    WITHIN(threads, THREADS, 1, 1 << 20, FROM_1 ", or all"),
    WITHIN(batch, NUMBERS, 1, 1 << 20, FROM_1),
    WITHIN(size, NUMBERS, 1, 1 << 20, FROM_1),
    PART(seeds, NUMBERS),
    PART(data, TEXT),
    PART(stand_in, TEXT),
    WITHIN(stand_in_size, INT, 0, 4096, "a number from 0 to 4096"),
    PART(train_samples, INT),
    PART(test_samples, INT),
    WITHIN(epochs, INT, 0, 1000000, "a number from 0 to 1000000"),
    ONE_OF(optimizer, TEXT, optimizer_words, "sgd, adam or adamw"),
    WITHIN(lr, REAL, 0, FLT_MAX, "a number from 0 that f32 can hold"),
    WITHIN(momentum, REAL, 0, BELOW_1, "a number from 0 to below 1"),
    WITHIN(weight_decay, REAL, 0, FLT_MAX, "a number from 0 that f32 can hold"),
    PART(nesterov, BOOL),
    PART(dropout, BOOL),
    PART(flip, BOOL),
    PART(crop, INT),
    PART(operators, BOOL),
    WITHIN(time, REAL, 0.01, 1e6, "seconds from 0.01 to 1000000"),
    ONE_OF(regions, SET, region_words, "latency, queued, host or return"),
    PART(dims, SET),
    PART(input, WORDS),
};
#define SPEC(name, what) \
    { #name, what, offsetof(plb_study_spec, name), NULL, NULL, 0, 0 }
static const field spec_fields[] = {
    SPEC(name, NAME),
    SPEC(title, TEXT),
    SPEC(about, TEXT),
    SPEC(origin, TEXT),
    SPEC(findings, WORDS),
    SPEC(deviations, WORDS),
    {.key = "parts", .kind = ANY},
    {.key = "quick", .kind = ANY},
};
enum {
    PART_FIELDS = sizeof part_fields / sizeof *part_fields,
    SPEC_FIELDS = sizeof spec_fields / sizeof *spec_fields
};

typedef struct context {
    const char *label;
    const char *key; // whose value is read now, for elements of lists; NULL: none
    plb_arena *arena;
    const plb_spec_options *options;
} context;

// "FILE, line 3", or the flag that the value came from.
static const char *place_of(const context *c, const plb_yaml *at) {
    if (at->place) return at->place;
    const char *place = plb_arena_printf(c->arena, "%s, line %d", c->label, at->line);
    return place ? place : c->label;
}

static plb_status expected(const context *c, const plb_yaml *at, const char *what) {
    const char *found = at->kind == PLB_YAML_TEXT   ? at->text
                        : at->kind == PLB_YAML_LIST ? "a list"
                                                    : "a map";
    const char *key = at->key ? at->key : c->key ? c->key : "element";
    return plb_fail(PLB_EINVAL, "%s: %s: expected %s, found %.60s", place_of(c, at), key, what,
                    found);
}

static plb_status check_keys(const context *c, const plb_yaml *map, const field *fields,
                             int count) {
    const char *names[MAX_FIELDS];
    if (map->kind != PLB_YAML_MAP) return expected(c, map, "keys with values");
    for (int i = 0; i < count; i++) names[i] = fields[i].key;
    for (const plb_yaml *at = map->first; at; at = at->next) {
        bool known = false;
        for (int i = 0; i < count; i++) known |= !strcmp(names[i], at->key);
        if (known) continue;
        const char *nearest = plb_nearest_name(at->key, names, (size_t)count);
        return plb_fail(PLB_EINVAL, "%s: no key %s%s%s%s", place_of(c, at), at->key,
                        nearest ? "; did you mean " : "", nearest ? nearest : "",
                        nearest ? "?" : "");
    }
    return PLB_OK;
}

static bool in_words(const char *const *words, const char *text) {
    for (; *words; words++)
        if (!strcmp(*words, text)) return true;
    return false;
}

// What a run was made with is read back as it is, whatever this version would refuse.
static plb_status check_number(const context *c, const field *f, const plb_yaml *at, double value) {
    bool legal = !f->wants || (value >= f->low && value <= f->high);
    return legal || c->options->stored ? PLB_OK : expected(c, at, f->wants);
}

static plb_status check_word(const context *c, const field *f, const plb_yaml *at) {
    bool legal = !f->words || in_words(f->words, at->text);
    return legal || c->options->stored ? PLB_OK : expected(c, at, f->wants);
}

static plb_status read_int(const context *c, const field *f, const plb_yaml *at, const char *text,
                           int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    if (end == text || *end || errno || *out < 0)
        return expected(c, at, f->wants ? f->wants : "a whole number from 0");
    return check_number(c, f, at, (double)*out);
}

static plb_status read_real(const context *c, const field *f, const plb_yaml *at, double *out) {
    char *end = NULL;
    if (at->kind == PLB_YAML_TEXT) *out = strtod(at->text, &end);
    if (!end || end == at->text || *end || !isfinite(*out))
        return expected(c, at, f->wants ? f->wants : "a number");
    return check_number(c, f, at, *out);
}

static plb_status read_text(const context *c, const field *f, const plb_yaml *at,
                            const char **out) {
    *out = at->text;
    return check_word(c, f, at);
}

// It names files: the study's its page, a part's the pictures of its figures.
static plb_status read_name(const context *c, const plb_yaml *at, const char **out) {
    *out = at->text;
    size_t plain = strspn(at->text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789_.-");
    bool legal = *at->text && *at->text != '.' && *at->text != '-' && !at->text[plain];
    if (legal || c->options->stored) return PLB_OK;
    return expected(c, at, "a name of letters, digits, _, - and ., for files");
}

static plb_status read_bool(const context *c, const plb_yaml *at, bool *out) {
    static const char *const yes[] = {"true", "yes", "on"}, *const no[] = {"false", "no", "off"};
    for (int i = 0; i < 3 && at->kind == PLB_YAML_TEXT; i++) {
        if (!strcmp(at->text, yes[i])) *out = true;
        if (!strcmp(at->text, no[i])) *out = false;
        if (!strcmp(at->text, yes[i]) || !strcmp(at->text, no[i])) return PLB_OK;
    }
    return expected(c, at, "true or false");
}

static plb_status check_list(const context *c, const field *f, const plb_yaml *at) {
    if (at->kind == PLB_YAML_MAP) return expected(c, at, "a list");
    bool empty = at->kind == PLB_YAML_LIST && !at->count && f->kind != WORDS;
    return empty && !c->options->stored ? expected(c, at, "at least one, or no such key") : PLB_OK;
}

static plb_status add_word(const context *c, const field *f, const plb_yaml *at,
                           plb_study_words *out) {
    if (at->kind != PLB_YAML_TEXT) return expected(c, at, "a word");
    PLB_TRY(check_word(c, f, at));
    for (size_t i = 0; i < out->count && f->kind == SET && !c->options->stored; i++)
        if (!strcmp(out->word[i], at->text)) return expected(c, at, "each once");
    out->word[out->count++] = at->text;
    return PLB_OK;
}

// One word stands for a list of one.
static plb_status read_words(const context *c, const field *f, const plb_yaml *at,
                             plb_study_words *out) {
    size_t count = at->kind == PLB_YAML_LIST ? at->count : 1;
    out->word = plb_arena_alloc(c->arena, (count + 1) * sizeof *out->word);
    if (!out->word) return plb_fail(PLB_ENOMEM, "%s: no memory to read it", c->label);
    out->count = 0;
    PLB_TRY(check_list(c, f, at));
    if (at->kind != PLB_YAML_LIST) return add_word(c, f, at, out);
    for (const plb_yaml *word = at->first; word; word = word->next)
        PLB_TRY(add_word(c, f, word, out));
    return PLB_OK;
}

static plb_status add_number(const context *c, const plb_yaml *at, int64_t value,
                             plb_study_numbers *out) {
    if (out->count == MAX_NUMBERS) return expected(c, at, "at most 64 numbers");
    for (size_t i = 0; i < out->count && !c->options->stored; i++)
        if (out->value[i] == value) return expected(c, at, "each number once");
    out->value[out->count++] = value;
    return PLB_OK;
}

// "8", "all", or "8..1024": powers of two times the first.
static plb_status read_range(const context *c, const field *f, const plb_yaml *at,
                             plb_study_numbers *out) {
    int64_t low, high;
    char *text = plb_arena_strdup(c->arena, at->kind == PLB_YAML_TEXT ? at->text : "");
    if (!text) return plb_fail(PLB_ENOMEM, "%s: no memory to read it", c->label);
    bool takes_all = f->kind == THREADS || c->options->stored;
    if (takes_all && !strcmp(text, "all")) return add_number(c, at, 0, out);
    char *dots = strstr(text, "..");
    if (dots) *dots = '\0';
    PLB_TRY(read_int(c, f, at, text, &low));
    high = low;
    if (dots) PLB_TRY(read_int(c, f, at, dots + 2, &high));
    if (high < low && !c->options->stored)
        return expected(c, at, "a range that ends above its start");
    for (;; low *= 2) {
        PLB_TRY(add_number(c, at, low, out));
        if (!low || low > high / 2) return PLB_OK; // before it is doubled, which has an end
    }
}

static plb_status read_numbers(const context *c, const field *f, const plb_yaml *at,
                               plb_study_numbers *out) {
    out->value = plb_arena_alloc(c->arena, MAX_NUMBERS * sizeof *out->value);
    if (!out->value) return plb_fail(PLB_ENOMEM, "%s: no memory to read it", c->label);
    out->count = 0;
    PLB_TRY(check_list(c, f, at));
    if (at->kind != PLB_YAML_LIST) return read_range(c, f, at, out);
    for (const plb_yaml *one = at->first; one; one = one->next) PLB_TRY(read_range(c, f, one, out));
    return PLB_OK;
}

static plb_status read_kind(const context *c, const plb_yaml *at, plb_part_kind *out) {
    if (at->kind == PLB_YAML_TEXT && !strcmp(at->text, "train"))
        *out = PLB_PART_TRAIN;
    else if (at->kind == PLB_YAML_TEXT && !strcmp(at->text, "sweep"))
        *out = PLB_PART_SWEEP;
    else
        return expected(c, at, "train or sweep");
    return PLB_OK;
}

static plb_status read_field(const context *outer, const plb_yaml *at, const field *f, void *to) {
    const context inner = {outer->label, f->key, outer->arena, outer->options}, *c = &inner;
    void *place = (char *)to + f->offset;
    if (f->kind <= REAL && at->kind != PLB_YAML_TEXT) return expected(c, at, "one value");
    switch (f->kind) {
    case NAME: return read_name(c, at, place);
    case TEXT: return read_text(c, f, at, place);
    case INT: return read_int(c, f, at, at->text, place);
    case REAL: return read_real(c, f, at, place);
    case BOOL: return read_bool(c, at, place);
    case WORDS:
    case SET: return read_words(c, f, at, place);
    case NUMBERS:
    case THREADS: return read_numbers(c, f, at, place);
    case KIND: return read_kind(c, at, place);
    case ANY: break;
    }
    return PLB_OK;
}

static plb_status read_fields(const context *c, const plb_yaml *map, const field *fields, int count,
                              void *to) {
    PLB_TRY(check_keys(c, map, fields, count));
    for (int i = 0; i < count; i++) {
        const plb_yaml *at = plb_yaml_find(map, fields[i].key);
        if (at) PLB_TRY(read_field(c, at, &fields[i], to));
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- files
bool plb_study_is_script(const char *model) {
    size_t n = strlen(model);
    return n > 3 && strcmp(model + n - 3, ".pt") == 0;
}

void plb_study_script_extents(const plb_study_part *part, int64_t batch, int64_t size,
                              plb_shape *out) {
    *out = (plb_shape){.rank = (int)part->input.count};
    for (int k = 0; k < out->rank; k++) {
        const char *word = part->input.word[k];
        out->dim[k] = !strcmp(word, "batch")  ? batch
                      : !strcmp(word, "size") ? size
                                              : strtoll(word, NULL, 10);
    }
}

// The batch first, then numbers and the size of the cell.
static plb_status check_input(const context *c, const plb_yaml *at, const plb_study_part *part) {
    const plb_yaml *key = plb_yaml_find(at, "input");
    const plb_study_words *w = &part->input;
    if (!key) return PLB_OK;
    if (!w->count || w->count > PLB_MAX_RANK || strcmp(w->word[0], "batch") != 0)
        return expected(c, key, "a list that begins with batch");
    for (size_t i = 1; i < w->count; i++) {
        char *end;
        long long extent = strtoll(w->word[i], &end, 10);
        bool number = end != w->word[i] && !*end && extent >= 1 && extent <= INT32_MAX;
        if (!number && strcmp(w->word[i], "size") != 0)
            return expected(c, key, "size or numbers from 1 behind batch");
    }
    return PLB_OK;
}

// Which keys the models of a part cannot do without.
typedef struct needs {
    bool batch, size;
} needs;

static bool takes_size(const plb_study_part *part) {
    for (size_t i = 0; i < part->input.count; i++)
        if (!strcmp(part->input.word[i], "size")) return true;
    return false;
}

// Files bring their weights; only evaluating them is timed. ONNX files know their batch.
static plb_status check_files(const context *c, const plb_yaml *at, const plb_study_part *part,
                              needs *out) {
    *out = (needs){0};
    for (size_t i = 0; i < part->models.count; i++) {
        bool script = plb_study_is_script(part->models.word[i]);
        bool file = script || plb_facts_is_file(part->models.word[i]);
        out->batch |= !file || script;
        out->size |= !file || (script && takes_size(part));
        if (!file) continue;
        if (part->kind == PLB_PART_TRAIN)
            return expected(c, plb_yaml_find(at, "models"), "names of models to train");
        for (size_t t = 0; t < part->tasks.count; t++)
            if (strcmp(part->tasks.word[t], "infer") != 0)
                return expected(c, plb_yaml_find(at, "tasks"), "infer alone, for a file");
    }
    return PLB_OK;
}

static bool has_twins(const plb_study_words *devices) {
    for (size_t i = 0; i < devices->count; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(plb_case_device(devices->word[k]), plb_case_device(devices->word[i])) == 0)
                return true;
    return false;
}

// Names of the zoo, by whoever knows it: this folder does not.
static plb_status check_models(const context *c, const plb_yaml *at, const plb_study_part *part) {
    const plb_yaml *key = plb_yaml_find(at, "models");
    const plb_yaml *word = key && key->kind == PLB_YAML_LIST ? key->first : key;
    for (size_t i = 0; i < part->models.count && c->options->check_model; i++, word = word->next) {
        const char *name = part->models.word[i];
        if (plb_study_is_script(name) || plb_facts_is_file(name)) continue;
        plb_status status = c->options->check_model(name);
        if (status)
            return plb_fail_context(status, "%s: models: expected names of `plumb models`",
                                    place_of(c, word));
    }
    return PLB_OK;
}

// As `train` has it: momentum is sgd's, and Nesterov's is one of it.
static plb_status check_momentum(const context *c, const plb_yaml *at, const plb_study_part *part) {
    const plb_yaml *momentum = plb_yaml_find(at, "momentum"), *nesterov;
    nesterov = plb_yaml_find(at, "nesterov");
    if (c->options->stored) return PLB_OK;
    if (part->momentum > 0 && strcmp(part->optimizer, "sgd") != 0)
        return expected(c, momentum, "none, which only sgd has");
    if (part->nesterov && !(part->momentum > 0))
        return expected(c, nesterov, "momentum above 0 with it");
    return PLB_OK;
}

static plb_status check_part(const context *c, const plb_yaml *at, const plb_study_part *part) {
    needs need;
    PLB_TRY(check_files(c, at, part, &need));
    PLB_TRY(check_input(c, at, part));
    PLB_TRY(check_models(c, at, part));
    PLB_TRY(check_momentum(c, at, part));
    bool train = part->kind == PLB_PART_TRAIN;
    const char *lacks = !part->name                                ? "name"
                        : !part->models.count                      ? "models"
                        : !part->stacks.count                      ? "stacks"
                        : !part->devices.count                     ? "devices"
                        : train && !part->data                     ? "data"
                        : !train && need.size && !part->size.count ? "size"
                        : need.batch && !part->batch.count         ? "batch"
                                                                   : NULL;
    if (lacks)
        return plb_fail(PLB_EINVAL, "%s: the part %s has no %s", place_of(c, at),
                        part->name ? part->name : "here", lacks);
    for (size_t i = 0; i < part->devices.count; i++)
        if (!plb_case_is_device(part->devices.word[i]))
            return expected(c, plb_yaml_find(at, "devices"), "cpu, cuda or cuda:N");
    if (has_twins(&part->devices))
        return expected(c, plb_yaml_find(at, "devices"), "each device once (cuda is cuda:0)");
    return PLB_OK;
}

static int64_t one = 1, all_threads = 0, no_size = 0;
static const char *infer_word = "infer", *latency_word = "latency", *no_dims = "";
static const char *picture[] = {"batch", "3", "size", "size"};

static plb_status read_part(const context *c, const plb_yaml *at, plb_study_part *out) {
    *out = (plb_study_part){.line = at->line,
                            .threads = {&all_threads, 1},
                            .seeds = {&one, 1},
                            .tasks = {&infer_word, 1},
                            .regions = {&latency_word, 1},
                            .dims = {&no_dims, 1},
                            .input = {picture, 4},
                            .optimizer = "sgd",
                            .lr = 0.01,
                            .epochs = 1,
                            .time = 0.5};
    PLB_TRY(read_fields(c, at, part_fields, PART_FIELDS, out));
    if (!out->title) out->title = out->name;
    PLB_TRY(check_part(c, at, out));
    if (!out->size.count) out->size = (plb_study_numbers){&no_size, 1}; // of files that take none
    return PLB_OK;
}

static plb_status read_parts(const context *c, const plb_yaml *list, plb_study_spec *out) {
    if (!list || list->kind != PLB_YAML_LIST || !list->count || list->count > MAX_PARTS)
        return plb_fail(PLB_EINVAL, "%s: parts: expected a list of 1 to %d", c->label, MAX_PARTS);
    out->parts = plb_arena_alloc(c->arena, list->count * sizeof *out->parts);
    if (!out->parts) return plb_fail(PLB_ENOMEM, "%s: no memory to read it", c->label);
    for (const plb_yaml *at = list->first; at; at = at->next) {
        plb_study_part *part = &out->parts[out->part_count];
        PLB_TRY(read_part(c, at, part));
        for (size_t i = 0; i < out->part_count; i++)
            if (!strcmp(out->parts[i].name, part->name))
                return expected(c, plb_yaml_find(at, "name"), "a name that no other part has");
        out->part_count++;
    }
    return PLB_OK;
}

static plb_status choose_devices(const context *c, const char *devices, plb_study_spec *spec) {
    size_t most = strlen(devices) / 2 + 1; // a word and a comma each
    plb_study_words words = {plb_arena_alloc(c->arena, most * sizeof *words.word), 0};
    char *copy = plb_arena_strdup(c->arena, devices), *rest = NULL;
    if (!words.word || !copy) return plb_fail(PLB_ENOMEM, "%s: no memory", c->label);
    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (!plb_case_is_device(word))
            return plb_fail(PLB_EINVAL, "--device %s: expected cpu, cuda or cuda:N", word);
        words.word[words.count++] = word;
    }
    if (!words.count) return plb_fail(PLB_EINVAL, "--device: expected a list, found none");
    if (has_twins(&words))
        return plb_fail(PLB_EINVAL, "--device %s: expected each device once (cuda is cuda:0)",
                        devices);
    for (size_t i = 0; i < spec->part_count; i++) spec->parts[i].devices = words;
    return PLB_OK;
}

static plb_status want_part(const plb_study_spec *spec, const char *name, plb_arena *arena,
                            bool *wanted) {
    const char **names = plb_arena_alloc(arena, spec->part_count * sizeof *names);
    if (!names) return plb_fail(PLB_ENOMEM, "--only: no memory");
    for (size_t i = 0; i < spec->part_count; i++) {
        names[i] = spec->parts[i].name;
        if (!strcmp(names[i], name)) return wanted[i] = true, PLB_OK;
    }
    const char *nearest = plb_nearest_name(name, names, spec->part_count);
    return plb_fail(PLB_EINVAL, "--only: %s has no part %s%s%s%s", spec->name, name,
                    nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

// The named ones stay, in the file's order.
static plb_status choose_parts(const context *c, const char *only, plb_study_spec *spec) {
    char *copy = plb_arena_strdup(c->arena, only), *rest = NULL;
    bool *wanted = plb_arena_alloc(c->arena, (spec->part_count + 1) * sizeof *wanted);
    size_t kept = 0;
    if (!copy || !wanted) return plb_fail(PLB_ENOMEM, "%s: no memory", c->label);
    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        PLB_TRY(want_part(spec, word, c->arena, wanted));
    for (size_t i = 0; i < spec->part_count; i++)
        if (wanted[i]) spec->parts[kept++] = spec->parts[i];
    spec->part_count = kept;
    return kept ? PLB_OK : plb_fail(PLB_EINVAL, "--only: expected names of parts, found none");
}

static plb_status apply_sets(plb_yaml *root, const char *sets, plb_arena *arena) {
    char *copy = plb_arena_strdup(arena, sets), *rest = NULL;
    if (!copy) return plb_fail(PLB_ENOMEM, "--set: no memory");
    for (char *path = strtok_r(copy, ";", &rest); path; path = strtok_r(NULL, ";", &rest)) {
        char *equals = strchr(path, '=');
        if (!equals || path + strspn(path, ".") == equals)
            return plb_fail(PLB_EINVAL, "--set %s: expected key=value", path);
        *equals = '\0';
        PLB_TRY(plb_yaml_set(root, path, equals + 1, arena));
    }
    return PLB_OK;
}

plb_status plb_study_spec_parse(const char *text, size_t length, const char *label,
                                const plb_spec_options *options, plb_arena *arena,
                                plb_study_spec *out) {
    const context c = {label, NULL, arena, options};
    plb_yaml *root = NULL;
    *out = (plb_study_spec){0};
    PLB_TRY(plb_yaml_parse(text, length, label, arena, &root));
    PLB_TRY(check_keys(&c, root, spec_fields, SPEC_FIELDS));
    const plb_yaml *quick = plb_yaml_find(root, "quick");
    if (options->quick && quick) PLB_TRY(plb_yaml_merge(root, quick, label, arena));
    if (options->set) PLB_TRY(apply_sets(root, options->set, arena));
    PLB_TRY(read_fields(&c, root, spec_fields, SPEC_FIELDS, out));
    if (!out->name) return plb_fail(PLB_EINVAL, "%s: the study has no name", label);
    if (!out->title) out->title = out->name;
    const plb_yaml *findings = plb_yaml_find(root, "findings");
    const char *place = findings && findings->place ? findings->place : label;
    for (size_t i = 0; i < out->findings.count; i++)
        PLB_TRY(plb_study_check_finding(out->findings.word[i], place));
    PLB_TRY(read_parts(&c, plb_yaml_find(root, "parts"), out));
    char *copy = plb_arena_copy(arena, text, length + 1);
    if (!copy) return plb_fail(PLB_ENOMEM, "%s: no memory to read it", label);
    copy[length] = '\0';
    out->text = copy;
    if (options->devices) PLB_TRY(choose_devices(&c, options->devices, out));
    return options->only ? choose_parts(&c, options->only, out) : PLB_OK;
}

// ---------------------------------------------------------------------------- finding one
// Folders where studies lie: beside an installed program, and above one in its build folder.
static bool find_below(const char *program, int i, const char *file, char path[PATH_MAX]) {
    static const char *const below[] = {"/../share/plumb/studies", "/../studies", "/studies"};
    const char *slash = strrchr(program, '/');
    int length = slash ? (int)(slash - program) : 0;
    return snprintf(path, PATH_MAX, "%.*s%s/%s", length, program, below[i], file) < PATH_MAX;
}

static bool find_named(const char *name, const char *program, char path[PATH_MAX]) {
    char file[PATH_MAX];
    if (snprintf(file, sizeof file, "%s.yaml", name) >= PATH_MAX) return false;
    for (int i = 0; i < STUDY_FOLDERS; i++)
        if (find_below(program, i, file, path) && plb_file_exists(path)) return true;
    return false;
}

// The names of those that lie there: "levels, threads, or "; "" of none.
static const char *name_studies(const char *program, plb_arena *arena) {
    const char *const *names = NULL, *all = "";
    size_t count = 0;
    char path[PATH_MAX];
    for (int i = 0; i < STUDY_FOLDERS && !count; i++)
        if (find_below(program, i, "", path) && plb_folder_list(path, arena, &names, &count))
            count = 0; // there is no such folder
    for (size_t i = 0; i < count; i++) {
        const char *dot = strrchr(names[i], '.');
        if (!dot || strcmp(dot, ".yaml") != 0) continue;
        const char *more =
            plb_arena_printf(arena, "%s%.*s, ", all, (int)(dot - names[i]), names[i]);
        if (more) all = more;
    }
    const char *list = *all ? plb_arena_printf(arena, "%sor ", all) : all;
    return list ? list : all;
}

plb_status plb_study_spec_open(const char *name, const char *program,
                               const plb_spec_options *options, plb_arena *arena,
                               plb_study_spec *out) {
    char path[PATH_MAX];
    uint8_t *bytes = NULL;
    size_t size_bytes = 0;
    const char *dot = strrchr(name, '.');
    bool is_path = strchr(name, '/') || (dot && (!strcmp(dot, ".yaml") || !strcmp(dot, ".yml")));
    if (!is_path && !find_named(name, program, path))
        return plb_fail(PLB_EINVAL, "no study %s; expected %sa file FILE.yaml", name,
                        name_studies(program, arena));
    PLB_TRY(plb_file_read(is_path ? name : path, file_limit_bytes, &bytes, &size_bytes));
    char *label = plb_arena_strdup(arena, is_path ? name : path);
    char *text = plb_arena_alloc(arena, size_bytes + 1);
    if (text) memcpy(text, bytes, size_bytes), text[size_bytes] = '\0';
    plb_free(bytes);
    if (!text || !label) return plb_fail(PLB_ENOMEM, "%s: no memory to read it", name);
    return plb_study_spec_parse(text, size_bytes, label, options, arena, out);
}
