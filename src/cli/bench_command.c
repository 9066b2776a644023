// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_command.h"

#include "base/core/status.h"
#include "cli/bench_flags.h"
#include "cli/bench_probe.h"
#include "cli/bench_report.h"
#include "cli/onnx_model.h"

static plb_status tell(plb_call *call, const plb_bench *bench, bool verify) {
    const plb_bench_flags *f = call->options;
    if (call->json) return plb_bench_print_json(bench, verify ? "verify" : "bench", f->label);
    plb_bench_print_tables(bench, verify);
    return PLB_OK;
}

plb_status plb_bench_command(plb_call *call, bool verify) {
    const plb_bench_flags *f = call->options;
    plb_bench_options options;
    plb_bench *bench = NULL;
    plb_bench_probing *probing = NULL;
    plb_arena *arena = plb_arena_new();
    plb_status status;
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    plb_cli_catch_interrupt();
    if (f->dim) PLB_TRY_OUT(plb_cli_onnx_check_dims(call->operands, call->operand_count, f->dim));
    PLB_TRY_OUT(plb_bench_flags_read(f, call, arena, &options));
    options.tell = plb_bench_show, options.verify = verify;
    if (f->profile) {
        PLB_TRY_OUT(plb_bench_probing_new(NULL, call, &probing));
        options.probe = plb_bench_probing_probe(probing);
    }
    PLB_TRY_OUT(plb_bench_new(&options, &bench));
    if (!verify && !f->no_lock) PLB_TRY_OUT(plb_measure_lock());
    plb_bench_print_plan(bench, &options);
    status = plb_bench_run(bench);
    plb_bench_clear_shown();
    // Interrupted or not: what was measured is told. Proofs are not stored, nor told by halves.
    if (status && (verify || status != PLB_ECANCELLED)) goto out;
    plb_status told = tell(call, bench, verify);
    if (!status) status = told;
    call->exit_code = plb_bench_exit_code(bench);
out:
    plb_bench_free(bench);
    plb_bench_probing_free(probing);
    plb_arena_free(arena);
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
    plb_bench_options options;
    plb_bench *bench = NULL;
    plb_bench_probing *probing = NULL;
    plb_arena *arena = plb_arena_new();
    plb_status status;
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    plb_cli_catch_interrupt();
    if (flags->dim)
        PLB_TRY_OUT(plb_cli_onnx_check_dims(call->operands, call->operand_count, flags->dim));
    PLB_TRY_OUT(plb_bench_flags_read(flags, call, arena, &options));
    PLB_TRY_OUT(plb_bench_probing_new(show, call, &probing));
    options.tell = plb_bench_show, options.verify = true;
    options.probe = plb_bench_probing_probe(probing);
    PLB_TRY_OUT(plb_bench_new(&options, &bench));
    if (plb_bench_case_count(bench) != 1)
        PLB_TRY_OUT(plb_fail(PLB_EINVAL, "expected one case to profile, found %d",
                             plb_bench_case_count(bench)));
    PLB_TRY_OUT(plb_bench_run(bench));
    plb_bench_clear_shown();
    status = tell_case(call, bench);
    if (!status) check_profile(call, probing, strict);
out:
    plb_bench_clear_shown();
    plb_bench_free(bench);
    plb_bench_probing_free(probing);
    plb_arena_free(arena);
    return status;
}
