// SPDX-License-Identifier: Apache-2.0
// How far apart levels of abstraction lie in evaluation: time, copies, kernels' grids, memory.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/finding.h"

static const char *floor_stack(const plb_finder *f, const char *device) {
    static const char *const names[] = {"plumb-replay", "plumb-plan"};
    for (int k = 0; k < 2; k++)
        if (plb_find(f, (plb_wanted){.stack = names[k], .device = device, .task = "infer"}))
            return names[k];
    return NULL;
}

static const char *sweep_device(const plb_finder *f) {
    return plb_find(f, (plb_wanted){.stack = "torch-eager", .device = "cuda", .task = "infer"})
               ? "cuda"
               : "cpu";
}

typedef struct gap {
    double first, last; // torch-eager's time over the floor's, in the smallest and largest cell
    double *ratio;      // of all cells, ascending
    int64_t first_at, last_at;
    int cells;
} gap;

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// The floor's item for a cell of torch-eager's evaluation, of the same part: parts lie minutes
// apart, in which the machine may have changed. NULL: `torch` is no such cell, or there is none.
static const plb_result *floor_of(const plb_finder *f, const plb_result *torch, const char *device,
                                  const char *low) {
    const plb_wanted w = {
        .stack = "torch-eager", .device = device, .task = "infer", .region = "latency"};
    if (!plb_find_fits(torch, &w)) return NULL;
    return plb_find(f, (plb_wanted){.part = torch->part,
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
static gap measure_gap(const plb_finder *f, const char *device, const char *low) {
    gap g = {.first = NAN, .last = NAN, .first_at = INT64_MAX};
    g.ratio = plb_arena_alloc(f->r->arena, (f->r->count + 1) * sizeof *g.ratio);
    for (size_t i = 0; g.ratio && i < f->r->count; i++) {
        const plb_result *torch = &f->r->items[i];
        const plb_result *ours = floor_of(f, torch, device, low);
        double ratio = ours ? plb_find_sample_ns(torch) / plb_find_sample_ns(ours) : NAN;
        if (isnan(ratio)) continue;
        int64_t work = torch->batch * torch->size * torch->size;
        if (work < g.first_at) g.first = ratio, g.first_at = work;
        if (work > g.last_at) g.last = ratio, g.last_at = work;
        g.ratio[g.cells++] = ratio;
    }
    if (g.cells) qsort(g.ratio, (size_t)g.cells, sizeof *g.ratio, compare);
    return g;
}

void plb_find_order_of_magnitude(const plb_finder *f) {
    const char *device = sweep_device(f), *low = floor_stack(f, device);
    gap g = low ? measure_gap(f, device, low) : (gap){0};
    if (g.cells < 2) {
        plb_find_say(f, PLB_OPEN,
                     "PyTorch is almost an order of magnitude slower than all others: too few "
                     "cells were measured.");
        return;
    }
    double middle = g.ratio[g.cells / 2];
    plb_answer verdict = middle >= 7 ? PLB_REPRODUCED : PLB_REFUTED;
    plb_find_say(
        f, verdict,
        "PyTorch is almost an order of magnitude slower than all other implementations in "
        "evaluation. Here torch-eager takes %.2f times as long as %s on %s in the middle one of %d "
        "cells of equal batch and size (%.2f to %.2f).",
        middle, low, device, g.cells, g.ratio[0], g.ratio[g.cells - 1]);
    plb_find_say(
        f, g.first > 1.1 * g.last ? PLB_REPRODUCED : PLB_REFUTED,
        "The gap narrows as batch and resolution grow. Here: %.2f times at the smallest cell, %.2f "
        "times at the largest.",
        g.first, g.last);
    if (verdict == PLB_REFUTED)
        plb_find_say(
            f, PLB_EXPLAINED,
            "What the stated gap fits: the original's own copies (25.166 MB against 12.583 MB a "
            "batch) show that PyTorch was given twice the images of the others, and launches that "
            "are timed without waiting for the device look many times faster than work that is "
            "waited for. Here every cell has one batch for all and ends when the device is done.");
}

void plb_find_copy_sizes(const plb_finder *f) {
    const double bytes = 32.0 * 3 * 256 * 256 * 4;
    plb_find_say(
        f, PLB_EXPLAINED,
        "PyTorch copies 25.166 MB a batch, the others 12.583 MB. 32 x 3 x 256 x 256 x 4 bytes are "
        "%.3f MB: what PyTorch copied is the batch of 32 that was announced; 12.583 MB are %.0f "
        "images. The others were measured on half a batch, and so were their ReLU times (372.6 us "
        "and 690.6 us, a ratio of %.2f).",
        bytes / 1e6, 12.583e6 / (3 * 256 * 256 * 4), 690.6 / 372.6);
    const plb_result *host = plb_find(
        f, (plb_wanted){.stack = "torch-eager", .region = "host", .batch = 32, .size = 256});
    if (!host) return;
    const plb_result *resident = plb_find(f, (plb_wanted){.part = host->part,
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
    if (!(copy > 0)) {
        plb_find_say(f, PLB_OPEN,
                     "The copy took ~15.17 ms (1.66 GB/s) there. Here, on %s, an iteration from "
                     "ordinary host memory takes no longer than one on the device.",
                     host->device);
        return;
    }
    plb_find_say(
        f, PLB_OPEN,
        "The copy took ~15.17 ms (1.66 GB/s) there. Here, on %s, an iteration from ordinary host "
        "memory takes %.3g ms longer than one on the device: %.3g GB/s. Every stack is given the "
        "same %.3f MB.",
        host->device, copy / 1e6, bytes / copy, plb_result_number(host, "input_bytes") / 1e6);
}

void plb_find_relu_grids(const plb_finder *f) {
    plb_find_say(
        f, PLB_EXPLAINED,
        "PyTorch's ReLU has grids of (1024, 2, 1), LibTorch's and cuDNN's of (512, 2, 1), and "
        "takes 1.85 times as long. A pointwise kernel's grid counts elements: twice the grid is "
        "twice the images. LibTorch and PyTorch launch the very same kernel.");
}

typedef struct crossover {
    int below, below_less, above, above_less; // cells; of them, where the floor takes less
    double least, most;                       // torch-eager's memory over the floor's
} crossover;

// Below resolution 2^6 and batch 2^7. A slice over batches, which the original has too, lies at one
// resolution: there the batch alone decides.
static bool is_below(const plb_finder *f, const plb_result *cell) {
    for (size_t i = 0; i < f->r->spec.part_count; i++) {
        const plb_study_part *part = &f->r->spec.parts[i];
        const bool slice = part->size.count == 1 && part->batch.count > 1;
        if (slice && !strcmp(part->name, cell->part)) return cell->batch < 128;
    }
    return cell->batch < 128 && cell->size < 64;
}

static crossover count_memory(const plb_finder *f, const char *device, const char *low) {
    crossover c = {.least = INFINITY, .most = 0};
    for (size_t i = 0; low && i < f->r->count; i++) {
        const plb_result *torch = &f->r->items[i];
        const plb_result *ours = floor_of(f, torch, device, low);
        double ratio = ours ? plb_result_memory(torch) / plb_result_memory(ours) : NAN;
        if (isnan(ratio) || ratio <= 0) continue;
        bool below = is_below(f, torch);
        c.below += below, c.above += !below;
        c.below_less += below && ratio > 1, c.above_less += !below && ratio > 1;
        c.least = fmin(c.least, ratio), c.most = fmax(c.most, ratio);
    }
    return c;
}

void plb_find_memory_crossover(const plb_finder *f) {
    const char *device = sweep_device(f), *low = floor_stack(f, device);
    const crossover c = count_memory(f, device, low);
    if (!strcmp(device, "cpu")) { // what a plan takes and what a process holds are no match
        plb_find_say(
            f, PLB_OPEN,
            "The C level needs less memory than PyTorch below resolution 2^6 and batch 2^7: only "
            "on a device is memory of one kind known of both.");
        return;
    }
    if (!c.below || !c.above) {
        plb_find_say(f, PLB_OPEN,
                     "The C level needs less memory than PyTorch below resolution 2^6 and batch "
                     "2^7: too few cells were measured.");
        return;
    }
    bool stated = c.below_less == c.below && c.above_less < c.above;
    plb_find_say(
        f, stated ? PLB_REPRODUCED : PLB_REFUTED,
        "The C level needs less memory below resolution 2^6 and batch 2^7. Here %s needs less than "
        "torch-eager in %d of %d cells that lie there (in a slice over batches by batch alone), "
        "and in %d of the other %d; torch-eager's memory is %.2f to %.2f times as much.%s",
        low, c.below_less, c.below, c.above_less, c.above, c.least, c.most,
        c.below_less < c.below && c.above_less == c.above
            ? " It is the other way round: what is small is weights, of which a plan may keep a "
              "second copy in the order of its kernels; what is large is what lies between layers, "
              "which a plan places in the same room."
            : "");
}
