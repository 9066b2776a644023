// SPDX-License-Identifier: Apache-2.0
#include "bench/select.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "bench/summary.h"

enum { KINDS = 5 };

static const char *const prefixes[KINDS] = {"run:", "label:", "git:", "stack:", "case:"};
static const char *const nouns[KINDS] = {"run", "label", "git revision", "stack", "case"};

static bool only(const char *text, const char *letters) {
    return *text && !text[strspn(text, letters)];
}

// Whether the store has something of this kind under the word. Beginnings of hashes need four
// digits, so that a short number is not taken for one.
static plb_status exists(plb_store *store, plb_select_kind kind, const char *word, plb_arena *arena,
                         bool *out) {
    static const char decimal[] = "0123456789", hex[] = "0123456789abcdef";
    plb_run_filter filter = {.limit = 1};
    plb_run_row *runs;
    plb_measurement_row *rows;
    size_t count = 0;
    int64_t number = 0;
    *out = false;
    switch (kind) {
    case PLB_SELECT_RUN:
        if (!only(word, decimal) || !(filter.id = strtoll(word, NULL, 10))) return PLB_OK;
        break;
    case PLB_SELECT_LABEL: filter.label = word; break;
    case PLB_SELECT_GIT:
        if (!only(word, hex) || strlen(word) < 4) return PLB_OK;
        filter.git = word;
        break;
    case PLB_SELECT_STACK:
        PLB_TRY(plb_store_count_stack(store, word, &number));
        *out = number > 0;
        return PLB_OK;
    default:
        if (!only(word, hex) || strlen(word) < 4) return PLB_OK;
        PLB_TRY(plb_store_measurements(store,
                                       &(plb_measurement_filter){.case_hash = word, .brief = true},
                                       arena, &rows, &count));
        *out = count > 0;
        return PLB_OK;
    }
    PLB_TRY(plb_store_runs(store, &filter, arena, &runs, &count));
    *out = count > 0;
    return PLB_OK;
}

static plb_status parse_in(plb_store *store, const char *text, plb_arena *arena,
                           plb_selector *out) {
    int found = -1;
    for (int kind = 0; kind < KINDS; kind++) {
        bool there, named = strncmp(text, prefixes[kind], strlen(prefixes[kind])) == 0;
        const char *word = named ? text + strlen(prefixes[kind]) : text;
        PLB_TRY(exists(store, (plb_select_kind)kind, word, arena, &there));
        if (named && !there) {
            return plb_fail(PLB_EINVAL, "%s: the store has no %s \"%s\"", text, nouns[kind], word);
        }
        if (there && found >= 0 && !named) {
            return plb_fail(PLB_EINVAL, "%s: both a %s and a %s; write %s%s or %s%s", text,
                            nouns[found], nouns[kind], prefixes[found], text, prefixes[kind], text);
        }
        if (there) {
            found = kind;
            *out = (plb_selector){(plb_select_kind)kind, word, 0};
        }
        if (named) break;
    }
    if (found < 0) {
        return plb_fail(PLB_EINVAL,
                        "%s: the store has no run, label, git revision, stack or case of that "
                        "name; `plumb runs` lists the runs",
                        text);
    }
    if (found == PLB_SELECT_RUN) out->run = strtoll(out->word, NULL, 10);
    return PLB_OK;
}

plb_status plb_select_parse(plb_store *store, const char *text, plb_selector *out) {
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    plb_status status = parse_in(store, text, arena, out);
    plb_arena_free(arena);
    return status;
}

// ---------------------------------------------------------------------------- rows
static int newest_of_case(const void *a, const void *b) {
    const plb_measurement_row *x = a, *y = b;
    if (x->case_id != y->case_id) return (x->case_id > y->case_id) - (x->case_id < y->case_id);
    return (y->id > x->id) - (y->id < x->id);
}

static int by_id(const void *a, const void *b) {
    int64_t x = ((const plb_measurement_row *)a)->id, y = ((const plb_measurement_row *)b)->id;
    return (x > y) - (x < y);
}

// Keeps the newest measurement of each case.
static size_t keep_newest(plb_measurement_row *rows, size_t count) {
    size_t kept = 0;
    if (!count) return 0;
    qsort(rows, count, sizeof *rows, newest_of_case);
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || rows[i].case_id != rows[kept - 1].case_id) rows[kept++] = rows[i];
    }
    qsort(rows, kept, sizeof *rows, by_id);
    return kept;
}

// All measurements of several runs in one array.
static plb_status rows_of_runs(plb_store *store, const plb_run_row *runs, size_t run_count,
                               plb_arena *arena, plb_measurement_row **out, size_t *count) {
    plb_measurement_row *all = NULL;
    size_t total = 0;
    for (size_t i = 0; i < run_count; i++) {
        plb_measurement_row *rows;
        size_t n;
        const plb_measurement_filter filter = {
            .run = runs[i].id, .brief = true, .algorithm = PLB_SUMMARY_ALGORITHM};
        PLB_TRY(plb_store_measurements(store, &filter, arena, &rows, &n));
        plb_measurement_row *both = plb_arena_alloc(arena, (total + n + 1) * sizeof *both);
        if (!both) return plb_fail(PLB_ENOMEM, "out of memory");
        if (total) memcpy(both, all, total * sizeof *both);
        if (n) memcpy(both + total, rows, n * sizeof *both);
        all = both, total += n;
    }
    *out = all, *count = total;
    return PLB_OK;
}

plb_status plb_select_rows(plb_store *store, const plb_selector *selector, int64_t run,
                           plb_arena *arena, plb_measurement_row **out, size_t *count) {
    plb_measurement_filter filter = {.brief = true, .algorithm = PLB_SUMMARY_ALGORITHM, .run = run};
    plb_run_filter runs = {0};
    plb_run_row *run_rows;
    size_t run_count;
    switch (selector->kind) {
    case PLB_SELECT_RUN: runs.id = selector->run; break;
    case PLB_SELECT_LABEL: runs.label = selector->word; break;
    case PLB_SELECT_GIT: runs.git = selector->word; break;
    case PLB_SELECT_STACK: filter.stack = selector->word; break;
    case PLB_SELECT_CASE: filter.case_hash = selector->word; break;
    }
    if (selector->kind == PLB_SELECT_STACK || selector->kind == PLB_SELECT_CASE) {
        PLB_TRY(plb_store_measurements(store, &filter, arena, out, count));
    } else {
        PLB_TRY(plb_store_runs(store, &runs, arena, &run_rows, &run_count));
        PLB_TRY(rows_of_runs(store, run_rows, run_count, arena, out, count));
    }
    *count = keep_newest(*out, *count);
    return PLB_OK;
}
