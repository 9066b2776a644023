// SPDX-License-Identifier: Apache-2.0
// Limits are wide: an honest stack on a busy machine must pass, and the known ways to cheat miss
// them by factors. What noise can only lengthen is measured more than once; the least counts.
#include "bench/audit.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/core/clock.h"
#include "base/core/status.h"
#include "bench/usage.h"

static const double block_ns = 20e6;       // of the shorter blocks, about
static const double left_out_limit = 0.3;  // of the time an iteration
static const double copy_bytes_per_ns = 2; // slowest believable copy of a batch
static const double read_bytes_per_ns = 4; // slowest believable first look at one
static const double loop_ns = 5000;        // of an interpreter between two samples
static const double busy_share = 0.2; // of the busiest thread's time, that makes a thread count

typedef struct auditor {
    plb_client *client;
    const plb_load *load;
    const plb_reference *reference;
    bool exact;
    double iteration_ns;
    plb_proof *proof;
    plb_audit *out;
} auditor;

static double sum_ns(const plb_block *block) {
    double sum = 0;
    for (int64_t i = 0; i < block->count; i++) sum += (double)block->samples_ns[i];
    return sum;
}

static plb_status take(const auditor *a, int64_t n, int64_t check, int n_slots, plb_block *out) {
    const plb_block_request request = {.n = n,
                                       .check = check,
                                       .region = a->load->c->region,
                                       .n_slots = n_slots,
                                       .restart = a->load->facts->training,
                                       .limit_s = a->load->limit_s};
    return plb_block_take(a->client, &request, out);
}

static plb_status invalid(const auditor *a, const char *text) {
    return plb_failure_set(&a->client->failure, PLB_OUTCOME_INVALID, "%s", text);
}

// ---------------------------------------------------------------------------- what is left out
typedef struct length {
    int64_t n;
    double sum_ns, left_ns; // of the samples; of the wall time beside them
    double after_ns;        // processor time after the answer
    double wall_ns, cpu_ns; // of the block that took least
    int busy;
} length;

// Processor time that goes on after an answer, until the worker is quiet.
static double watch_after(const auditor *a, double most_ns) {
    enum { QUIET_NAPS = 3 }; // one may be a moment in which somebody else had the processor
    const struct timespec nap = {.tv_nsec = 3000000};
    int quiet = 0;
    pid_t pid = a->client->process.worker;
    int64_t begin = plb_usage_cpu_ns(pid), last = begin, began = plb_now_ns();
    while (quiet < QUIET_NAPS && (double)(plb_now_ns() - began) < most_ns) {
        int64_t before = plb_now_ns();
        nanosleep(&nap, NULL);
        int64_t now = plb_usage_cpu_ns(pid), slept = plb_now_ns() - before;
        quiet = now < 0 || (double)(now - last) < 0.2 * (double)slept ? quiet + 1 : 0;
        last = now;
    }
    return last > begin ? (double)(last - begin) : 0;
}

static plb_status measure(const auditor *a, int64_t n, int times, length *out) {
    *out = (length){.n = n,
                    .sum_ns = HUGE_VAL,
                    .left_ns = HUGE_VAL,
                    .after_ns = HUGE_VAL,
                    .wall_ns = HUGE_VAL,
                    .busy = 1 << 20};
    pid_t pid = a->client->process.worker;
    for (int i = 0; i < times; i++) {
        plb_usage_threads before, after;
        plb_block block;
        plb_usage_threads_read(pid, &before);
        int64_t cpu = plb_usage_cpu_ns(pid);
        PLB_TRY(take(a, n, -1, 2, &block));
        cpu = plb_usage_cpu_ns(pid) - cpu;
        plb_usage_threads_read(pid, &after);
        int busy = plb_usage_busy_threads(&before, &after, busy_share);
        if (busy < out->busy) out->busy = busy;
        double wall = (double)block.wall_ns, sum = sum_ns(&block);
        out->sum_ns = fmin(out->sum_ns, sum);
        out->left_ns = fmin(out->left_ns, wall - sum);
        if (wall < out->wall_ns) out->wall_ns = wall, out->cpu_ns = (double)cpu;
        double quiet = watch_after(a, 1e9);
        if (quiet < out->after_ns) out->after_ns = quiet;
    }
    return PLB_OK;
}

static plb_status check_left_out(const auditor *a, const length *few, const length *many) {
    double n = (double)(many->n - few->n);
    double sum = (many->sum_ns - few->sum_ns) / n, left_out = (many->left_ns - few->left_ns) / n;
    double wall = sum + left_out, after = (many->after_ns - few->after_ns) / n;
    double copy = (double)plb_batches_bytes(a->load->batches) / copy_bytes_per_ns;
    char text[512];
    a->out->unaccounted = wall > 0 ? left_out / wall : 0;
    a->out->after_ns = after;
    if (left_out > left_out_limit * wall && left_out > copy + loop_ns && left_out * n > 2e6) {
        snprintf(text, sizeof text,
                 "an iteration takes %.4f ms by our clock, but its sample says %.4f ms: work is "
                 "done outside of the time",
                 wall / 1e6, sum / 1e6);
        return invalid(a, text);
    }
    if (after > left_out_limit * fmax(wall, sum) && after * n > 10e6) {
        snprintf(text, sizeof text,
                 "after its answer the worker computed on, %.4f ms an iteration of %.4f ms: it "
                 "answers before the work is done",
                 after / 1e6, sum / 1e6);
        return invalid(a, text);
    }
    if (many->left_ns < -0.02 * many->sum_ns - 50000) {
        snprintf(text, sizeof text,
                 "%lld samples add up to %.3f ms, but only %.3f ms passed while they were taken",
                 (long long)many->n, many->sum_ns / 1e6, (many->sum_ns + many->left_ns) / 1e6);
        return invalid(a, text);
    }
    return PLB_OK;
}

static plb_status check_threads(const auditor *a, const length *many) {
    int told = (int)a->load->c->threads;
    char text[256];
    a->out->busy_threads = many->busy;
    a->out->processors = many->wall_ns > 0 ? many->cpu_ns / many->wall_ns : 0;
    if (many->wall_ns < 5e6) return PLB_OK; // too short to tell
    if (many->busy > told || a->out->processors > 1.15 * told + 0.25) {
        snprintf(text, sizeof text,
                 "%d thread%s told (--threads), but %d worked, using %.2f processors", told,
                 told == 1 ? " was" : "s were", many->busy, a->out->processors);
        return invalid(a, text);
    }
    return PLB_OK;
}

// A block of one iteration shows what a block costs by itself: the message, the restart.
static plb_status check_lengths(const auditor *a) {
    double fit = block_ns / fmax(a->iteration_ns, 100);
    int64_t n = fit < 2 ? 2 : fit > 400 ? 400 : (int64_t)fit;
    int times = a->iteration_ns > 200e6 ? 1 : 2;
    length one, many;
    PLB_TRY(measure(a, 1, 3 * times, &one));
    PLB_TRY(measure(a, n, times, &many));
    // A neighbour that took the processor away looks like work left out: ask again.
    if (!check_left_out(a, &one, &many) && !check_threads(a, &many)) return PLB_OK;
    a->client->failure = (plb_failure){0};
    PLB_TRY(measure(a, 1, 3 * times, &one));
    PLB_TRY(measure(a, n, times + 1, &many));
    PLB_TRY(check_left_out(a, &one, &many));
    return check_threads(a, &many);
}

// ---------------------------------------------------------------------------- new batches
typedef struct novelty {
    double taken_ns;   // to take all slots in
    double new_ns;     // of the quickest iteration on a batch never seen
    double seen_ns;    // of the quickest on one that was
    double slowest_ns; // of the slowest on such, in the quietest block: what noise alone can do
} novelty;

static double least_ns(const plb_block *block) {
    double least = HUGE_VAL;
    for (int64_t i = 0; i < block->count; i++) least = fmin(least, (double)block->samples_ns[i]);
    return least;
}

static double most_ns(const plb_block *block) {
    double most = 0;
    for (int64_t i = 0; i < block->count; i++) most = fmax(most, (double)block->samples_ns[i]);
    return most;
}

// On the processor its time counts, which waiting for a neighbour does not lengthen.
static plb_status take_in(const auditor *a, double *least) {
    pid_t pid = a->client->process.worker;
    int64_t cpu = plb_usage_cpu_ns(pid);
    PLB_TRY(plb_load_batches(a->client, 0, a->load->batches->n_slots, a->load->limit_s));
    double wall = (double)(a->client->answered_ns - a->client->asked_ns);
    double used = (double)(plb_usage_cpu_ns(pid) - cpu);
    bool host = strcmp(a->load->c->device, "cpu") == 0;
    *least = fmin(*least, host ? fmin(wall, used) : wall);
    return PLB_OK;
}

static plb_status try_arrangement(const auditor *a, int arrangement, novelty *least) {
    const plb_batches *b = a->load->batches;
    plb_block block;
    for (int slot = 0; slot < b->n_slots; slot++) {
        PLB_TRY(plb_batches_fill(b, a->client, slot, arrangement));
    }
    PLB_TRY(take_in(a, &least->taken_ns));
    // In training only the first step's loss is known for every batch.
    int64_t check = a->load->facts->training ? 0 : (arrangement * 5) % b->n_slots;
    PLB_TRY(take(a, b->n_slots, check, b->n_slots, &block));
    least->new_ns = fmin(least->new_ns, least_ns(&block));
    plb_proof_check_block(a->load, a->reference, &block, arrangement, 0, a->exact, a->proof);
    PLB_TRY(take(a, b->n_slots, check, b->n_slots, &block));
    least->seen_ns = fmin(least->seen_ns, least_ns(&block));
    least->slowest_ns = fmin(least->slowest_ns, most_ns(&block));
    return PLB_OK;
}

static plb_status check_novelty(const auditor *a) {
    const plb_batches *b = a->load->batches;
    novelty least = {HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL};
    char text[512];
    for (int i = 1; i < b->arrangements; i++) {
        PLB_TRY(try_arrangement(a, i, &least));
    }
    double bytes = (double)plb_batches_bytes(b), seen = least.seen_ns * b->n_slots;
    a->out->seen_over_new = least.new_ns > 0 ? least.seen_ns / least.new_ns : 1;
    if (least.new_ns > 1.8 * least.slowest_ns + 10000 + bytes / read_bytes_per_ns) {
        snprintf(text, sizeof text,
                 "a batch that it had never seen took %.4f ms at least, the same again %.4f ms: "
                 "results are remembered",
                 least.new_ns / 1e6, least.seen_ns / 1e6);
        return invalid(a, text);
    }
    if (least.taken_ns > 3 * seen + 1e6 + 4 * b->n_slots * bytes / copy_bytes_per_ns) {
        snprintf(text, sizeof text,
                 "taking in %d batches took %.3f ms, computing on them %.3f ms: work is done when "
                 "batches arrive",
                 b->n_slots, least.taken_ns / 1e6, seen / 1e6);
        return invalid(a, text);
    }
    for (int slot = 0; slot < b->n_slots; slot++) {
        PLB_TRY(plb_batches_fill(b, a->client, slot, 0));
    }
    return plb_load_batches(a->client, 0, b->n_slots, a->load->limit_s);
}

plb_status plb_audit_run(plb_client *client, const plb_load *load, const plb_reference *reference,
                         bool exact, double iteration_ns, plb_proof *proof, plb_audit *out) {
    *out = (plb_audit){0};
    const auditor a = {client, load, reference, exact, iteration_ns, proof, out};
    if (strcmp(load->c->region, "queued") == 0) return PLB_OK; // one sample a block
    PLB_TRY(check_lengths(&a));
    return check_novelty(&a);
}

// ---------------------------------------------------------------------------- what really ran
static plb_status wrong_word(plb_client *client, const json_t *ran, const char *key,
                             const char *expected) {
    const json_t *value = json_object_get(ran, key);
    const char *found = json_is_null(value) ? "none" : json_string_value(value);
    if (!value || (found && strcmp(found, expected) == 0)) return PLB_OK;
    return plb_failure_set(&client->failure, PLB_OUTCOME_INVALID, "%s: expected %s, but %s ran",
                           key, expected, found ? found : "?");
}

static plb_status check_pools(plb_client *client, const json_t *ran, int64_t told) {
    json_t *pools = json_object_get(ran, "threads"), *value;
    const char *pool;
    json_object_foreach(pools, pool, value) {
        if (!json_is_integer(value) || json_integer_value(value) <= told) continue;
        return plb_failure_set(&client->failure, PLB_OUTCOME_INVALID,
                               "threads: expected at most %lld, but the pool %s has %lld",
                               (long long)told, pool, (long long)json_integer_value(value));
    }
    return PLB_OK;
}

static bool among(const char *device, const char *list) {
    size_t n = strlen(device);
    for (const char *at = list; *at;) {
        size_t m = strcspn(at, ",");
        // "cuda" is what a stack may call "cuda:0".
        if (strncmp(at, device, n) == 0 && (n == m || (n < m && at[n] == ':'))) return true;
        at += m + (at[m] == ',');
    }
    return false;
}

static plb_status check_devices(plb_client *client, const json_t *ran, const plb_case *c) {
    const json_t *list = json_object_get(ran, "devices");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *device = json_string_value(json_object_get(entry, "device"));
        int64_t nodes = json_integer_value(json_object_get(entry, "nodes"));
        if (!device || !nodes || among(device, c->device)) continue;
        return plb_failure_set(&client->failure, PLB_OUTCOME_INVALID,
                               "device: expected %s, but %lld nodes ran on %s", c->device,
                               (long long)nodes, device);
    }
    if (json_array_size(list)) return PLB_OK;
    return plb_failure_set(&client->failure, PLB_OUTCOME_INVALID,
                           "device: the stack does not say where anything ran");
}

plb_status plb_audit_ran(plb_client *client, const plb_case *c, json_t **ran) {
    *ran = NULL;
    PLB_TRY(plb_client_ask(client, json_pack("{s:s}", "type", "ran"), 60, "ran", ran));
    PLB_TRY(check_devices(client, *ran, c));
    PLB_TRY(check_pools(client, *ran, c->threads));
    PLB_TRY(wrong_word(client, *ran, "dtype", c->dtype));
    PLB_TRY(wrong_word(client, *ran, "math", c->math));
    PLB_TRY(wrong_word(client, *ran, "autocast", c->autocast));
    const json_t *training = json_object_get(*ran, "training");
    bool expected = strcmp(c->task, "train") == 0;
    if (!json_is_boolean(training) || json_is_true(training) == expected) return PLB_OK;
    return plb_failure_set(
        &client->failure, PLB_OUTCOME_INVALID, "mode: expected %s, but the model is in %s mode",
        expected ? "training" : "evaluation", expected ? "evaluation" : "training");
}
