// SPDX-License-Identifier: Apache-2.0
#include "store/db.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

static plb_status status_of(const plb_store *store, int code) {
    switch (code & 0xff) {
    case SQLITE_FULL: return PLB_EFULL;
    case SQLITE_NOMEM: return PLB_ENOMEM;
    case SQLITE_ERROR: // a statement of ours that does not fit the schema
    case SQLITE_MISUSE: return PLB_EBROKEN;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
    case SQLITE_TOOBIG: // a row whose parts are each short enough
    case SQLITE_CONSTRAINT: return PLB_EINVAL;
    case SQLITE_IOERR:
    case SQLITE_CANTOPEN: {
        int cause = sqlite3_system_errno(store->db);
        return cause == ENOSPC || cause == EDQUOT ? PLB_EFULL : PLB_EIO;
    }
    default: return PLB_EIO;
    }
}

plb_status plb_db_fail(const plb_store *store, const char *doing) {
    int code = sqlite3_extended_errcode(store->db);
    plb_status status = status_of(store, code);
    if ((code & 0xff) == SQLITE_BUSY) {
        return plb_fail(status, "%s: %s: another program has kept it locked for %d s", store->path,
                        doing, PLB_DB_WAIT_MS / 1000);
    }
    if (status == PLB_EFULL) {
        return plb_fail(status, "%s: %s: no space left on the disk", store->path, doing);
    }
    char text[200]; // one line: a broken constraint is quoted as it stands in the schema
    snprintf(text, sizeof text, "%s", sqlite3_errmsg(store->db));
    text[strcspn(text, "\n")] = '\0';
    return plb_fail(status, "%s: %s: %s", store->path, doing, text);
}

plb_status plb_db_prepare(plb_store *store, const char *sql, sqlite3_stmt **out) {
    for (int i = 0; i < store->kept_count; i++) {
        if (store->kept[i].sql != sql) continue;
        *out = store->kept[i].statement;
        sqlite3_reset(*out);
        sqlite3_clear_bindings(*out);
        return PLB_OK;
    }
    if (store->kept_count == PLB_DB_KEPT) {
        return plb_fail(PLB_EBROKEN, "store: more than %d statements", PLB_DB_KEPT);
    }
    if (sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL)) {
        return plb_db_fail(store, "preparing a statement");
    }
    store->kept[store->kept_count].sql = sql;
    store->kept[store->kept_count++].statement = *out;
    return PLB_OK;
}

plb_status plb_db_step(plb_store *store, sqlite3_stmt *statement, const char *doing, bool *row) {
    int code = sqlite3_step(statement);
    *row = code == SQLITE_ROW;
    if (*row) return PLB_OK;
    plb_status status = code == SQLITE_DONE ? PLB_OK : plb_db_fail(store, doing);
    sqlite3_reset(statement);
    return status;
}

plb_status plb_db_finish(plb_store *store, sqlite3_stmt *statement, const char *doing) {
    bool row = true;
    while (row) PLB_TRY(plb_db_step(store, statement, doing, &row));
    return PLB_OK;
}

plb_status plb_db_begin(plb_store *store) {
    sqlite3_stmt *begin;
    PLB_TRY(plb_db_prepare(store, "BEGIN IMMEDIATE", &begin));
    return plb_db_finish(store, begin, "waiting to write");
}

plb_status plb_db_end(plb_store *store, plb_status status) {
    if (status == PLB_OK) {
        sqlite3_stmt *commit;
        status = plb_db_prepare(store, "COMMIT", &commit);
        if (!status) status = plb_db_finish(store, commit, "writing");
    }
    // Some failures, a full disk among them, have rolled back by themselves.
    if (status && !sqlite3_get_autocommit(store->db)) {
        sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return status;
}

void plb_db_text(sqlite3_stmt *statement, int index, const char *text) {
    if (text)
        sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(statement, index);
}

plb_status plb_db_blob(plb_store *store, sqlite3_stmt *statement, int index, const void *bytes,
                       size_t size_bytes, const char *doing) {
    const int code = sqlite3_bind_blob64(statement, index, bytes, size_bytes, SQLITE_STATIC);
    if (code == SQLITE_OK) return PLB_OK;
    if (code != SQLITE_TOOBIG) return plb_db_fail(store, doing);
    return plb_fail(PLB_EINVAL, "%s: %s: expected at most %d bytes, found %zu", store->path, doing,
                    sqlite3_limit(store->db, SQLITE_LIMIT_LENGTH, -1), size_bytes);
}

void plb_db_known(sqlite3_stmt *statement, int index, int64_t value) {
    if (value >= 0)
        sqlite3_bind_int64(statement, index, value);
    else
        sqlite3_bind_null(statement, index);
}

// ---------------------------------------------------------------------------- versions
typedef struct kind {
    int version, application, tables;
} kind;

// All in one statement: another program may be making the store meanwhile.
static plb_status read_kind(plb_store *store, kind *out) {
    static const char sql[] =
        "SELECT user_version, application_id, (SELECT count(*) FROM sqlite_master) "
        "FROM pragma_user_version, pragma_application_id";
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL)) {
        return plb_db_fail(store, "opening");
    }
    bool row;
    plb_status status = plb_db_step(store, statement, "opening", &row);
    if (!status && !row) status = plb_fail(PLB_EBROKEN, "%s: has no version", store->path);
    if (!status) {
        *out = (kind){.version = sqlite3_column_int(statement, 0),
                      .application = sqlite3_column_int(statement, 1),
                      .tables = sqlite3_column_int(statement, 2)};
    }
    sqlite3_finalize(statement);
    return status;
}

// Where the section of `version` begins; NULL if there is none.
static const char *find_section(const char *schema, int version) {
    static const char mark[] = "-- version ";
    for (const char *at = schema; (at = strstr(at, mark)); at++) {
        if ((at == schema || at[-1] == '\n') && atoi(at + strlen(mark)) == version) return at;
    }
    return NULL;
}

static plb_status run_sections(plb_store *store, const char *schema, int from, int to) {
    const char *begin = find_section(schema, from + 1), *end = find_section(schema, to + 1);
    size_t length = end ? (size_t)(end - begin) : strlen(begin);
    char *sql = plb_alloc(length + 128);
    if (!sql) return plb_fail(PLB_ENOMEM, "out of memory");
    memcpy(sql, begin, length);
    // 'PLMB', for file(1) and for telling a store from another database.
    snprintf(sql + length, 128, "\nPRAGMA user_version = %d; PRAGMA application_id = 1347178818;",
             to);
    plb_status status = PLB_OK;
    if (sqlite3_exec(store->db, sql, NULL, NULL, NULL)) {
        status = plb_db_fail(store, "bringing the schema up to date");
    }
    plb_free(sql);
    return status;
}

plb_status plb_db_migrate(plb_store *store, const char *schema) {
    int newest = 0;
    kind found;
    while (find_section(schema, newest + 1)) newest++;
    PLB_TRY(read_kind(store, &found));
    if (found.application != 1347178818 && (found.application || found.version || found.tables)) {
        return plb_fail(PLB_EINVAL, "%s: a database, but not one of Plumb's", store->path);
    }
    if (found.version > newest) {
        return plb_fail(PLB_EINVAL,
                        "%s: expected version %d of the schema or an older one, found %d: a newer "
                        "Plumb wrote it",
                        store->path, newest, found.version);
    }
    if (found.version == newest) return PLB_OK;
    if (store->read_only) {
        return plb_fail(PLB_EINVAL,
                        "%s: has version %d of the schema, and cannot be written to bring it to %d",
                        store->path, found.version, newest);
    }
    PLB_TRY(plb_db_begin(store));
    // Another program may have done it meanwhile.
    plb_status status = read_kind(store, &found);
    if (!status && found.version < newest)
        status = run_sections(store, schema, found.version, newest);
    return plb_db_end(store, status);
}
