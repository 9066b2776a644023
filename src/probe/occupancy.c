// SPDX-License-Identifier: Apache-2.0
// The limits are those of NVIDIA's table of compute capabilities (CUDA's programming guide).
#include "probe/occupancy.h"

#include <stddef.h>

enum {
    WARP = 32,
    REGISTERS = 64 << 10, // of a multiprocessor, of all below
    REGISTER_UNIT = 256,  // handed to a warp at a time
    MOST_REGISTERS = 255, // of a thread
    MOST_THREADS = 1024,  // of a block
};

typedef struct limits {
    int capability, blocks, warps, shared_kib; // of a multiprocessor
    int parts;                                 // that share out its registers
    int shared_unit_bytes, reserved_bytes; // of a block's shared memory: handed out; the driver's
} limits;

static const limits table[] = {
    {60, 32, 64, 64, 2, 256, 0},      {61, 32, 64, 96, 4, 256, 0},
    {62, 32, 64, 64, 4, 256, 0},      {70, 32, 64, 96, 4, 256, 0},
    {72, 32, 64, 96, 4, 256, 0},      {75, 16, 32, 64, 4, 256, 0},
    {80, 32, 64, 164, 4, 128, 1024},  {86, 16, 48, 100, 4, 128, 1024},
    {87, 16, 48, 164, 4, 128, 1024},  {89, 24, 48, 100, 4, 128, 1024},
    {90, 32, 64, 228, 4, 128, 1024},  {100, 32, 64, 228, 4, 128, 1024},
    {103, 32, 64, 228, 4, 128, 1024}, {110, 24, 48, 228, 4, 128, 1024},
    {120, 24, 48, 100, 4, 128, 1024}, {121, 24, 48, 100, 4, 128, 1024},
};

static int64_t up_to(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

static int64_t smaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static const limits *find(int capability) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].capability == capability) return &table[i];
    return NULL;
}

plb_occupancy plb_occupancy_of(int capability, int64_t block_threads, int registers,
                               int64_t shared_bytes) {
    const limits *l = find(capability);
    const plb_occupancy unknown = {0};
    if (!l || block_threads < 1 || block_threads > MOST_THREADS || registers < 0 ||
        registers > MOST_REGISTERS || shared_bytes < 0)
        return unknown;
    const int64_t warps = (block_threads + WARP - 1) / WARP;
    int64_t blocks = smaller(l->blocks, l->warps / warps);
    if (registers > 0) { // each warp's come from one part of the multiprocessor
        const int64_t of_warp = up_to((int64_t)registers * WARP, REGISTER_UNIT);
        blocks = smaller(blocks, REGISTERS / l->parts / of_warp * l->parts / warps);
    }
    const int64_t shared = up_to(shared_bytes + l->reserved_bytes, l->shared_unit_bytes);
    if (shared > 0) blocks = smaller(blocks, (int64_t)l->shared_kib * 1024 / shared);
    return (plb_occupancy){(int)blocks, (double)(blocks * warps) / l->warps};
}
