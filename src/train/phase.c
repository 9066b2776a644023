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
    static const char *const results[] = {"loss", "correct"};
    plb_tensor x, y;
    PLB_TRY(plb_plan_new(plb_model_find_program(model, program), options, &b->plan));
    PLB_TRY(plb_slots_new(b->plan, PLB_SLOTS, results, 2, &b->slots));
    for (int i = 0; i < (b->slots ? PLB_SLOTS : 1); i++) {
        PLB_TRY(b->slots ? plb_slots_input(b->slots, i, "x", &x)
                         : plb_plan_input(b->plan, "x", &x));
        PLB_TRY(b->slots ? plb_slots_input(b->slots, i, "y", &y)
                         : plb_plan_input(b->plan, "y", &y));
        b->x[i] = x.data, b->y[i] = y.data;
    }
    return PLB_OK;
}

plb_status plb_phase_plan(plb_phase *phase, const plb_model *model, const char *whole,
                          const char *last, const plb_plan_options *options) {
    if (plb_phase_whole(phase)) PLB_TRY(make_plan(&phase->whole, model, whole, options));
    if (plb_phase_last(phase)) PLB_TRY(make_plan(&phase->last, model, last, options));
    return PLB_OK;
}

plb_status plb_phase_finish(plb_phase *phase, plb_phase_result *out) {
    double result[2];
    *out = (plb_phase_result){0};
    if (!phase->pending) return PLB_OK;
    plb_batch_plan *b = phase->pending;
    phase->pending = NULL;
    PLB_TRY(plb_slots_wait(b->slots, phase->pending_slot, result));
    *out = (plb_phase_result){phase->pending_size, result[0], result[1]};
    return PLB_OK;
}

static plb_status run_now(plb_batch_plan *b, int64_t size, plb_phase_result *out) {
    PLB_TRY(plb_plan_run(b->plan));
    PLB_TRY(plb_plan_scalar(b->plan, "loss", &out->loss));
    PLB_TRY(plb_plan_scalar(b->plan, "correct", &out->correct));
    out->size = size;
    return PLB_OK;
}

plb_status plb_phase_step(plb_phase *phase, int64_t number, plb_phase_result *out) {
    bool is_last = plb_phase_last(phase) && number == phase->batches - 1;
    plb_batch_plan *b = is_last ? &phase->last : &phase->whole;
    int slot = b->slots ? (int)(number % PLB_SLOTS) : 0;
    plb_batch batch;
    *out = (plb_phase_result){0};
    if (phase->pending == b && phase->pending_slot == slot) slot = 1 - slot;
    PLB_TRY(plb_loader_next_into(phase->loader, b->x[slot], b->y[slot], &batch));
    if (batch.number != number) {
        return plb_fail(PLB_EBROKEN, "loader: expected batch %lld, found %lld", (long long)number,
                        (long long)batch.number);
    }
    if (!b->slots) return run_now(b, batch.size, out);
    PLB_TRY(plb_slots_launch(b->slots, slot));
    PLB_TRY(plb_phase_finish(phase, out));
    phase->pending = b, phase->pending_slot = slot, phase->pending_size = batch.size;
    return PLB_OK;
}

void plb_phase_free(plb_phase *phase) {
    plb_slots_free(phase->whole.slots);
    plb_slots_free(phase->last.slots);
    plb_plan_free(phase->whole.plan);
    plb_plan_free(phase->last.plan);
    plb_loader_free(phase->loader);
    *phase = (plb_phase){0};
}
