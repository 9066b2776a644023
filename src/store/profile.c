// SPDX-License-Identifier: Apache-2.0
#include "store/profile.h"

#include <string.h>

#include "base/core/status.h"
#include "store/db.h"

plb_status plb_store_put_profile(plb_store *store, int64_t run_id, const char *document,
                                 const void *kept, size_t kept_bytes) {
    sqlite3_stmt *insert;
    PLB_TRY(plb_db_prepare(store, "INSERT INTO profile (run, document, kept) VALUES (?, ?, ?)",
                           &insert));
    sqlite3_bind_int64(insert, 1, run_id);
    plb_db_text(insert, 2, document);
    PLB_TRY(plb_db_blob(store, insert, 3, kept, kept_bytes, "adding a profile"));
    return plb_db_finish(store, insert, "adding a profile");
}

static plb_status copy_row(sqlite3_stmt *select, plb_arena *arena, plb_store_profile *out) {
    const void *bytes = sqlite3_column_blob(select, 1);
    const char *document = (const char *)sqlite3_column_text(select, 0);
    out->kept_bytes = (size_t)sqlite3_column_bytes(select, 1);
    void *copy = plb_arena_alloc(arena, out->kept_bytes + 1);
    out->document = document ? plb_arena_strdup(arena, document) : NULL;
    if (!copy || !out->document) return plb_fail(PLB_ENOMEM, "out of memory for a profile");
    if (bytes) memcpy(copy, bytes, out->kept_bytes);
    out->kept = copy;
    return PLB_OK;
}

plb_status plb_store_get_profile(plb_store *store, int64_t run_id, plb_arena *arena,
                                 plb_store_profile *out) {
    sqlite3_stmt *select;
    bool row;
    *out = (plb_store_profile){0};
    PLB_TRY(plb_db_prepare(store, "SELECT document, kept FROM profile WHERE run = ?", &select));
    sqlite3_bind_int64(select, 1, run_id);
    PLB_TRY(plb_db_step(store, select, "reading a profile", &row));
    plb_status status =
        row ? copy_row(select, arena, out)
            : plb_fail(PLB_EMISSING, "%s: run %lld has no profile", store->path, (long long)run_id);
    sqlite3_reset(select);
    return status;
}
