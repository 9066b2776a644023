// SPDX-License-Identifier: Apache-2.0
#include "bench/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/core/hash.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "bench/select.h"

static plb_status fail_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory for comparisons");
}

// ---------------------------------------------------------------------------- what may differ
typedef struct axis {
    const char *name;
    const char *keys[4]; // of the case, that may differ; "set." stands for all settings
} axis;

static const axis axes[] = {
    {"stack", {"stack", "set.", "layout"}},
    {"batch", {"batch", "input_digest"}},
    {"size", {"size", "input_digest"}},
    {"device", {"device"}},
    {"threads", {"threads"}},
    {"dtype", {"dtype", "math", "autocast"}},
    {"region", {"region"}},
    {"settings", {"set.", "layout"}},
};
enum { AXES = sizeof axes / sizeof *axes };

static plb_status find_axis(const char *name, const axis **out) {
    const char *names[AXES];
    for (int i = 0; i < AXES; i++) {
        names[i] = axes[i].name;
        *out = &axes[i];
        if (strcmp(name, axes[i].name) == 0) return PLB_OK;
    }
    const char *nearest = plb_nearest_name(name, names, AXES);
    return plb_fail(PLB_EINVAL,
                    "--by %s: expected stack, batch, size, device, threads, dtype, region or "
                    "settings%s%s",
                    name, nearest ? "; did you mean " : "", nearest ? nearest : "");
}

static bool may_differ(const axis *along, const char *key) {
    for (int i = 0; along && i < 4 && along->keys[i]; i++) {
        const char *allowed = along->keys[i];
        size_t length = strlen(allowed);
        if (strncmp(key, allowed, length) == 0 && (allowed[length - 1] == '.' || !key[length]))
            return true;
    }
    return false;
}

// A case with all that may differ made equal.
static void blank(const axis *along, plb_case *c) {
    plb_case plain;
    plb_case_init(&plain);
    if (may_differ(along, "stack")) memcpy(c->stack, plain.stack, sizeof c->stack);
    if (may_differ(along, "set.")) c->setting_count = 0;
    if (may_differ(along, "layout")) memcpy(c->layout, plain.layout, sizeof c->layout);
    if (may_differ(along, "batch")) c->batch = 1;
    if (may_differ(along, "input_digest"))
        memcpy(c->input_digest, plain.input_digest, sizeof c->input_digest);
    if (may_differ(along, "size")) c->size = 0;
    if (may_differ(along, "device")) memcpy(c->device, plain.device, sizeof c->device);
    if (may_differ(along, "threads")) c->threads = 1;
    if (may_differ(along, "dtype")) memcpy(c->dtype, plain.dtype, sizeof c->dtype);
    if (may_differ(along, "math")) memcpy(c->math, plain.math, sizeof c->math);
    if (may_differ(along, "autocast")) memcpy(c->autocast, plain.autocast, sizeof c->autocast);
    if (may_differ(along, "region")) memcpy(c->region, plain.region, sizeof c->region);
}

// ---------------------------------------------------------------------------- pairing
typedef struct member {
    uint64_t key; // equal: may be compared
    const plb_measurement_row *row;
    bool used;
} member;

static plb_status key_of(const axis *along, const plb_measurement_row *row, uint64_t *out) {
    plb_case c;
    char text[PLB_CASE_TEXT_BYTES];
    if (!along) { // the case itself
        *out = (uint64_t)row->case_id;
        return PLB_OK;
    }
    PLB_TRY(plb_case_parse(row->keys, &c));
    blank(along, &c);
    PLB_TRY(plb_case_text(&c, text));
    *out = plb_hash_string(PLB_HASH_SEED, text);
    return PLB_OK;
}

static int by_key(const void *a, const void *b) {
    const member *x = a, *y = b;
    if (x->key != y->key) return (x->key > y->key) - (x->key < y->key);
    return (x->row->id > y->row->id) - (x->row->id < y->row->id);
}

static plb_status make_members(const axis *along, const plb_measurement_row *rows, size_t count,
                               plb_arena *arena, member **out) {
    *out = plb_arena_alloc(arena, (count + 1) * sizeof **out);
    if (!*out) return fail_memory();
    for (size_t i = 0; i < count; i++) {
        (*out)[i].row = &rows[i];
        PLB_TRY(key_of(along, &rows[i], &(*out)[i].key));
    }
    if (count) qsort(*out, count, sizeof **out, by_key);
    return PLB_OK;
}

// Everything that one comparison of many cases needs.
typedef struct job {
    plb_store *store;
    const plb_compare_request *request;
    plb_arena *arena;
    const axis *along;
    plb_compare_result *out;
    size_t capacity; // of out->pairs
    // Every measurement of these cases on these machines, by machine, case and number.
    plb_measurement_row *history;
    plb_summary *history_summary;
    size_t history_count;
} job;

static plb_status add_pair(job *j, const plb_measurement_row *a, const plb_measurement_row *b) {
    if (j->out->count == j->capacity) {
        size_t capacity = j->capacity ? 2 * j->capacity : 64;
        plb_pair *pairs = plb_arena_alloc(j->arena, capacity * sizeof *pairs);
        if (!pairs) return fail_memory();
        if (j->out->count) memcpy(pairs, j->out->pairs, j->out->count * sizeof *pairs);
        j->out->pairs = pairs, j->capacity = capacity;
    }
    plb_pair *pair = &j->out->pairs[j->out->count++];
    memset(pair, 0, sizeof *pair);
    pair->a = a, pair->b = b;
    return PLB_OK;
}

// Members of both lists with equal keys, each with each.
static plb_status pair_equal(job *j, member *a, size_t a_count, member *b, size_t b_count) {
    for (size_t i = 0, k = 0; i < a_count; i++) {
        while (k < b_count && b[k].key < a[i].key) k++;
        for (size_t n = k; n < b_count && b[n].key == a[i].key; n++) {
            if (a[i].row == b[n].row || a[i].row->id == b[n].row->id) continue;
            a[i].used = b[n].used = true;
            PLB_TRY(add_pair(j, a[i].row, b[n].row));
        }
    }
    return PLB_OK;
}

static bool is_ok(const plb_measurement_row *row) {
    return row->outcome && strcmp(row->outcome, "ok") == 0;
}

// Which of the members from..to the others are compared with.
static plb_status find_baseline(const job *j, const member *a, size_t from, size_t to,
                                size_t *out) {
    *out = from;
    for (const char *const *name = j->request->baseline; name && *name; name++) {
        for (size_t n = from; n < to; n++) {
            plb_case c;
            PLB_TRY(plb_case_parse(a[n].row->keys, &c));
            if (!is_ok(a[n].row) || strcmp(c.stack, *name) != 0) continue;
            *out = n;
            return PLB_OK;
        }
    }
    while (*out < to && !is_ok(a[*out].row)) ++*out; // with what failed nothing can be compared
    if (*out == to) *out = from;
    return PLB_OK;
}

static plb_status pair_along(job *j, member *a, size_t count) {
    for (size_t from = 0, to = 0; from < count; from = to) {
        while (to < count && a[to].key == a[from].key) to++;
        size_t base;
        PLB_TRY(find_baseline(j, a, from, to, &base));
        for (size_t n = from; n < to; n++) {
            if (n == base) continue;
            a[base].used = a[n].used = true;
            PLB_TRY(add_pair(j, a[base].row, a[n].row));
        }
    }
    return PLB_OK;
}

static bool same_work(const plb_case *a, const plb_case *b) {
    return strcmp(a->model, b->model) == 0 && strcmp(a->task, b->task) == 0;
}

// For what found no partner: the most alike of the other side, of the same model and task.
static plb_status pair_rest(job *j, member *a, size_t a_count, member *b, size_t b_count) {
    enum { MOST = 200 }; // beyond that nobody reads the list
    size_t tried = 0;
    for (size_t i = 0; i < a_count && tried < MOST; i++) {
        plb_case x, y;
        plb_case_difference differences[PLB_CASE_MAX_DIFFERENCES];
        int least = PLB_CASE_MAX_DIFFERENCES + 1;
        member *nearest = NULL;
        if (a[i].used) continue;
        tried++;
        PLB_TRY(plb_case_parse(a[i].row->keys, &x));
        for (size_t n = 0, looked = 0; n < b_count && looked < MOST; n++) {
            if (b[n].used || b[n].row->id == a[i].row->id) continue;
            looked++;
            PLB_TRY(plb_case_parse(b[n].row->keys, &y));
            int differ = plb_case_differences(&x, &y, differences);
            if (same_work(&x, &y) && differ < least) least = differ, nearest = &b[n];
        }
        if (!nearest) continue;
        a[i].used = nearest->used = true;
        PLB_TRY(add_pair(j, a[i].row, nearest->row));
    }
    return PLB_OK;
}

static plb_status list_unused(plb_arena *arena, const member *list, size_t count,
                              const plb_measurement_row ***out, size_t *out_count) {
    *out = plb_arena_alloc(arena, (count + 1) * sizeof **out);
    if (!*out) return fail_memory();
    for (size_t i = 0; i < count; i++)
        if (!list[i].used) (*out)[(*out_count)++] = list[i].row;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- refusal
static void add_difference(plb_pair *pair, const char *key, const char *a, const char *b) {
    if (pair->difference_count == PLB_CASE_MAX_DIFFERENCES) return;
    plb_case_difference *d = &pair->differences[pair->difference_count++];
    snprintf(d->key, sizeof d->key, "%s", key);
    snprintf(d->a, sizeof d->a, "%s", a);
    snprintf(d->b, sizeof d->b, "%s", b);
}

static void add_fact(plb_pair *pair, const char *key, const json_t *a, const json_t *b) {
    char name[56];
    char *left = a ? json_dumps(a, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    char *right = b ? json_dumps(b, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    snprintf(name, sizeof name, "machine.%.40s", key);
    add_difference(pair, name, left ? left : "", right ? right : "");
    free(left);
    free(right);
}

static plb_status add_machine_differences(job *j, plb_pair *pair) {
    const char *text_a, *text_b, *key;
    json_t *value;
    PLB_TRY(plb_store_machine(j->store, pair->a->machine_id, j->arena, &text_a));
    PLB_TRY(plb_store_machine(j->store, pair->b->machine_id, j->arena, &text_b));
    json_t *a = json_loads(text_a, 0, NULL), *b = json_loads(text_b, 0, NULL);
    int before = pair->difference_count;
    json_object_foreach(a, key, value) {
        const json_t *other = json_object_get(b, key);
        if (!json_equal(value, other)) add_fact(pair, key, value, other);
    }
    json_object_foreach(b, key, value) {
        if (!json_object_get(a, key)) add_fact(pair, key, NULL, value);
    }
    if (pair->difference_count == before) add_difference(pair, "machine", text_a, text_b);
    json_decref(a);
    json_decref(b);
    return PLB_OK;
}

// What differs and should not, and the batches where these may differ.
static plb_status find_differences(job *j, plb_pair *pair, double divisors[2]) {
    const bool ok = is_ok(pair->a) && is_ok(pair->b);
    divisors[0] = divisors[1] = 1;
    if (pair->a->case_id == pair->b->case_id && pair->a->machine_id == pair->b->machine_id && ok)
        return PLB_OK;
    plb_case a, b;
    plb_case_difference all[PLB_CASE_MAX_DIFFERENCES];
    pair->differences =
        plb_arena_alloc(j->arena, PLB_CASE_MAX_DIFFERENCES * sizeof *pair->differences);
    if (!pair->differences) return fail_memory();
    PLB_TRY(plb_case_parse(pair->a->keys, &a));
    PLB_TRY(plb_case_parse(pair->b->keys, &b));
    int count = plb_case_differences(&a, &b, all);
    for (int i = 0; i < count; i++)
        if (!may_differ(j->along, all[i].key)) pair->differences[pair->difference_count++] = all[i];
    if (pair->a->machine_id != pair->b->machine_id) PLB_TRY(add_machine_differences(j, pair));
    pair->per_sample = a.batch != b.batch && a.batch > 0 && b.batch > 0;
    if (pair->per_sample) divisors[0] = (double)a.batch, divisors[1] = (double)b.batch;
    pair->refused = pair->difference_count > 0 && !j->request->anyway;
    pair->anyway = pair->difference_count > 0 && j->request->anyway;
    if (!ok) {
        add_difference(pair, "outcome", pair->a->outcome ? pair->a->outcome : "unfinished",
                       pair->b->outcome ? pair->b->outcome : "unfinished");
        pair->refused = true; // what failed has no times to compare
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- history
static int by_run(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static plb_status load_history(job *j) {
    size_t runs = 0;
    int64_t *run = plb_arena_alloc(j->arena, (2 * j->out->count + 1) * sizeof *run);
    if (!run) return fail_memory();
    for (size_t i = 0; i < j->out->count; i++) {
        run[runs++] = j->out->pairs[i].a->run;
        run[runs++] = j->out->pairs[i].b->run;
    }
    qsort(run, runs, sizeof *run, by_run);
    size_t distinct = 0;
    for (size_t i = 0; i < runs; i++)
        if (!i || run[i] != run[distinct - 1]) run[distinct++] = run[i];
    PLB_TRY(plb_store_history(j->store, run, distinct, PLB_SUMMARY_ALGORITHM, j->arena, &j->history,
                              &j->history_count));
    j->history_summary =
        plb_arena_alloc(j->arena, (j->history_count + 1) * sizeof *j->history_summary);
    if (!j->history_summary) return fail_memory();
    for (size_t i = 0; i < j->history_count; i++) {
        PLB_TRY(plb_summary_of_row(j->store, &j->history[i], j->arena, &j->history_summary[i]));
    }
    return PLB_OK;
}

// The first history row at or behind (machine, case, number).
static size_t find_history(const job *j, int64_t machine, int64_t case_id, int64_t id) {
    size_t low = 0, high = j->history_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const plb_measurement_row *m = &j->history[mid];
        bool before = m->machine_id != machine ? m->machine_id < machine
                      : m->case_id != case_id  ? m->case_id < case_id
                                               : m->id < id;
        if (before)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

// The summary of a row that is part of the history, as all rows with the outcome ok are.
static plb_status summary_of(const job *j, const plb_measurement_row *row, plb_summary *out) {
    size_t at = find_history(j, row->machine_id, row->case_id, row->id);
    if (at < j->history_count && j->history[at].id == row->id) {
        *out = j->history_summary[at];
        return PLB_OK;
    }
    return plb_summary_of_row(j->store, row, j->arena, out);
}

// What the other measurements of a case, but for the two of the pair, teach of its starts.
static plb_status learn(const job *j, const plb_measurement_row *of, const plb_pair *pair,
                        plb_spread *out) {
    enum { MOST_RUNS = 256 };
    plb_spread_run runs[MOST_RUNS];
    plb_spread_sums sums = {0};
    size_t count = 0;
    for (size_t i = find_history(j, of->machine_id, of->case_id, 0);
         i < j->history_count && j->history[i].machine_id == of->machine_id &&
         j->history[i].case_id == of->case_id;
         i++) {
        const plb_summary *s = &j->history_summary[i];
        if (j->history[i].id == pair->a->id || j->history[i].id == pair->b->id || !s->starts)
            continue;
        plb_spread_add(&sums, s);
        runs[count++ % MOST_RUNS] =
            (plb_spread_run){j->history[i].software, log(s->median_ns), (int)s->starts};
    }
    *out = plb_spread_of(&sums, runs, count < MOST_RUNS ? count : MOST_RUNS);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- verdicts
static plb_status judge(job *j, plb_pair *pair) {
    double divisors[2];
    PLB_TRY(find_differences(j, pair, divisors));
    PLB_TRY(summary_of(j, pair->a, &pair->summary_a));
    PLB_TRY(summary_of(j, pair->b, &pair->summary_b));
    j->out->refused += pair->refused;
    if (pair->refused) return PLB_OK;
    plb_side a = {.summary = &pair->summary_a,
                  .run = pair->a->run,
                  .case_id = pair->a->case_id,
                  .divisor = divisors[0]};
    plb_side b = {.summary = &pair->summary_b,
                  .run = pair->b->run,
                  .case_id = pair->b->case_id,
                  .divisor = divisors[1]};
    PLB_TRY(learn(j, pair->a, pair, &a.history));
    PLB_TRY(learn(j, pair->b, pair, &b.history));
    return plb_compare(&a, &b, &j->request->options, &pair->comparison);
}

static plb_status decide_all(job *j) {
    plb_comparison *list = plb_arena_alloc(j->arena, (j->out->count + 1) * sizeof *list);
    size_t n = 0;
    if (!list) return fail_memory();
    for (size_t i = 0; i < j->out->count; i++) {
        PLB_TRY(judge(j, &j->out->pairs[i]));
        if (!j->out->pairs[i].refused) list[n++] = j->out->pairs[i].comparison;
    }
    PLB_TRY(plb_decide(list, n, &j->request->options));
    n = 0;
    for (size_t i = 0; i < j->out->count; i++)
        if (!j->out->pairs[i].refused) j->out->pairs[i].comparison = list[n++];
    return PLB_OK;
}

// ---------------------------------------------------------------------------- requests
static plb_status newest_run(plb_store *store, plb_arena *arena, plb_selector *out) {
    plb_run_row *runs;
    size_t count;
    PLB_TRY(plb_store_runs(store, &(plb_run_filter){.limit = 1}, arena, &runs, &count));
    if (!count) {
        return plb_fail(PLB_EINVAL, "%s: there are no runs yet", plb_store_path(store));
    }
    *out = (plb_selector){.kind = PLB_SELECT_RUN, .word = "", .run = runs[0].id};
    return PLB_OK;
}

static plb_status gather_along(job *j) {
    plb_selector a;
    plb_measurement_row *rows;
    member *members;
    size_t count;
    if (j->request->b) {
        return plb_fail(PLB_EINVAL, "--by %s: expected one name at most, found \"%s\" too",
                        j->along->name, j->request->b);
    }
    if (j->request->a)
        PLB_TRY(plb_select_parse(j->store, j->request->a, &a));
    else
        PLB_TRY(newest_run(j->store, j->arena, &a));
    PLB_TRY(plb_select_rows(j->store, &a, 0, j->arena, &rows, &count));
    PLB_TRY(make_members(j->along, rows, count, j->arena, &members));
    PLB_TRY(pair_along(j, members, count));
    return list_unused(j->arena, members, count, &j->out->only_a, &j->out->only_a_count);
}

// One measurement is as fast as itself, and says nothing of two.
static plb_status check_two(const job *j, const plb_measurement_row *a, size_t a_count,
                            const plb_measurement_row *b, size_t b_count) {
    bool same = a_count && a_count == b_count, one_run = true;
    for (size_t i = 0; same && i < a_count; i++) {
        same = a[i].id == b[i].id;
        one_run &= a[i].run == a[0].run;
    }
    if (!same) return PLB_OK;
    if (one_run)
        return plb_fail(PLB_EINVAL,
                        "expected two things to compare: %s and %s are both of run %lld",
                        j->request->a, j->request->b, (long long)a[0].run);
    return plb_fail(PLB_EINVAL,
                    "expected two things to compare: %s and %s are the same measurements",
                    j->request->a, j->request->b);
}

static plb_status gather_two(job *j) {
    plb_selector a, b;
    plb_measurement_row *rows_a, *rows_b;
    member *members_a, *members_b;
    size_t count_a, count_b;
    int64_t run = 0;
    if (!j->request->a || !j->request->b) {
        return plb_fail(PLB_EINVAL, "expected two names A and B to compare, or --by KEY");
    }
    PLB_TRY(plb_select_parse(j->store, j->request->a, &a));
    PLB_TRY(plb_select_parse(j->store, j->request->b, &b));
    if (a.kind == PLB_SELECT_STACK && b.kind == PLB_SELECT_STACK) {
        j->along = &axes[0];
        PLB_TRY(plb_store_run_of_stacks(j->store, a.word, b.word, &run));
    }
    PLB_TRY(plb_select_rows(j->store, &a, run, j->arena, &rows_a, &count_a));
    PLB_TRY(plb_select_rows(j->store, &b, run, j->arena, &rows_b, &count_b));
    PLB_TRY(check_two(j, rows_a, count_a, rows_b, count_b));
    PLB_TRY(make_members(j->along, rows_a, count_a, j->arena, &members_a));
    PLB_TRY(make_members(j->along, rows_b, count_b, j->arena, &members_b));
    PLB_TRY(pair_equal(j, members_a, count_a, members_b, count_b));
    PLB_TRY(pair_rest(j, members_a, count_a, members_b, count_b));
    PLB_TRY(list_unused(j->arena, members_a, count_a, &j->out->only_a, &j->out->only_a_count));
    return list_unused(j->arena, members_b, count_b, &j->out->only_b, &j->out->only_b_count);
}

plb_status plb_compare_run(plb_store *store, const plb_compare_request *request, plb_arena *arena,
                           plb_compare_result *out) {
    job j = {.store = store, .request = request, .arena = arena, .out = out};
    *out = (plb_compare_result){0};
    if (request->by) {
        PLB_TRY(find_axis(request->by, &j.along));
        PLB_TRY(gather_along(&j));
    } else {
        PLB_TRY(gather_two(&j));
    }
    if (!out->count) return PLB_OK;
    PLB_TRY(load_history(&j));
    return decide_all(&j);
}
