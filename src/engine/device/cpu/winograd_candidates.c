// SPDX-License-Identifier: Apache-2.0
// Which configurations are worth timing. A rough model of a core's cycles ranks all that make
// sense; its constants only need to put the winners of measurements near the front.
#include <unistd.h>

#include "engine/device/cpu/winograd_isa.h"

enum {
    MAX_CONFIGS = 256,
    MAX_INPUT_BYTES = 8 << 20, // of one block: beyond, no cache of a core holds it
};

static const double least_rows = 4.5;          // fewer tiles cannot hide a multiply-add's latency
static const double call_cycles = 30;          // of the micro-kernel, to store and add a run's sums
static const double far_bytes_per_cycle = 7;   // read from beyond the second-level cache
static const double near_bytes_per_cycle = 32; // from it
static const double hopeless = 1.5;            // times the cheapest: not worth timing
static const double shared_waiting =
    1.08;                                // measured: barriers, and V read from another core's cache
static const double usable_cache = 0.75; // of the second level: the rest is for x and y

static double second_level_bytes(void) {
    long size = sysconf(_SC_LEVEL2_CACHE_SIZE);
    return size > 0 ? (double)size : 512 << 10;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

// Cycles of one block's transforms, from their arithmetic and their loads and stores.
static double transform_cycles(const plb_winograd_plan *p, double lanes) {
    double edge = p->edge, m = edge - 2, pairs = p->points.pairs, zero = p->points.zero;
    double input_1d = pairs * (1 + zero) + 2 * pairs * pairs, output_1d = pairs * (2 + m);
    double input = edge * input_1d + 2 * edge * edge;
    double output = (edge + m) * output_1d / 2 + edge * edge + edge * m;
    return (double)p->block_tiles / lanes * (input * (double)p->in_c + output * (double)p->out_c);
}

static double multiply_cycles(const plb_winograd_plan *p, double rows) {
    int64_t panels = (p->block_tiles + (int64_t)rows - 1) / (int64_t)rows;
    double filled = larger((double)p->block_tiles / (double)panels, least_rows);
    double runs = larger((double)p->in_c / p->points.run, 1);
    return p->edge * p->edge * (double)(p->panels * panels) *
           ((double)p->in_c * filled + runs * call_cycles);
}

// Cycles to bring a block's weights and, where they do not fit, its inputs to the core.
static double traffic_cycles(const plb_winograd_plan *p, double chunks) {
    const double room = usable_cache * second_level_bytes();
    const double u = (double)plb_winograd_packed_bytes(p), v = (double)p->v_floats * 4;
    const double m = (double)p->m_floats * 4, group = (double)p->group;
    double cycles = v > room ? v * chunks / far_bytes_per_cycle : 0;
    if (p->config.shared) {
        bool kept = group > 1 && u / chunks + v + m < room; // a chunk's, for all blocks of a group
        cycles += v / far_bytes_per_cycle + u / far_bytes_per_cycle / (kept ? group : 1);
    } else {
        cycles += u / (u + v + m < room ? near_bytes_per_cycle : far_bytes_per_cycle);
    }
    return cycles;
}

// Cycles until the last thread is done. Traffic hides behind multiplication, but not for free.
static double cost_of(const plb_winograd_plan *p) {
    const plb_winograd_kernels *isa = plb_winograd_kernels_of(p->isa);
    double chunks = (double)((p->panels + p->chunk_panels - 1) / p->chunk_panels);
    double multiply = multiply_cycles(p, isa->rows), traffic = traffic_cycles(p, chunks);
    double block = transform_cycles(p, isa->lanes) + larger(multiply, traffic) + 0.2 * traffic;
    int64_t tasks = p->config.shared ? p->group * (int64_t)chunks : p->blocks;
    int64_t rounds = (tasks + p->threads - 1) / p->threads;
    double idle = (double)(rounds * p->threads) / (double)tasks;
    double waiting = p->config.shared ? shared_waiting : 1;
    return block * (double)p->blocks * idle * waiting / p->threads;
}

// Up to `max` configurations, cheapest first.
typedef struct ranking {
    plb_winograd_config *config;
    double cost[MAX_CONFIGS];
    int count, max;
} ranking;

static void insert(ranking *r, const plb_winograd_config *config, double cost) {
    if (r->count == r->max && cost >= r->cost[r->count - 1]) return;
    int at = r->count < r->max ? r->count++ : r->count - 1;
    for (; at > 0 && r->cost[at - 1] > cost; at--) {
        r->config[at] = r->config[at - 1], r->cost[at] = r->cost[at - 1];
    }
    r->config[at] = *config, r->cost[at] = cost;
}

// All blockings of one variant and mode. Blocks that come to the same plan are tried once.
static void insert_blockings(ranking *r, const plb_winograd_shape *shape, plb_winograd_isa isa,
                             int threads, plb_winograd_config config) {
    static const int row_multiples[] = {1, 2, 3, 4, 5, 6, 8, 12},
                     channels[] = {32, 64, 128, 256, 512};
    const int rows = plb_winograd_kernels_of(isa)->rows;
    int64_t blocks = 0;
    for (size_t i = 0; i < sizeof row_multiples / sizeof *row_multiples; i++) {
        config.tile_block = rows * row_multiples[i];
        int64_t last_blocks = blocks, panels = 0;
        for (size_t j = 0; j < sizeof channels / sizeof *channels; j++) {
            config.channel_block = channels[j];
            plb_winograd_plan plan;
            if (plb_winograd_plan_make(shape, isa, &config, threads, &plan)) continue;
            blocks = plan.blocks;
            if (blocks == last_blocks || plan.chunk_panels == panels) break;
            panels = plan.chunk_panels;
            if (i && plan.v_floats * sizeof(float) > MAX_INPUT_BYTES) break;
            insert(r, &config, cost_of(&plan));
        }
    }
}

int plb_winograd_candidates(const plb_winograd_shape *shape, plb_winograd_isa isa, int threads,
                            plb_winograd_config *out, int max) {
    // F5 would win a few layers, but its error, though within a layer's bound, adds up in deep
    // networks: inception_v3's logits were 1.2e-4 off with it and 6e-5 without.
    static const int variants[] = {2, 4};
    ranking r = {.config = out, .max = max < MAX_CONFIGS ? max : MAX_CONFIGS};
    if (max < 1) return 0;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        for (int shared = 0; shared < 2; shared++) {
            plb_winograd_config config = {.m = variants[i], .shared = shared};
            insert_blockings(&r, shape, isa, threads, config);
        }
    }
    while (r.count > 1 && r.cost[r.count - 1] > hopeless * r.cost[0]) r.count--;
    return r.count;
}
