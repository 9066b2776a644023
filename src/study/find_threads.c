// SPDX-License-Identifier: Apache-2.0
// What a small network's epoch takes, by CPU threads and on a GPU; its operators; throughputs of
// larger ones beside it.
#include <math.h>
#include <string.h>

#include "report/units.h"
#include "study/finding.h"

// Whether the item's part is there for its operators: its epochs are of other samples.
static bool recorded(const plb_finder *f, const plb_result *item) {
    for (size_t p = 0; p < f->r->spec.part_count; p++)
        if (!strcmp(f->r->spec.parts[p].name, item->part)) return f->r->spec.parts[p].operators;
    return false;
}

// Least time of an epoch over all that fits (a neighbour can only make it longer); NaN: none.
static double epoch_s(const plb_finder *f, plb_wanted w) {
    double least = NAN;
    w.train = true;
    for (size_t i = 0; i < f->r->count; i++) {
        const plb_result *item = &f->r->items[i];
        if (!plb_find_fits(item, &w) || recorded(f, item) || plb_result_beside(item) > 1) continue;
        for (int e = 1; e <= plb_result_epochs(item); e++)
            least = fmin(least, plb_result_epoch(item, e, "train_s"));
    }
    return least;
}

typedef struct thread_times {
    int64_t low, high;            // the least and the most threads that it trained with
    double low_epoch, high_epoch; // s, the fastest with each; NaN: none
    const char *unknown;          // why the two cannot be compared; NULL: they can
} thread_times;

static thread_times times_by_threads(const plb_finder *f, const char *stack, const char *device) {
    const plb_wanted w = {.train = true, .stack = stack, .device = device};
    thread_times t = {.low = INT64_MAX};
    bool beside = false;
    for (size_t i = 0; i < f->r->count; i++) {
        const plb_result *item = &f->r->items[i];
        if (!plb_find_fits(item, &w) || recorded(f, item)) continue;
        if (plb_result_beside(item) > 1) {
            beside = true;
            continue;
        }
        t.low = item->threads < t.low ? item->threads : t.low;
        t.high = item->threads > t.high ? item->threads : t.high;
    }
    t.low_epoch = epoch_s(f, (plb_wanted){.stack = stack, .device = device, .threads = t.low});
    t.high_epoch = epoch_s(f, (plb_wanted){.stack = stack, .device = device, .threads = t.high});
    t.unknown =
        isnan(t.high_epoch) && beside ? "it trained side by side, in times that do not count"
        : isnan(t.high_epoch)         ? "it was not measured in this run"
        : t.low == t.high || isnan(t.low_epoch) ? "only one number of threads was measured here"
                                                : NULL;
    return t;
}

void plb_find_cpu_threads(const plb_finder *f) {
    static const char *const stacks[] = {"torch-eager", "plumb-plan"};
    for (int k = 0; k < 2; k++) {
        const thread_times t = times_by_threads(f, stacks[k], "cpu");
        if (t.unknown) {
            if (k == 0)
                plb_find_say(f, PLB_OPEN,
                             "All threads beat one on the CPU (stated: 14.78 s against 24.08 s, "
                             "1.63 times). %s: %s.",
                             stacks[k], t.unknown);
            continue;
        }
        double ratio = t.low_epoch / t.high_epoch;
        bool busy = f->r->others_cpus > 0.25; // threads wait for those that others keep waiting
        plb_find_say(
            f,
            ratio > 1.05 ? PLB_REPRODUCED
            : busy       ? PLB_OPEN
                         : PLB_REFUTED,
            "All threads beat one on the CPU (stated: 1.63 times, threads not named). %s: %lld "
            "threads are %.2f times as fast as %lld (%.3g s and %.3g s the fastest epoch), %.0f %% "
            "of what as many threads could give.%s",
            stacks[k], (long long)t.high, ratio, (long long)t.low, t.high_epoch, t.low_epoch,
            100 * ratio * (double)t.low / (double)t.high,
            busy && ratio <= 1.05 ? " But others kept processors busy: threads that wait for each "
                                    "other show it first. Worth repeating on an idle machine."
                                  : "");
    }
}

void plb_find_gpu_threads(const plb_finder *f) {
    const thread_times t = times_by_threads(f, "torch-eager", "cuda");
    if (t.unknown) {
        plb_find_say(f, PLB_OPEN,
                     "CPU threads matter little to training on a GPU (stated: 8.78 s against "
                     "9.53 s). torch-eager on a GPU: %s.",
                     t.unknown);
        return;
    }
    double change = t.low_epoch / t.high_epoch;
    plb_find_say(
        f, fabs(change - 1) < 0.15 ? PLB_REPRODUCED : PLB_REFUTED,
        "CPU threads matter little to training on a GPU (stated: 1.09 times). torch-eager: %.3g s "
        "with %lld threads, %.3g s with %lld: %.2f times.",
        t.high_epoch, (long long)t.high, t.low_epoch, (long long)t.low, change);
}

void plb_find_gpu_speedup(const plb_finder *f) {
    const thread_times cpu = times_by_threads(f, "torch-eager", "cpu");
    const thread_times card = times_by_threads(f, "torch-eager", "cuda");
    const double gpu = epoch_s(f, (plb_wanted){.stack = "torch-eager", .device = "cuda"});
    if (isnan(cpu.high_epoch) || isnan(gpu)) {
        plb_find_say(f, PLB_OPEN,
                     "A GPU trains the CNN 1.68 times as fast as all CPU threads. torch-eager on "
                     "%s: %s.",
                     isnan(gpu) ? "a GPU" : "the CPU", isnan(gpu) ? card.unknown : cpu.unknown);
        return;
    }
    double plan = epoch_s(f, (plb_wanted){.stack = "plumb-replay", .device = "cuda"});
    plb_find_say(
        f, cpu.high_epoch / gpu > 1.05 ? PLB_REPRODUCED : PLB_REFUTED,
        "A GPU trains the CNN faster than all CPU threads (stated: 1.68 times). torch-eager: "
        "%.2f times (%.3g s on the GPU).%s",
        cpu.high_epoch / gpu, gpu,
        isnan(plan) ? "" : " How little of that time the GPU needs, plumb-replay tells below.");
    if (!isnan(plan))
        plb_find_say(
            f, PLB_EXPLAINED,
            "Why so little: an epoch of so small a network is launches, not arithmetic. The same "
            "steps, replayed as one graph (plumb-replay), take %.3g s: %.1f times as fast.",
            plan, gpu / plan);
}

void plb_find_profiler_cost(const plb_finder *f) {
    bool any = false;
    for (size_t i = 0; i < f->r->count; i++) {
        const plb_result *item = &f->r->items[i];
        double plain = plb_result_number(item, "plain_s");
        double recorded = plb_result_number(item, "recorded_s");
        if (isnan(plain) || isnan(recorded)) continue;
        any = true;
        plb_find_say(
            f,
            recorded > 1.05 * plain ? PLB_REPRODUCED
            : recorded > plain      ? PLB_REFUTED
                                    : PLB_OPEN,
            "The profiler adds a lot of overhead (stated without a number; its CPU total was "
            "27.1 s where the epoch took 8.8 s). Here %s on %s: an epoch of %.3g s takes %.3g s "
            "while it is recorded (%+.0f %%)%s.",
            item->stack, item->device, plain, recorded, 100 * (recorded / plain - 1),
            recorded > plain ? "" : ", less than neighbours disturbed it");
    }
    if (!any)
        plb_find_say(f, PLB_OPEN, "The profiler adds a lot of overhead: no profile was taken.");
}

// The share of `part` in the operators' own time: the CPU's, or the card's, where a row without any
// of the CPU's is a kernel, whose time its operator has as well.
static double share_of(const json_t *rows, const char *part, bool card) {
    double own = 0, all = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *name = json_string_value(json_object_get(row, "name"));
        double cpu_ns = json_number_value(json_object_get(row, "self_cpu_ns"));
        double ns = card ? json_number_value(json_object_get(row, "self_device_ns")) : cpu_ns;
        if (!(cpu_ns > 0)) continue;
        all += ns;
        if (name && strstr(name, part)) own += ns;
    }
    return all > 0 ? own / all : NAN;
}

void plb_find_conv_share(const plb_finder *f) {
    for (size_t i = 0; i < f->r->count; i++) {
        const plb_result *item = &f->r->items[i];
        const json_t *rows = json_object_get(item->json, "operators");
        if (!json_array_size(rows)) continue;
        bool card = !strncmp(item->device, "cuda", 4);
        double share = share_of(rows, "conv", card);
        if (isnan(share)) continue; // no operator has a time there
        plb_find_say(
            f, share > 0.17 ? PLB_REPRODUCED : PLB_REFUTED,
            "Convolutions are the largest cost (stated: 17 %% of the time forward, on the CPU and "
            "on the card, in slow_conv2d). Here, forward and backward, on %s: %.0f %% of the "
            "operators' own time%s.",
            item->device, 100 * share, card ? " there" : "");
    }
}

// Ours for an item of another stack, of the same part, batch, size and threads. NULL: none.
static const plb_result *ours_for(const plb_finder *f, const plb_result *other) {
    static const char *const stacks[] = {"plumb-replay", "plumb-plan"};
    const plb_result *ours = NULL;
    for (int k = 0; k < 2 && !ours; k++)
        ours = plb_find(f, (plb_wanted){.part = other->part,
                                        .model = other->model,
                                        .stack = stacks[k],
                                        .device = other->device,
                                        .task = other->task,
                                        .region = other->region,
                                        .threads = other->threads,
                                        .batch = other->batch,
                                        .size = other->size});
    return ours;
}

void plb_find_table1(const plb_finder *f) {
    static const char *const models[] = {"alexnet", "vgg19", "resnet50", "mobilenet_v2",
                                         "resnet18"};
    static const char *const devices[] = {"cuda", "cpu"};
    for (int k = 0; k < 5; k++) {
        const plb_result *torch = NULL, *ours = NULL;
        for (int d = 0; d < 2 && !ours; d++) {
            torch = plb_find(f, (plb_wanted){.model = models[k],
                                             .stack = "torch-eager",
                                             .task = "train",
                                             .device = devices[d]});
            ours = torch ? ours_for(f, torch) : NULL;
        }
        if (!ours) continue;
        char of_torch[PLB_UNIT_BYTES_SHOWN], of_ours[PLB_UNIT_BYTES_SHOWN];
        plb_unit_show(PLB_UNIT_PER_SECOND, 1e9 / plb_find_sample_ns(torch), of_torch);
        plb_unit_show(PLB_UNIT_PER_SECOND, 1e9 / plb_find_sample_ns(ours), of_ours);
        plb_find_say(
            f, PLB_OPEN,
            "Table 1's throughputs are of another paper, on another machine. Here samples of %s on "
            "%s, batch %lld at %lld: torch-eager %s, %s %s.",
            models[k], torch->device, (long long)torch->batch, (long long)torch->size, of_torch,
            ours->stack, of_ours);
    }
}
