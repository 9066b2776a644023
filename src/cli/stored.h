// SPDX-License-Identifier: Apache-2.0
// What the commands that read the store share: opening it, times and ratios in tables.
#ifndef PLB_CLI_STORED_H
#define PLB_CLI_STORED_H

#include "bench/case.h"
#include "cli/cli.h"
#include "store/read.h"

// The flag --db of a command whose options struct has `const char *db` at `offset`.
#define PLB_FLAG_DB(place)                                                       \
    {                                                                            \
        .name = "db", .kind = PLB_FLAG_FILE, .offset = (place), .value = "FILE", \
        .help = "the store; default: plumb/plumb.db in $XDG_DATA_HOME"           \
    }

// Opens the store and makes an arena; both are the caller's, also after a failure.
PLB_MUST_USE plb_status plb_stored_open(const char *path, plb_store **store, plb_arena **arena);

// A cell of a table.
typedef struct plb_cell {
    char text[64];
} plb_cell;

plb_cell plb_show_ms(double ns);           // "12.34"; "-" for NaN
plb_cell plb_show_ratio(double ratio);     // "1.032"
plb_cell plb_show_moment(int64_t unix_ms); // "2026-11-28 04:30" in local time
plb_cell plb_show_duration(int64_t ms);    // "1 h 02 min", "35 s"

// The title of a case from its canonical text, or the text if that cannot be read.
const char *plb_stored_title(const char *keys, plb_arena *arena);

// A run by its selector: a number, or a label (the newest of it). PLB_EINVAL if there is none.
PLB_MUST_USE plb_status plb_stored_run(plb_store *store, const char *word, plb_arena *arena,
                                       plb_run_row *out);

// A text of others on one line, without what would move a terminal's cursor; in `arena`.
const char *plb_stored_plain(const char *text, plb_arena *arena);

#endif
