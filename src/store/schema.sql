-- SPDX-License-Identifier: Apache-2.0
-- Plumb's store. Each "-- version N" opens the statements that lead from version N-1 to N; a new
-- file runs all of them, an older one those that it lacks, in one transaction, and the file's
-- user_version says where it stands. Sections that were released never change: add one.
-- Times: *_ns are nanoseconds, of CLOCK_MONOTONIC where they are a moment; *_ms Unix time.
-- A column that is NULL is unknown, never zero.

-- version 1
CREATE TABLE machine (
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    facts TEXT NOT NULL CHECK (json_valid(facts)) -- what must be equal for times to be compared
) STRICT;

CREATE TABLE run (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid TEXT NOT NULL UNIQUE, -- the same wherever the run is imported
    label TEXT,
    command TEXT NOT NULL,
    git TEXT,
    machine INTEGER NOT NULL REFERENCES machine,
    fingerprint TEXT NOT NULL CHECK (json_valid(fingerprint)),
    fingerprint_end TEXT CHECK (fingerprint_end IS NULL OR json_valid(fingerprint_end)),
    began_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    state TEXT NOT NULL CHECK (state IN ('running', 'done', 'interrupted', 'failed')),
    process TEXT -- boot, number and start time of the process that runs it
) STRICT;
CREATE INDEX run_label ON run (label);
CREATE INDEX run_git ON run (git);

CREATE TABLE cases (
    id INTEGER PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    keys TEXT NOT NULL CHECK (json_valid(keys)), -- canonical: sorted, complete
    model TEXT AS (keys ->> 'model'),
    task TEXT AS (keys ->> 'task'),
    stack TEXT AS (keys ->> 'stack'),
    device TEXT AS (keys ->> 'device'),
    batch INTEGER AS (keys ->> 'batch')
) STRICT;
CREATE INDEX cases_model ON cases (model, task, stack, batch);

CREATE TABLE measurement (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    case_id INTEGER NOT NULL REFERENCES cases,
    outcome TEXT CHECK (outcome IN ('ok', 'invalid', 'refused', 'oom', 'timeout', 'crash',
                                    'protocol')), -- NULL while it is under way
    reason TEXT,
    log TEXT,
    proof TEXT CHECK (proof IS NULL OR json_valid(proof)),
    versions TEXT CHECK (versions IS NULL OR json_valid(versions)),
    results TEXT CHECK (results IS NULL OR json_valid(results)),
    samples_hash INTEGER NOT NULL DEFAULT 0, -- over all blocks, in the order they came
    UNIQUE (run, case_id)
) STRICT;
CREATE INDEX measurement_case ON measurement (case_id);

CREATE TABLE start (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    measurement INTEGER NOT NULL REFERENCES measurement ON DELETE CASCADE,
    number INTEGER NOT NULL,
    interleaved INTEGER, -- starts of one run with the same number took turns; NULL: alone
    outcome TEXT,        -- NULL while it is under way, and for ever if it was killed
    steady INTEGER,
    warmup_iterations INTEGER,
    stop TEXT,
    load_ns INTEGER,
    first_call_ns INTEGER,
    compile_ns INTEGER,
    peak_rss_bytes INTEGER,
    device_peak_bytes INTEGER,
    ran TEXT CHECK (ran IS NULL OR json_valid(ran)),
    memory TEXT CHECK (memory IS NULL OR json_valid(memory)),
    UNIQUE (measurement, number)
) STRICT;

CREATE TABLE block (
    id INTEGER PRIMARY KEY,
    start INTEGER NOT NULL REFERENCES start ON DELETE CASCADE,
    number INTEGER NOT NULL,
    timed INTEGER NOT NULL, -- 0: warm-up
    sweep INTEGER,          -- which palindrome of turns; NULL: not interleaved
    began_ns INTEGER NOT NULL,
    iterations_per_sample INTEGER NOT NULL,
    marks INTEGER NOT NULL,
    count INTEGER NOT NULL,
    samples BLOB NOT NULL, -- src/store/samples.h
    UNIQUE (start, number)
) STRICT;

CREATE TABLE summary (
    measurement INTEGER PRIMARY KEY REFERENCES measurement ON DELETE CASCADE,
    algorithm INTEGER NOT NULL, -- a new way of summing up makes the old ones stale
    samples_hash INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;

-- version 2
-- Studies: a run that is one has a row here, and one row below for each of its items (a training, a
-- cell of a sweep, a profile).
CREATE TABLE study (
    run INTEGER PRIMARY KEY REFERENCES run ON DELETE CASCADE,
    name TEXT NOT NULL,
    spec TEXT NOT NULL,   -- the YAML text, as it was read
    options TEXT NOT NULL CHECK (json_valid(options)) -- quick, set, devices, time
) STRICT;

CREATE TABLE study_item (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL REFERENCES study ON DELETE CASCADE,
    part TEXT NOT NULL,
    keys TEXT NOT NULL CHECK (json_valid(keys)), -- what fixes the item, in a fixed order
    outcome TEXT NOT NULL,                       -- as of a measurement, or left-out
    reason TEXT,
    results TEXT CHECK (results IS NULL OR json_valid(results)),
    UNIQUE (run, part, keys)
) STRICT;

-- version 3
-- Profiles of commands: a run that is one has a row here.
CREATE TABLE profile (
    run INTEGER PRIMARY KEY REFERENCES run ON DELETE CASCADE,
    document TEXT NOT NULL CHECK (json_valid(document)), -- as `plumb profile --json` prints it
    kept BLOB NOT NULL                                   -- as `plumb profile --save` writes it
) STRICT;
