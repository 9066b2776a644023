// SPDX-License-Identifier: Apache-2.0
#include "store/study.h"

#include <string.h>

#include "base/core/status.h"
#include "store/db.h"
#include "store/process.h"

static plb_status insert_study(plb_store *store, int64_t run_id, const char *name, const char *spec,
                               const char *options) {
    sqlite3_stmt *insert;
    PLB_TRY(plb_db_prepare(
        store, "INSERT INTO study (run, name, spec, options) VALUES (?, ?, ?, ?)", &insert));
    sqlite3_bind_int64(insert, 1, run_id);
    plb_db_text(insert, 2, name);
    plb_db_text(insert, 3, spec);
    plb_db_text(insert, 4, options);
    return plb_db_finish(store, insert, "adding a study");
}

plb_status plb_store_begin_study(plb_store *store, int64_t run_id, const char *name,
                                 const char *spec, const char *options) {
    PLB_TRY(plb_store_transaction(store));
    return plb_store_transaction_end(store, insert_study(store, run_id, name, spec, options));
}

// A column's text in the arena; *failed is set when there is no memory.
static const char *column(sqlite3_stmt *row, int i, plb_arena *arena, bool *failed) {
    const char *text = (const char *)sqlite3_column_text(row, i);
    char *copy = text ? plb_arena_strdup(arena, text) : NULL;
    if (text && !copy) *failed = true;
    return copy;
}

plb_status plb_store_find_study(plb_store *store, int64_t run_id, const char *name,
                                plb_arena *arena, plb_study_row *out) {
    sqlite3_stmt *select;
    bool row, failed = false;
    PLB_TRY(plb_db_prepare(store,
                           "SELECT run, name, spec, options FROM study WHERE (?1 = 0 OR run = ?1) "
                           "AND (?2 IS NULL OR name = ?2) ORDER BY run DESC LIMIT 1",
                           &select));
    sqlite3_bind_int64(select, 1, run_id);
    plb_db_text(select, 2, name);
    PLB_TRY(plb_db_step(store, select, "reading a study", &row));
    if (row) {
        *out = (plb_study_row){.run = sqlite3_column_int64(select, 0),
                               .name = column(select, 1, arena, &failed),
                               .spec = column(select, 2, arena, &failed),
                               .options = column(select, 3, arena, &failed)};
    }
    sqlite3_reset(select);
    if (failed) return plb_fail(PLB_ENOMEM, "out of memory for a study");
    if (row) return PLB_OK;
    if (run_id)
        return plb_fail(PLB_EMISSING, "%s: run %lld is no study", plb_store_path(store),
                        (long long)run_id);
    return plb_fail(PLB_EMISSING, "%s: no study %s has been run", plb_store_path(store),
                    name ? name : "");
}

// An attempt that did not end leaves what an earlier one had: the longer of their trainings stays.
static plb_status upsert_item(plb_store *store, int64_t run_id, const plb_study_item_row *item) {
    sqlite3_stmt *insert;
    PLB_TRY(plb_db_prepare(store,
                           "INSERT INTO study_item (run, part, keys, outcome, reason, results) "
                           "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (run, part, keys) DO UPDATE SET "
                           "outcome = excluded.outcome, reason = excluded.reason, "
                           "results = CASE WHEN excluded.outcome IN ('left-out', 'running') AND "
                           "ifnull(json_array_length(results, '$.epochs'), 0) > "
                           "ifnull(json_array_length(excluded.results, '$.epochs'), 0) "
                           "THEN results ELSE excluded.results END",
                           &insert));
    sqlite3_bind_int64(insert, 1, run_id);
    plb_db_text(insert, 2, item->part);
    plb_db_text(insert, 3, item->keys);
    plb_db_text(insert, 4, item->outcome);
    plb_db_text(insert, 5, item->reason);
    plb_db_text(insert, 6, item->results);
    return plb_db_finish(store, insert, "adding an item of a study");
}

plb_status plb_store_put_item(plb_store *store, int64_t run_id, const plb_study_item_row *item) {
    PLB_TRY(plb_store_transaction(store));
    return plb_store_transaction_end(store, upsert_item(store, run_id, item));
}

// Whether a row with these may be taken.
static bool is_free(const char *outcome, const char *process) {
    if (strcmp(outcome, "running") != 0) return strcmp(outcome, "left-out") == 0;
    return !(process && plb_process_alive(process));
}

static plb_status look_at_item(plb_store *store, int64_t run_id, const char *part, const char *keys,
                               bool *out_free) {
    sqlite3_stmt *select;
    bool row;
    PLB_TRY(plb_db_prepare(store,
                           "SELECT outcome, reason FROM study_item WHERE run = ? AND part = ? AND "
                           "keys = ?",
                           &select));
    sqlite3_bind_int64(select, 1, run_id);
    plb_db_text(select, 2, part);
    plb_db_text(select, 3, keys);
    PLB_TRY(plb_db_step(store, select, "looking at an item of a study", &row));
    *out_free = !row || is_free((const char *)sqlite3_column_text(select, 0),
                                (const char *)sqlite3_column_text(select, 1));
    sqlite3_reset(select);
    return PLB_OK;
}

plb_status plb_store_take_item(plb_store *store, int64_t run_id, const char *part, const char *keys,
                               bool *taken) {
    char process[PLB_PROCESS_BYTES];
    plb_process_self(process);
    const plb_study_item_row item = {
        .part = part, .keys = keys, .outcome = "running", .reason = process};
    PLB_TRY(plb_db_begin(store));
    plb_status status = look_at_item(store, run_id, part, keys, taken);
    if (!status && *taken) status = upsert_item(store, run_id, &item);
    return plb_db_end(store, status);
}

plb_status plb_store_count_held(plb_store *store, int64_t run_id, int *out) {
    char self[PLB_PROCESS_BYTES];
    sqlite3_stmt *select;
    bool row;
    *out = 0;
    plb_process_self(self);
    PLB_TRY(plb_db_prepare(store,
                           "SELECT reason FROM study_item WHERE run = ? AND outcome = 'running' "
                           "AND reason IS NOT NULL",
                           &select));
    sqlite3_bind_int64(select, 1, run_id);
    for (;;) {
        PLB_TRY(plb_db_step(store, select, "looking who runs items of a study", &row));
        if (!row) break;
        const char *process = (const char *)sqlite3_column_text(select, 0);
        *out += process && strcmp(process, self) != 0 && plb_process_alive(process);
    }
    sqlite3_reset(select);
    return PLB_OK;
}

static plb_status count_items(plb_store *store, int64_t run_id, size_t *out) {
    sqlite3_stmt *select;
    bool row;
    PLB_TRY(plb_db_prepare(store, "SELECT count(*) FROM study_item WHERE run = ?", &select));
    sqlite3_bind_int64(select, 1, run_id);
    PLB_TRY(plb_db_step(store, select, "counting a study's items", &row));
    *out = row ? (size_t)sqlite3_column_int64(select, 0) : 0;
    sqlite3_reset(select);
    return PLB_OK;
}

plb_status plb_store_items(plb_store *store, int64_t run_id, plb_arena *arena,
                           plb_study_item_row **out, size_t *out_count) {
    size_t room = 0, n = 0;
    sqlite3_stmt *select;
    bool row, failed = false;
    PLB_TRY(count_items(store, run_id, &room));
    plb_study_item_row *items = plb_arena_alloc(arena, (room + 1) * sizeof *items);
    if (!items) return plb_fail(PLB_ENOMEM, "out of memory for a study's items");
    PLB_TRY(plb_db_prepare(store,
                           "SELECT part, keys, outcome, reason, results FROM study_item "
                           "WHERE run = ? ORDER BY id",
                           &select));
    sqlite3_bind_int64(select, 1, run_id);
    for (;;) {
        PLB_TRY(plb_db_step(store, select, "reading a study's items", &row));
        if (!row || n == room) break;
        items[n++] = (plb_study_item_row){.part = column(select, 0, arena, &failed),
                                          .keys = column(select, 1, arena, &failed),
                                          .outcome = column(select, 2, arena, &failed),
                                          .reason = column(select, 3, arena, &failed),
                                          .results = column(select, 4, arena, &failed)};
    }
    sqlite3_reset(select);
    if (failed) return plb_fail(PLB_ENOMEM, "out of memory for a study's items");
    *out = items, *out_count = n;
    return PLB_OK;
}
