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
#include "bench/watch.h"

static const double block_ns = 20e6;       // of the shorter blocks, about
static const double left_out_limit = 0.3;  // of the time an iteration
static const double copy_bytes_per_ns = 2; // slowest believable copy of a batch
static const double read_bytes_per_ns = 4; // slowest believable first look at one
static const double loop_ns = 5000;        // of an interpreter between two samples
static const double long_ns = 200e6;       // iterations above it are dear: none is run twice
static const double busy_share = 0.2; // of the busiest thread's time, that makes a thread count
static const double threads_slack = 0.05, threads_more = 0.09; // moments of handing over
static const double threads_more_crowded = 0.35;
static const int64_t fewest_looks = 20; // that tell anything
enum { MOST_TRIES = 4 };                // before what looks like work left out is believed

typedef struct auditor {
    plb_client *client;
    const plb_load *load;
    const plb_reference *reference;
    bool exact;
    double iteration_ns;
    plb_proof *proof;
    plb_audit *out;
} auditor;

static bool is_long(const auditor *a) {
    return a->iteration_ns > long_ns;
}

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

// Its samples leave out what goes on after the call: what is outside of them is no fault.
static bool ends_at_return(const auditor *a) {
    return strcmp(a->load->c->region, "return") == 0;
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
} length;

static length longest(int64_t n) {
    return (length){
        .n = n, .sum_ns = HUGE_VAL, .left_ns = HUGE_VAL, .after_ns = HUGE_VAL, .wall_ns = HUGE_VAL};
}

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

// Takes a block of `least->n` iterations and keeps what is less than before.
static plb_status observe(const auditor *a, int64_t check, int n_slots, length *least,
                          plb_block *block) {
    pid_t pid = a->client->process.worker;
    int64_t cpu = plb_usage_cpu_ns(pid);
    PLB_TRY(take(a, least->n, check, n_slots, block));
    cpu = plb_usage_cpu_ns(pid) - cpu;
    double wall = (double)block->wall_ns, sum = sum_ns(block);
    least->sum_ns = fmin(least->sum_ns, sum);
    least->left_ns = fmin(least->left_ns, wall - sum);
    if (wall < least->wall_ns) least->wall_ns = wall, least->cpu_ns = (double)cpu;
    return PLB_OK;
}

// More blocks of the same length.
static plb_status measure_more(const auditor *a, int times, length *out) {
    for (int i = 0; i < times; i++) {
        plb_block block;
        PLB_TRY(observe(a, -1, 2, out, &block));
        double quiet = watch_after(a, 1e9);
        if (quiet < out->after_ns) out->after_ns = quiet;
    }
    return PLB_OK;
}

static plb_status measure(const auditor *a, int64_t n, int times, length *out) {
    *out = longest(n);
    return measure_more(a, times, out);
}

static plb_status check_left_out(const auditor *a, const length *few, const length *many) {
    double n = (double)(many->n - few->n);
    double sum = (many->sum_ns - few->sum_ns) / n, left_out = (many->left_ns - few->left_ns) / n;
    double wall = sum + left_out, after = (many->after_ns - few->after_ns) / n;
    double copy = (double)plb_batches_bytes(a->load->batches) / copy_bytes_per_ns;
    char text[512];
    a->out->unaccounted = wall > 0 ? left_out / wall : 0;
    a->out->after_ns = after;
    if (left_out > left_out_limit * wall && left_out > copy + loop_ns && left_out * n > 2e6 &&
        !ends_at_return(a)) {
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

// How many threads may be at work at once, on average, for `told` to be believed.
static double threads_limit(const auditor *a, bool exact) {
    double told = (double)a->load->c->threads;
    return (1 + threads_slack) * told + (exact ? threads_more : threads_more_crowded);
}

typedef struct crowd {
    int busy; // threads that worked for a substantial share of what the busiest did
    int64_t looks;
    double at_once; // on average over the looks
    bool exact;
} crowd;

// A block as `observe` takes it, watched.
static plb_status watch_block(const auditor *a, length *least, crowd *out) {
    pid_t pid = a->client->process.worker;
    plb_usage_threads before, after;
    plb_watch *watch = NULL;
    plb_watched seen = {0};
    plb_block block;
    PLB_TRY(plb_watch_begin(pid, (double)least->n * a->iteration_ns, &watch));
    plb_usage_threads_read(pid, &before);
    plb_status status = observe(a, -1, 2, least, &block);
    plb_usage_threads_read(pid, &after);
    plb_watch_end(watch, &seen);
    double sum = out->at_once * (double)out->looks + seen.at_once * (double)seen.looks;
    out->looks += seen.looks, out->exact = seen.exact;
    out->at_once = out->looks ? sum / (double)out->looks : 0;
    out->busy = plb_usage_busy_threads(&before, &after, busy_share);
    return status;
}

// Threads that work now and then do not count, nor do those that take turns.
static plb_status check_threads(const auditor *a, const length *many, const crowd *found) {
    int told = (int)a->load->c->threads;
    double limit = threads_limit(a, found->exact);
    char text[256];
    a->out->at_once = found->at_once;
    a->out->processors = many->wall_ns > 0 ? many->cpu_ns / many->wall_ns : 0;
    bool few = found->busy <= told || found->looks < fewest_looks || found->at_once <= limit;
    if (few && a->out->processors <= limit) return PLB_OK;
    snprintf(text, sizeof text,
             "%d thread%s told (--threads), but %d worked, %.2f at once, using %.2f processors",
             told, told == 1 ? " was" : "s were", found->busy, found->at_once, a->out->processors);
    return invalid(a, text);
}

// In blocks of their own, as being watched takes time; what is not clear is looked at longer.
static plb_status count_threads(const auditor *a, int64_t n, crowd *out) {
    enum { MOST = 4 };
    const double told = (double)a->load->c->threads;
    for (int i = 0; i < MOST; i++) {
        length watched = longest(n);
        PLB_TRY(watch_block(a, &watched, out));
        if (out->busy <= (int)told || out->at_once < 1.05 * told) break;
    }
    return PLB_OK;
}

// The guess at an iteration's length may have been a slow one: what is too short is made longer.
static plb_status measure_long(const auditor *a, int64_t *n, int times, length *out) {
    enum { MOST = 4096 };
    PLB_TRY(measure(a, *n, times, out));
    if (out->wall_ns > block_ns / 2 || *n >= MOST) return PLB_OK;
    double more = (double)*n * block_ns / fmax(out->wall_ns, 1000);
    *n = more < MOST ? (int64_t)more : MOST;
    return measure(a, *n, times, out);
}

// A block of one iteration shows what a block costs by itself: the message, the restart.
static plb_status check_lengths(const auditor *a) {
    double fit = block_ns / fmax(a->iteration_ns, 100);
    int64_t n = fit < 2 ? 2 : fit > 400 ? 400 : (int64_t)fit;
    length one, many;
    crowd found = {0};
    PLB_TRY(measure(a, 1, 6, &one));
    PLB_TRY(measure_long(a, &n, 2, &many));
    // A neighbour that took the processor away looks like work left out: ask again.
    for (int i = 1; check_left_out(a, &one, &many); i++) {
        if (i == MOST_TRIES) return PLB_EBROKEN;
        a->client->failure = (plb_failure){0};
        PLB_TRY(measure_more(a, 6, &one));
        PLB_TRY(measure_more(a, 3, &many));
    }
    PLB_TRY(count_threads(a, n, &found));
    return check_threads(a, &many, &found);
}

// The same for long iterations, of which none is run for one purpose alone. `many`: blocks that
// were taken already.
static plb_status check_long(const auditor *a, length *many) {
    length one = longest(1);
    crowd found = {0};
    PLB_TRY(watch_block(a, &one, &found));
    one.after_ns = watch_after(a, 1e9);
    for (int i = 1; check_left_out(a, &one, many); i++) {
        if (i == MOST_TRIES) return PLB_EBROKEN;
        a->client->failure = (plb_failure){0};
        PLB_TRY(measure_more(a, 2, &one));
        PLB_TRY(measure_more(a, 2, many));
    }
    return check_threads(a, many, &found);
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

static plb_status try_arrangement(const auditor *a, int arrangement, novelty *least, length *seen) {
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
    PLB_TRY(observe(a, check, b->n_slots, seen, &block));
    least->seen_ns = fmin(least->seen_ns, least_ns(&block));
    least->slowest_ns = fmin(least->slowest_ns, most_ns(&block));
    return PLB_OK;
}

// *seen_block: what was observed of blocks of as many iterations as there are slots.
static plb_status check_novelty(const auditor *a, length *seen_block) {
    const plb_batches *b = a->load->batches;
    novelty least = {HUGE_VAL, HUGE_VAL, HUGE_VAL, HUGE_VAL};
    char text[512];
    *seen_block = longest(b->n_slots);
    for (int i = 1; i < b->arrangements; i++) {
        PLB_TRY(try_arrangement(a, i, &least, seen_block));
    }
    seen_block->after_ns = watch_after(a, 1e9);
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
    length seen;
    if (is_long(&a)) {
        PLB_TRY(check_novelty(&a, &seen));
        return check_long(&a, &seen);
    }
    PLB_TRY(check_lengths(&a));
    return check_novelty(&a, &seen);
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

static plb_status wrong_kind(plb_client *client, const char *key, const char *of) {
    return plb_failure_set(&client->failure, PLB_OUTCOME_PROTOCOL,
                           "%s: expected a whole number of %s", key, of);
}

static plb_status check_pools(plb_client *client, const json_t *ran, int64_t told) {
    json_t *pools = json_object_get(ran, "threads"), *value;
    const char *pool;
    json_object_foreach(pools, pool, value) {
        if (json_is_real(value)) return wrong_kind(client, "threads", pool);
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

// Nodes on another device, and as many as it says; what has no number counts as some.
static plb_status ran_elsewhere(plb_client *client, const plb_case *c, const char *device,
                                const json_t *nodes) {
    if (json_is_integer(nodes) && json_integer_value(nodes) == 0) return PLB_OK;
    char count[32] = "some";
    if (json_is_integer(nodes))
        snprintf(count, sizeof count, "%lld", (long long)json_integer_value(nodes));
    return plb_failure_set(&client->failure, PLB_OUTCOME_INVALID,
                           "device: expected %s, but %s nodes ran on %s", c->device, count, device);
}

static plb_status check_devices(plb_client *client, const json_t *ran, const plb_case *c) {
    const json_t *list = json_object_get(ran, "devices");
    bool told = false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *entry = json_array_get(list, i);
        const char *device = json_string_value(json_object_get(entry, "device"));
        const json_t *nodes = json_object_get(entry, "nodes");
        if (json_is_real(nodes)) return wrong_kind(client, "nodes", device ? device : "devices");
        if (!device) continue;
        if (!among(device, c->device)) PLB_TRY(ran_elsewhere(client, c, device, nodes));
        told |= among(device, c->device);
    }
    if (told) return PLB_OK;
    return plb_failure_set(&client->failure, PLB_OUTCOME_INVALID,
                           "device: the stack does not say that anything ran on %s", c->device);
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
