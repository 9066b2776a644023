// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <sys/random.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "store/db.h"
#include "store/process.h"
#include "store/samples.h"
#include "store/write.h"

static int64_t unix_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void make_uuid(char out[33]) {
    unsigned char bytes[16];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes) {
        int64_t now = unix_ms();
        uint64_t low = plb_hash_bytes(PLB_HASH_SEED, &now, sizeof now);
        memcpy(bytes, &low, 8);
        memcpy(bytes + 8, &now, 8);
    }
    for (int i = 0; i < 16; i++) snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

// The id of the one row that `select` finds with its bound text, or 0.
static plb_status find_id(plb_store *store, const char *select, const char *text, int64_t *id) {
    sqlite3_stmt *statement;
    bool row;
    PLB_TRY(plb_db_prepare(store, select, &statement));
    plb_db_text(statement, 1, text);
    PLB_TRY(plb_db_step(store, statement, "reading", &row));
    *id = row ? sqlite3_column_int64(statement, 0) : 0;
    sqlite3_reset(statement);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- runs
static plb_status find_machine(plb_store *store, const char *facts, int64_t *id) {
    char hash[17];
    snprintf(hash, sizeof hash, "%016llx",
             (unsigned long long)plb_hash_bytes(PLB_HASH_SEED, facts, strlen(facts)));
    PLB_TRY(find_id(store, "SELECT id FROM machine WHERE hash = ?", hash, id));
    if (*id) return PLB_OK;
    sqlite3_stmt *insert;
    PLB_TRY(plb_db_prepare(store, "INSERT INTO machine (hash, facts) VALUES (?, ?)", &insert));
    plb_db_text(insert, 1, hash);
    plb_db_text(insert, 2, facts);
    PLB_TRY(plb_db_finish(store, insert, "adding a machine"));
    *id = sqlite3_last_insert_rowid(store->db);
    return PLB_OK;
}

static plb_status insert_run(plb_store *store, const plb_store_new_run *run,
                             const plb_store_past_run *past, int64_t *run_id) {
    int64_t machine;
    char uuid[33], process[PLB_PROCESS_BYTES];
    sqlite3_stmt *insert;
    PLB_TRY(find_machine(store, run->machine, &machine));
    PLB_TRY(plb_db_prepare(store,
                           "INSERT INTO run (uuid, label, command, git, machine, fingerprint, "
                           "began_ms, state, process, fingerprint_end, ended_ms) "
                           "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                           &insert));
    make_uuid(uuid);
    plb_process_self(process);
    plb_db_text(insert, 1, past ? past->uuid : uuid);
    plb_db_text(insert, 2, run->label);
    plb_db_text(insert, 3, run->command ? run->command : "");
    plb_db_text(insert, 4, run->git);
    sqlite3_bind_int64(insert, 5, machine);
    plb_db_text(insert, 6, run->fingerprint);
    sqlite3_bind_int64(insert, 7, past ? past->began_ms : unix_ms());
    plb_db_text(insert, 8, past ? past->state : "running");
    plb_db_text(insert, 9, past ? NULL : process);
    plb_db_text(insert, 10, past ? past->fingerprint_end : NULL);
    plb_db_known(insert, 11, past ? past->ended_ms : -1);
    PLB_TRY(plb_db_finish(store, insert, "adding a run"));
    *run_id = sqlite3_last_insert_rowid(store->db);
    return PLB_OK;
}

plb_status plb_store_begin_run(plb_store *store, const plb_store_new_run *run, int64_t *run_id) {
    PLB_TRY(plb_db_begin(store));
    return plb_db_end(store, insert_run(store, run, NULL, run_id));
}

plb_status plb_store_add_past_run(plb_store *store, const plb_store_new_run *run,
                                  const plb_store_past_run *past, int64_t *run_id) {
    int64_t there;
    PLB_TRY(plb_store_transaction(store));
    plb_status status = find_id(store, "SELECT id FROM run WHERE uuid = ?", past->uuid, &there);
    if (!status && there) {
        status = plb_fail(PLB_EINVAL, "run %s is in %s already, as run %lld", past->uuid,
                          store->path, (long long)there);
    }
    if (!status) status = insert_run(store, run, past, run_id);
    return plb_store_transaction_end(store, status);
}

static plb_status check_resumable(plb_store *store, int64_t run_id) {
    sqlite3_stmt *select;
    bool row;
    PLB_TRY(plb_db_prepare(store, "SELECT state, process FROM run WHERE id = ?", &select));
    sqlite3_bind_int64(select, 1, run_id);
    PLB_TRY(plb_db_step(store, select, "reading a run", &row));
    plb_status status = PLB_OK;
    if (!row) {
        status = plb_fail(PLB_EINVAL, "%s: there is no run %lld", store->path, (long long)run_id);
    } else if (strcmp((const char *)sqlite3_column_text(select, 0), "running") == 0) {
        const char *process = (const char *)sqlite3_column_text(select, 1);
        if (process && plb_process_alive(process)) {
            status = plb_fail(PLB_EINVAL, "run %lld is still running, in process %ld",
                              (long long)run_id, plb_process_number(process));
        }
    }
    sqlite3_reset(select);
    return status;
}

plb_status plb_store_resume_run(plb_store *store, int64_t run_id, const plb_store_new_run *now) {
    static const char sql[] =
        "UPDATE run SET state = 'running', process = ?, ended_ms = NULL, fingerprint_end = NULL, "
        "fingerprint = json_set(fingerprint, '$.resumed', "
        "json_insert(ifnull(fingerprint ->> '$.resumed', '[]'), '$[#]', "
        "json_object('at_ms', ?, 'command', ?, 'git', ?, 'fingerprint', json(?), "
        "'end_before', json(fingerprint_end)))) WHERE id = ?";
    sqlite3_stmt *update;
    char process[PLB_PROCESS_BYTES];
    PLB_TRY(plb_db_begin(store));
    plb_status status = check_resumable(store, run_id);
    if (!status) {
        status = plb_db_prepare(store, sql, &update);
    }
    if (!status) {
        plb_process_self(process);
        plb_db_text(update, 1, process);
        sqlite3_bind_int64(update, 2, unix_ms());
        plb_db_text(update, 3, now->command);
        plb_db_text(update, 4, now->git);
        plb_db_text(update, 5, now->fingerprint);
        sqlite3_bind_int64(update, 6, run_id);
        status = plb_db_finish(store, update, "resuming a run");
    }
    return plb_db_end(store, status);
}

// Runs an UPDATE or DELETE whose parameters are bound; PLB_EINVAL if it found no row.
static plb_status change_one(plb_store *store, sqlite3_stmt *statement, const char *what,
                             int64_t id) {
    PLB_TRY(plb_db_finish(store, statement, what));
    if (sqlite3_changes(store->db) == 1) return PLB_OK;
    return plb_fail(PLB_EINVAL, "%s: %s: there is no number %lld", store->path, what,
                    (long long)id);
}

plb_status plb_store_end_run(plb_store *store, int64_t run_id, const char *state,
                             const char *fingerprint_end) {
    sqlite3_stmt *update;
    PLB_TRY(plb_db_prepare(store,
                           "UPDATE run SET state = ?, ended_ms = ?, process = NULL, "
                           "fingerprint_end = ? WHERE id = ?",
                           &update));
    plb_db_text(update, 1, state);
    sqlite3_bind_int64(update, 2, unix_ms());
    plb_db_text(update, 3, fingerprint_end);
    sqlite3_bind_int64(update, 4, run_id);
    return change_one(store, update, "ending a run", run_id);
}

// What runs share goes with the last that has it: a stack that nothing is left of is none of this
// store.
static plb_status remove_unused(plb_store *store) {
    sqlite3_stmt *cases, *machines;
    PLB_TRY(plb_db_prepare(store,
                           "DELETE FROM cases WHERE NOT EXISTS "
                           "(SELECT 1 FROM measurement WHERE case_id = cases.id)",
                           &cases));
    PLB_TRY(plb_db_finish(store, cases, "removing cases"));
    PLB_TRY(plb_db_prepare(store, "DELETE FROM machine WHERE id NOT IN (SELECT machine FROM run)",
                           &machines));
    return plb_db_finish(store, machines, "removing machines");
}

static plb_status remove_run(plb_store *store, int64_t run_id) {
    sqlite3_stmt *remove;
    PLB_TRY(plb_db_prepare(store, "DELETE FROM run WHERE id = ?", &remove));
    sqlite3_bind_int64(remove, 1, run_id);
    PLB_TRY(change_one(store, remove, "removing a run", run_id));
    return remove_unused(store);
}

plb_status plb_store_remove_run(plb_store *store, int64_t run_id) {
    PLB_TRY(plb_store_transaction(store));
    return plb_store_transaction_end(store, remove_run(store, run_id));
}

// ---------------------------------------------------------------------------- measurements
static plb_status find_case(plb_store *store, const char *hash, const char *text, int64_t *id) {
    PLB_TRY(find_id(store, "SELECT id FROM cases WHERE hash = ?", hash, id));
    if (*id) return PLB_OK;
    sqlite3_stmt *insert;
    PLB_TRY(plb_db_prepare(store, "INSERT INTO cases (hash, keys) VALUES (?, ?)", &insert));
    plb_db_text(insert, 1, hash);
    plb_db_text(insert, 2, text);
    PLB_TRY(plb_db_finish(store, insert, "adding a case"));
    *id = sqlite3_last_insert_rowid(store->db);
    return PLB_OK;
}

static plb_status insert_measurement(plb_store *store, int64_t run_id, int64_t case_id,
                                     int64_t *measurement_id) {
    sqlite3_stmt *insert;
    PLB_TRY(plb_db_prepare(store, "INSERT INTO measurement (run, case_id) VALUES (?, ?)", &insert));
    sqlite3_bind_int64(insert, 1, run_id);
    sqlite3_bind_int64(insert, 2, case_id);
    PLB_TRY(plb_db_finish(store, insert, "adding a measurement"));
    *measurement_id = sqlite3_last_insert_rowid(store->db);
    return PLB_OK;
}

static plb_status clear_starts(plb_store *store, int64_t measurement_id) {
    sqlite3_stmt *remove, *update;
    PLB_TRY(plb_db_prepare(store, "DELETE FROM start WHERE measurement = ?", &remove));
    sqlite3_bind_int64(remove, 1, measurement_id);
    PLB_TRY(plb_db_finish(store, remove, "removing starts cut off"));
    PLB_TRY(plb_db_prepare(store, "UPDATE measurement SET samples_hash = 0 WHERE id = ?", &update));
    sqlite3_bind_int64(update, 1, measurement_id);
    return plb_db_finish(store, update, "removing starts cut off");
}

static plb_status add_measurement(plb_store *store, int64_t run_id, const char *hash,
                                  const char *text, int64_t *measurement_id, bool *done) {
    int64_t case_id;
    sqlite3_stmt *select;
    bool row;
    *done = false;
    PLB_TRY(find_case(store, hash, text, &case_id));
    PLB_TRY(plb_db_prepare(store,
                           "SELECT id, outcome IS NOT NULL FROM measurement "
                           "WHERE run = ? AND case_id = ?",
                           &select));
    sqlite3_bind_int64(select, 1, run_id);
    sqlite3_bind_int64(select, 2, case_id);
    PLB_TRY(plb_db_step(store, select, "reading a measurement", &row));
    if (!row) return insert_measurement(store, run_id, case_id, measurement_id);
    *measurement_id = sqlite3_column_int64(select, 0);
    *done = sqlite3_column_int(select, 1) == 1;
    sqlite3_reset(select);
    return *done ? PLB_OK : clear_starts(store, *measurement_id);
}

plb_status plb_store_add_measurement(plb_store *store, int64_t run_id, const char *hash,
                                     const char *text, int64_t *measurement_id, bool *done) {
    PLB_TRY(plb_store_transaction(store));
    return plb_store_transaction_end(
        store, add_measurement(store, run_id, hash, text, measurement_id, done));
}

plb_status plb_store_end_measurement(plb_store *store, int64_t measurement_id,
                                     const plb_store_outcome *outcome) {
    sqlite3_stmt *update;
    PLB_TRY(plb_db_prepare(store,
                           "UPDATE measurement SET outcome = ?, reason = ?, log = ?, proof = ?, "
                           "versions = ?, results = ? WHERE id = ?",
                           &update));
    plb_db_text(update, 1, outcome->outcome);
    plb_db_text(update, 2, outcome->reason);
    plb_db_text(update, 3, outcome->log);
    plb_db_text(update, 4, outcome->proof);
    plb_db_text(update, 5, outcome->versions);
    plb_db_text(update, 6, outcome->results);
    sqlite3_bind_int64(update, 7, measurement_id);
    return change_one(store, update, "ending a measurement", measurement_id);
}

// ---------------------------------------------------------------------------- starts and blocks
plb_status plb_store_new_group(plb_store *store, int64_t run_id, int64_t *group) {
    sqlite3_stmt *select;
    bool row;
    PLB_TRY(plb_db_prepare(store,
                           "SELECT ifnull(max(interleaved), -1) + 1 FROM start JOIN measurement "
                           "ON measurement.id = start.measurement WHERE run = ?",
                           &select));
    sqlite3_bind_int64(select, 1, run_id);
    PLB_TRY(plb_db_step(store, select, "reading starts", &row));
    *group = row ? sqlite3_column_int64(select, 0) : 0;
    sqlite3_reset(select);
    return PLB_OK;
}

plb_status plb_store_begin_start(plb_store *store, int64_t measurement_id, int64_t number,
                                 int64_t group, int64_t *start_id) {
    sqlite3_stmt *insert;
    PLB_TRY(plb_db_prepare(
        store, "INSERT INTO start (measurement, number, interleaved) VALUES (?, ?, ?)", &insert));
    sqlite3_bind_int64(insert, 1, measurement_id);
    sqlite3_bind_int64(insert, 2, number);
    plb_db_known(insert, 3, group);
    PLB_TRY(plb_db_finish(store, insert, "adding a start"));
    *start_id = sqlite3_last_insert_rowid(store->db);
    return PLB_OK;
}

// Where the next block of a start goes.
typedef struct block_place {
    int64_t measurement, number;
    uint64_t hash;
} block_place;

static plb_status find_place(plb_store *store, int64_t start_id, block_place *place) {
    sqlite3_stmt *select;
    bool row;
    PLB_TRY(plb_db_prepare(
        store,
        "SELECT measurement, samples_hash, (SELECT ifnull(max(number), -1) + 1 FROM block "
        "WHERE block.start = start.id) FROM start JOIN measurement "
        "ON measurement.id = start.measurement WHERE start.id = ?",
        &select));
    sqlite3_bind_int64(select, 1, start_id);
    PLB_TRY(plb_db_step(store, select, "reading a start", &row));
    if (!row) {
        return plb_fail(PLB_EINVAL, "%s: there is no start %lld", store->path, (long long)start_id);
    }
    place->measurement = sqlite3_column_int64(select, 0);
    place->hash = (uint64_t)sqlite3_column_int64(select, 1);
    place->number = sqlite3_column_int64(select, 2);
    sqlite3_reset(select);
    return PLB_OK;
}

static plb_status insert_block(plb_store *store, int64_t start_id, const plb_store_block *block,
                               int64_t number, const uint8_t *bytes, size_t size_bytes) {
    sqlite3_stmt *insert;
    PLB_TRY(plb_db_prepare(
        store,
        "INSERT INTO block (start, number, timed, sweep, began_ns, iterations_per_sample, marks, "
        "count, samples) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        &insert));
    sqlite3_bind_int64(insert, 1, start_id);
    sqlite3_bind_int64(insert, 2, number);
    sqlite3_bind_int(insert, 3, block->kind == PLB_BLOCK_TIMED);
    plb_db_known(insert, 4, block->sweep);
    sqlite3_bind_int64(insert, 5, block->began_ns);
    sqlite3_bind_int64(insert, 6, block->iterations_per_sample);
    sqlite3_bind_int64(insert, 7, block->marks);
    sqlite3_bind_int64(insert, 8, (int64_t)block->count);
    PLB_TRY(plb_db_blob(store, insert, 9, bytes, size_bytes, "adding samples"));
    return plb_db_finish(store, insert, "adding samples");
}

static plb_status add_block(plb_store *store, int64_t start_id, const plb_store_block *block,
                            const uint8_t *bytes, size_t size_bytes) {
    block_place place = {0};
    sqlite3_stmt *update;
    PLB_TRY(find_place(store, start_id, &place));
    PLB_TRY(insert_block(store, start_id, block, place.number, bytes, size_bytes));
    uint64_t hash = place.hash ? place.hash : PLB_HASH_SEED;
    hash = plb_hash_bytes(hash, &start_id, sizeof start_id);
    hash = plb_hash_bytes(hash, bytes, size_bytes);
    PLB_TRY(plb_db_prepare(store, "UPDATE measurement SET samples_hash = ? WHERE id = ?", &update));
    sqlite3_bind_int64(update, 1, (int64_t)hash);
    sqlite3_bind_int64(update, 2, place.measurement);
    return plb_db_finish(store, update, "adding samples");
}

plb_status plb_store_add_block(plb_store *store, int64_t start_id, const plb_store_block *block) {
    if (block->iterations_per_sample < 1 || !block->count) {
        return plb_fail(PLB_EINVAL, "a block of samples: expected some, of one iteration or more");
    }
    for (size_t i = 0; i < block->count; i++) {
        if (block->samples_ns[i] < 0) {
            return plb_fail(PLB_EINVAL, "sample %zu of a block: expected a time, found %lld ns", i,
                            (long long)block->samples_ns[i]);
        }
    }
    uint8_t *bytes = plb_alloc_array(block->count + 1, PLB_SAMPLE_MAX_BYTES);
    if (!bytes) return plb_fail(PLB_ENOMEM, "out of memory");
    size_t size_bytes = plb_samples_encode(block->samples_ns, block->count, bytes);
    plb_status status = plb_store_transaction(store);
    if (!status) {
        status = add_block(store, start_id, block, bytes, size_bytes);
        status = plb_store_transaction_end(store, status);
    }
    plb_free(bytes);
    return status;
}

plb_status plb_store_end_start(plb_store *store, int64_t start_id, const plb_store_start_end *end) {
    sqlite3_stmt *update;
    PLB_TRY(plb_db_prepare(store,
                           "UPDATE start SET outcome = ?, steady = ?, warmup_iterations = ?, "
                           "stop = ?, load_ns = ?, first_call_ns = ?, compile_ns = ?, "
                           "peak_rss_bytes = ?, device_peak_bytes = ?, ran = ?, memory = ? "
                           "WHERE id = ?",
                           &update));
    plb_db_text(update, 1, end->outcome);
    sqlite3_bind_int(update, 2, end->steady);
    plb_db_known(update, 3, end->warmup_iterations);
    plb_db_text(update, 4, end->stop);
    plb_db_known(update, 5, end->load_ns);
    plb_db_known(update, 6, end->first_call_ns);
    plb_db_known(update, 7, end->compile_ns);
    plb_db_known(update, 8, end->peak_rss_bytes);
    plb_db_known(update, 9, end->device_peak_bytes);
    plb_db_text(update, 10, end->ran);
    plb_db_text(update, 11, end->memory);
    sqlite3_bind_int64(update, 12, start_id);
    return change_one(store, update, "ending a start", start_id);
}

// ---------------------------------------------------------------------------- many at once
plb_status plb_store_batch_begin(plb_store *store) {
    PLB_TRY(plb_db_begin(store));
    store->batch = true;
    return PLB_OK;
}

plb_status plb_store_batch_end(plb_store *store, plb_status status) {
    store->batch = false;
    return plb_db_end(store, status);
}

plb_status plb_store_transaction(plb_store *store) {
    return store->batch ? PLB_OK : plb_db_begin(store);
}

plb_status plb_store_transaction_end(plb_store *store, plb_status status) {
    return store->batch ? status : plb_db_end(store, status);
}
