// SPDX-License-Identifier: Apache-2.0
#include "report/run.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/core/status.h"
#include "report/run_cases.h"

plb_tone plb_verdict_tone(plb_verdict verdict) {
    switch (verdict) {
    case PLB_VERDICT_SAME:
    case PLB_VERDICT_FASTER: return PLB_TONE_GOOD;
    case PLB_VERDICT_SLOWER: return PLB_TONE_BAD;
    case PLB_VERDICT_UNSURE: break;
    }
    return PLB_TONE_UNSURE;
}

static void set_head(const plb_run_cases *cases, plb_document *d) {
    const plb_run_row *run = cases->run;
    char began[PLB_UNIT_BYTES_SHOWN], took[48] = "", duration[PLB_UNIT_BYTES_SHOWN];
    json_t *machine = json_loads(run->machine ? run->machine : "{}", 0, NULL);
    const char *processor = json_string_value(json_object_get(machine, "cpu_model"));
    plb_moment_show(run->began_ms, began);
    if (run->ended_ms >= 0) {
        plb_unit_show(PLB_UNIT_SECONDS, (double)(run->ended_ms - run->began_ms) / 1000, duration);
        snprintf(took, sizeof took, ", took %s", duration);
    }
    plb_document_set_subtitle(d, "%s%s, %s%s%.12s", began, took, processor ? processor : "",
                              run->git ? ", revision " : "", run->git ? run->git : "");
    plb_document_set_command(d, run->command && *run->command ? run->command : NULL);
    json_decref(machine);
}

static plb_document *new_document(const plb_run_row *run, plb_arena *arena) {
    const char *title = plb_arena_printf(arena, "Run %" PRId64 "%s%s", run->id,
                                         run->label ? ": " : "", run->label ? run->label : "");
    return title ? plb_document_new(title) : NULL;
}

static plb_status fill(const plb_run_cases *cases, plb_document *d) {
    set_head(cases, d);
    plb_run_add_summary(cases, d);
    PLB_TRY(plb_run_add_times(cases, d));
    PLB_TRY(plb_run_add_sweeps(cases, d));
    PLB_TRY(plb_run_add_costs(cases, d));
    PLB_TRY(plb_run_add_warmup(cases, d));
    PLB_TRY(plb_run_add_profiles(cases, d));
    PLB_TRY(plb_run_add_history(cases, d));
    plb_run_add_tables(cases, d);
    PLB_TRY(plb_run_add_evidence(cases, d));
    return plb_document_status(d);
}

plb_status plb_report_run(plb_store *store, const plb_run_row *run, plb_document **out) {
    plb_run_cases cases;
    plb_arena *arena = plb_arena_new();
    plb_document *d = arena ? new_document(run, arena) : NULL;
    plb_status status;
    *out = NULL;
    if (!d) {
        status = plb_fail(PLB_ENOMEM, "out of memory for a report");
        goto out;
    }
    PLB_TRY_OUT(plb_run_cases_read(store, run, arena, &cases));
    PLB_TRY_OUT(fill(&cases, d));
    *out = d;
    d = NULL;
out:
    plb_document_free(d);
    plb_arena_free(arena);
    return status;
}
