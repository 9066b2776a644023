// SPDX-License-Identifier: Apache-2.0
// One training: the same first weights, samples, order and augmentation for every stack, batch by
// batch through shared memory. The worker times its step alone; taking a batch over, and filling
// the memory here, happens between steps and is told as `handover`.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "data/loader.h"
#include "study/work.h"

enum { BATCH_LIMIT_S = 600, MAX_STEPS = 2000 };

typedef struct training {
    plb_study *s;
    plb_study_item *item;
    plb_facts facts;
    plb_study_inputs in;
    plb_loader *train, *test;
    bool grey;         // samples have one channel, the model takes three: it is repeated
    double *step_loss; // of the first epoch's steps
    size_t steps;
    bool keep_steps;
} training;

typedef struct pass {
    double loss, correct, rows;
    int64_t ns, wall_ns;
} pass;

static int64_t least(int64_t a, int64_t b) {
    return b && b < a ? b : a;
}

static plb_status make_loaders(training *t) {
    const plb_study_part *p = t->item->part;
    // Beside a card a thread fills ahead; beside a processor it would take time of the one timed.
    int ahead = strncmp(t->item->device, "cuda", 4) ? 0 : 1;
    plb_loader_options options = {.batch = t->item->batch,
                                  .threads = ahead,
                                  .limit = p->train_samples,
                                  .shuffle = true,
                                  .drop_last = true,
                                  .flip = p->flip,
                                  .crop_padding = p->crop,
                                  .seed = (uint64_t)t->item->seed};
    PLB_TRY(plb_loader_new(t->s->sets[PLB_TRAIN], &options, &t->train));
    plb_loader_options plain = {
        .batch = t->item->batch, .threads = ahead, .limit = p->test_samples};
    return plb_loader_new(t->s->sets[PLB_TEST], &plain, &t->test);
}

static plb_status check_channels(training *t) {
    int64_t wanted = t->facts.input[0].shape.dim[1], there = t->s->sets[0]->info.channels;
    t->grey = wanted == 3 && there == 1;
    if (t->grey || wanted == there) return PLB_OK;
    return plb_failure_set(&t->s->client.failure, PLB_OUTCOME_REFUSED,
                           "%s takes %" PRId64 " channels, %s has %" PRId64, t->item->model, wanted,
                           t->item->part->data, there);
}

static plb_status make_room(training *t) {
    plb_study_inputs *in = &t->in;
    const plb_shape *x = &t->facts.input[0].shape;
    in->x_bytes = (size_t)plb_shape_count(x) * sizeof(float);
    in->y_bytes = (size_t)t->facts.batch * sizeof(int64_t);
    in->x_offset[1] = plb_study_padded(in->x_bytes);
    in->y_offset[0] = 2 * plb_study_padded(in->x_bytes);
    in->y_offset[1] = in->y_offset[0] + plb_study_padded(in->y_bytes);
    t->step_loss = plb_alloc_array(MAX_STEPS, sizeof *t->step_loss);
    if (!t->step_loss) return plb_fail(PLB_ENOMEM, "out of memory for a training");
    return plb_segment_reserve(&t->s->client.in, in->y_offset[1] + plb_study_padded(in->y_bytes));
}

// Writes a batch to the first place. Rows past its end keep what they had.
static void place_batch(training *t, const plb_batch *batch) {
    uint8_t *base = t->s->client.in.bytes;
    float *x = (float *)(void *)(base + t->in.x_offset[0]);
    size_t row = t->in.x_bytes / sizeof(float) / (size_t)t->facts.batch;
    memcpy(base + t->in.y_offset[0], batch->y, (size_t)batch->size * sizeof(int64_t));
    if (!t->grey) {
        memcpy(x, batch->x, (size_t)batch->size * row * sizeof(float));
        return;
    }
    size_t plane = row / 3;
    for (size_t i = 0; i < (size_t)batch->size; i++)
        for (size_t c = 0; c < 3; c++)
            memcpy(x + i * row + c * plane, batch->x + i * plane, plane * sizeof(float));
}

// What is no finite number is told as null: a training that diverged has no loss, not one of 0.
static double number_of(const json_t *answer, const char *key) {
    const json_t *value = json_object_get(answer, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static plb_status stream_batch(training *t, const plb_batch *batch, bool train, pass *sum) {
    json_t *answer = NULL;
    place_batch(t, batch);
    json_t *request =
        json_pack("{s:s,s:i,s:I}", "type", "batch", "slot", 0, "rows", (json_int_t)batch->size);
    PLB_TRY(plb_client_ask(&t->s->client, request, BATCH_LIMIT_S, "done", &answer));
    double loss = number_of(answer, "loss");
    sum->ns += json_integer_value(json_object_get(answer, "ns"));
    sum->correct += number_of(answer, "correct");
    sum->loss += loss;
    sum->rows += (double)batch->size;
    json_decref(answer);
    if (train && t->keep_steps && t->steps < MAX_STEPS)
        t->step_loss[t->steps++] = loss / (double)batch->size;
    return PLB_OK;
}

// `profile`: have the operators recorded; *out_end is then epoch_end's answer.
static plb_status stream_epoch(training *t, bool train, bool profile, pass *out, json_t **out_end) {
    plb_loader *loader = train ? t->train : t->test;
    int64_t batches = plb_loader_batches(loader), begin_ns = plb_now_ns();
    json_t *request = json_pack("{s:s,s:b,s:I,s:b}", "type", "epoch", "train", train, "count",
                                (json_int_t)batches, "profile", profile);
    *out = (pass){0};
    PLB_TRY(plb_client_ask(&t->s->client, request, BATCH_LIMIT_S, "ok", NULL));
    for (int64_t i = 0; i < batches; i++) {
        plb_batch batch;
        PLB_TRY(plb_loader_next(loader, &batch));
        PLB_TRY(stream_batch(t, &batch, train, out));
    }
    out->wall_ns = plb_now_ns() - begin_ns;
    return plb_client_ask(&t->s->client, json_pack("{s:s}", "type", "epoch_end"), BATCH_LIMIT_S,
                          "ok", out_end);
}

static double mean_of(double sum, const pass *of) {
    return of->rows > 0 ? sum / of->rows : NAN;
}

static void write_epoch(plb_json *results, const pass *train, const pass *test) {
    plb_json_begin_object(results, NULL);
    plb_json_double(results, "train_loss", train ? mean_of(train->loss, train) : NAN);
    plb_json_double(results, "train_accuracy", train ? mean_of(train->correct, train) : NAN);
    plb_json_double(results, "test_loss", mean_of(test->loss, test));
    plb_json_double(results, "test_accuracy", mean_of(test->correct, test));
    plb_json_double(results, "train_s", train ? (double)train->ns / 1e9 : NAN);
    plb_json_double(results, "test_s", (double)test->ns / 1e9);
    plb_json_double(results, "handover_s",
                    train ? (double)(train->wall_ns - train->ns) / 1e9 : NAN);
    plb_json_end(results);
}

// Epoch 0 is the evaluation before any step.
static plb_status write_epochs(training *t, plb_json *results) {
    int64_t epochs = t->item->part->epochs;
    pass train, test;
    PLB_TRY(stream_epoch(t, false, false, &test, NULL));
    write_epoch(results, NULL, &test);
    for (int64_t e = 1; e <= epochs; e++) {
        char text[64];
        snprintf(text, sizeof text, "epoch %" PRId64 " of %" PRId64, e, epochs);
        plb_study_tell(t->s, t->item, text);
        t->keep_steps = e == 1;
        PLB_TRY(stream_epoch(t, true, false, &train, NULL));
        PLB_TRY(stream_epoch(t, false, false, &test, NULL));
        write_epoch(results, &train, &test);
        t->item->epochs_done = e;
    }
    return PLB_OK;
}

// What is cut off leaves the epochs that it had.
static plb_status run_epochs(training *t, plb_json *results) {
    plb_json_begin_array(results, "epochs");
    plb_status status = write_epochs(t, results);
    plb_json_end(results);
    return status;
}

static void write_steps(const training *t, plb_json *results) {
    plb_json_begin_array(results, "steps");
    for (size_t i = 0; i < t->steps; i++) plb_json_double(results, NULL, t->step_loss[i]);
    plb_json_end(results);
}

// An epoch without the recorder, one with it, one without, after everything else: what recording
// costs, as far as others leave the machine alone.
static plb_status record_operators(training *t, plb_json *results) {
    const json_t *can =
        json_object_get(json_object_get(t->s->client.hello, "capabilities"), "operators");
    json_t *end = NULL;
    pass before, recorded, after;
    if (!t->item->part->operators || !json_is_true(can)) return PLB_OK;
    plb_study_tell(t->s, t->item, "recording operators");
    PLB_TRY(stream_epoch(t, true, false, &before, NULL));
    PLB_TRY(stream_epoch(t, true, true, &recorded, &end));
    json_t *table = json_object_get(end, "operators");
    char *text = table ? json_dumps(table, JSON_COMPACT) : NULL;
    plb_json_raw(results, "operators", text);
    free(text);
    json_decref(end);
    PLB_TRY(stream_epoch(t, true, false, &after, NULL));
    plb_json_double(results, "plain_s", (double)least(before.ns, after.ns) / 1e9);
    plb_json_double(results, "recorded_s", (double)recorded.ns / 1e9);
    return PLB_OK;
}

static plb_status train_loaded(training *t, plb_json *results) {
    plb_status status = run_epochs(t, results);
    write_steps(t, results);
    if (status) return status;
    PLB_TRY(plb_study_add_facts(t->s, results));
    return record_operators(t, results);
}

static plb_status load(training *t, plb_json *results) {
    plb_study *s = t->s;
    char weights[4096];
    json_t *answer = NULL;
    const plb_dataset_info *data = &s->sets[0]->info;
    PLB_TRY(plb_study_describe(s, t->item->model, "train", t->item->batch, data->height,
                               data->classes, &t->facts));
    PLB_TRY(check_channels(t));
    PLB_TRY(plb_study_weights(s, &t->facts, t->item->seed, weights, sizeof weights));
    PLB_TRY(make_loaders(t));
    PLB_TRY(make_room(t));
    plb_study_tell(s, t->item, "loading");
    PLB_TRY(plb_study_load(s, t->item, &t->facts, weights,
                           plb_study_describe_inputs(&t->facts, &t->in), &answer));
    plb_json_double(results, "load_s", (double)(s->client.answered_ns - s->client.asked_ns) / 1e9);
    json_decref(answer);
    return PLB_OK;
}

static void write_recipe(const training *t, plb_json *results) {
    const plb_study_part *p = t->item->part;
    const plb_dataset_info *data = &t->s->sets[0]->info;
    plb_json_string(results, "data_note", t->s->data_note);
    plb_json_string(results, "data_kind", data->kind);
    plb_json_int(results, "classes", data->classes);
    plb_json_int(results, "size", data->height);
    plb_json_int(results, "train_samples", least(data->count, p->train_samples));
    plb_json_int(results, "test_samples", least(t->s->sets[1]->info.count, p->test_samples));
    plb_json_int(results, "parameters", t->facts.parameters);
    plb_json_bool(results, "grey_repeated", t->grey);
}

// How often a test sample is of the most frequent class.
static plb_status write_majority(const training *t, plb_json *results) {
    double share = 0;
    PLB_TRY(plb_dataset_majority(t->s->sets[PLB_TEST], t->item->part->test_samples, &share, NULL));
    plb_json_double(results, "majority", share);
    return PLB_OK;
}

plb_status plb_study_train(plb_study *s, plb_study_item *item, plb_json *results) {
    training t = {.s = s, .item = item};
    plb_status status;
    PLB_TRY(plb_study_open_data(s, item->part));
    PLB_TRY(plb_study_client(s, item));
    PLB_TRY_OUT(load(&t, results));
    write_recipe(&t, results);
    PLB_TRY_OUT(write_majority(&t, results));
    PLB_TRY_OUT(train_loaded(&t, results));
out:
    plb_loader_free(t.train);
    plb_loader_free(t.test);
    plb_free(t.step_loss);
    return status;
}
