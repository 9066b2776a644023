// SPDX-License-Identifier: Apache-2.0
// The statements of the works that are reproduced, each answered from the data at hand. A finding
// is a function that looks for the numbers it needs; without them it says so. Verdicts come from
// thresholds that stand here, never from what was hoped for:
//
//     REPRODUCED   the data show what was stated
//     EXPLAINED    what was stated follows from a difference between what was compared
//     REFUTED      the data show otherwise
//     OPEN         the data do not tell
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "study/results.h"

enum { MAX_POOLS = 64 };

typedef struct finder {
    const plb_results *r;
    plb_document *d;
} finder;

static const struct {
    const char *word;
    plb_tone tone;
} words[] = {{"REPRODUCED", PLB_TONE_GOOD},
             {"EXPLAINED", PLB_TONE_PLAIN},
             {"REFUTED", PLB_TONE_BAD},
             {"OPEN", PLB_TONE_UNSURE}};
enum { REPRODUCED, EXPLAINED, REFUTED, OPEN };

#define SAY(f, verdict, ...) \
    plb_document_verdict((f)->d, words[verdict].tone, words[verdict].word, __VA_ARGS__)

// ---------------------------------------------------------------------------- looking up
typedef struct wanted {
    bool train;
    const char *part, *model, *stack, *device, *task, *region; // NULL: any
    int64_t threads, batch, size;                              // 0: any
} wanted;

static bool fits(const plb_result *i, const wanted *w) {
    return i->ok && i->train == w->train && (!w->part || !strcmp(i->part, w->part)) &&
           (!w->model || !strcmp(i->model, w->model)) &&
           (!w->stack || !strcmp(i->stack, w->stack)) &&
           (!w->device || !strncmp(i->device, w->device, strlen(w->device))) &&
           (!w->task || !strcmp(i->task, w->task)) &&
           (!w->region || !strcmp(i->region, w->region)) &&
           (!w->threads || i->threads == w->threads) && (!w->batch || i->batch == w->batch) &&
           (!w->size || i->size == w->size);
}

static const plb_result *find(const finder *f, wanted w) {
    for (size_t i = 0; i < f->r->count; i++)
        if (fits(&f->r->items[i], &w)) return &f->r->items[i];
    return NULL;
}

// Whether the item's part is there for its operators: its epochs are of other samples.
static bool recorded(const finder *f, const plb_result *item) {
    for (size_t p = 0; p < f->r->spec.part_count; p++)
        if (!strcmp(f->r->spec.parts[p].name, item->part)) return f->r->spec.parts[p].operators;
    return false;
}

// Least time of an epoch over all that fits (a neighbour can only make it longer); NaN: none.
static double epoch_s(const finder *f, wanted w) {
    double least = NAN;
    w.train = true;
    for (size_t i = 0; i < f->r->count; i++) {
        const plb_result *item = &f->r->items[i];
        if (!fits(item, &w) || recorded(f, item) || plb_result_beside(item) > 1) continue;
        for (int e = 1; e <= plb_result_epochs(item); e++)
            least = fmin(least, plb_result_epoch(item, e, "train_s"));
    }
    return least;
}

static double sample_ns(const plb_result *item) {
    return item ? plb_result_number(item, "median_ns") / (double)item->batch : NAN;
}

// The least and the most threads that the stack trained with on the device.
static void thread_range(const finder *f, const char *stack, const char *device, int64_t *low,
                         int64_t *high) {
    *low = INT64_MAX, *high = 0;
    const wanted w = {.train = true, .stack = stack, .device = device};
    for (size_t i = 0; i < f->r->count; i++) {
        if (!fits(&f->r->items[i], &w) || recorded(f, &f->r->items[i])) continue;
        int64_t threads = f->r->items[i].threads;
        *low = threads < *low ? threads : *low, *high = threads > *high ? threads : *high;
    }
}

// ---------------------------------------------------------------------------- threads
static void cpu_threads(const finder *f) {
    static const char *const stacks[] = {"torch-eager", "plumb-plan"};
    for (int k = 0; k < 2; k++) {
        int64_t low, high;
        thread_range(f, stacks[k], "cpu", &low, &high);
        double one = epoch_s(f, (wanted){.stack = stacks[k], .device = "cpu", .threads = low});
        double all = epoch_s(f, (wanted){.stack = stacks[k], .device = "cpu", .threads = high});
        if (!high || low == high || isnan(one) || isnan(all)) {
            if (k == 0)
                SAY(f, OPEN,
                    "All threads beat one on the CPU (stated: 14.78 s against 24.08 s, "
                    "1.63 times): only one number of threads was measured here.");
            continue;
        }
        double ratio = one / all;
        bool busy = f->r->others_cpus > 0.25; // threads wait for those that others keep waiting
        SAY(f,
            ratio > 1.05 ? REPRODUCED
            : busy       ? OPEN
                         : REFUTED,
            "All threads beat one on the CPU (stated: 1.63 times, threads not named). %s: %lld "
            "threads are %.2f times as fast as %lld (%.3g s and %.3g s the fastest epoch), %.0f %% "
            "of what as many threads could give.%s",
            stacks[k], (long long)high, ratio, (long long)low, all, one,
            100 * ratio * (double)low / (double)high,
            busy && ratio <= 1.05 ? " But others kept processors busy: threads that wait for each "
                                    "other show it first. Worth repeating on an idle machine."
                                  : "");
    }
}

static void gpu_threads(const finder *f) {
    int64_t low, high;
    thread_range(f, "torch-eager", "cuda", &low, &high);
    double one = epoch_s(f, (wanted){.stack = "torch-eager", .device = "cuda", .threads = low});
    double all = epoch_s(f, (wanted){.stack = "torch-eager", .device = "cuda", .threads = high});
    if (!high || low == high || isnan(one) || isnan(all)) {
        SAY(f, OPEN,
            "CPU threads matter little to training on a GPU (stated: 8.78 s against "
            "9.53 s): no GPU was measured in this run.");
        return;
    }
    double change = one / all;
    SAY(f, fabs(change - 1) < 0.15 ? REPRODUCED : REFUTED,
        "CPU threads matter little to training on a GPU (stated: 1.09 times). torch-eager: %.3g s "
        "with %lld threads, %.3g s with %lld: %.2f times.",
        all, (long long)high, one, (long long)low, change);
}

static void gpu_speedup(const finder *f) {
    int64_t low, high;
    thread_range(f, "torch-eager", "cpu", &low, &high);
    double cpu = epoch_s(f, (wanted){.stack = "torch-eager", .device = "cpu", .threads = high});
    double gpu = epoch_s(f, (wanted){.stack = "torch-eager", .device = "cuda"});
    if (isnan(cpu) || isnan(gpu)) {
        SAY(f, OPEN,
            "A GPU trains the CNN 1.68 times as fast as all CPU threads: no GPU was "
            "measured in this run.");
        return;
    }
    double plan = epoch_s(f, (wanted){.stack = "plumb-replay", .device = "cuda"});
    SAY(f, cpu / gpu > 1.05 ? REPRODUCED : REFUTED,
        "A GPU trains the CNN faster than all CPU threads (stated: 1.68 times). torch-eager: "
        "%.2f times (%.3g s on the GPU).%s",
        cpu / gpu, gpu,
        isnan(plan) ? "" : " How little of that time the GPU needs, plumb-replay tells below.");
    if (!isnan(plan))
        SAY(f, EXPLAINED,
            "Why so little: an epoch of so small a network is launches, not arithmetic. The same "
            "steps, replayed as one graph (plumb-replay), take %.3g s: %.1f times as fast.",
            plan, gpu / plan);
}

static void profiler_cost(const finder *f) {
    bool any = false;
    for (size_t i = 0; i < f->r->count; i++) {
        const plb_result *item = &f->r->items[i];
        double plain = plb_result_number(item, "plain_s");
        double recorded = plb_result_number(item, "recorded_s");
        if (isnan(plain) || isnan(recorded)) continue;
        any = true;
        SAY(f,
            recorded > 1.05 * plain ? REPRODUCED
            : recorded > plain      ? REFUTED
                                    : OPEN,
            "The profiler adds a lot of overhead (stated without a number; its CPU total was "
            "27.1 s where the epoch took 8.8 s). Here %s on %s: an epoch of %.3g s takes %.3g s "
            "while it is recorded (%+.0f %%)%s.",
            item->stack, item->device, plain, recorded, 100 * (recorded / plain - 1),
            recorded > plain ? "" : ", less than neighbours disturbed it");
    }
    if (!any) SAY(f, OPEN, "The profiler adds a lot of overhead: no profile was taken.");
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

static void conv_share(const finder *f) {
    for (size_t i = 0; i < f->r->count; i++) {
        const plb_result *item = &f->r->items[i];
        const json_t *rows = json_object_get(item->json, "operators");
        if (!json_array_size(rows)) continue;
        bool card = !strncmp(item->device, "cuda", 4);
        double share = share_of(rows, "conv", card);
        SAY(f,
            isnan(share)   ? OPEN
            : share > 0.17 ? REPRODUCED
                           : REFUTED,
            "Convolutions are the largest cost (stated: 17 %% of the time forward, on the CPU and "
            "on the card, in slow_conv2d). Here, forward and backward, on %s: %.0f %% of the "
            "operators' own time%s.",
            item->device, 100 * share, card ? " there" : "");
    }
}

// Ours for an item of another stack, of the same part, batch, size and threads. NULL: none.
static const plb_result *ours_for(const finder *f, const plb_result *other) {
    static const char *const stacks[] = {"plumb-replay", "plumb-plan"};
    const plb_result *ours = NULL;
    for (int k = 0; k < 2 && !ours; k++)
        ours = find(f, (wanted){.part = other->part,
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

static void table1(const finder *f) {
    static const char *const models[] = {"alexnet", "vgg19", "resnet50", "mobilenet_v2",
                                         "resnet18"};
    static const char *const devices[] = {"cuda", "cpu"};
    for (int k = 0; k < 5; k++) {
        const plb_result *torch = NULL, *ours = NULL;
        for (int d = 0; d < 2 && !ours; d++) {
            torch = find(f, (wanted){.model = models[k],
                                     .stack = "torch-eager",
                                     .task = "train",
                                     .device = devices[d]});
            ours = torch ? ours_for(f, torch) : NULL;
        }
        if (!ours) continue;
        SAY(f, OPEN,
            "Table 1's throughputs are of another paper, on another machine. Here %s on %s, batch "
            "%lld at %lld: torch-eager %.3g samples/s, %s %.3g.",
            models[k], torch->device, (long long)torch->batch, (long long)torch->size,
            1e9 / sample_ns(torch), ours->stack, 1e9 / sample_ns(ours));
    }
}

// ---------------------------------------------------------------------------- levels
static const char *floor_stack(const finder *f, const char *device) {
    static const char *const names[] = {"plumb-replay", "plumb-plan"};
    for (int k = 0; k < 2; k++)
        if (find(f, (wanted){.stack = names[k], .device = device, .task = "infer"}))
            return names[k];
    return NULL;
}

static const char *sweep_device(const finder *f) {
    return find(f, (wanted){.stack = "torch-eager", .device = "cuda", .task = "infer"}) ? "cuda"
                                                                                        : "cpu";
}

enum { MAX_CELLS = 256 };
typedef struct gap {
    double first, last; // torch-eager's time over the floor's, in the smallest and largest cell
    double ratio[MAX_CELLS]; // of all cells, ascending
    int64_t first_at, last_at;
    int cells;
} gap;

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The floor's item for a cell of torch-eager's evaluation, of the same part: parts lie minutes
// apart, in which the machine may have changed. NULL: `torch` is no such cell, or there is none.
static const plb_result *floor_of(const finder *f, const plb_result *torch, const char *device,
                                  const char *low) {
    const wanted w = {
        .stack = "torch-eager", .device = device, .task = "infer", .region = "latency"};
    if (!fits(torch, &w)) return NULL;
    return find(f, (wanted){.part = torch->part,
                            .model = torch->model,
                            .stack = low,
                            .device = torch->device,
                            .task = w.task,
                            .region = w.region,
                            .threads = torch->threads,
                            .batch = torch->batch,
                            .size = torch->size});
}

// Along cells that both have, from the least to the most work.
static gap measure_gap(const finder *f, const char *device, const char *low) {
    gap g = {.first = NAN, .last = NAN, .first_at = INT64_MAX};
    for (size_t i = 0; i < f->r->count; i++) {
        const plb_result *torch = &f->r->items[i];
        const plb_result *ours = floor_of(f, torch, device, low);
        double ratio = ours ? sample_ns(torch) / sample_ns(ours) : NAN;
        if (isnan(ratio) || g.cells == MAX_CELLS) continue;
        int64_t work = torch->batch * torch->size * torch->size;
        if (work < g.first_at) g.first = ratio, g.first_at = work;
        if (work > g.last_at) g.last = ratio, g.last_at = work;
        g.ratio[g.cells++] = ratio;
    }
    qsort(g.ratio, (size_t)g.cells, sizeof *g.ratio, compare);
    return g;
}

static void order_of_magnitude(const finder *f) {
    const char *device = sweep_device(f), *low = floor_stack(f, device);
    gap g = low ? measure_gap(f, device, low) : (gap){0};
    if (g.cells < 2) {
        SAY(f, OPEN,
            "PyTorch is almost an order of magnitude slower than all others: too few "
            "cells were measured.");
        return;
    }
    double middle = g.ratio[g.cells / 2];
    int verdict = middle >= 7 ? REPRODUCED : REFUTED;
    SAY(f, verdict,
        "PyTorch is almost an order of magnitude slower than all other implementations in "
        "evaluation. Here torch-eager takes %.2f times as long as %s on %s in the middle one of %d "
        "cells of equal batch and size (%.2f to %.2f).",
        middle, low, device, g.cells, g.ratio[0], g.ratio[g.cells - 1]);
    SAY(f, g.first > 1.1 * g.last ? REPRODUCED : REFUTED,
        "The gap narrows as batch and resolution grow. Here: %.2f times at the smallest cell, %.2f "
        "times at the largest.",
        g.first, g.last);
    if (verdict == REFUTED)
        SAY(f, EXPLAINED,
            "What the stated gap fits: the original's own copies (25.166 MB against 12.583 MB a "
            "batch) show that PyTorch was given twice the images of the others, and launches that "
            "are timed without waiting for the device look many times faster than work that is "
            "waited for. Here every cell has one batch for all and ends when the device is done.");
}

static void copy_sizes(const finder *f) {
    const double bytes = 32.0 * 3 * 256 * 256 * 4;
    SAY(f, EXPLAINED,
        "PyTorch copies 25.166 MB a batch, the others 12.583 MB. 32 x 3 x 256 x 256 x 4 bytes are "
        "%.3f MB: what PyTorch copied is the batch of 32 that was announced; 12.583 MB are %.0f "
        "images. The others were measured on half a batch, and so were their ReLU times (372.6 us "
        "and 690.6 us, a ratio of %.2f).",
        bytes / 1e6, 12.583e6 / (3 * 256 * 256 * 4), 690.6 / 372.6);
    const plb_result *host =
        find(f, (wanted){.stack = "torch-eager", .region = "host", .batch = 32, .size = 256});
    if (!host) return;
    const plb_result *resident = find(f, (wanted){.part = host->part,
                                                  .model = host->model,
                                                  .stack = host->stack,
                                                  .device = host->device,
                                                  .task = host->task,
                                                  .region = "latency",
                                                  .threads = host->threads,
                                                  .batch = host->batch,
                                                  .size = host->size});
    if (!resident) return;
    double copy = plb_result_number(host, "median_ns") - plb_result_number(resident, "median_ns");
    SAY(f, OPEN,
        "The copy took ~15.17 ms (1.66 GB/s) there. Here, on %s, an iteration from ordinary host "
        "memory takes %.3g ms longer than one on the device: %.3g GB/s. Every stack is given the "
        "same %.3f MB.",
        host->device, copy / 1e6, bytes / copy, plb_result_number(host, "input_bytes") / 1e6);
}

static void relu_grids(const finder *f) {
    SAY(f, EXPLAINED,
        "PyTorch's ReLU has grids of (1024, 2, 1), LibTorch's and cuDNN's of (512, 2, 1), and "
        "takes 1.85 times as long. A pointwise kernel's grid counts elements: twice the grid is "
        "twice the images. LibTorch and PyTorch launch the very same kernel.");
}

typedef struct crossover {
    int below, below_less, above, above_less; // cells; of them, where the floor takes less
    double least, most;                       // torch-eager's memory over the floor's
} crossover;

static crossover count_memory(const finder *f, const char *device, const char *low) {
    crossover c = {.least = INFINITY, .most = 0};
    for (size_t i = 0; low && i < f->r->count; i++) {
        const plb_result *torch = &f->r->items[i];
        const plb_result *ours = floor_of(f, torch, device, low);
        double ratio = ours ? plb_result_memory(torch) / plb_result_memory(ours) : NAN;
        if (isnan(ratio) || ratio <= 0) continue;
        // The slices lie at batch 32 and at resolution 96.
        bool below = torch->batch < 128 && torch->size <= 96;
        c.below += below, c.above += !below;
        c.below_less += below && ratio > 1, c.above_less += !below && ratio > 1;
        c.least = fmin(c.least, ratio), c.most = fmax(c.most, ratio);
    }
    return c;
}

static void memory_crossover(const finder *f) {
    const char *device = sweep_device(f), *low = floor_stack(f, device);
    const crossover c = count_memory(f, device, low);
    if (!strcmp(device, "cpu")) { // what a plan takes and what a process holds are no match
        SAY(f, OPEN,
            "The C level needs less memory than PyTorch below resolution 2^6 and batch 2^7: only "
            "on a device is memory of one kind known of both.");
        return;
    }
    if (!c.below || !c.above) {
        SAY(f, OPEN,
            "The C level needs less memory than PyTorch below resolution 2^6 and batch "
            "2^7: too few cells were measured.");
        return;
    }
    bool stated = c.below_less == c.below && c.above_less < c.above;
    SAY(f, stated ? REPRODUCED : REFUTED,
        "The C level needs less memory below resolution 2^6 and batch 2^7. Here %s needs less than "
        "torch-eager in %d of %d cells of small batches and sizes, and in %d of the other %d; "
        "torch-eager's memory is %.2f to %.2f times as much.%s",
        low, c.below_less, c.below, c.above_less, c.above, c.least, c.most,
        c.below_less < c.below && c.above_less == c.above
            ? " It is the other way round: what is small is weights, of which a plan may keep a "
              "second copy in the order of its kernels; what is large is what lies between layers, "
              "which a plan places in the same room."
            : "");
}

// Test losses before the first step, of all stacks that trained the part from its first seed; 0
// where all of them are ours.
static int first_losses(const finder *f, const plb_study_part *part, double *least, double *most) {
    int count = 0, others = 0;
    *least = INFINITY, *most = -INFINITY;
    for (size_t i = 0; i < f->r->count; i++) {
        const plb_result *item = &f->r->items[i];
        if (!item->ok || strcmp(item->part, part->name) != 0 || item->seed != part->seeds.value[0])
            continue;
        double loss = plb_result_epoch(item, 0, "test_loss");
        *least = fmin(*least, loss), *most = fmax(*most, loss), count++;
        others += strncmp(item->stack, "plumb-", 6) != 0;
    }
    return others ? count : 0;
}

static void initialisation(const finder *f) {
    for (size_t p = 0; p < f->r->spec.part_count; p++) {
        const plb_study_part *part = &f->r->spec.parts[p];
        double least, most;
        int count = part->kind == PLB_PART_TRAIN ? first_losses(f, part, &least, &most) : 0;
        if (count < 2) continue;
        SAY(f, EXPLAINED,
            "PyTorch initialises weights silently, and others differ. The rule is Kaiming's "
            "uniform one with a = sqrt(5): its bound is 1/sqrt(fan in), easily mistaken for "
            "1/fan in. Here all stacks read one file of weights: before the first step the test "
            "losses of %d trainings (%s) lie between %.6f and %.6f.",
            count, plb_part_title(f->r, part), least, most);
        return;
    }
    SAY(f, OPEN, "PyTorch initialises silently: no stack of PyTorch's trained beside ours here.");
}

static double last_accuracy(const plb_pool *pool) {
    return plb_pool_epoch(pool, -1, "test_accuracy").mean;
}

// More than who always tells the commonest class gets right, by two of the deviations that chance
// gives to so many samples.
static bool has_learnt(const plb_pool *pool) {
    const double share = plb_result_number(pool->first, "majority");
    const double samples = plb_result_number(pool->first, "test_samples");
    const double chance = 2 * sqrt(share * (1 - share) / fmax(samples, 1));
    return last_accuracy(pool) > share + chance;
}

// One seed each does not tell what seeds differ by: a few points between them say nothing.
static int accuracy_verdict(const plb_seed_spread *spread, const plb_pool *torch,
                            const plb_pool *ours) {
    if (!has_learnt(torch) && !has_learnt(ours)) return OPEN;
    const plb_agreement a = plb_pools_agreement(spread, torch, ours);
    if (!a.apart || a.difference > 0) return REFUTED;
    return a.difference > -0.05 && torch->count + ours->count < 4 ? OPEN : REPRODUCED;
}

// The end of every other stack, beside PyTorch's.
static void say_other_accuracies(const finder *f, const plb_study_part *part, const plb_pool *pools,
                                 int count, const plb_pool *torch, const plb_pool *ours) {
    const plb_seed_spread spread = plb_pools_spread(pools, count, torch->first->model);
    plb_strbuf ends = {0};
    int others = 0, apart = 0;
    for (int i = 0; i < count; i++) {
        const plb_pool *p = &pools[i];
        if (p == torch || p == ours || strcmp(p->first->model, torch->first->model) != 0) continue;
        plb_band band = plb_pool_epoch(p, -1, "test_accuracy");
        bool away = plb_pools_agreement(&spread, torch, p).apart;
        plb_strbuf_printf(&ends, "%s%s %.1f %% (%.1f to %.1f, %d seed%s)%s", others ? ", " : "",
                          p->first->stack, 100 * band.mean, 100 * band.low, 100 * band.high,
                          p->count, p->count == 1 ? "" : "s", away ? " (!)" : "");
        others++, apart += away;
    }
    if (others && !ends.failed)
        plb_document_verdict(f->d, PLB_TONE_PLAIN, NULL,
                             "%s, the other stacks: %s. %s what seeds, and chance in the samples, "
                             "make of torch-eager's %.1f %%.",
                             plb_part_title(f->r, part), ends.text,
                             apart ? "The marked ones lie outside" : "All lie within",
                             100 * last_accuracy(torch));
    plb_strbuf_free(&ends);
}

static void say_accuracy(const finder *f, const plb_study_part *part, const plb_pool *torch,
                         const plb_pool *ours, int verdict) {
    plb_band a = plb_pool_epoch(torch, -1, "test_accuracy");
    plb_band b = plb_pool_epoch(ours, -1, "test_accuracy");
    SAY(f, verdict,
        "The C level trains to a poorer accuracy. %s (%s), after %d epoch%s: torch-eager "
        "%.1f %% (%.1f to %.1f), %s %.1f %% (%.1f to %.1f), %d and %d seeds; always the "
        "commonest class: %.1f %%.%s",
        plb_part_title(f->r, part), torch->first->model, torch->last, torch->last == 1 ? "" : "s",
        100 * a.mean, 100 * a.low, 100 * a.high, ours->first->stack, 100 * b.mean, 100 * b.low,
        100 * b.high, torch->count, ours->count, 100 * plb_result_number(torch->first, "majority"),
        verdict != OPEN ? ""
        : has_learnt(torch) || has_learnt(ours)
            ? " More seeds would have to say whether that is more than seeds differ by."
            : " Neither does better than that yet: longer training would have to say.");
}

static void c_accuracy(const finder *f) {
    bool any = false, all_equal = true;
    for (size_t p = 0; p < f->r->spec.part_count; p++) {
        const plb_study_part *part = &f->r->spec.parts[p];
        plb_pool *pools = plb_arena_alloc(f->r->arena, MAX_POOLS * sizeof *pools);
        if (part->kind != PLB_PART_TRAIN || !pools) continue;
        int count = plb_results_pools(f->r, part->name, pools, MAX_POOLS);
        const plb_pool *torch = NULL, *ours = NULL;
        for (int i = 0; i < count; i++) {
            if (!torch && !strcmp(pools[i].first->stack, "torch-eager")) torch = &pools[i];
            bool floor = !strcmp(pools[i].first->stack, "plumb-replay") ||
                         (!ours && !strcmp(pools[i].first->stack, "plumb-plan"));
            if (floor) ours = &pools[i];
        }
        if (!torch || !ours) continue;
        const plb_seed_spread spread = plb_pools_spread(pools, count, torch->first->model);
        int verdict = accuracy_verdict(&spread, torch, ours);
        any = true, all_equal = all_equal && verdict == REFUTED;
        say_accuracy(f, part, torch, ours, verdict);
        say_other_accuracies(f, part, pools, count, torch, ours);
    }
    if (!any)
        SAY(f, OPEN, "The C level trains to a poorer accuracy: no part trained both here.");
    else if (all_equal)
        SAY(f, EXPLAINED,
            "A C level that falls behind has a mistake, not a cost of its own. Those that lead "
            "there are easily made: weights drawn within 1/fan in instead of 1/sqrt(fan in), "
            "running statistics that are never set, a rate that decays a batch instead of an "
            "epoch. With one file of weights and one set of batches nothing of it is left.");
}

static const struct {
    const char *name;
    void (*say)(const finder *f);
} findings[] = {
    {"cpu_threads", cpu_threads},
    {"gpu_threads", gpu_threads},
    {"gpu_speedup", gpu_speedup},
    {"profiler_cost", profiler_cost},
    {"conv_share", conv_share},
    {"table1", table1},
    {"order_of_magnitude", order_of_magnitude},
    {"copy_sizes", copy_sizes},
    {"relu_grids", relu_grids},
    {"memory_crossover", memory_crossover},
    {"initialisation", initialisation},
    {"c_accuracy", c_accuracy},
};

enum { FINDINGS = sizeof findings / sizeof *findings };

plb_status plb_study_check_finding(const char *name, const char *label) {
    const char *names[FINDINGS];
    for (size_t i = 0; i < FINDINGS; i++) {
        names[i] = findings[i].name;
        if (!strcmp(name, names[i])) return PLB_OK;
    }
    const char *nearest = plb_nearest_name(name, names, FINDINGS);
    return plb_fail(PLB_EINVAL, "%s: findings: there is no %s%s%s%s", label, name,
                    nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
}

void plb_study_say_findings(const plb_results *r, plb_document *d) {
    const finder f = {r, d};
    size_t ok = 0;
    for (size_t i = 0; i < r->count; i++) ok += r->items[i].ok;
    plb_document_verdict(d, PLB_TONE_PLAIN, NULL, "%zu of %zu items have numbers.", ok, r->count);
    for (size_t k = 0; k < r->spec.findings.count; k++)
        for (size_t i = 0; i < FINDINGS; i++)
            if (!strcmp(findings[i].name, r->spec.findings.word[k])) findings[i].say(&f);
}
