// SPDX-License-Identifier: Apache-2.0
#include "bench/matrix.h"

#include <math.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "base/machine.h"

// ---------------------------------------------------------------------------- words
static plb_status check_words(const char *flag, const plb_words *words, const char *const *legal,
                              size_t count) {
    for (int i = 0; i < words->count; i++) {
        bool found = false;
        for (size_t k = 0; k < count; k++) found |= strcmp(words->word[i], legal[k]) == 0;
        if (found) continue;
        const char *nearest = plb_nearest_name(words->word[i], legal, count);
        plb_strbuf list = {0};
        for (size_t k = 0; k < count; k++) {
            plb_strbuf_printf(&list, "%s%s", k ? ", " : "", legal[k]);
        }
        plb_status status = plb_fail(PLB_EINVAL, "--%s %s: expected %s%s%s%s", flag, words->word[i],
                                     list.text ? list.text : "", nearest ? "; did you mean " : "",
                                     nearest ? nearest : "", nearest ? "?" : "");
        plb_strbuf_free(&list);
        return status;
    }
    return PLB_OK;
}

static plb_status check_numbers(const char *flag, const plb_words *words, int64_t least) {
    for (int i = 0; i < words->count; i++) {
        char *end;
        long long value = strtoll(words->word[i], &end, 10);
        if (!*words->word[i] || *end || value < least || value > 1 << 20) {
            return plb_fail(PLB_EINVAL, "--%s %s: expected numbers from %lld to %d", flag,
                            words->word[i], (long long)least, 1 << 20);
        }
        for (int k = 0; k < i; k++) {
            if (strtoll(words->word[k], NULL, 10) != value) continue;
            return plb_fail(PLB_EINVAL, "--%s: %s and %s are the same number", flag, words->word[k],
                            words->word[i]);
        }
    }
    return PLB_OK;
}

#define CHECK_WORDS(flag, words, ...)                                    \
    PLB_TRY(check_words(flag, words, (const char *const[]){__VA_ARGS__}, \
                        sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *)))

static bool finds_batches(const plb_bench_options *o) {
    return o->batches.count == 1 && strcmp(o->batches.word[0], "auto") == 0;
}

static plb_status check_batches(const plb_bench_options *o) {
    if (!finds_batches(o)) return check_numbers("batch", &o->batches, 1);
    if (!o->verify) return PLB_OK;
    return plb_fail(PLB_EINVAL, "--batch auto is found by timing: expected numbers for a proof");
}

static plb_status check_devices(const plb_words *devices) {
    for (int i = 0; i < devices->count; i++) {
        const char *d = devices->word[i];
        if (!plb_case_is_device(d))
            return plb_fail(PLB_EINVAL, "--device %s: expected cpu, cuda or cuda:N", d);
        for (int k = 0; k < i; k++)
            if (strcmp(plb_case_device(devices->word[k]), plb_case_device(d)) == 0)
                return plb_fail(PLB_EINVAL, "--device: %s and %s are the same device",
                                devices->word[k], d);
    }
    return PLB_OK;
}

static plb_status check_models(const plb_bench_options *o) {
    if (o->model_count < 1 || o->model_count > PLB_BENCH_MAX_WORDS)
        return plb_fail(PLB_EINVAL, "expected 1 to %d models", PLB_BENCH_MAX_WORDS);
    for (int i = 0; i < o->model_count; i++) {
        for (int k = 0; k < i; k++)
            if (strcmp(o->models[k], o->models[i]) == 0)
                return plb_fail(PLB_EINVAL, "the model %s is there twice", o->models[i]);
    }
    return PLB_OK;
}

static plb_status check_options(const plb_bench_options *o) {
    CHECK_WORDS("task", &o->tasks, "infer", "train");
    CHECK_WORDS("dtype", &o->dtypes, "f32", "bf16", "f16");
    CHECK_WORDS("math", &o->maths, "f32", "tf32");
    CHECK_WORDS("autocast", &o->autocasts, "none", "bf16", "f16");
    CHECK_WORDS("region", &o->regions, "latency", "queued", "host", "return");
    PLB_TRY(check_devices(&o->devices));
    PLB_TRY(check_batches(o));
    PLB_TRY(check_numbers("size", &o->sizes, 1));
    PLB_TRY(check_numbers("threads", &o->threads, 1));
    return check_models(o);
}

// ---------------------------------------------------------------------------- cases
static plb_status grow(void *array_pointer, int *capacity, int need, size_t size_bytes) {
    void *array;
    memcpy(&array, array_pointer, sizeof array);
    if (need <= *capacity) return PLB_OK;
    int more = *capacity ? 2 * *capacity : 64;
    array = plb_realloc_array(array, (size_t)more, size_bytes);
    if (!array) return plb_fail(PLB_ENOMEM, "out of memory for cases");
    memcpy(array_pointer, &array, sizeof array);
    *capacity = more;
    return PLB_OK;
}

// How much of "STACK.key=value" is the stack. Names of stacks may have dots too: it is the longest
// of those that there are; what begins with none ends at the first dot.
static size_t stack_length(const plb_stacks *stacks, const char *word) {
    size_t longest = 0;
    for (size_t i = 0; i <= stacks->count; i++) {
        const char *name = i < stacks->count ? stacks->list[i].name : stacks->reference->name;
        const size_t n = strlen(name);
        if (n > longest && strncmp(word, name, n) == 0 && word[n] == '.') longest = n;
    }
    return longest ? longest : strcspn(word, ".");
}

static plb_status apply_setting(const plb_stacks *stacks, plb_case *c, const char *word) {
    const size_t n = stack_length(stacks, word);
    const char *dot = word + n, *equals = strchr(dot, '=');
    if (!*dot || !equals || equals < dot + 2 || dot == word) {
        return plb_fail(PLB_EINVAL, "--set %s: expected STACK.key=value", word);
    }
    char key[sizeof c->settings[0].key];
    const size_t length = (size_t)(equals - dot - 1);
    if (length >= sizeof key) { // cut off it would be another key
        return plb_fail(PLB_EINVAL, "--set %s: expected a key of at most %zu bytes, found %zu",
                        word, sizeof key - 1, length);
    }
    if (n != strlen(c->stack) || strncmp(word, c->stack, n) != 0) return PLB_OK;
    snprintf(key, sizeof key, "%.*s", (int)length, dot + 1);
    return plb_case_set(c, key, equals + 1);
}

static plb_status check_setting_stacks(const plb_bench *b) {
    for (int i = 0; i < b->options.settings.count; i++) {
        const plb_stack *stack;
        char name[64];
        const char *word = b->options.settings.word[i];
        snprintf(name, sizeof name, "%.*s", (int)stack_length(&b->stacks, word), word);
        plb_status status = plb_stacks_get(&b->stacks, name, &stack);
        if (status) return plb_fail_context(status, "--set %s", word);
    }
    return PLB_OK;
}

static plb_status add_case(plb_bench *b, plb_group *group, const plb_stack *stack) {
    PLB_TRY(grow(&b->cases, &b->case_capacity, b->case_count + 1, sizeof *b->cases));
    plb_bench_case *c = &b->cases[b->case_count];
    *c = (plb_bench_case){.c = group->c,
                          .stack = stack,
                          .group = b->group_count,
                          .table = b->table_count,
                          .finds_batch = group->find_batch,
                          .load_ns = -1,
                          .first_call_ns = -1,
                          .compile_ns = -1,
                          .peak_rss_bytes = -1,
                          .device_peak_bytes = -1,
                          .planned_bytes = -1,
                          .median_ns = (double)NAN,
                          .low_ns = (double)NAN,
                          .high_ns = (double)NAN};
    snprintf(c->c.stack, sizeof c->c.stack, "%s", stack->name);
    for (int i = 0; i < b->options.settings.count; i++) {
        PLB_TRY(apply_setting(&b->stacks, &c->c, b->options.settings.word[i]));
    }
    b->case_count++, group->count++;
    return PLB_OK;
}

static bool wants_all(const plb_words *stacks) {
    return stacks->count == 0 || (stacks->count == 1 && strcmp(stacks->word[0], "all") == 0);
}

// How many stacks were asked for, and the i-th of them.
static int stack_count(const plb_bench *b) {
    return wants_all(&b->options.stacks) ? (int)b->stacks.count : b->options.stacks.count;
}

static plb_status stack_at(const plb_bench *b, int i, const plb_stack **out) {
    *out = &b->stacks.list[i];
    if (wants_all(&b->options.stacks)) return PLB_OK;
    return plb_stacks_get(&b->stacks, b->options.stacks.word[i], out);
}

static plb_status add_cases(plb_bench *b, plb_group *group, int first, int count) {
    group->first = b->case_count;
    for (int i = first; i < first + count; i++) {
        const plb_stack *stack;
        PLB_TRY(stack_at(b, i, &stack));
        PLB_TRY(add_case(b, group, stack));
    }
    return PLB_OK;
}

plb_status plb_matrix_check(const plb_bench *b) {
    const plb_stack *stack;
    PLB_TRY(check_options(&b->options));
    PLB_TRY(check_setting_stacks(b));
    for (int i = 0; i < stack_count(b); i++) PLB_TRY(stack_at(b, i, &stack));
    return PLB_OK;
}

// ---------------------------------------------------------------------------- expansion
// One digit a flag, counted like a number: the last flag runs fastest.
enum { MODEL, TASK, DEVICE, BATCH, SIZE, DTYPE, MATH, AUTOCAST, REGION, THREADS, AXES };

static void set_axis(plb_words *out, const plb_words *asked, const char *fallback) {
    *out = *asked;
    if (!out->count) out->word[0] = fallback, out->count = 1;
}

// Of "NAME=N" at `at`, n bytes long with a name of `key`; cut off it would be another one.
static plb_status check_dim(const char *at, size_t key, size_t n, size_t most_name,
                            size_t most_value) {
    const size_t value = n - key - 1;
    if (key <= most_name && value <= most_value) return PLB_OK;
    return plb_fail(PLB_EINVAL, "--dim %.*s: expected a %s of at most %zu bytes, found %zu", (int)n,
                    at, key > most_name ? "name" : "number",
                    key > most_name ? most_name : most_value, key > most_name ? key : value);
}

// "batch=8,length=128" as settings "dim.batch", "dim.length": part of the case.
static plb_status remember_dims(plb_case *c, const char *dims) {
    for (const char *at = dims ? dims : ""; *at;) {
        size_t n = strcspn(at, ","), key = strcspn(at, "=");
        char name[sizeof c->settings[0].key], value[sizeof c->settings[0].value];
        if (key < n) {
            PLB_TRY(check_dim(at, key, n, sizeof name - sizeof "dim.", sizeof value - 1));
            snprintf(name, sizeof name, "dim.%.*s", (int)key, at);
            snprintf(value, sizeof value, "%.*s", (int)(n - key - 1), at + key + 1);
            PLB_TRY(plb_case_set(c, name, value));
        }
        at += n + (at[n] == ',');
    }
    return PLB_OK;
}

static plb_status fill_group(plb_bench *b, const plb_words *axes, const int *digit, plb_group *g) {
    const char *word[AXES];
    plb_case *c = &g->c;
    for (int i = 0; i < AXES; i++) word[i] = axes[i].word[digit[i]];
    *g = (plb_group){0};
    plb_case_init(c);
    PLB_TRY(plb_bench_start_reference(b));
    const plb_facts_request request = {.model = word[MODEL],
                                       .task = word[TASK],
                                       .dims = b->options.dims,
                                       .batch = atoll(word[BATCH]),
                                       .size = atoll(word[SIZE])};
    plb_status status = plb_facts_ask(&b->reference, &request, &g->facts);
    if (status && b->reference.failure.outcome == PLB_OUTCOME_REFUSED) {
        return plb_fail(PLB_EINVAL, "%s", b->reference.failure.reason);
    }
    PLB_TRY(status);
    snprintf(c->model, sizeof c->model, "%s", g->facts.model);
    snprintf(c->task, sizeof c->task, "%s", word[TASK]);
    snprintf(c->device, sizeof c->device, "%s", plb_case_device(word[DEVICE]));
    snprintf(c->dtype, sizeof c->dtype, "%s", word[DTYPE]);
    snprintf(c->math, sizeof c->math, "%s", word[MATH]);
    snprintf(c->autocast, sizeof c->autocast, "%s", word[AUTOCAST]);
    snprintf(c->region, sizeof c->region, "%s", word[REGION]);
    c->batch = g->facts.batch, c->size = g->facts.size, c->classes = g->facts.classes;
    g->find_batch = finds_batches(&b->options);
    if (g->find_batch && g->facts.file[0]) {
        return plb_fail(PLB_EINVAL, "--batch auto: %s is a file; --dim NAME=N gives its extents",
                        word[MODEL]);
    }
    if (g->facts.file[0]) c->size = c->classes = 0;
    PLB_TRY(remember_dims(c, b->options.dims));
    c->threads = atoll(word[THREADS]);
    if (c->threads < 1) c->threads = plb_machine_threads();
    return PLB_OK;
}

static bool count_up(const plb_words *axes, int *digit) {
    for (int i = AXES - 1; i >= 0; i--) {
        if (++digit[i] < axes[i].count) return true;
        digit[i] = 0;
    }
    return false;
}

static plb_status add_group(plb_bench *b, const plb_words *axes, const int *digit, int first,
                            int count) {
    PLB_TRY(grow(&b->groups, &b->group_capacity, b->group_count + 1, sizeof *b->groups));
    plb_group *group = &b->groups[b->group_count];
    PLB_TRY(fill_group(b, axes, digit, group));
    PLB_TRY(add_cases(b, group, first, count));
    b->group_count++;
    return PLB_OK;
}

// All stacks in one group; where batches are to be found, each in its own, as they may differ.
static plb_status add_table(plb_bench *b, const plb_words *axes, const int *digit) {
    int n = stack_count(b), each = finds_batches(&b->options) ? 1 : n;
    for (int i = 0; i < n; i += each) PLB_TRY(add_group(b, axes, digit, i, each));
    b->table_count++;
    return PLB_OK;
}

plb_status plb_matrix_expand(plb_bench *b) {
    const plb_bench_options *o = &b->options;
    plb_words axes[AXES];
    int digit[AXES] = {0};
    for (int i = 0; i < o->model_count; i++) axes[MODEL].word[i] = o->models[i];
    axes[MODEL].count = o->model_count;
    set_axis(&axes[TASK], &o->tasks, "infer");
    set_axis(&axes[DEVICE], &o->devices, "cpu");
    set_axis(&axes[BATCH], &o->batches, "0");
    set_axis(&axes[SIZE], &o->sizes, "0");
    set_axis(&axes[DTYPE], &o->dtypes, "f32");
    set_axis(&axes[MATH], &o->maths, "f32");
    set_axis(&axes[AUTOCAST], &o->autocasts, "none");
    set_axis(&axes[REGION], &o->regions, "latency");
    set_axis(&axes[THREADS], &o->threads, "0");
    do {
        PLB_TRY(add_table(b, axes, digit));
    } while (count_up(axes, digit));
    return PLB_OK;
}
