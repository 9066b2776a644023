// SPDX-License-Identifier: Apache-2.0
#include "store/read.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "store/db.h"
#include "store/process.h"
#include "store/samples.h"

// Rows as they come, moved to the arena when there are no more.
typedef struct rows {
    char *items;
    size_t count, capacity, item_bytes;
} rows;

static void *rows_add(rows *r) {
    if (r->count == r->capacity) {
        size_t capacity = r->capacity ? 2 * r->capacity : 64;
        char *items = plb_realloc_array(r->items, capacity, r->item_bytes);
        if (!items) return NULL;
        r->items = items, r->capacity = capacity;
    }
    void *item = r->items + r->count++ * r->item_bytes;
    memset(item, 0, r->item_bytes);
    return item;
}

// Frees the rows; on success *out is their copy in the arena.
static plb_status rows_finish(rows *r, plb_status status, plb_arena *arena, void **out,
                              size_t *count) {
    if (!status) {
        *out = r->count ? plb_arena_copy(arena, r->items, r->count * r->item_bytes)
                        : plb_arena_alloc(arena, 1);
        *count = r->count;
        if (!*out) status = plb_fail(PLB_ENOMEM, "out of memory");
    }
    plb_free(r->items);
    return status;
}

// One row of a SELECT being read; `failed` if the arena is full.
typedef struct reader {
    sqlite3_stmt *statement;
    plb_arena *arena;
    bool failed;
} reader;

static const char *text_at(reader *r, int column) {
    const char *text = (const char *)sqlite3_column_text(r->statement, column);
    if (!text) return NULL;
    const char *copy = plb_arena_strdup(r->arena, text);
    r->failed |= !copy;
    return copy;
}

static int64_t number_at(reader *r, int column) {
    if (sqlite3_column_type(r->statement, column) == SQLITE_NULL) return -1;
    return sqlite3_column_int64(r->statement, column);
}

// Calls read(reader, row) for each row of the statement.
typedef void (*read_row)(reader *r, void *row);

static plb_status read_all(plb_store *store, sqlite3_stmt *statement, size_t item_bytes,
                           read_row read, plb_arena *arena, void **out, size_t *count) {
    reader r = {.statement = statement, .arena = arena};
    rows list = {.item_bytes = item_bytes};
    plb_status status;
    for (;;) {
        bool row;
        status = plb_db_step(store, statement, "reading", &row);
        if (status || !row) break;
        void *item = rows_add(&list);
        if (item) read(&r, item);
        if (!item || r.failed) {
            sqlite3_reset(statement);
            status = plb_fail(PLB_ENOMEM, "out of memory");
            break;
        }
    }
    return rows_finish(&list, status, arena, out, count);
}

// ---------------------------------------------------------------------------- runs
static void read_run(reader *r, void *row) {
    plb_run_row *run = row;
    run->id = number_at(r, 0);
    run->uuid = text_at(r, 1);
    run->label = text_at(r, 2);
    run->command = text_at(r, 3);
    run->git = text_at(r, 4);
    run->machine_hash = text_at(r, 5);
    run->machine = text_at(r, 6);
    run->fingerprint = text_at(r, 7);
    run->fingerprint_end = text_at(r, 8);
    run->began_ms = number_at(r, 9);
    run->ended_ms = number_at(r, 10);
    run->state = text_at(r, 11);
    const char *process = (const char *)sqlite3_column_text(r->statement, 12);
    if (run->state && strcmp(run->state, "running") == 0 &&
        !(process && plb_process_alive(process))) {
        run->state = "interrupted";
    }
    run->cases = number_at(r, 13);
    run->ok = number_at(r, 14);
}

// `*` and `?` of GLOB cannot come from a beginning that holds only letters and digits.
static bool plain_word(const char *text) {
    return text[strspn(text, "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")] ==
           '\0';
}

static void bind_beginning(sqlite3_stmt *statement, int index, const char *text) {
    if (!text || !plain_word(text)) {
        plb_db_text(statement, index, text); // NULL, or a pattern that is matched as it stands
        return;
    }
    plb_strbuf pattern = {0};
    plb_strbuf_printf(&pattern, "%s*", text);
    if (!pattern.failed) sqlite3_bind_text(statement, index, pattern.text, -1, SQLITE_TRANSIENT);
    plb_strbuf_free(&pattern);
}

plb_status plb_store_runs(plb_store *store, const plb_run_filter *filter, plb_arena *arena,
                          plb_run_row **out, size_t *count) {
    sqlite3_stmt *select;
    PLB_TRY(plb_db_prepare(
        store,
        "SELECT run.id, uuid, label, command, git, machine.hash, machine.facts, fingerprint, "
        "fingerprint_end, began_ms, ended_ms, state, process, "
        "(SELECT count(*) FROM measurement WHERE run = run.id), "
        "(SELECT count(*) FROM measurement WHERE run = run.id AND outcome = 'ok') "
        "FROM run JOIN machine ON machine.id = run.machine "
        "WHERE (?1 = 0 OR run.id = ?1) AND (?2 IS NULL OR label = ?2) "
        "AND (?3 IS NULL OR git GLOB ?3) AND (?4 IS NULL OR uuid GLOB ?4) "
        "ORDER BY run.id DESC LIMIT ?5",
        &select));
    sqlite3_bind_int64(select, 1, filter->id);
    plb_db_text(select, 2, filter->label);
    bind_beginning(select, 3, filter->git);
    bind_beginning(select, 4, filter->uuid);
    sqlite3_bind_int64(select, 5, filter->limit ? filter->limit : -1);
    return read_all(store, select, sizeof(plb_run_row), read_run, arena, (void **)out, count);
}

// ---------------------------------------------------------------------------- measurements
static void read_measurement(reader *r, void *row) {
    plb_measurement_row *m = row;
    m->id = number_at(r, 0);
    m->run = number_at(r, 1);
    m->case_id = number_at(r, 2);
    m->case_hash = text_at(r, 3);
    m->keys = text_at(r, 4);
    m->outcome = text_at(r, 5);
    m->samples_hash = sqlite3_column_int64(r->statement, 6);
    m->machine_id = number_at(r, 7);
    m->summary_bytes = (size_t)sqlite3_column_bytes(r->statement, 8);
    if (m->summary_bytes) {
        m->summary =
            plb_arena_copy(r->arena, sqlite3_column_blob(r->statement, 8), m->summary_bytes);
        r->failed |= !m->summary;
    }
    m->reason = text_at(r, 9);
    m->log = text_at(r, 10);
    m->proof = text_at(r, 11);
    m->versions = text_at(r, 12);
    m->results = text_at(r, 13);
}

#define PLB_MEASUREMENT_COLUMNS                                          \
    "SELECT m.id, m.run, m.case_id, cases.hash, cases.keys, m.outcome, " \
    "m.samples_hash, run.machine, summary.body"
#define PLB_MEASUREMENT_TABLES                                                    \
    " FROM measurement m JOIN cases ON cases.id = m.case_id "                     \
    "JOIN run ON run.id = m.run LEFT JOIN summary ON summary.measurement = m.id " \
    "AND summary.algorithm = ?1 AND summary.samples_hash = m.samples_hash "

plb_status plb_store_measurements(plb_store *store, const plb_measurement_filter *filter,
                                  plb_arena *arena, plb_measurement_row **out, size_t *count) {
    sqlite3_stmt *select;
    static const char by_run[] = PLB_MEASUREMENT_COLUMNS
        ", iif(?2, NULL, reason), iif(?2, NULL, log), iif(?2, NULL, proof), "
        "iif(?2, NULL, versions), iif(?2, NULL, results)" PLB_MEASUREMENT_TABLES
        "WHERE m.run = ?3 AND (?6 IS NULL OR cases.hash GLOB ?6) "
        "AND (?7 IS NULL OR cases.stack = ?7) ORDER BY m.id";
    static const char by_id[] = PLB_MEASUREMENT_COLUMNS
        ", iif(?2, NULL, reason), iif(?2, NULL, log), iif(?2, NULL, proof), "
        "iif(?2, NULL, versions), iif(?2, NULL, results)" PLB_MEASUREMENT_TABLES "WHERE m.id = ?4";
    static const char by_case[] = PLB_MEASUREMENT_COLUMNS
        ", iif(?2, NULL, reason), iif(?2, NULL, log), iif(?2, NULL, proof), "
        "iif(?2, NULL, versions), iif(?2, NULL, results)" PLB_MEASUREMENT_TABLES
        "WHERE (?5 = 0 OR m.case_id = ?5) AND (?6 IS NULL OR cases.hash GLOB ?6) "
        "AND (?7 IS NULL OR cases.stack = ?7) AND (?8 = 0 OR m.id IN "
        "(SELECT n.id FROM measurement n JOIN cases k ON k.id = n.case_id "
        "WHERE (?5 = 0 OR n.case_id = ?5) AND (?7 IS NULL OR k.stack = ?7) "
        "ORDER BY n.id DESC LIMIT ?8)) ORDER BY m.id";
    PLB_TRY(plb_db_prepare(store,
                           filter->run           ? by_run
                           : filter->measurement ? by_id
                                                 : by_case,
                           &select));
    sqlite3_bind_int(select, 1, filter->algorithm);
    sqlite3_bind_int(select, 2, filter->brief);
    if (filter->run)
        sqlite3_bind_int64(select, 3, filter->run);
    else if (filter->measurement)
        sqlite3_bind_int64(select, 4, filter->measurement);
    else
        sqlite3_bind_int64(select, 5, filter->case_id),
            sqlite3_bind_int64(select, 8, filter->newest);
    if (!filter->measurement || filter->run) {
        bind_beginning(select, 6, filter->case_hash);
        plb_db_text(select, 7, filter->stack);
    }
    return read_all(store, select, sizeof(plb_measurement_row), read_measurement, arena,
                    (void **)out, count);
}

static void read_history(reader *r, void *row) {
    plb_measurement_row *m = row;
    m->id = number_at(r, 0);
    m->run = number_at(r, 1);
    m->case_id = number_at(r, 2);
    m->outcome = "ok";
    m->samples_hash = sqlite3_column_int64(r->statement, 3);
    m->machine_id = number_at(r, 4);
    m->summary_bytes = (size_t)sqlite3_column_bytes(r->statement, 5);
    if (m->summary_bytes) {
        m->summary =
            plb_arena_copy(r->arena, sqlite3_column_blob(r->statement, 5), m->summary_bytes);
        r->failed |= !m->summary;
    }
    m->software = PLB_HASH_SEED;
    for (int column = 6; column < 9; column++) {
        const char *text = (const char *)sqlite3_column_text(r->statement, column);
        m->software = plb_hash_string(m->software, text ? text : "");
    }
    // Nobody knows what a run without a revision measured: it is like no other.
    if (sqlite3_column_type(r->statement, 6) == SQLITE_NULL)
        m->software = plb_hash_bytes(m->software, &m->run, sizeof m->run);
}

plb_status plb_store_history(plb_store *store, const int64_t *runs, size_t run_count, int algorithm,
                             plb_arena *arena, plb_measurement_row **out, size_t *count) {
    plb_strbuf list = {0};
    plb_strbuf_printf(&list, "[");
    for (size_t i = 0; i < run_count; i++)
        plb_strbuf_printf(&list, "%s%lld", i ? "," : "", (long long)runs[i]);
    plb_strbuf_printf(&list, "]");
    plb_status status = PLB_OK;
    if (list.failed) {
        plb_strbuf_free(&list);
        return plb_fail(PLB_ENOMEM, "out of memory");
    }
    sqlite3_stmt *select;
    PLB_TRY_OUT(plb_db_prepare(
        store,
        "WITH tree AS MATERIALIZED " // one reading of each run's long text, not of each case's
        "(SELECT id, fingerprint ->> '$.software.work_tree' AS hash FROM run WHERE machine IN "
        "(SELECT machine FROM run WHERE id IN (SELECT value FROM json_each(?2)))) "
        "SELECT m.id, m.run, m.case_id, m.samples_hash, run.machine, summary.body, run.git, "
        "json(m.versions), tree.hash FROM measurement m JOIN run ON run.id = m.run "
        "JOIN tree ON tree.id = m.run "
        "LEFT JOIN summary ON summary.measurement = m.id AND summary.algorithm = ?1 "
        "AND summary.samples_hash = m.samples_hash "
        "WHERE m.outcome = 'ok' AND m.case_id IN (SELECT case_id FROM measurement "
        "WHERE run IN (SELECT value FROM json_each(?2))) "
        "AND run.machine IN (SELECT machine FROM run WHERE id IN "
        "(SELECT value FROM json_each(?2))) "
        "ORDER BY run.machine, m.case_id, m.id",
        &select));
    sqlite3_bind_int(select, 1, algorithm);
    sqlite3_bind_text(select, 2, list.text, -1, SQLITE_TRANSIENT);
    status = read_all(store, select, sizeof(plb_measurement_row), read_history, arena, (void **)out,
                      count);
out:
    plb_strbuf_free(&list);
    return status;
}

static plb_status one_number(plb_store *store, sqlite3_stmt *select, int64_t *out) {
    bool row;
    PLB_TRY(plb_db_step(store, select, "reading", &row));
    *out = row ? sqlite3_column_int64(select, 0) : 0;
    sqlite3_reset(select);
    return PLB_OK;
}

plb_status plb_store_count_stack(plb_store *store, const char *stack, int64_t *count) {
    sqlite3_stmt *select;
    PLB_TRY(plb_db_prepare(store, "SELECT count(*) FROM cases WHERE stack = ?", &select));
    plb_db_text(select, 1, stack);
    return one_number(store, select, count);
}

plb_status plb_store_run_of_stacks(plb_store *store, const char *a, const char *b, int64_t *run) {
    sqlite3_stmt *select;
    PLB_TRY(plb_db_prepare(store,
                           "SELECT run FROM measurement m JOIN cases ON cases.id = m.case_id "
                           "WHERE stack = ?1 OR stack = ?2 GROUP BY run "
                           "HAVING count(DISTINCT stack) = 1 + (?2 IS NOT NULL) "
                           "ORDER BY run DESC LIMIT 1",
                           &select));
    plb_db_text(select, 1, a);
    plb_db_text(select, 2, b);
    return one_number(store, select, run);
}

plb_status plb_store_machine(plb_store *store, int64_t machine_id, plb_arena *arena,
                             const char **facts) {
    sqlite3_stmt *select;
    bool row;
    PLB_TRY(plb_db_prepare(store, "SELECT facts FROM machine WHERE id = ?", &select));
    sqlite3_bind_int64(select, 1, machine_id);
    PLB_TRY(plb_db_step(store, select, "reading a machine", &row));
    if (!row) {
        return plb_fail(PLB_EINVAL, "%s: there is no machine %lld", store->path,
                        (long long)machine_id);
    }
    reader r = {.statement = select, .arena = arena};
    *facts = text_at(&r, 0);
    sqlite3_reset(select);
    return *facts ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory");
}

// ---------------------------------------------------------------------------- starts
static void read_start(reader *r, void *row) {
    plb_start_row *s = row;
    s->id = number_at(r, 0);
    s->number = number_at(r, 1);
    s->group = number_at(r, 2);
    s->outcome = text_at(r, 3);
    s->steady = (int)number_at(r, 4);
    s->warmup_iterations = number_at(r, 5);
    s->stop = text_at(r, 6);
    s->load_ns = number_at(r, 7);
    s->first_call_ns = number_at(r, 8);
    s->compile_ns = number_at(r, 9);
    s->peak_rss_bytes = number_at(r, 10);
    s->device_peak_bytes = number_at(r, 11);
    s->ran = text_at(r, 12);
    s->memory = text_at(r, 13);
}

plb_status plb_store_starts(plb_store *store, int64_t measurement_id, plb_arena *arena,
                            plb_start_row **out, size_t *count) {
    sqlite3_stmt *select;
    PLB_TRY(plb_db_prepare(store,
                           "SELECT id, number, interleaved, outcome, steady, warmup_iterations, "
                           "stop, load_ns, first_call_ns, compile_ns, peak_rss_bytes, "
                           "device_peak_bytes, ran, memory FROM start WHERE measurement = ? "
                           "ORDER BY number",
                           &select));
    sqlite3_bind_int64(select, 1, measurement_id);
    return read_all(store, select, sizeof(plb_start_row), read_start, arena, (void **)out, count);
}

// ---------------------------------------------------------------------------- blocks
static plb_status read_block(sqlite3_stmt *select, int64_t start_id, plb_arena *arena,
                             plb_store_block *block) {
    block->kind = sqlite3_column_int(select, 0) ? PLB_BLOCK_TIMED : PLB_BLOCK_WARMUP;
    bool alone = sqlite3_column_type(select, 1) == SQLITE_NULL;
    block->sweep = alone ? -1 : sqlite3_column_int64(select, 1);
    block->began_ns = sqlite3_column_int64(select, 2);
    block->iterations_per_sample = sqlite3_column_int64(select, 3);
    block->marks = (uint32_t)sqlite3_column_int64(select, 4);
    int64_t count = sqlite3_column_int64(select, 5);
    const uint8_t *bytes = sqlite3_column_blob(select, 6);
    size_t size_bytes = (size_t)sqlite3_column_bytes(select, 6);
    if (count < 0 || (size_t)count > size_bytes) { // a sample takes at least one byte
        return plb_fail(PLB_EINVAL, "start %lld: a block of %zu bytes cannot hold %lld samples",
                        (long long)start_id, size_bytes, (long long)count);
    }
    block->count = (size_t)count;
    int64_t *samples = plb_arena_alloc(arena, (block->count + 1) * sizeof *samples);
    if (!samples) return plb_fail(PLB_ENOMEM, "out of memory");
    PLB_TRY(plb_samples_decode(bytes, size_bytes, block->count, samples));
    block->samples_ns = samples;
    return PLB_OK;
}

plb_status plb_store_blocks(plb_store *store, int64_t start_id, plb_arena *arena,
                            plb_store_block **out, size_t *count) {
    sqlite3_stmt *select;
    PLB_TRY(plb_db_prepare(store,
                           "SELECT timed, sweep, began_ns, iterations_per_sample, marks, count, "
                           "samples FROM block WHERE start = ? ORDER BY number",
                           &select));
    sqlite3_bind_int64(select, 1, start_id);
    rows list = {.item_bytes = sizeof(plb_store_block)};
    plb_status status;
    bool row = true;
    while (!(status = plb_db_step(store, select, "reading samples", &row)) && row) {
        plb_store_block *block = rows_add(&list);
        status = block ? read_block(select, start_id, arena, block)
                       : plb_fail(PLB_ENOMEM, "out of memory");
        if (status) break;
    }
    if (status) sqlite3_reset(select);
    return rows_finish(&list, status, arena, (void **)out, count);
}

// ---------------------------------------------------------------------------- summaries
plb_status plb_store_put_summary(plb_store *store, int64_t measurement_id, int algorithm,
                                 int64_t samples_hash, const uint8_t *body, size_t body_bytes) {
    if (store->read_only) return PLB_OK;
    sqlite3_stmt *insert;
    PLB_TRY(plb_db_prepare(store,
                           "INSERT INTO summary (measurement, algorithm, samples_hash, body) "
                           "VALUES (?, ?, ?, ?) ON CONFLICT (measurement) DO UPDATE SET "
                           "algorithm = excluded.algorithm, samples_hash = excluded.samples_hash, "
                           "body = excluded.body",
                           &insert));
    sqlite3_bind_int64(insert, 1, measurement_id);
    sqlite3_bind_int(insert, 2, algorithm);
    sqlite3_bind_int64(insert, 3, samples_hash);
    PLB_TRY(plb_db_blob(store, insert, 4, body, body_bytes, "caching a summary"));
    return plb_db_finish(store, insert, "caching a summary");
}
