// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_command.h"

#include "base/core/status.h"
#include "cli/bench_flags.h"
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
    plb_arena *arena = plb_arena_new();
    plb_status status;
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    plb_cli_catch_interrupt();
    if (f->dim) PLB_TRY_OUT(plb_cli_onnx_check_dims(call->operands, call->operand_count, f->dim));
    PLB_TRY_OUT(plb_bench_flags_read(f, call, arena, &options));
    options.tell = plb_bench_show, options.verify = verify;
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
    plb_arena_free(arena);
    return status;
}
