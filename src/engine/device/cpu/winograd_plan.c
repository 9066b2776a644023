// SPDX-License-Identifier: Apache-2.0
// What can be done, the numbers of a plan, and its configuration as text.
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/winograd_isa.h"

enum {
    LINE_FLOATS = PLB_CACHE_LINE / sizeof(float),
    SHARED_FLOATS = 3 << 20, // transformed inputs that threads share at a time: 12 MB, part of L3
    MAX_BLOCK = 1 << 16,
};

bool plb_winograd_present(plb_winograd_isa isa) {
    if (isa == PLB_WINOGRAD_AVX2) {
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    }
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

const char *plb_winograd_isa_name(plb_winograd_isa isa) {
    return isa == PLB_WINOGRAD_AVX2 ? "avx2" : "avx512";
}

const plb_winograd_kernels *plb_winograd_kernels_of(plb_winograd_isa isa) {
    return isa == PLB_WINOGRAD_AVX2 ? &plb_winograd_kernels_avx2 : &plb_winograd_kernels_avx512;
}

// Every offset in floats must fit an int64_t, in bytes too, with room for padding and positions.
static bool too_large(const plb_winograd_shape *s) {
    int64_t plane, channels = s->c > s->k ? s->c : s->k, all;
    return s->h > INT32_MAX / 2 || s->w > INT32_MAX / 2 || channels > INT32_MAX / 256 ||
           __builtin_mul_overflow(s->h + 2, s->w + 2, &plane) ||
           __builtin_mul_overflow(plane, s->n, &all) ||
           __builtin_mul_overflow(all, channels, &all) || all > INT64_MAX / 4096;
}

const char *plb_winograd_refuse(const plb_winograd_shape *shape, plb_winograd_isa isa) {
    if (!plb_winograd_present(isa)) {
        return isa == PLB_WINOGRAD_AVX2 ? "the processor lacks AVX2 or FMA"
                                        : "the processor lacks AVX-512 F, BW, VL or DQ";
    }
    if (shape->n < 1 || shape->c < 1 || shape->k < 1 || shape->h < 1 || shape->w < 1) {
        return "an extent is below 1";
    }
    int lanes = plb_winograd_kernels_of(isa)->lanes;
    if (shape->c % lanes || shape->k % lanes) {
        return isa == PLB_WINOGRAD_AVX2 ? "channels are not a multiple of 8"
                                        : "channels are not a multiple of 16";
    }
    if (shape->pad < 0 || shape->pad > 2) return "padding is not 0 to 2";
    if (shape->h + 2 * shape->pad < 3 || shape->w + 2 * shape->pad < 3) {
        return "the padded input is smaller than the kernel";
    }
    return too_large(shape) ? "the tensors are too large" : NULL;
}

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}
static int64_t min64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

// The least stride of at least `floats` that is an odd number of cache lines.
static size_t odd_lines(size_t floats) {
    return (((floats + LINE_FLOATS - 1) / LINE_FLOATS) | 1) * LINE_FLOATS;
}

static void plan_extents(plb_winograd_plan *p) {
    const plb_winograd_shape *s = &p->shape;
    int64_t oh = s->h + 2 * s->pad - 2, ow = s->w + 2 * s->pad - 2, m = p->config.m;
    p->edge = (int)m + 2, p->pad = s->rotate ? 2 - s->pad : s->pad;
    p->in_h = s->rotate ? oh : s->h, p->in_w = s->rotate ? ow : s->w;
    p->out_h = s->rotate ? s->h : oh, p->out_w = s->rotate ? s->w : ow;
    p->in_c = s->rotate ? s->k : s->c, p->out_c = s->rotate ? s->c : s->k;
    p->tiles_h = ceil_div(p->out_h, m), p->tiles_w = ceil_div(p->out_w, m);
    p->tiles = s->n * p->tiles_h * p->tiles_w;
}

// Private blocks number as many as the threads, or a multiple, so that no thread is left waiting.
static void plan_blocks(plb_winograd_plan *p) {
    const plb_winograd_kernels *isa = plb_winograd_kernels_of(p->isa);
    const int64_t positions = p->edge * p->edge, wide = 2 * isa->lanes;
    p->blocks = ceil_div(p->tiles, p->config.tile_block);
    if (!p->config.shared) {
        p->blocks = min64(ceil_div(p->blocks, p->threads) * p->threads, p->tiles);
    }
    p->block_tiles = ceil_div(p->tiles, p->blocks);
    p->panels = ceil_div(p->out_c, wide);
    p->chunk_panels = min64(ceil_div(p->config.channel_block, wide), p->panels);
    int64_t rows = ceil_div(p->block_tiles, isa->rows) * isa->rows;
    p->v_stride = odd_lines((size_t)(rows * p->in_c));
    p->v_floats = p->v_stride * (size_t)positions;
    p->u_stride = odd_lines((size_t)(p->in_c * wide));
    p->m_stride = odd_lines((size_t)(p->block_tiles * wide));
    p->m_floats = p->m_stride * (size_t)(positions * p->chunk_panels);
    p->group = min64(p->blocks, SHARED_FLOATS / (int64_t)p->v_floats);
    if (p->group < 1) p->group = 1;
}

plb_status plb_winograd_plan_make(const plb_winograd_shape *shape, plb_winograd_isa isa,
                                  const plb_winograd_config *config, int threads,
                                  plb_winograd_plan *plan) {
    const char *refusal = plb_winograd_refuse(shape, isa);
    if (refusal) return plb_fail(PLB_EUNSUPPORTED, "winograd: %s", refusal);
    *plan = (plb_winograd_plan){.shape = *shape, .config = *config, .isa = isa, .threads = threads};
    if (threads < 1 || threads > MAX_BLOCK) {
        return plb_fail(PLB_EINVAL, "winograd: threads: expected 1 to %d, found %d", MAX_BLOCK,
                        threads);
    }
    if (config->tile_block < 1 || config->tile_block > MAX_BLOCK || config->channel_block < 1 ||
        config->channel_block > MAX_BLOCK) {
        return plb_fail(PLB_EINVAL, "winograd: blocks: expected 1 to %d, found tb=%d kc=%d",
                        MAX_BLOCK, config->tile_block, config->channel_block);
    }
    if (!plb_winograd_points_make(config->m, &plan->points)) {
        return plb_fail(PLB_EINVAL, "winograd: no variant f%d", config->m);
    }
    plan_extents(plan);
    plan_blocks(plan);
    return PLB_OK;
}

size_t plb_winograd_packed_bytes(const plb_winograd_plan *plan) {
    return (size_t)(plan->panels * plan->edge * plan->edge) * plan->u_stride * sizeof(float);
}

size_t plb_winograd_workspace_bytes(const plb_winograd_plan *plan) {
    size_t threads = (size_t)plan->threads;
    size_t inputs = plan->config.shared ? (size_t)plan->group : threads;
    return (inputs * plan->v_floats + threads * plan->m_floats) * sizeof(float);
}

double plb_winograd_flops(const plb_winograd_plan *plan) {
    double edge = plan->edge, m = edge - 2, pairs = plan->points.pairs, zero = plan->points.zero;
    double tiles = (double)plan->tiles, in_c = (double)plan->in_c, out_c = (double)plan->out_c;
    double input_1d = pairs * (1 + zero) + 2 * pairs * pairs, output_1d = pairs * (2 + m);
    return 2 * tiles *
           (edge * edge * in_c * out_c + 2 * edge * input_1d * in_c +
            (edge + m) * output_1d * out_c);
}

char *plb_winograd_config_format(const plb_winograd_config *config,
                                 char text[PLB_WINOGRAD_TEXT_BYTES]) {
    snprintf(text, PLB_WINOGRAD_TEXT_BYTES, "winograd f%d %s tb=%d kc=%d", config->m,
             config->shared ? "shared" : "private", config->tile_block, config->channel_block);
    return text;
}

plb_status plb_winograd_config_parse(const char *text, plb_winograd_config *config) {
    plb_winograd_config found = {0};
    plb_winograd_points points;
    char mode[8], canonical[PLB_WINOGRAD_TEXT_BYTES];
    if (sscanf(text, "winograd f%9d %7[a-z] tb=%9d kc=%9d", &found.m, mode, &found.tile_block,
               &found.channel_block) == 4) {
        found.shared = !strcmp(mode, "shared");
        bool valid = plb_winograd_points_make(found.m, &points) && found.tile_block > 0 &&
                     found.tile_block <= MAX_BLOCK && found.channel_block > 0 &&
                     found.channel_block <= MAX_BLOCK;
        if (valid && !strcmp(plb_winograd_config_format(&found, canonical), text)) {
            *config = found;
            return PLB_OK;
        }
    }
    return plb_fail(PLB_EINVAL,
                    "winograd configuration: expected like \"winograd f4 private tb=48 kc=64\", "
                    "found \"%.60s\"",
                    text);
}
