// SPDX-License-Identifier: Apache-2.0
// Simulated measurements: times with noise that remembers, starts that differ, drift that both
// sides share, two modes, spikes. What comes out goes through the code that real blocks go through.
#ifndef PLB_TESTS_BENCH_WORLD_H
#define PLB_TESTS_BENCH_WORLD_H

#include "base/core/arena.h"
#include "bench/spread.h"
#include "bench/summary.h"
#include "draws.h"

enum { WORLD_STARTS = 40, WORLD_BLOCKS = 64, WORLD_SAMPLES = 4096 };

// Shares of the time, 0.01 for 1 %.
typedef struct world {
    int starts, samples; // of each side in all
    int blocks;          // of each side in a start; even: A B B A has two
    double effect;       // by which b is slower
    double noise;        // standard deviation inside a start
    double correlation;  // of neighbouring samples' noise
    double start_width;  // starts' effects are uniform in an interval of this width
    double drift;        // of both, linear, from the first block to the last
    double mode;         // height of a second mode that holds for 10 samples or so, a third of time
    int spike_period;    // every so many samples a spike of 3 times; 0: none
    double apart;        // standard deviation of what a whole side has in common, not interleaved
} world;

// One process and where it stands.
typedef struct world_start {
    double level, noise;
    bool second_mode;
    int64_t phase;
} world_start;

static inline world_start world_begin(const world *w, double level, draws *d) {
    return (world_start){.level = level + w->start_width * (draw_uniform(d) - 0.5),
                         .noise = draw_normal(d),
                         .phase = (int64_t)(1000 * draw_uniform(d))};
}

static inline int64_t world_sample(const world *w, world_start *s, double drift, draws *d) {
    if (w->mode > 0 && draw_uniform(d) < (s->second_mode ? 0.1 : 0.05))
        s->second_mode = !s->second_mode;
    double log_time = s->level + drift + w->noise * s->noise + (s->second_mode ? w->mode : 0);
    s->noise =
        w->correlation * s->noise + sqrt(1 - w->correlation * w->correlation) * draw_normal(d);
    double ns = 1e6 * exp(log_time);
    if (w->spike_period && s->phase++ % w->spike_period == 0) ns *= 3;
    return (int64_t)ns;
}

// Room for one side's starts.
typedef struct world_side {
    plb_start_summary start[WORLD_STARTS];
    plb_store_block blocks[WORLD_BLOCKS];
    int64_t samples[WORLD_SAMPLES];
    size_t used;
    plb_summary summary;
} world_side;

static inline void world_block(const world *w, world_side *side, world_start *s, int start,
                               int block, int64_t when, double drift, bool interleaved, draws *d) {
    // Samples are shared out among starts and blocks as evenly as can be.
    int places = w->starts * w->blocks, place = start * w->blocks + block;
    int count = (place + 1) * w->samples / places - place * w->samples / places;
    int64_t *samples = side->samples + side->used;
    for (int i = 0; i < count; i++) samples[i] = world_sample(w, s, drift, d);
    side->used += (size_t)count;
    side->blocks[block] = (plb_store_block){.kind = PLB_BLOCK_TIMED,
                                            .sweep = interleaved ? block / 2 : -1,
                                            .began_ns = when,
                                            .iterations_per_sample = 1,
                                            .samples_ns = samples,
                                            .count = (size_t)count};
}

static inline plb_status world_finish_start(const world *w, world_side *side, int64_t group,
                                            plb_arena *arena) {
    double *times;
    size_t count;
    plb_start_summary *start = &side->start[side->summary.starts];
    plb_status status =
        plb_start_summarize(side->blocks, (size_t)w->blocks, arena, start, &times, &count);
    start->number = side->summary.starts++;
    start->group = group, start->steady = true;
    side->used = 0;
    return status;
}

// Blocks in the order A B B A A B B A…, several starts of both.
static inline plb_status world_interleaved(const world *w, world_side *a, world_side *b,
                                           plb_arena *arena, draws *d) {
    plb_status status = PLB_OK;
    a->summary = (plb_summary){.start = a->start}, b->summary = (plb_summary){.start = b->start};
    const int turns = 2 * w->starts * w->blocks;
    for (int r = 0; r < w->starts && !status; r++) {
        world_start sa = world_begin(w, 0, d), sb = world_begin(w, log1p(w->effect), d);
        for (int turn = 0, done[2] = {0, 0}; turn < 2 * w->blocks; turn++) {
            int of_b = turn % 4 == 1 || turn % 4 == 2;
            int64_t when = r * 2 * w->blocks + turn;
            double drift = w->drift * (double)when / turns;
            world_block(w, of_b ? b : a, of_b ? &sb : &sa, r, done[of_b]++, when, drift, true, d);
        }
        status = world_finish_start(w, a, r, arena);
        if (!status) status = world_finish_start(w, b, r, arena);
    }
    plb_summary_combine(&a->summary);
    plb_summary_combine(&b->summary);
    return status;
}

// One side alone, `level` above the base, beginning at `when`.
static inline plb_status world_alone(const world *w, world_side *side, double level, int64_t when,
                                     plb_arena *arena, draws *d) {
    plb_status status = PLB_OK;
    side->summary = (plb_summary){.start = side->start};
    level += w->apart * draw_normal(d);
    for (int r = 0; r < w->starts && !status; r++) {
        world_start s = world_begin(w, level, d);
        for (int block = 0; block < w->blocks; block++, when++)
            world_block(w, side, &s, r, block, when, 0, false, d);
        status = world_finish_start(w, side, -1, arena);
    }
    plb_summary_combine(&side->summary);
    return status;
}

// What `runs` A/A runs of this world teach.
static inline plb_status world_history(const world *w, int runs, plb_arena *arena, draws *d,
                                       plb_spread *out) {
    static world_side side;
    plb_spread_sums sums = {0};
    plb_spread_run centers[64];
    plb_status status = PLB_OK;
    for (int i = 0; i < runs && !status; i++) {
        status = world_alone(w, &side, 0, 0, arena, d);
        plb_spread_add(&sums, &side.summary);
        centers[i] = (plb_spread_run){1, log(side.summary.median_ns), w->starts};
    }
    *out = plb_spread_of(&sums, centers, (size_t)runs);
    return status;
}

#endif
