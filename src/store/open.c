// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "base/folder.h"
#include "store/db.h"

extern const char plb_store_schema_sql[]; // generated from schema.sql

plb_status plb_store_default_path(char *path, size_t size) {
    const char *data = plb_folder_of_xdg("XDG_DATA_HOME"), *home = getenv("HOME");
    int n;
    if (data) {
        n = snprintf(path, size, "%s/plumb/plumb.db", data);
    } else if (home && *home) {
        n = snprintf(path, size, "%s/.local/share/plumb/plumb.db", home);
    } else {
        return plb_fail(PLB_EMISSING, "the store: neither XDG_DATA_HOME nor HOME is set");
    }
    if (n < 0 || (size_t)n >= size) return plb_fail(PLB_EINVAL, "the store: a path too long");
    return PLB_OK;
}

const char *plb_store_path(const plb_store *store) {
    return store->path;
}

void plb_store_close(plb_store *store) {
    if (!store) return;
    for (int i = 0; i < store->kept_count; i++) sqlite3_finalize(store->kept[i].statement);
    sqlite3_close(store->db);
    plb_free(store->path);
    plb_free(store);
}

static plb_status make_folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash || slash == path) return PLB_OK;
    char *folder = plb_strdup(path);
    if (!folder) return plb_fail(PLB_ENOMEM, "out of memory");
    folder[slash - path] = '\0';
    plb_status status = plb_folder_make(folder);
    plb_free(folder);
    return status;
}

static plb_status execute(plb_store *store, const char *sql) {
    if (sqlite3_exec(store->db, sql, NULL, NULL, NULL)) return plb_db_fail(store, "opening");
    return PLB_OK;
}

// SQLite does not wait for others while it changes the journal's mode.
static plb_status set_wal(plb_store *store) {
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    for (int waited_ms = 0; waited_ms < PLB_DB_WAIT_MS; waited_ms += 10) {
        int code = sqlite3_exec(store->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        if (!code) return PLB_OK;
        if ((code & 0xff) != SQLITE_BUSY) break;
        nanosleep(&pause, NULL);
    }
    return plb_db_fail(store, "opening");
}

static plb_status try_open(plb_store *store, const char *name, int flags) {
    sqlite3_close(store->db);
    store->db = NULL;
    int code = sqlite3_open_v2(name, &store->db, flags | SQLITE_OPEN_NOMUTEX, NULL);
    if (code) return store->db ? plb_db_fail(store, "opening") : plb_fail(PLB_ENOMEM, "no memory");
    sqlite3_extended_result_codes(store->db, 1);
    sqlite3_busy_timeout(store->db, PLB_DB_WAIT_MS);
    // The first read, which tells whether the file can be used.
    return execute(store, "PRAGMA foreign_keys = ON; PRAGMA user_version");
}

// A file in a folder where nothing can be written has no place for the shared index of its journal;
// "immutable" reads it all the same.
static plb_status open_read_only(plb_store *store) {
    store->read_only = true;
    if (try_open(store, store->path, SQLITE_OPEN_READONLY) == PLB_OK) return PLB_OK;
    plb_strbuf uri = {0};
    plb_strbuf_printf(&uri, "file:");
    for (const char *at = store->path; *at; at++) {
        plb_strbuf_printf(&uri, strchr("%?#", *at) ? "%%%02X" : "%c", (unsigned char)*at);
    }
    plb_strbuf_printf(&uri, "?immutable=1");
    plb_status status = uri.failed
                            ? plb_fail(PLB_ENOMEM, "out of memory")
                            : try_open(store, uri.text, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI);
    plb_strbuf_free(&uri);
    return status;
}

static plb_status open_store(plb_store *store, bool create) {
    bool writable = access(store->path, F_OK) != 0 || access(store->path, W_OK) == 0;
    if (!writable) {
        PLB_TRY(open_read_only(store));
    } else {
        int flags = SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0);
        PLB_TRY(try_open(store, store->path, flags));
        store->read_only = sqlite3_db_readonly(store->db, "main") == 1;
    }
    if (!store->read_only) {
        PLB_TRY(set_wal(store));
        PLB_TRY(execute(store, "PRAGMA synchronous = NORMAL; PRAGMA journal_size_limit = 16777216;"
                               "PRAGMA cache_size = -16384"));
    }
    return plb_db_migrate(store, plb_store_schema_sql);
}

static plb_status open_path(const char *path, bool create, plb_store **out) {
    char standard[4096];
    *out = NULL;
    if (!path) {
        PLB_TRY(plb_store_default_path(standard, sizeof standard));
        path = standard;
    }
    // An empty file is none yet either; opened, it would become one.
    struct stat found;
    if (!create && (stat(path, &found) != 0 || (S_ISREG(found.st_mode) && found.st_size == 0))) {
        return plb_fail(PLB_EMISSING, "%s: no store there yet; `plumb bench` makes it", path);
    }
    if (create) PLB_TRY(make_folder_of(path));
    plb_store *store = plb_alloc(sizeof *store);
    if (!store) return plb_fail(PLB_ENOMEM, "out of memory");
    store->path = plb_strdup(path);
    plb_status status =
        store->path ? open_store(store, create) : plb_fail(PLB_ENOMEM, "out of memory");
    if (status) {
        plb_store_close(store);
        return status;
    }
    *out = store;
    return PLB_OK;
}

plb_status plb_store_open(const char *path, plb_store **out) {
    return open_path(path, true, out);
}

plb_status plb_store_open_existing(const char *path, plb_store **out) {
    return open_path(path, false, out);
}
