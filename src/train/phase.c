// SPDX-License-Identifier: Apache-2.0
#include "train/phase.h"

#include "base/core/status.h"

plb_status plb_phase_open(plb_phase *phase, const plb_dataset *set,
                          const plb_loader_options *options) {
    PLB_TRY(plb_loader_new(set, options, &phase->loader));
    phase->samples = plb_loader_samples(phase->loader);
    phase->batches = plb_loader_batches(phase->loader);
    phase->batch = options->batch;
    return PLB_OK;
}

static plb_status make_plan(plb_batch_plan *b, const plb_model *model, const char *program,
                            const plb_plan_options *options) {
    plb_tensor x, y;
    PLB_TRY(plb_plan_new(plb_model_find_program(model, program), options, &b->plan));
    PLB_TRY(plb_plan_input(b->plan, "x", &x));
    PLB_TRY(plb_plan_input(b->plan, "y", &y));
    b->x = x.data, b->y = y.data;
    return PLB_OK;
}

plb_status plb_phase_plan(plb_phase *phase, const plb_model *model, const char *whole,
                          const char *last, const plb_plan_options *options) {
    if (plb_phase_whole(phase)) PLB_TRY(make_plan(&phase->whole, model, whole, options));
    if (plb_phase_last(phase)) PLB_TRY(make_plan(&phase->last, model, last, options));
    return PLB_OK;
}

plb_status plb_phase_step(plb_phase *phase, int64_t number, int64_t *out_size, double *out_loss,
                          double *out_correct) {
    bool is_last = plb_phase_last(phase) && number == phase->batches - 1;
    plb_batch_plan *b = is_last ? &phase->last : &phase->whole;
    plb_batch batch;
    PLB_TRY(plb_loader_next_into(phase->loader, b->x, b->y, &batch));
    if (batch.number != number) {
        return plb_fail(PLB_EBROKEN, "loader: expected batch %lld, found %lld", (long long)number,
                        (long long)batch.number);
    }
    PLB_TRY(plb_plan_run(b->plan));
    PLB_TRY(plb_plan_scalar(b->plan, "loss", out_loss));
    PLB_TRY(plb_plan_scalar(b->plan, "correct", out_correct));
    *out_size = batch.size;
    return PLB_OK;
}

void plb_phase_free(plb_phase *phase) {
    plb_plan_free(phase->whole.plan);
    plb_plan_free(phase->last.plan);
    plb_loader_free(phase->loader);
    *phase = (plb_phase){0};
}
