// SPDX-License-Identifier: Apache-2.0
// SQLite as the store's other files use it: errors become plb_status, statements are kept.
#ifndef PLB_STORE_DB_H
#define PLB_STORE_DB_H

#include <stdbool.h>

#include <sqlite3.h>

#include "store/store.h"

enum { PLB_DB_KEPT = 48, PLB_DB_WAIT_MS = 30000 };

struct plb_store {
    sqlite3 *db;
    char *path;
    bool read_only;
    bool batch; // several calls share one transaction
    struct {
        const char *sql; // a literal of ours, known by its address
        sqlite3_stmt *statement;
    } kept[PLB_DB_KEPT];
    int kept_count;
};

// The store's last error as a status; the text says what was being done.
plb_status plb_db_fail(const plb_store *store, const char *doing);

// A statement, reset and without bindings, that stays the store's. `sql` must be a literal.
PLB_MUST_USE plb_status plb_db_prepare(plb_store *store, const char *sql, sqlite3_stmt **out);

// Runs a statement that gives no rows (or whose rows nobody wants), and resets it.
PLB_MUST_USE plb_status plb_db_finish(plb_store *store, sqlite3_stmt *statement, const char *doing);

// The next row; *row says whether there is one. At the end the statement is reset.
PLB_MUST_USE plb_status plb_db_step(plb_store *store, sqlite3_stmt *statement, const char *doing,
                                    bool *row);

// A transaction that writes: waits for other writers, and on failure of what is in it is undone.
PLB_MUST_USE plb_status plb_db_begin(plb_store *store);
// Commits if `status` is PLB_OK, else rolls back; returns the first failure, its text kept.
PLB_MUST_USE plb_status plb_db_end(plb_store *store, plb_status status);

// The same two for a call that may be part of a batch (store/write.h).
PLB_MUST_USE plb_status plb_store_transaction(plb_store *store);
PLB_MUST_USE plb_status plb_store_transaction_end(plb_store *store, plb_status status);

// Binds a text that outlives the statement's run; NULL becomes NULL.
void plb_db_text(sqlite3_stmt *statement, int index, const char *text);
// Binds a number; below 0 becomes NULL.
void plb_db_known(sqlite3_stmt *statement, int index, int64_t value);

// Binds bytes that outlive the statement's run. PLB_EINVAL if SQLite holds no value that long; the
// parameter would stay NULL.
PLB_MUST_USE plb_status plb_db_blob(plb_store *store, sqlite3_stmt *statement, int index,
                                    const void *bytes, size_t size_bytes, const char *doing);

// Brings a database to the last version of `schema`, whose sections begin with "-- version N".
// PLB_EINVAL if it is newer than that.
PLB_API PLB_MUST_USE plb_status plb_db_migrate(plb_store *store, const char *schema);

#endif
