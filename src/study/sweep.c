// SPDX-License-Identifier: Apache-2.0
// One cell of a sweep: the model loaded at a batch and a size, timed for a moment. Cells of a stack
// share one process (starting some stacks takes longer than a hundred cells), so the spread between
// starts is not in these numbers, and equal work is not proven here: `plumb bench` and
// `plumb verify` do both, one cell at a time.
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/philox.h"
#include "base/core/status.h"
#include "base/machine_gpu.h"
#include "base/rank_interval.h"
#include "bench/batches.h"
#include "bench/load.h"
#include "bench/usage.h"
#include "study/work.h"

enum {
    POOL = 1 << 18,
    LEAST_SAMPLES = 3,
    MOST_SAMPLES = 1000,
    QUEUED_BLOCKS = 10, // enough for an interval
    LEAST_QUEUED = 2,   // iterations of one: a single one would queue nothing
    LIMIT_S = 600,
};
static const uint64_t seed = 11;

// Normal values; large inputs repeat a quarter of a million of them.
static void draw(float *to, size_t count) {
    const double turn = 6.283185307179586;
    size_t drawn = count < POOL ? count : POOL;
    for (size_t i = 0; i < drawn; i++) {
        plb_philox_block b = plb_philox(seed, i, 0);
        to[i] = (float)(sqrt(-2 * log(plb_uniform_open(b.word[0]))) *
                        cos(turn * plb_uniform_open(b.word[1])));
    }
    for (size_t at = drawn; at < count; at += drawn)
        memcpy(to + at, to, (count - at < drawn ? count - at : drawn) * sizeof *to);
}

static plb_status fill_inputs(plb_study *s, const plb_facts *f, plb_study_inputs *in) {
    size_t count = (size_t)plb_shape_count(&f->input[0].shape);
    *in = (plb_study_inputs){.x_bytes = count * sizeof(float),
                             .y_bytes = (size_t)f->batch * sizeof(int64_t)};
    in->y_offset[0] = in->y_offset[1] =
        plb_study_padded(in->x_bytes); // both batches are the same one
    size_t total = in->y_offset[0] + plb_study_padded(in->y_bytes);
    if ((int64_t)total > plb_usage_memory_available() / 3)
        return plb_failure_set(&s->client.failure, PLB_OUTCOME_REFUSED,
                               "the input alone takes %.1f GiB of the host's memory",
                               (double)total / 0x1p30);
    PLB_TRY(plb_segment_reserve(&s->client.in, total));
    int64_t *y = (int64_t *)(void *)(s->client.in.bytes + in->y_offset[0]);
    for (int64_t i = 0; i < f->batch; i++) y[i] = i % f->classes;
    draw((float *)(void *)s->client.in.bytes, count);
    return PLB_OK;
}

// One block of n iterations: of `queued` one sample of all of them, else n samples of one each.
static plb_status take(plb_study *s, const plb_study_item *item, int64_t n, plb_block *out) {
    const plb_block_request request = {
        .n = n, .check = -1, .region = item->region, .n_slots = 2, .limit_s = LIMIT_S};
    return plb_block_take(&s->client, &request, out);
}

// Sorts the samples; few have no interval.
static void write_median(plb_json *results, double *samples_ns, int64_t n) {
    const plb_rank_interval found = plb_rank_interval_of(samples_ns, (size_t)n);
    plb_json_double(results, "median_ns", found.median);
    plb_json_double(results, "low_ns", found.low);
    plb_json_double(results, "high_ns", found.high);
    plb_json_int(results, "samples", n);
}

// How busy the card was, as NVML says it at the end of the samples.
static void write_card(const plb_study_item *item, plb_json *results) {
    if (strncmp(item->device, "cuda", 4) != 0) return;
    double busy = plb_machine_gpu_busy(item->device[4] ? atoi(item->device + 5) : 0);
    plb_json_double(results, "device_utilisation", busy < 0 ? NAN : busy);
}

// How busy the worker kept the threads that it was given: processor time over wall time x threads,
// both of the requests for samples. Above 1: it ran more threads than that.
static void write_utilisation(const plb_study_item *item, int64_t cpu_ns, int64_t wall_ns,
                              plb_json *results) {
    if (cpu_ns < 0 || wall_ns <= 0) return; // unknown, not 0
    plb_json_double(results, "utilisation",
                    (double)cpu_ns / (double)wall_ns / (double)item->threads);
}

// How many blocks of how many iterations there is time for. Of `queued` a block is one sample, and
// short where several of them would not fit.
typedef struct portions {
    int64_t blocks, n;
} portions;

static int64_t between(int64_t least, double value, int64_t most) {
    return value < (double)least ? least : value > (double)most ? most : (int64_t)value;
}

static portions divide_time(const plb_study_item *item, double iteration_ns) {
    const double fit = item->part->time * 1e9 / (iteration_ns > 1 ? iteration_ns : 1);
    if (strcmp(item->region, "queued") != 0)
        return (portions){1, between(LEAST_SAMPLES, fit, MOST_SAMPLES)};
    const int64_t blocks = between(LEAST_SAMPLES, fit / LEAST_QUEUED, QUEUED_BLOCKS);
    return (portions){blocks, between(LEAST_QUEUED, fit / (double)blocks, MOST_SAMPLES)};
}

// Times of one iteration; `samples_ns` has room for those of all blocks.
static plb_status take_all(plb_study *s, const plb_study_item *item, portions p, double *samples_ns,
                           int64_t *out_count, int64_t *out_wall_ns) {
    plb_block block;
    *out_count = *out_wall_ns = 0;
    for (int64_t b = 0; b < p.blocks; b++) {
        PLB_TRY(take(s, item, p.n, &block));
        *out_wall_ns += block.wall_ns;
        for (int64_t i = 0; i < block.count; i++)
            samples_ns[(*out_count)++] =
                (double)block.samples_ns[i] / (double)block.iterations_per_sample;
    }
    return PLB_OK;
}

// The first call, a few to warm up, then as many as the part's time has room for.
static plb_status time_cell(plb_study *s, const plb_study_item *item, plb_json *results) {
    plb_block block;
    int64_t count, wall_ns;
    PLB_TRY(take(s, item, 1, &block));
    plb_json_int(results, "first_ns", block.samples_ns[0]);
    PLB_TRY(take(s, item, LEAST_SAMPLES, &block));
    const portions p = divide_time(item, (double)block.samples_ns[block.count - 1] /
                                             (double)block.iterations_per_sample);
    double *samples_ns = plb_alloc_array((size_t)(p.blocks * p.n), sizeof *samples_ns);
    if (!samples_ns) return plb_fail(PLB_ENOMEM, "out of memory for samples");
    const int64_t before_ns = plb_usage_cpu_ns(s->client.process.worker);
    plb_status status = take_all(s, item, p, samples_ns, &count, &wall_ns);
    const int64_t after_ns = plb_usage_cpu_ns(s->client.process.worker);
    if (!status) {
        write_utilisation(item, before_ns < 0 ? -1 : after_ns - before_ns, wall_ns, results);
        write_card(item, results);
        write_median(results, samples_ns, count);
    }
    plb_free(samples_ns);
    return status;
}

// Loads a model of the zoo, or a TorchScript file, at the item's batch and size.
static plb_status load_named(plb_study *s, const plb_study_item *item, plb_facts *facts,
                             int64_t *out_bytes) {
    plb_study_inputs in;
    char weights[4096];
    PLB_TRY(fill_inputs(s, facts, &in));
    *out_bytes = (int64_t)in.x_bytes;
    if (facts->file[0]) // it brings its own
        snprintf(weights, sizeof weights, "%s", facts->file);
    else
        PLB_TRY(plb_study_weights(s, facts, 1, weights, sizeof weights));
    json_t *answer = NULL;
    PLB_TRY(
        plb_study_load(s, item, facts, weights, plb_study_describe_inputs(facts, &in), &answer));
    json_decref(answer);
    return PLB_OK;
}

// Loads an ONNX file, which brings its weights; inputs of any kind are drawn as `bench` does.
static plb_status load_file(plb_study *s, const plb_study_item *item, plb_facts *facts,
                            int64_t *out_bytes) {
    plb_batches batches;
    json_t *answer = NULL;
    plb_status status;
    PLB_TRY(plb_batches_new(facts, &batches));
    *out_bytes = (int64_t)plb_batches_bytes(&batches);
    for (int slot = 0; slot < batches.n_slots; slot++)
        PLB_TRY_OUT(plb_batches_fill(&batches, &s->client, slot, 0));
    PLB_TRY_OUT(plb_study_load(s, item, facts, facts->file, plb_batches_describe(&batches, facts),
                               &answer));
    json_decref(answer);
out:
    plb_batches_free(&batches);
    return status;
}

static plb_status describe(plb_study *s, const plb_study_item *item, plb_facts *out) {
    if (item->dims) return plb_study_describe_file(s, item, out);
    if (plb_study_is_script(item->model)) return plb_study_describe_script(item, out);
    return plb_study_describe(s, item->model, item->task, item->batch, item->size, 0, out);
}

plb_status plb_study_sweep(plb_study *s, const plb_study_item *item, plb_json *results) {
    plb_facts facts;
    int64_t input_bytes = 0;
    PLB_TRY(plb_study_client(s, item));
    plb_status status = describe(s, item, &facts);
    if (status == PLB_EBROKEN) // what the reference cannot build, nobody is asked for
        return plb_failure_set(&s->client.failure, s->reference.failure.outcome, "%s",
                               s->reference.failure.reason);
    PLB_TRY(status);
    PLB_TRY(item->dims ? load_file(s, item, &facts, &input_bytes)
                       : load_named(s, item, &facts, &input_bytes));
    plb_json_double(results, "load_s", (double)(s->client.answered_ns - s->client.asked_ns) / 1e9);
    plb_json_double(results, "flops", facts.flops);
    plb_json_int(results, "input_bytes", input_bytes);
    PLB_TRY(time_cell(s, item, results));
    return plb_study_add_facts(s, results);
}
