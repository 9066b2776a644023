// SPDX-License-Identifier: Apache-2.0
#include "cli/stored.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/core/status.h"
#include "bench/select.h"
#include "report/escape.h"
#include "report/units.h"

plb_status plb_stored_open(const char *path, plb_store **store, plb_arena **arena) {
    *store = NULL;
    *arena = plb_arena_new();
    if (!*arena) return plb_fail(PLB_ENOMEM, "out of memory");
    return plb_store_open_existing(path, store);
}

plb_cell plb_show_ms(double ns) {
    plb_cell cell;
    double ms = ns * 1e-6;
    if (isnan(ms))
        snprintf(cell.text, sizeof cell.text, "-");
    else
        snprintf(cell.text, sizeof cell.text, "%.*f", ms < 1 ? 4 : ms < 100 ? 3 : 1, ms);
    return cell;
}

plb_cell plb_show_ratio(double ratio) {
    plb_cell cell;
    if (isnan(ratio))
        snprintf(cell.text, sizeof cell.text, "-");
    else
        snprintf(cell.text, sizeof cell.text, "%.*f", ratio < 100 ? 3 : 0, ratio);
    return cell;
}

plb_cell plb_show_moment(int64_t unix_ms) {
    plb_cell cell;
    plb_moment_show(unix_ms, cell.text);
    return cell;
}

plb_cell plb_show_duration(int64_t ms) {
    plb_cell cell;
    int64_t s = ms / 1000;
    if (ms < 0)
        snprintf(cell.text, sizeof cell.text, "-");
    else if (s >= 3600)
        snprintf(cell.text, sizeof cell.text, "%" PRId64 " h %02d min", s / 3600,
                 (int)(s % 3600 / 60));
    else if (s >= 60)
        snprintf(cell.text, sizeof cell.text, "%d min %02d s", (int)(s / 60), (int)(s % 60));
    else
        snprintf(cell.text, sizeof cell.text, "%.1f s", (double)ms / 1000);
    return cell;
}

const char *plb_stored_title(const char *keys, plb_arena *arena) {
    plb_case c;
    char title[512];
    if (plb_case_parse(keys, &c)) return keys;
    plb_case_title(&c, title, sizeof title);
    return plb_stored_plain(title, arena);
}

const char *plb_stored_plain(const char *text, plb_arena *arena) {
    plb_strbuf plain = {0};
    plb_escape_terminal(&plain, text);
    const char *copy = plain.text ? plb_arena_strdup(arena, plain.text) : NULL;
    plb_strbuf_free(&plain);
    return copy ? copy : "";
}

plb_status plb_stored_run(plb_store *store, const char *word, plb_arena *arena, plb_run_row *out) {
    plb_selector selector;
    plb_run_row *rows;
    size_t count;
    plb_run_filter filter = {.limit = 1};
    PLB_TRY(plb_select_parse(store, word, &selector));
    switch (selector.kind) {
    case PLB_SELECT_RUN: filter.id = selector.run; break;
    case PLB_SELECT_LABEL: filter.label = selector.word; break;
    case PLB_SELECT_GIT: filter.git = selector.word; break;
    default: return plb_fail(PLB_EINVAL, "%s: expected a run, found a stack or a case", word);
    }
    PLB_TRY(plb_store_runs(store, &filter, arena, &rows, &count));
    if (!count) return plb_fail(PLB_EINVAL, "%s: no such run", word);
    *out = rows[0];
    return PLB_OK;
}
