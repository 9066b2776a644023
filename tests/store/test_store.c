// SPDX-License-Identifier: Apache-2.0
// The store: what is written is read back, and it stays whole when programs are killed, when two
// write at once, when the disk is full, and when the file is another one.
#include "check.h"

#include <signal.h>
#include <unistd.h>

#include <sys/stat.h>
#include <sys/wait.h>

#include "base/core/alloc.h"
#include "base/core/arena.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "draws.h"
#include "faults.h"
#include "store/db.h"
#include "store/profile.h"
#include "store/read.h"
#include "store/samples.h"
#include "store/write.h"

static const plb_store_new_run one_run = {.label = "base",
                                          .command = "plumb bench x",
                                          .git = "abcdef0123",
                                          .machine = "{\"cpu\":\"c\"}",
                                          .fingerprint = "{\"load\":0.5}"};

typedef struct place {
    char folder[64], path[128];
} place;

static void place_make(place *p) {
    snprintf(p->folder, sizeof p->folder, "%s", fault_folder());
    snprintf(p->path, sizeof p->path, "%s/plumb.db", p->folder);
}

static plb_store *open_new(place *p) {
    plb_store *store = NULL;
    place_make(p);
    CHECK_OK(plb_store_open(p->path, &store));
    return store;
}

static void place_end(place *p, plb_store *store) {
    plb_store_close(store);
    fault_folder_remove(p->folder);
}

// A run with one measurement and one start.
static int64_t begin(plb_store *store, const char *hash, int64_t *run, int64_t *measurement) {
    int64_t start = 0;
    bool done;
    CHECK_OK(plb_store_begin_run(store, &one_run, run));
    CHECK_OK(plb_store_add_measurement(store, *run, hash, "{\"model\":\"m\",\"batch\":1}",
                                       measurement, &done));
    CHECK_OK(plb_store_begin_start(store, *measurement, 0, -1, &start));
    return start;
}

static int64_t count_of(plb_store *store, const char *sql) {
    sqlite3_stmt *statement;
    CHECK(sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) == SQLITE_OK);
    int64_t n = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : -1;
    sqlite3_finalize(statement);
    return n;
}

static bool is_whole(plb_store *store) {
    sqlite3_stmt *statement;
    CHECK(sqlite3_prepare_v2(store->db, "PRAGMA integrity_check", -1, &statement, NULL) ==
          SQLITE_OK);
    bool fine = sqlite3_step(statement) == SQLITE_ROW &&
                strcmp((const char *)sqlite3_column_text(statement, 0), "ok") == 0;
    sqlite3_finalize(statement);
    return fine && count_of(store, "SELECT count(*) FROM pragma_foreign_key_check") == 0;
}

// Samples like those of a case of `median` ns with 1 % noise and a spike now and then.
static void fill(int64_t *samples, size_t count, int64_t median, uint64_t seed) {
    draws random = draws_start(seed);
    for (size_t i = 0; i < count; i++) {
        samples[i] = median + (int64_t)(0.01 * draw_normal(&random) * (double)median);
        if (i % 50 == 49) samples[i] *= 3;
    }
}

// ---------------------------------------------------------------------------- samples
static void check_samples(const int64_t *samples, size_t count) {
    uint8_t bytes[64 * PLB_SAMPLE_MAX_BYTES];
    int64_t back[63];
    size_t size = plb_samples_encode(samples, count, bytes);
    CHECK_OK(plb_samples_decode(bytes, size, count, back));
    CHECK(memcmp(samples, back, count * sizeof *back) == 0);
    for (size_t cut = 0; cut < size; cut++) {
        CHECK_FAILS(PLB_EINVAL, "samples: offset", plb_samples_decode(bytes, cut, count, back));
    }
    CHECK_FAILS(PLB_EINVAL, "expected the end", plb_samples_decode(bytes, size, count - 1, back));
}

static void test_samples(void) {
    const int64_t extremes[] = {0, INT64_MAX, 1, INT64_MAX - 1, 127, 128, 16383, 16384};
    check_samples(extremes, 8);
    check_samples(extremes + 1, 1);
    int64_t usual[63];
    fill(usual, 63, 1000000, 1);
    check_samples(usual, 63);
    int64_t back[2];
    const uint8_t too_large[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1, 2};
    CHECK_FAILS(PLB_EINVAL, "sample 0 of 2",
                plb_samples_decode(too_large, sizeof too_large, 2, back));
}

// ---------------------------------------------------------------------------- round trip
static void check_run(plb_store *store, int64_t run, plb_arena *arena) {
    plb_run_row *rows;
    size_t count;
    CHECK_OK(plb_store_runs(store, &(plb_run_filter){.id = run}, arena, &rows, &count));
    CHECK(count == 1 && rows[0].cases == 1 && rows[0].ok == 1);
    CHECK(strcmp(rows[0].label, "base") == 0 && strcmp(rows[0].git, "abcdef0123") == 0);
    CHECK(strcmp(rows[0].machine, one_run.machine) == 0);
    CHECK(strcmp(rows[0].fingerprint, one_run.fingerprint) == 0);
    CHECK(strcmp(rows[0].fingerprint_end, "{}") == 0 && strcmp(rows[0].state, "done") == 0);
    CHECK(rows[0].ended_ms >= rows[0].began_ms && rows[0].began_ms > 1600000000000);
    const plb_run_filter filters[] = {{.label = "base"}, {.git = "abcd"}, {.uuid = rows[0].uuid}};
    const plb_run_filter misses[] = {{.label = "bas"}, {.git = "bcde"}, {.id = run + 1}};
    for (int i = 0; i < 3; i++) {
        CHECK_OK(plb_store_runs(store, &filters[i], arena, &rows, &count));
        CHECK(count == 1 && rows[0].id == run);
        CHECK_OK(plb_store_runs(store, &misses[i], arena, &rows, &count));
        CHECK(count == 0);
    }
}

static void check_measurement(plb_store *store, int64_t run, plb_arena *arena) {
    plb_measurement_row *m;
    size_t count;
    CHECK_OK(
        plb_store_measurements(store, &(plb_measurement_filter){.run = run}, arena, &m, &count));
    CHECK(count == 1 && strcmp(m[0].outcome, "ok") == 0 && strcmp(m[0].reason, "why") == 0);
    CHECK(strcmp(m[0].case_hash, "00000000000000aa") == 0);
    CHECK(strcmp(m[0].keys, "{\"model\":\"m\",\"batch\":1}") == 0);
    CHECK(!m[0].log && strcmp(m[0].proof, "{\"equal\":true}") == 0 && !m[0].results);
    plb_start_row *s;
    CHECK_OK(plb_store_starts(store, m[0].id, arena, &s, &count));
    CHECK(count == 1 && s[0].number == 0 && s[0].group == -1 && s[0].steady == 1);
    CHECK(s[0].warmup_iterations == 3 && s[0].load_ns == 7 && s[0].compile_ns == -1);
    CHECK(strcmp(s[0].stop, "precise") == 0 && s[0].peak_rss_bytes == -1);
}

static void test_round_trip(void) {
    place p;
    plb_store *store = open_new(&p);
    plb_arena *arena = plb_arena_new();
    int64_t run, measurement, samples[300],
        start = begin(store, "00000000000000aa", &run, &measurement);
    fill(samples, 300, 2000000, 2);
    plb_store_block block = {.kind = PLB_BLOCK_WARMUP,
                             .sweep = -1,
                             .began_ns = 5,
                             .iterations_per_sample = 1,
                             .samples_ns = samples,
                             .count = 3};
    CHECK_OK(plb_store_add_block(store, start, &block));
    block = (plb_store_block){.kind = PLB_BLOCK_TIMED,
                              .sweep = 4,
                              .began_ns = 6,
                              .iterations_per_sample = 9,
                              .marks = PLB_MARK_BUSY,
                              .samples_ns = samples + 3,
                              .count = 297};
    CHECK_OK(plb_store_add_block(store, start, &block));
    const plb_store_start_end end = {.outcome = "ok",
                                     .steady = true,
                                     .warmup_iterations = 3,
                                     .stop = "precise",
                                     .load_ns = 7,
                                     .first_call_ns = 8,
                                     .compile_ns = -1,
                                     .peak_rss_bytes = -1,
                                     .device_peak_bytes = -1};
    CHECK_OK(plb_store_end_start(store, start, &end));
    const plb_store_outcome outcome = {
        .outcome = "ok", .reason = "why", .proof = "{\"equal\":true}"};
    CHECK_OK(plb_store_end_measurement(store, measurement, &outcome));
    CHECK_OK(plb_store_end_run(store, run, "done", "{}"));
    plb_store_close(store);

    CHECK_OK(plb_store_open_existing(p.path, &store));
    check_run(store, run, arena);
    check_measurement(store, run, arena);
    plb_store_block *blocks;
    size_t count;
    CHECK_OK(plb_store_blocks(store, start, arena, &blocks, &count));
    CHECK(count == 2 && blocks[0].kind == PLB_BLOCK_WARMUP && blocks[0].sweep == -1);
    CHECK(blocks[1].sweep == 4 && blocks[1].iterations_per_sample == 9 && blocks[1].count == 297);
    CHECK(blocks[1].marks == PLB_MARK_BUSY && blocks[1].began_ns == 6);
    CHECK(memcmp(blocks[0].samples_ns, samples, 3 * sizeof *samples) == 0);
    CHECK(memcmp(blocks[1].samples_ns, samples + 3, 297 * sizeof *samples) == 0);
    plb_arena_free(arena);
    place_end(&p, store);
}

static void test_refusals(void) {
    place p;
    plb_store *store = open_new(&p);
    int64_t run, measurement, start = begin(store, "a1", &run, &measurement), id;
    const int64_t bad[] = {5, -1};
    plb_store_block block = {.iterations_per_sample = 1, .samples_ns = bad, .count = 2};
    CHECK_FAILS(PLB_EINVAL, "sample 1 of a block", plb_store_add_block(store, start, &block));
    block.count = 0;
    CHECK_FAILS(PLB_EINVAL, "expected some", plb_store_add_block(store, start, &block));
    block.count = 1;
    CHECK_FAILS(PLB_EINVAL, "no start 99", plb_store_add_block(store, 99, &block));
    CHECK_FAILS(PLB_EINVAL, "FOREIGN KEY", plb_store_begin_start(store, 99, 0, -1, &id));
    CHECK_FAILS(
        PLB_EINVAL, "CHECK",
        plb_store_end_measurement(store, measurement, &(plb_store_outcome){.outcome = "great"}));
    CHECK_FAILS(PLB_EINVAL, "no run 9", plb_store_resume_run(store, 9, &one_run));
    CHECK_FAILS(PLB_EINVAL, "still running, in process",
                plb_store_resume_run(store, run, &one_run));
    CHECK(count_of(store, "SELECT count(*) FROM block") == 0);
    place_end(&p, store);
}

static void test_resume(void) {
    place p;
    plb_store *store = open_new(&p);
    int64_t run, measurement, again, start = begin(store, "a1", &run, &measurement);
    const int64_t samples[] = {5, 6};
    const plb_store_block block = {.iterations_per_sample = 1, .samples_ns = samples, .count = 2};
    bool done = true;
    CHECK_OK(plb_store_add_block(store, start, &block));
    CHECK_OK(plb_store_end_run(store, run, "interrupted", "{\"load\":3}"));
    CHECK_OK(plb_store_resume_run(store, run, &one_run));
    CHECK(count_of(store, "SELECT count(*) FROM run WHERE fingerprint_end IS NULL "
                          "AND fingerprint ->> '$.resumed[0].end_before.load' = 3") == 1);
    CHECK(count_of(store, "SELECT count(*) FROM run, json_each(fingerprint, '$.resumed') AS r "
                          "WHERE r.value ->> '$.command' = command AND r.value ->> '$.git' = git "
                          "AND r.value ->> '$.fingerprint.load' = 0.5 "
                          "AND fingerprint ->> '$.load' = 0.5") == 1);
    CHECK_OK(plb_store_add_measurement(store, run, "a1", "{}", &again, &done));
    CHECK(again == measurement && !done);
    CHECK(count_of(store, "SELECT count(*) FROM block") == 0);
    CHECK(count_of(store, "SELECT samples_hash FROM measurement") == 0);
    CHECK_OK(plb_store_end_measurement(store, again, &(plb_store_outcome){.outcome = "oom"}));
    CHECK_OK(plb_store_add_measurement(store, run, "a1", "{}", &again, &done));
    CHECK(again == measurement && done);
    place_end(&p, store);
}

// What is killed leaves no state at its end.
static void test_resume_after_a_kill(void) {
    place p;
    plb_store *store = open_new(&p);
    int64_t run, measurement;
    begin(store, "a1", &run, &measurement);
    CHECK_OK(plb_store_end_run(store, run, "interrupted", NULL));
    CHECK_OK(plb_store_resume_run(store, run, &one_run));
    CHECK(count_of(store, "SELECT count(*) FROM run "
                          "WHERE fingerprint -> '$.resumed[0].end_before' = 'null'") == 1);
    place_end(&p, store);
}

// Cases and machines are shared by runs, and go with the last of them.
static void test_remove(void) {
    place p;
    plb_store *store = open_new(&p);
    const char *const keys = "{\"stack\":\"only\"}";
    int64_t first, second, measurement, count = 0;
    bool done;
    begin(store, "a1", &first, &measurement);
    CHECK_OK(plb_store_add_measurement(store, first, "b2", keys, &measurement, &done));
    begin(store, "a1", &second, &measurement);
    CHECK_OK(plb_store_count_stack(store, "only", &count));
    CHECK(count == 1);
    CHECK_OK(plb_store_remove_run(store, first));
    CHECK_OK(plb_store_count_stack(store, "only", &count));
    CHECK(count == 0 && count_of(store, "SELECT count(*) FROM cases") == 1);
    CHECK(count_of(store, "SELECT count(*) FROM machine") == 1);
    CHECK_FAILS(PLB_EINVAL, "no number 1", plb_store_remove_run(store, first));
    CHECK_OK(plb_store_remove_run(store, second));
    CHECK(count_of(store, "SELECT count(*) FROM cases") == 0);
    CHECK(count_of(store, "SELECT count(*) FROM machine") == 0 && is_whole(store));
    place_end(&p, store);
}

static void test_too_long(void) {
    enum { LONGEST = 1000 };
    static const char kept[2 * LONGEST];
    place p;
    plb_store *store = open_new(&p);
    int64_t run, measurement;
    begin(store, "a1", &run, &measurement);
    sqlite3_limit(store->db, SQLITE_LIMIT_LENGTH, LONGEST);
    CHECK_FAILS(PLB_EINVAL, "adding a profile: expected at most 1000 bytes, found 1001",
                plb_store_put_profile(store, run, "{}", kept, LONGEST + 1));
    CHECK_FAILS(PLB_EINVAL, "adding a profile: string or blob too big", // with what is beside it
                plb_store_put_profile(store, run, "{}", kept, LONGEST));
    CHECK_OK(plb_store_put_profile(store, run, "{}", kept, LONGEST / 2));
    place_end(&p, store);
}

static void test_groups(void) {
    place p;
    plb_store *store = open_new(&p);
    int64_t run, measurement, group = -1, id;
    begin(store, "a1", &run, &measurement);
    CHECK_OK(plb_store_new_group(store, run, &group));
    CHECK(group == 0);
    CHECK_OK(plb_store_begin_start(store, measurement, 1, group, &id));
    CHECK_OK(plb_store_new_group(store, run, &group));
    CHECK(group == 1);
    CHECK_FAILS(PLB_EINVAL, "UNIQUE", plb_store_begin_start(store, measurement, 1, 0, &id));
    place_end(&p, store);
}

// ---------------------------------------------------------------------------- rough handling
// Writes blocks without end, and a byte to `tell` after each.
static void write_for_ever(const char *path, const char *hash, int tell) {
    plb_store *store = NULL;
    int64_t run, measurement, samples[64];
    if (plb_store_open(path, &store)) _exit(1);
    int64_t start = begin(store, hash, &run, &measurement);
    fill(samples, 64, 1000000, 3);
    const plb_store_block block = {.iterations_per_sample = 1, .samples_ns = samples, .count = 64};
    while (plb_store_add_block(store, start, &block) == PLB_OK)
        if (write(tell, "b", 1) != 1) break;
    _exit(1);
}

static void test_killed(void) {
    place p;
    plb_store *store = NULL;
    place_make(&p);
    int64_t told = 0;
    for (int round = 0; round < 12; round++) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        pid_t child = fork();
        if (!child) write_for_ever(p.path, "a1", ends[1]);
        close(ends[1]);
        char byte;
        for (int n = 0; n <= 3 * round && read(ends[0], &byte, 1) == 1; n++) told++;
        kill(child, SIGKILL);
        while (read(ends[0], &byte, 1) == 1) told++;
        close(ends[0]);
        waitpid(child, NULL, 0);
        CHECK_OK(plb_store_open(p.path, &store));
        if (!store) return;
        CHECK(is_whole(store));
        int64_t kept = count_of(store, "SELECT count(*) FROM block");
        CHECK_SAY(kept >= told && kept <= told + round + 1, "%lld of %lld", (long long)kept,
                  (long long)told);
        plb_store_close(store);
    }
    CHECK_OK(plb_store_open(p.path, &store));
    plb_arena *arena = plb_arena_new();
    plb_run_row *rows;
    size_t count;
    CHECK_OK(plb_store_runs(store, &(plb_run_filter){.limit = 5}, arena, &rows, &count));
    CHECK(count == 5 && strcmp(rows[0].state, "interrupted") == 0);
    CHECK_OK(plb_store_resume_run(store, rows[0].id, &one_run));
    plb_arena_free(arena);
    place_end(&p, store);
}

static void test_two_writers(void) {
    enum { WRITERS = 3, BLOCKS = 60 };
    place p;
    plb_store *store = NULL;
    place_make(&p); // they make the file, all at once
    pid_t child[WRITERS];
    for (int i = 0; i < WRITERS; i++) {
        if ((child[i] = fork())) continue;
        int64_t run, measurement, samples[64];
        if (plb_store_open(p.path, &store)) {
            fprintf(stderr, "%s\n", plb_error_text());
            _exit(1);
        }
        int64_t start = begin(store, "a1", &run, &measurement);
        fill(samples, 64, 1000000, 3);
        const plb_store_block block = {
            .iterations_per_sample = 1, .samples_ns = samples, .count = 64};
        for (int n = 0; n < BLOCKS; n++) CHECK_OK(plb_store_add_block(store, start, &block));
        plb_store_close(store);
        _exit(check_failures != 0);
    }
    for (int i = 0; i < WRITERS; i++) {
        int code = 1;
        waitpid(child[i], &code, 0);
        CHECK(code == 0);
    }
    CHECK_OK(plb_store_open(p.path, &store));
    CHECK(is_whole(store));
    CHECK(count_of(store, "SELECT count(*) FROM block") == WRITERS * BLOCKS);
    CHECK(count_of(store, "SELECT count(*) FROM machine") == 1);
    CHECK(count_of(store, "SELECT count(*) FROM cases") == 1);
    place_end(&p, store);
}

// A file that several open for the first time is each one's own kind, whoever makes it first.
static void test_first_openers(void) {
    enum { OPENERS = 4, ROUNDS = 100 };
    place p;
    place_make(&p);
    for (int round = 0; round < ROUNDS; round++) {
        int gate[2];
        char path[sizeof p.path + 16], none;
        pid_t child[OPENERS];
        snprintf(path, sizeof path, "%s.%d", p.path, round);
        CHECK(pipe(gate) == 0);
        for (int i = 0; i < OPENERS; i++) {
            if ((child[i] = fork())) continue;
            plb_store *store;
            close(gate[1]);
            (void)!read(gate[0], &none, 1); // all at once, as the gate is closed
            plb_status status = plb_store_open(path, &store);
            if (status) fprintf(stderr, "%s\n", plb_error_text());
            if (!status) plb_store_close(store);
            _exit(status != PLB_OK);
        }
        close(gate[0]), close(gate[1]);
        for (int i = 0; i < OPENERS; i++) {
            int code = 1;
            waitpid(child[i], &code, 0);
            CHECK(code == 0);
        }
    }
    place_end(&p, NULL);
}

// In a child, which alone sees the small disk: 0 fine, 77 not permitted here.
static int fill_small_disk(const char *folder, const char *path) {
    if (!fault_small_disk(folder, "1m")) return 77;
    plb_store *store;
    int64_t run, measurement, samples[2000];
    CHECK_OK(plb_store_open(path, &store));
    int64_t start = begin(store, "a1", &run, &measurement), kept = 0;
    fill(samples, 2000, 1000000, 4);
    const plb_store_block block = {
        .iterations_per_sample = 1, .samples_ns = samples, .count = 2000};
    plb_status status = PLB_OK;
    while (!status && kept < 1000)
        if (!(status = plb_store_add_block(store, start, &block))) kept++;
    CHECK_SAY(status == PLB_EFULL, "%s: %s", plb_status_name(status), plb_error_text());
    CHECK(strstr(plb_error_text(), "no space left"));
    CHECK(kept > 10);
    plb_store_close(store);
    CHECK_OK(plb_store_open(path, &store));
    if (!store) return 1;
    CHECK(is_whole(store));
    CHECK(count_of(store, "SELECT count(*) FROM block") == kept);
    plb_store_close(store);
    return check_failures != 0;
}

static void test_full_disk(void) {
    place p;
    place_make(&p);
    pid_t child = fork();
    if (!child) _exit(fill_small_disk(p.folder, p.path));
    int code = 0;
    waitpid(child, &code, 0);
    place_end(&p, NULL);
    if (WIFEXITED(code) && WEXITSTATUS(code) == 77) SKIP("mounting is not permitted here");
    CHECK(WIFEXITED(code) && WEXITSTATUS(code) == 0);
}

static void test_other_files(void) {
    place p;
    plb_store *store = NULL;
    place_make(&p);
    CHECK_FAILS(PLB_EMISSING, "no store there", plb_store_open_existing(p.path, &store));
    FILE *file = fopen(p.path, "w");
    if (file) fclose(file);
    CHECK_FAILS(PLB_EMISSING, "no store there", plb_store_open_existing(p.path, &store));
    struct stat found;
    CHECK(stat(p.path, &found) == 0 && found.st_size == 0);
    file = fopen(p.path, "w");
    for (int i = 0; file && i < 200; i++) fputs("not a database at all\n", file);
    if (file) fclose(file);
    CHECK_FAILS(PLB_EINVAL, "not a database", plb_store_open(p.path, &store));
    unlink(p.path);
    sqlite3 *other;
    CHECK(sqlite3_open(p.path, &other) == SQLITE_OK);
    CHECK(sqlite3_exec(other, "CREATE TABLE t (x)", NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(other);
    CHECK_FAILS(PLB_EINVAL, "not one of Plumb's", plb_store_open(p.path, &store));
    CHECK(!store);
    place_end(&p, NULL);
}

static void test_versions(void) {
    static const char first[] = "-- version 1\nCREATE TABLE t (x INTEGER);\n";
    static const char second[] = "-- version 1\nCREATE TABLE t (x INTEGER);\n"
                                 "-- version 2\nALTER TABLE t ADD COLUMN y INTEGER DEFAULT 7;\n";
    static const char broken[] = "-- version 1\n\n-- version 2\n\n-- version 3\n"
                                 "CREATE TABLE u (z INTEGER); CREATE TABLE t (x INTEGER);\n";
    plb_store store = {.path = "memory"};
    CHECK(sqlite3_open(":memory:", &store.db) == SQLITE_OK);
    CHECK_OK(plb_db_migrate(&store, first));
    CHECK(sqlite3_exec(store.db, "INSERT INTO t VALUES (3)", NULL, NULL, NULL) == SQLITE_OK);
    CHECK_OK(plb_db_migrate(&store, second));
    CHECK(count_of(&store, "SELECT x * 10 + y FROM t") == 37);
    CHECK(count_of(&store, "PRAGMA user_version") == 2);
    CHECK_OK(plb_db_migrate(&store, second));
    CHECK_FAILS(PLB_EBROKEN, "already exists", plb_db_migrate(&store, broken));
    CHECK(count_of(&store, "PRAGMA user_version") == 2); // the failed step left nothing behind
    CHECK(count_of(&store, "SELECT count(*) FROM sqlite_master") == 1);
    CHECK_FAILS(PLB_EINVAL, "expected version 1 of the schema or an older one, found 2",
                plb_db_migrate(&store, first));
    for (int i = 0; i < store.kept_count; i++) sqlite3_finalize(store.kept[i].statement);
    sqlite3_close(store.db);
}

// ---------------------------------------------------------------------------- size and speed
// Samples of 1 ms in blocks of 50. PLB_TEST_FULL=1 writes ten million of them.
static void test_size(void) {
    const bool full = getenv("PLB_TEST_FULL") != NULL;
    const int64_t blocks = full ? 200000 : 4000;
    place p;
    plb_store *store = open_new(&p);
    int64_t run, measurement, start = begin(store, "a1", &run, &measurement), samples[50];
    CHECK_OK(plb_store_batch_begin(store));
    for (int64_t n = 0; n < blocks; n++) {
        fill(samples, 50, 1000000, (uint64_t)n);
        const plb_store_block block = {.kind = PLB_BLOCK_TIMED,
                                       .sweep = n,
                                       .began_ns = n * 50000000,
                                       .iterations_per_sample = 1,
                                       .samples_ns = samples,
                                       .count = 50};
        if (n % 500 == 499) { // a case has some starts with some dozens of blocks
            CHECK_OK(plb_store_begin_start(store, measurement, n, -1, &start));
        }
        CHECK_OK(plb_store_add_block(store, start, &block));
    }
    CHECK_OK(plb_store_batch_end(store, PLB_OK));
    plb_arena *arena = plb_arena_new();
    plb_store_block *read;
    size_t count;
    int64_t best_ns = INT64_MAX;
    for (int i = 0; i < 5; i++) {
        int64_t before = plb_now_ns();
        CHECK_OK(plb_store_blocks(store, start - 1, arena, &read, &count));
        int64_t took = plb_now_ns() - before;
        best_ns = took < best_ns ? took : best_ns;
    }
    CHECK(count == 500);
    CHECK_SAY(best_ns < 10000000, "25,000 samples read in %lld ns", (long long)best_ns);
    plb_arena_free(arena);
    double bytes = (double)count_of(store, "SELECT page_count * page_size FROM pragma_page_count, "
                                           "pragma_page_size");
    double each = bytes / (double)(blocks * 50);
    printf("%.2f bytes a sample; 25,000 samples read in %.2f ms\n", each, (double)best_ns * 1e-6);
    CHECK_SAY(each < 10, "%.2f bytes a sample", each);
    place_end(&p, store);
}

static plb_status write_and_read(void *path) {
    plb_store *store = NULL;
    plb_arena *arena = NULL;
    plb_status status;
    int64_t run, measurement, start;
    bool done;
    PLB_TRY_OUT(plb_store_open(path, &store));
    PLB_TRY_OUT(plb_store_begin_run(store, &one_run, &run));
    PLB_TRY_OUT(plb_store_add_measurement(store, run, "a1", "{}", &measurement, &done));
    PLB_TRY_OUT(plb_store_begin_start(store, measurement, 0, -1, &start));
    const int64_t samples[] = {5, 6};
    const plb_store_block block = {.iterations_per_sample = 1, .samples_ns = samples, .count = 2};
    PLB_TRY_OUT(plb_store_add_block(store, start, &block));
    arena = plb_arena_new();
    status = arena ? PLB_OK : PLB_ENOMEM;
    plb_store_block *blocks;
    plb_run_row *rows;
    size_t count;
    if (!status) status = plb_store_blocks(store, start, arena, &blocks, &count);
    if (!status)
        status = plb_store_runs(store, &(plb_run_filter){.limit = 3}, arena, &rows, &count);
out:
    plb_arena_free(arena);
    plb_store_close(store);
    return status;
}

static void test_out_of_memory(void) {
    place p;
    place_make(&p);
    CHECK(fault_every_allocation(write_and_read, p.path) > 5);
    place_end(&p, NULL);
}

static const check_test tests[] = {
    {"samples", test_samples},
    {"round_trip", test_round_trip},
    {"refusals", test_refusals},
    {"resume", test_resume},
    {"resume_after_a_kill", test_resume_after_a_kill},
    {"remove", test_remove},
    {"too_long", test_too_long},
    {"groups", test_groups},
    {"killed", test_killed},
    {"two_writers", test_two_writers},
    {"first_openers", test_first_openers},
    {"full_disk", test_full_disk},
    {"other_files", test_other_files},
    {"versions", test_versions},
    {"size", test_size},
    {"out_of_memory", test_out_of_memory},
};
CHECK_MAIN(tests)
