// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_command.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/core/status.h"
#include "cli/bench_flags.h"
#include "cli/bench_probe.h"
#include "cli/bench_report.h"
#include "cli/bench_resume.h"
#include "cli/onnx_model.h"
#include "cli/plots.h"

static plb_status tell(plb_call *call, const plb_bench *bench, bool verify) {
    const plb_bench_flags *f = call->options;
    if (f->plot && plb_bench_run_id(bench)) return plb_plot_stored(f->db, plb_bench_run_id(bench));
    if (plb_bench_was_done(bench) && !call->json)
        plb_note("run %" PRId64 " was done: nothing was left to measure", plb_bench_run_id(bench));
    if (call->json) return plb_bench_print_json(bench, verify ? "verify" : "bench", f->label);
    plb_bench_print_tables(bench, verify);
    return PLB_OK;
}

// What an invocation holds, from its flags to its end.
typedef struct session {
    plb_arena *arena; // of the options
    plb_bench_options options;
    plb_bench_probing *probing; // NULL: no start is probed
    plb_bench *bench;
} session;

static void close_session(session *s) {
    plb_bench_clear_shown();
    plb_bench_free(s->bench);
    plb_bench_probing_free(s->probing);
    plb_arena_free(s->arena);
}

// `verify`: nothing is timed; `show`: what of a probed start is shown, where one is asked for.
// If it fails too, it is yours to close.
static plb_status open_session(const plb_bench_flags *f, const plb_profile_flags *show, bool verify,
                               bool profile, plb_call *call, session *s) {
    *s = (session){.arena = plb_arena_new()};
    if (!s->arena) return plb_fail(PLB_ENOMEM, "out of memory");
    plb_cli_catch_interrupt();
    if (f->dim) PLB_TRY(plb_cli_onnx_check_dims(call->operands, call->operand_count, f->dim));
    PLB_TRY(plb_bench_flags_read(f, call, s->arena, &s->options));
    if (f->resume) PLB_TRY(plb_bench_check_resume(f, call));
    s->options.tell = plb_bench_show, s->options.verify = verify;
    if (profile) {
        PLB_TRY(plb_bench_probing_new(show, call, &s->probing));
        s->options.probe = plb_bench_probing_probe(s->probing);
    }
    PLB_TRY(plb_bench_new(&s->options, &s->bench)); // what is wrong at sight waits for nobody
    if (!verify && !f->no_lock) PLB_TRY(plb_measure_lock());
    return plb_bench_plan(s->bench);
}

static void tell_how_to_go_on(const session *s) {
    const char *command = s->options.command;
    int64_t run = plb_bench_run_id(s->bench);
    if (s->options.resume) { // the command itself goes on
        plb_note("the store has what was finished; for the rest: %s", command);
    } else {
        plb_note("the store has what was finished; for the rest: %s --resume %" PRId64, command,
                 run);
    }
}

static bool has_ended_case(const plb_bench *bench) {
    for (int i = 0; i < plb_bench_case_count(bench); i++)
        if (plb_bench_case_at(bench, i)->ended) return true;
    return false;
}

// What was measured, of a run that ended early. The reason for that stays the error, whatever
// becomes of the telling.
static plb_status tell_part(plb_call *call, const session *s, plb_status why) {
    char text[512];
    snprintf(text, sizeof text, "%s", plb_error_text());
    if (tell(call, s->bench, false)) plb_note("%s", plb_error_text());
    tell_how_to_go_on(s);
    return plb_fail(why, "%s", text);
}

plb_status plb_bench_command(plb_call *call, bool verify) {
    const plb_bench_flags *f = call->options;
    session s;
    plb_status status;
    if (f->plot && call->json) return plb_fail(PLB_EINVAL, "--plot prints no JSON");
    PLB_TRY_OUT(open_session(f, NULL, verify, f->profile, call, &s));
    plb_bench_print_plan(s.bench, &s.options);
    status = plb_bench_run(s.bench);
    plb_bench_clear_shown();
    // Proofs are not stored, nor told by halves.
    if (status && (verify || (status != PLB_ECANCELLED && !has_ended_case(s.bench)))) goto out;
    status = status ? tell_part(call, &s, status) : tell(call, s.bench, verify);
    call->exit_code = plb_bench_exit_code(s.bench);
out:
    close_session(&s);
    return status;
}

// The proof's outcome and, once it is there, what was looked at; a case that is not equal has no
// profile.
static plb_status tell_case(plb_call *call, const plb_bench *bench) {
    const plb_bench_case *c = plb_bench_case_at(bench, 0);
    plb_strbuf line = {0};
    if (c->failure.outcome != PLB_OUTCOME_OK) {
        plb_note("%s: %s: %s", c->c.model, plb_outcome_name(c->failure.outcome), c->failure.reason);
    } else if (!call->json) {
        plb_bench_profile_line(c->profile, &line);
        plb_print("\n%s, EQUAL to the reference: %s\n", c->c.stack,
                  line.failed ? "out of memory" : line.text);
        plb_strbuf_free(&line);
    }
    call->exit_code = plb_bench_exit_code(bench);
    return PLB_OK;
}

// A case that is as it should be, but without the profile that was asked for.
static void check_profile(plb_call *call, const plb_bench_probing *probing, bool strict) {
    const char *lacks = plb_bench_probing_lacks(probing);
    if (call->exit_code || (lacks && !(strict && lacks[0]))) return;
    plb_note("incomplete: %s", lacks ? lacks : "the probed start ended early");
    call->exit_code = PLB_EXIT_BROKEN;
}

plb_status plb_bench_profile_case(plb_call *call, const plb_bench_flags *flags,
                                  const plb_profile_flags *show, bool strict) {
    session s;
    plb_status status;
    PLB_TRY_OUT(open_session(flags, show, true, true, call, &s));
    if (plb_bench_case_count(s.bench) != 1)
        PLB_TRY_OUT(plb_fail(PLB_EINVAL, "expected one case to profile, found %d",
                             plb_bench_case_count(s.bench)));
    PLB_TRY_OUT(plb_bench_run(s.bench));
    plb_bench_clear_shown();
    status = tell_case(call, s.bench);
    if (!status) check_profile(call, s.probing, strict);
out:
    close_session(&s);
    return status;
}
