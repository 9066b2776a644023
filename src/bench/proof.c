// SPDX-License-Identifier: Apache-2.0
#include "bench/proof.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/core/utf8.h"
#include "io/safetensors.h"

void plb_proof_fail(plb_proof *proof, const char *format, ...) {
    if (proof->reason[0]) return;
    va_list args;
    va_start(args, format);
    vsnprintf(proof->reason, sizeof proof->reason, format, args);
    va_end(args);
    plb_utf8_make_line(proof->reason);
    proof->done = true, proof->equal = false;
}

// ---------------------------------------------------------------------------- one comparison
static void copy_name(char *to, size_t size, const char *name) {
    snprintf(to, size, "%s", name);
    plb_utf8_make_line(to); // it may be cut
}

static void keep_worst(plb_proof_worst *w, const char *name, double error, double limit) {
    if (w->limit > 0 && error / limit <= w->error / w->limit) return;
    w->error = error, w->limit = limit;
    copy_name(w->name, sizeof w->name, name);
}

// `over`: more than 1 where it is too much. Returns whether it is not.
static bool note_over(plb_proof *p, const char *name, double over) {
    p->done = true;
    if (over > p->worst) {
        p->worst = over;
        copy_name(p->worst_name, sizeof p->worst_name, name);
    }
    if (over <= 1) return true;
    if (!p->first_name[0]) copy_name(p->first_name, sizeof p->first_name, name);
    return false;
}

static void note(plb_proof *p, plb_proof_worst *worst, const char *name, double error,
                 double limit) {
    keep_worst(worst, name, error, limit);
    if (error > p->max_rel_error) p->max_rel_error = error;
    if (note_over(p, name, error / limit)) return;
    if (isfinite(error)) {
        plb_proof_fail(p, "%s differs from the reference by %.3g, allowed are %.3g", name, error,
                       limit);
    } else {
        plb_proof_fail(p, "%s is not finite where the reference is, or finite where it is not",
                       name);
    }
}

// `times`: how often the reference is as large.
static void note_size(plb_proof *p, const char *name, double times, double limit) {
    keep_worst(&p->size, name, times, limit);
    if (note_over(p, name, (times - 1) / (limit - 1))) return;
    plb_proof_fail(p, "%s is too small: the reference is %.3g times as large, allowed are %.3g",
                   name, times, limit);
}

// ---------------------------------------------------------------------------- inference
// One output of a batch in a slot: `count` elements a row, `first` of the reference's rows.
typedef struct found_output {
    const plb_tensor *tensor;
    plb_dtype dtype; // that it should have
    int64_t first, count;
    int slot, arrangement;
    const char *name;
} found_output;

static bool has_shape(const plb_load *load, const found_output *f) {
    const plb_shape *s = &f->tensor->shape;
    bool rows = load->facts->file[0] || (s->rank > 0 && s->dim[0] == load->batches->batch);
    return rows && plb_shape_count(s) == load->batches->batch * f->count;
}

static double limit_of(const plb_load *load, const plb_reference *r, const found_output *f,
                       double size) {
    const int depth = load->facts->depth;
    double limit = plb_tolerance(load->c, PLB_RESULT_OUTPUT, depth);
    if (!load->facts->file[0])
        return plb_tolerance_rounded(load->c, PLB_RESULT_OUTPUT, limit, r->output_moved / size);
    if (f->dtype == PLB_F16 || f->dtype == PLB_BF16) { // so much of it the file itself lets fall
        plb_case half = *load->c;
        snprintf(half.dtype, sizeof half.dtype, "%s", plb_dtype_name(f->dtype));
        snprintf(half.autocast, sizeof half.autocast, "none");
        limit = fmax(limit, plb_tolerance(&half, PLB_RESULT_OUTPUT, depth));
    }
    return 3 * limit; // saturating gates and the like amplify rounding more than layers do
}

// Row by row: the reference knows rows, not batches.
static void compare_output(const plb_load *load, const plb_reference *r, const found_output *f,
                           plb_proof *p) {
    const plb_batches *b = load->batches;
    const plb_tensor *found = f->tensor;
    if (!has_shape(load, f)) {
        char shape[160];
        plb_proof_fail(p, "%s: expected %lld rows of %lld, found %s", f->name, (long long)b->batch,
                       (long long)f->count, plb_shape_format(&found->shape, shape, sizeof shape));
        return;
    }
    double most = 0, size = 0;
    int64_t rows = 0;
    for (int64_t row = 0; row < b->batch; row++) {
        int64_t source = plb_batches_row(b, f->slot, f->arrangement, row);
        const double *known = plb_reference_row(r, b->batch, source);
        if (!known) continue;
        rows++;
        for (int64_t k = 0; k < f->count; k++) {
            double right = known[f->first + k];
            double value = plb_load_f64(found->data, found->dtype, row * f->count + k);
            if (!isfinite(right) && plb_result_same_special(right, value)) continue;
            most = isfinite(value - right) ? fmax(most, fabs(value - right)) : HUGE_VAL;
            if (!isfinite(most)) break;
            size = fmax(size, fabs(right));
        }
        if (!isfinite(most)) break;
    }
    if (rows < b->batch) p->rows = rows;
    // A file's output may be one probability near 0, which gates round as they round 1.
    const double least = load->facts->file[0] ? 1e-2 : 1e-30;
    if (!rows) return;
    size = fmax(size, least);
    note(p, &p->kind[PLB_RESULT_OUTPUT], f->name, most / size, limit_of(load, r, f, size));
    p->compared[PLB_RESULT_OUTPUT]++;
}

// All outputs of a batch, in the order of the facts.
static void compare_outputs(const plb_load *load, const plb_reference *r, const plb_tensor *found,
                            int slot, int arrangement, const char *what, plb_proof *p) {
    int64_t first = 0;
    for (int k = 0; k < load->facts->n_outputs; k++) {
        char name[400];
        snprintf(name, sizeof name, "%s%s%s", load->facts->output[k].name,
                 load->facts->file[0] ? ", " : "", what);
        const found_output one = {.tensor = &found[k],
                                  .dtype = load->facts->output[k].dtype,
                                  .first = first,
                                  .count = load->facts->output[k].count,
                                  .slot = slot,
                                  .arrangement = arrangement,
                                  .name = name};
        compare_output(load, r, &one, p);
        first += one.count;
    }
}

static plb_status prove(plb_client *client, const plb_load *load, int n, json_t **answer) {
    json_t *list = n == 1 ? json_pack("[i]", 0) : json_pack("[i,i]", 0, 1);
    return plb_client_ask(client, json_pack("{s:s,s:o}", "type", "prove", "batches", list),
                          load->limit_s, "proof", answer);
}

static const json_t *find(const json_t *tensors, const char *name, int64_t batch) {
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *entry = json_array_get(tensors, i);
        const char *found = json_string_value(json_object_get(entry, "name"));
        if (found && strcmp(found, name) == 0 &&
            json_integer_value(json_object_get(entry, "batch")) == batch) {
            return entry;
        }
    }
    return NULL;
}

static plb_status prove_infer(plb_client *client, const plb_load *load, const plb_reference *r,
                              const json_t *tensors, plb_proof *p) {
    plb_tensor found[PLB_FACTS_MAX_OUTPUTS];
    for (int batch = 0; batch < 2; batch++) {
        char title[64];
        for (int k = 0; k < load->facts->n_outputs; k++) {
            const json_t *entry = find(tensors, plb_facts_output_name(load->facts, k).text, batch);
            if (!entry) {
                plb_proof_fail(p, "expected outputs of two batches, found none of batch %d", batch);
                return PLB_OK;
            }
            PLB_TRY(plb_client_tensor(client, entry, &found[k]));
        }
        snprintf(title, sizeof title, "output of batch %d", batch);
        compare_outputs(load, r, found, batch, 0, title, p);
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- training
static double rms(const double *value, const float *base, int64_t n) {
    return plb_result_size(PLB_RESULT_WEIGHT, value, base, n);
}

// Gradients that are zero but for rounding (biases before a normalisation) are measured against
// this share of the model's largest.
static const double small_gradient = 1e-3;

static double largest_gradient(const plb_reference *r) {
    double most = 0;
    for (int i = 0; i < r->count; i++) {
        const plb_reference_entry *e = &r->entry[i];
        if (plb_result_kind_of(e->name) != PLB_RESULT_GRADIENT) continue;
        most = fmax(most, rms(e->value, NULL, plb_shape_count(&e->shape)));
    }
    return most;
}

static bool has_statistics(const plb_reference *r) {
    for (int i = 0; i < r->count; i++) {
        if (plb_result_kind_of(r->entry[i].name) == PLB_RESULT_BUFFER) return true;
    }
    return false;
}

typedef struct judge {
    plb_client *client;
    const plb_load *load;
    const plb_reference *reference;
    const plb_safetensors *weights;
    double largest_gradient;
    bool normalises; // has running statistics
    plb_proof *proof;
} judge;

static const float *file_weight(const judge *j, const char *name, int64_t n) {
    const plb_named_tensor *t = plb_safetensors_find(j->weights, name);
    if (!t || t->tensor.dtype != PLB_F32 || plb_shape_count(&t->tensor.shape) != n) return NULL;
    return t->tensor.data;
}

// A mean is known to the rounding of what it is the mean of, and may itself be zero: it is measured
// against a tenth of the deviation at least. 0 for anything else.
static double mean_floor(const plb_reference *r, const char *name) {
    static const char mean[] = ".running_mean", variance[] = ".running_var";
    const size_t n = strlen(name), stem = n < strlen(mean) ? 0 : n - strlen(mean);
    if (!stem || strcmp(name + stem, mean) != 0) return 0;
    for (int i = 0; i < r->count; i++) {
        const plb_reference_entry *e = &r->entry[i];
        if (strncmp(e->name, name, stem) != 0 || strcmp(e->name + stem, variance) != 0) continue;
        double sum = 0;
        int64_t count = plb_shape_count(&e->shape);
        for (int64_t k = 0; k < count; k++) sum += e->value[k];
        return count ? 0.1 * sqrt(fmax(sum / (double)count, 0)) : 0;
    }
    return 0;
}

// The least that the reference's size is taken for: what is smaller is rounding.
static double floor_of(const judge *j, const plb_reference_entry *e, double share) {
    switch (plb_result_kind_of(e->name)) {
    case PLB_RESULT_BUFFER: return mean_floor(j->reference, e->name);
    case PLB_RESULT_GRADIENT: return share * j->largest_gradient;
    case PLB_RESULT_WEIGHT: return share * j->reference->rate * j->largest_gradient;
    default: return 0;
    }
}

// Where numbers are coarse, gradients are right in size though hardly in direction, as activations
// near a kink pass their gradient or do not. One that is missing has no size.
static void judge_size(const judge *j, const plb_reference_entry *e, const plb_tensor *found,
                       const float *base, double known) {
    const double limit = plb_tolerance_size(j->load->c);
    const int64_t n = plb_shape_count(&e->shape);
    double squares = 0, floor = fmax(known, floor_of(j, e, small_gradient));
    if (!isfinite(limit) || n == 0 || floor <= 0) return;
    for (int64_t i = 0; i < n; i++) {
        double value = plb_load_f64(found->data, found->dtype, i) - (base ? (double)base[i] : 0);
        squares += value * value;
    }
    note_size(j->proof, e->name,
              hypot(rms(e->value, base, n), floor) / hypot(sqrt(squares / (double)n), floor),
              limit);
}

// What is allowed of a tensor of that size; `known`: to what a change can be known.
static double limit_of_tensor(const judge *j, const plb_reference_entry *e, double size,
                              double known) {
    const double few = 4; // dividing by the deviation of a batch's few values amplifies rounding
    const plb_result_kind kind = plb_result_kind_of(e->name);
    double limit = plb_tolerance(j->load->c, kind, j->load->facts->depth);
    if (kind == PLB_RESULT_OUTPUT && j->normalises) limit *= few;
    if (kind != PLB_RESULT_LOSS) // one number may hardly move by chance
        limit = plb_tolerance_rounded(j->load->c, kind, limit, e->moved / size);
    return limit + known / size;
}

static void judge_tensor(const judge *j, const plb_reference_entry *e, const plb_tensor *found) {
    plb_result_kind kind = plb_result_kind_of(e->name);
    int64_t n = plb_shape_count(&e->shape);
    double floor = floor_of(j, e, fmax(small_gradient, 2 * plb_tolerance_epsilon(j->load->c)));
    double known = 0;
    const float *base = NULL;
    // A change is known to the rounding of the weight that it is added to.
    if (kind == PLB_RESULT_WEIGHT && (base = file_weight(j, e->name + strlen("weight."), n)))
        known = 2 * plb_dtype_epsilon(PLB_F32) * rms(e->value, NULL, n);
    double size = fmax(fmax(plb_result_size(kind, e->value, base, n), floor), 1e-30);
    double error = plb_result_error(kind, e->value, found, base, floor);
    double limit = limit_of_tensor(j, e, size, known);
    j->proof->compared[kind]++;
    char name[80];
    snprintf(name, sizeof name, "%s of step %d", e->name, (int)e->batch + 1);
    bool of_step = kind == PLB_RESULT_LOSS || kind == PLB_RESULT_OUTPUT;
    bool later = of_step && e->batch > 0;
    plb_proof_worst *worst = !later                      ? &j->proof->kind[kind]
                             : kind == PLB_RESULT_OUTPUT ? &j->proof->later_output
                                                         : &j->proof->later_loss;
    note(j->proof, worst, of_step ? name : e->name, error, limit);
    if (kind == PLB_RESULT_GRADIENT || kind == PLB_RESULT_WEIGHT)
        judge_size(j, e, found, base, known);
}

static plb_status judge_entry(const judge *j, const plb_reference_entry *e, const json_t *tensors) {
    char expected[160], shape[160];
    const json_t *entry = find(tensors, e->name, e->batch);
    plb_tensor found;
    if (!entry) {
        plb_proof_fail(j->proof, "%s: the stack gives none", e->name);
        return PLB_OK;
    }
    PLB_TRY(plb_client_tensor(j->client, entry, &found));
    if (plb_shape_count(&found.shape) != plb_shape_count(&e->shape)) {
        plb_proof_fail(j->proof, "%s: expected %s, found %s", e->name,
                       plb_shape_format(&e->shape, expected, sizeof expected),
                       plb_shape_format(&found.shape, shape, sizeof shape));
        return PLB_OK;
    }
    judge_tensor(j, e, &found);
    return PLB_OK;
}

// How far the optimizer went along the first gradient, in steps of the rate: with momentum
// 1 + m + g2·g1/g1². A stack is measured along its own gradient, so that what rounding did to that
// one hardly shows: this sees a rate or a momentum that is off by a hundredth.
typedef struct along {
    double change, gradient; // sums of (weight - file's weight) · gradient, and of gradient²
} along;

static void add_along(along *to, const plb_tensor *weight, const float *base,
                      const plb_tensor *gradient) {
    int64_t n = plb_shape_count(&weight->shape);
    for (int64_t i = 0; i < n; i++) {
        double g = plb_load_f64(gradient->data, gradient->dtype, i);
        to->change += (plb_load_f64(weight->data, weight->dtype, i) - (double)base[i]) * g;
        to->gradient += g * g;
    }
}

static const plb_reference_entry *reference_gradient(const plb_reference *r, const char *name) {
    for (int i = 0; i < r->count; i++) {
        const plb_reference_entry *e = &r->entry[i];
        if (plb_result_kind_of(e->name) != PLB_RESULT_GRADIENT) continue;
        if (strcmp(e->name + strlen("grad."), name) == 0) return e;
    }
    return NULL;
}

static plb_tensor tensor_of(const plb_reference_entry *e) {
    return plb_tensor_dense((void *)e->value, PLB_F64, &e->shape, (plb_layout){0});
}

static plb_status add_step_of(const judge *j, const plb_reference_entry *e, const json_t *tensors,
                              along *right, along *found) {
    const int64_t n = plb_shape_count(&e->shape);
    const plb_reference_entry *g = reference_gradient(j->reference, e->name + strlen("weight."));
    const json_t *weight = find(tensors, e->name, e->batch);
    const float *base = file_weight(j, e->name + strlen("weight."), n);
    if (!g || !weight || !base || plb_shape_count(&g->shape) != n) return PLB_OK;
    const json_t *gradient = find(tensors, g->name, g->batch);
    const plb_tensor right_weight = tensor_of(e), right_gradient = tensor_of(g);
    plb_tensor w, own = right_gradient; // of a stack that hands out none
    PLB_TRY(plb_client_tensor(j->client, weight, &w));
    if (gradient) PLB_TRY(plb_client_tensor(j->client, gradient, &own));
    if (plb_shape_count(&w.shape) != n || plb_shape_count(&own.shape) != n) return PLB_OK;
    add_along(right, &right_weight, base, &right_gradient);
    add_along(found, &w, base, &own);
    return PLB_OK;
}

// Numbers of 16 bits move by less than their own distance.
static bool knows_steps(const plb_case *c) {
    return plb_tolerance_epsilon(c) <= plb_dtype_epsilon(PLB_F32);
}

static plb_status judge_step(const judge *j, const json_t *tensors) {
    const double limit = 0.01;
    along right = {0}, found = {0};
    if (!knows_steps(j->load->c)) return PLB_OK;
    for (int i = 0; i < j->reference->count; i++) {
        const plb_reference_entry *e = &j->reference->entry[i];
        if (plb_result_kind_of(e->name) != PLB_RESULT_WEIGHT) continue;
        PLB_TRY(add_step_of(j, e, tensors, &right, &found));
    }
    if (!(right.gradient > 0)) return PLB_OK;
    double expected = -right.change / right.gradient / j->reference->rate;
    double length = -found.change / found.gradient / j->reference->rate;
    double error = fabs(length - expected) / fmax(fabs(expected), 1);
    note(j->proof, &j->proof->step, "length of two steps along the gradient",
         isfinite(error) ? error : HUGE_VAL, limit);
    return PLB_OK;
}

static plb_status prove_train(plb_client *client, const plb_load *load, const plb_reference *r,
                              const json_t *tensors, plb_proof *p) {
    plb_safetensors *weights = NULL;
    const json_t *capabilities = json_object_get(client->hello, "capabilities");
    bool no_gradients = json_is_false(json_object_get(capabilities, "gradients"));
    PLB_TRY(plb_safetensors_open(load->weights, &weights));
    const judge j = {client, load, r, weights, largest_gradient(r), has_statistics(r), p};
    plb_status status = PLB_OK;
    for (int i = 0; i < r->count && !status; i++) {
        plb_result_kind kind = plb_result_kind_of(r->entry[i].name);
        if (kind == PLB_RESULT_GRADIENT && no_gradients) continue;
        status = judge_entry(&j, &r->entry[i], tensors);
    }
    if (!status) status = judge_step(&j, tensors);
    plb_safetensors_free(weights);
    return status;
}

plb_status plb_proof_run(plb_client *client, const plb_load *load, const plb_reference *r,
                         plb_proof *p) {
    json_t *answer = NULL;
    PLB_TRY(prove(client, load, 2, &answer));
    const json_t *tensors = json_object_get(answer, "tensors");
    plb_status status = load->facts->training ? prove_train(client, load, r, tensors, p)
                                              : prove_infer(client, load, r, tensors, p);
    json_decref(answer);
    p->done = true;
    p->equal = !p->reason[0];
    return status;
}

// ---------------------------------------------------------------------------- dropout
static plb_status first_loss(plb_client *client, const plb_load *load, double *out) {
    json_t *answer = NULL;
    plb_tensor loss;
    PLB_TRY(prove(client, load, 1, &answer));
    const json_t *entry = find(json_object_get(answer, "tensors"), "loss", 0);
    plb_status status = entry ? plb_client_loss(client, entry, &loss) : PLB_OK;
    *out = NAN;
    if (!status && entry) *out = plb_load_f64(loss.data, loss.dtype, 0);
    json_decref(answer);
    return status;
}

plb_status plb_proof_randomness(plb_client *client, const plb_load *load, plb_proof *p) {
    double a = 0, b = 0;
    PLB_TRY(first_loss(client, load, &a));
    PLB_TRY(first_loss(client, load, &b));
    p->random = isfinite(a) && isfinite(b) && a != b;
    if (!p->random) {
        plb_proof_fail(p,
                       "dropout: two first steps have the losses %.9g and %.9g; expected other "
                       "random numbers, is this training mode?",
                       a, b);
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- while timed
static void check_loss(const plb_load *load, const plb_reference *r, const plb_block *block,
                       int arrangement, int64_t step, bool exact, plb_proof *p) {
    const double loose = 0.5, growth = 4; // a later step inherits the differences of all before it
    double loss = plb_load_f64(block->loss.data, block->loss.dtype, 0), right;
    if (!isfinite(loss)) {
        plb_proof_fail(p, "loss of a timed iteration is not finite");
        return;
    }
    if (!exact || step >= PLB_REFERENCE_STEPS) return;
    if (step == 0) {
        right = r->first_loss[plb_batches_source(load->batches, block->checked_slot, arrangement)];
    } else {
        right = r->sequence_loss[step];
    }
    double error = fabs(loss - right) / fmax(fabs(right), 1e-3);
    p->timed_checks++;
    if (load->dropout && load->facts->dropout) { // the reference draws nothing
        if (error <= loose + 1 / fmax(fabs(right), 1e-3)) return;
        plb_proof_fail(p, "loss of a timed iteration is %.4g, without dropout it is %.4g", loss,
                       right);
        return;
    }
    double limit =
        plb_tolerance(load->c, PLB_RESULT_LOSS, load->facts->depth) * (1 + growth * (double)step);
    note(p, step ? &p->later_loss : &p->kind[PLB_RESULT_LOSS], "loss of a timed iteration", error,
         limit);
}

void plb_proof_check_block(const plb_load *load, const plb_reference *r, const plb_block *block,
                           int arrangement, int64_t step, bool exact, plb_proof *p) {
    bool training = load->facts->training;
    if (block->checked_slot < 0 || block->checked_slot >= load->batches->n_slots ||
        !(training ? block->has_loss : block->n_outputs == load->facts->n_outputs)) {
        plb_proof_fail(p, "a checked iteration gave no %s", training ? "loss" : "output");
    } else if (training) {
        check_loss(load, r, block, arrangement, step, exact, p);
    } else if (exact) {
        p->timed_checks++;
        compare_outputs(load, r, block->output, block->checked_slot, arrangement,
                        "output of a timed iteration", p);
    }
    if (p->reason[0]) p->equal = false;
}

static plb_status check_moved(const judge *j, const json_t *tensors, const plb_reference_entry *e) {
    int64_t n = plb_shape_count(&e->shape);
    const char *name = e->name + strlen("weight.");
    const float *base = file_weight(j, name, n);
    const json_t *entry = NULL;
    plb_tensor found;
    if (!base) return PLB_OK;
    // The reference moved it by more than rounding.
    const double least = knows_steps(j->load->c) ? 1e-6 : plb_tolerance_epsilon(j->load->c);
    if (rms(e->value, base, n) < least * rms(e->value, NULL, n) + 1e-12) return PLB_OK;
    for (size_t i = 0; i < json_array_size(tensors) && !entry; i++) {
        const json_t *t = json_array_get(tensors, i);
        const char *title = json_string_value(json_object_get(t, "name"));
        if (title && strcmp(title, e->name) == 0) entry = t;
    }
    if (!entry) {
        plb_proof_fail(j->proof, "state: no %s", e->name);
        return PLB_OK;
    }
    PLB_TRY(plb_client_tensor(j->client, entry, &found));
    if (plb_shape_count(&found.shape) != n) {
        plb_proof_fail(j->proof, "state: %s has another shape", e->name);
        return PLB_OK;
    }
    bool moved = false;
    for (int64_t i = 0; i < n && !moved; i++) {
        moved = plb_load_f64(found.data, found.dtype, i) != (double)base[i];
    }
    if (!moved) plb_proof_fail(j->proof, "%s did not change in the timed iterations", name);
    return PLB_OK;
}

plb_status plb_proof_moved(plb_client *client, const plb_load *load, const plb_reference *r,
                           plb_proof *p) {
    json_t *answer = NULL;
    plb_safetensors *weights = NULL;
    plb_status status;
    PLB_TRY(plb_client_ask(client, json_pack("{s:s}", "type", "state"), load->limit_s, "proof",
                           &answer));
    PLB_TRY_OUT(plb_safetensors_open(load->weights, &weights));
    const judge j = {.client = client, .load = load, .weights = weights, .proof = p};
    for (int i = 0; i < r->count; i++) {
        if (plb_result_kind_of(r->entry[i].name) != PLB_RESULT_WEIGHT) continue;
        PLB_TRY_OUT(check_moved(&j, json_object_get(answer, "tensors"), &r->entry[i]));
    }
out:
    plb_safetensors_free(weights);
    json_decref(answer);
    return status;
}

// ---------------------------------------------------------------------------- telling
static void add_worst(json_t *list, const char *kind, const plb_proof_worst *w) {
    if (!(w->limit > 0)) return;
    json_array_append_new(list,
                          json_pack("{s:s,s:s,s:o,s:f}", "kind", kind, "name", w->name, "error",
                                    isfinite(w->error) ? json_real(w->error) : json_null(),
                                    "allowed", w->limit));
}

// The worst of each kind with what was allowed.
static json_t *worst_list(const plb_proof *p) {
    json_t *list = json_array();
    for (int i = 0; i < PLB_RESULT_KINDS; i++) {
        add_worst(list, plb_result_kind_name(i), &p->kind[i]);
        if (i == PLB_RESULT_OUTPUT) add_worst(list, "later output", &p->later_output);
        if (i == PLB_RESULT_LOSS) add_worst(list, "later loss", &p->later_loss);
    }
    add_worst(list, "size", &p->size);
    add_worst(list, "step", &p->step);
    return list;
}

json_t *plb_proof_json(const plb_proof *p) {
    json_t *checked = json_array();
    for (int i = 0; i < PLB_RESULT_KINDS; i++) {
        if (p->compared[i]) json_array_append_new(checked, json_string(plb_result_kind_name(i)));
    }
    if (p->random) json_array_append_new(checked, json_string("dropout"));
    if (p->timed_checks) json_array_append_new(checked, json_string("timed iterations"));
    json_t *out = json_pack("{s:b,s:o}", "equal", p->equal, "checked", checked);
    if (!out) return NULL;
    bool finite = isfinite(p->max_rel_error) && p->done;
    json_object_set_new(out, "max_rel_error", finite ? json_real(p->max_rel_error) : json_null());
    json_object_set_new(out, "worst", json_string(p->worst_name));
    json_object_set_new(out, "worst_over_tolerance",
                        isfinite(p->worst) ? json_real(p->worst) : json_null());
    json_object_set_new(out, "by_kind", worst_list(p));
    json_object_set_new(out, "first_different",
                        p->first_name[0] ? json_string(p->first_name) : json_null());
    json_object_set_new(out, "first_layer",
                        p->first_layer[0] ? json_string(p->first_layer) : json_null());
    json_object_set_new(out, "reason", p->reason[0] ? json_string(p->reason) : json_null());
    json_object_set_new(out, "timed_checks", json_integer(p->timed_checks));
    json_object_set_new(out, "rows", p->rows ? json_integer(p->rows) : json_null());
    return out;
}
