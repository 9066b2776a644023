// SPDX-License-Identifier: Apache-2.0
// A profile kept in one file: what ran, what was seen from outside, and the probe's own files of
// each process, of which the tables are mostly empty and are packed. In the machine's own byte
// order, like the probe's files; read as hostile input.
//
//     magic, version, then sections to the end, however many: kind, name, size in bytes, bytes
#ifndef PLB_PROBE_KEPT_H
#define PLB_PROBE_KEPT_H

#include "base/core/arena.h"
#include "probe/command.h"
#include "probe/spool.h"

#define PLB_KEPT_MAGIC UINT64_C(0x31666f72506d6c50) // "PlmProf1"

enum {
    PLB_KEPT_VERSION = 1,
    PLB_KEPT_NAME_BYTES = 32,
    PLB_KEPT_COMMAND_BYTES = 1 << 20,
    PLB_KEPT_WORDS_BYTES = 4096,
};

typedef enum plb_kept_kind {
    PLB_KEPT_COMMAND = 1, // its words, each with a NUL
    PLB_KEPT_RUN,         // plb_command_result
    PLB_KEPT_SPOOL,       // packed
    PLB_KEPT_TRACE,       // plb_trace_record, one after the other
    PLB_KEPT_DAMAGED,     // a spool that could not be read, as it was: it is told again, too
    PLB_KEPT_COUNTED,     // plb_counted, as it is
    PLB_KEPT_WORDS,       // what the probe was asked for, as in PLUMB_PROBE_OPTIONS
    PLB_KEPT_SAMPLED,     // plb_sampled
} plb_kept_kind;

// As it stands in the file, before its bytes.
typedef struct plb_kept_section {
    uint32_t kind, unused;
    char name[PLB_KEPT_NAME_BYTES]; // of a probe's file without its ending, or ""
    uint64_t size_bytes;
} plb_kept_section;

// Whether the file begins as a kept profile does; false also when it cannot be read.
bool plb_kept_is(const char *path);

// What a kept profile says of the run, besides the probe's files.
typedef struct plb_kept_about {
    char *const *command; // its words, NULL at the end; NULL: unknown
    const char *words;    // what the probe was asked for, "host" for nothing; NULL: unknown
    const plb_command_result *run; // NULL: unknown
    const plb_sampled *sampled;    // functions of the host; NULL: unknown
} plb_kept_about;

// Packs `folder` and what came of the run into `path`, which then is there whole or not at all.
PLB_MUST_USE plb_status plb_kept_write(const char *path, const plb_kept_about *about,
                                       const char *folder);

// Goes through a kept profile in memory; `each` gets every section, checked against the size. Stops
// at the first that fails.
typedef plb_status (*plb_kept_visit)(void *user, const plb_kept_section *section,
                                     const uint8_t *bytes);
PLB_MUST_USE plb_status plb_kept_walk(const uint8_t *bytes, size_t size_bytes, const char *place,
                                      plb_kept_visit each, void *user);

// Unpacks a spool into `out`, zeroed before; does not check what stands in it.
PLB_MUST_USE plb_status plb_kept_unpack(const uint8_t *bytes, size_t size_bytes, const char *place,
                                        plb_spool *out);
// Reads what was seen of a run; afterwards its strings end and its counts fit. PLB_EINVAL also when
// a time or an amount is one that no run has.
PLB_MUST_USE plb_status plb_kept_run(const uint8_t *bytes, size_t size_bytes, const char *place,
                                     plb_command_result *out);

// The probe's files back into `folder`, which is empty. `out` is in `arena`.
PLB_MUST_USE plb_status plb_kept_extract(const char *path, const char *folder, plb_arena *arena,
                                         plb_kept_about *out);

#endif
