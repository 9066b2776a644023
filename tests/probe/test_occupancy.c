// SPDX-License-Identifier: Apache-2.0
// The share of a multiprocessor's warps that a kernel can fill, against values that NVIDIA and
// others publish, and against its table of limits, one at a time.
#include "check.h"
#include "probe/occupancy.h"

static void expect(int capability, int threads, int registers, int64_t shared, int blocks,
                   double share) {
    const plb_occupancy found = plb_occupancy_of(capability, threads, registers, shared);
    CHECK_SAY(found.blocks == blocks, "%d, %d threads, %d registers: %d blocks", capability,
              threads, registers, found.blocks);
    CHECK_NEAR(found.share, share, 1e-12);
}

// CUDA C++ Best Practices Guide, "Calculating Occupancy": on compute capability 7.0 a kernel of 37
// registers has 12 blocks of 128 threads (75 %), and four of 320 threads (63 %); at most 32
// registers give 100 %.
static void as_the_best_practices_guide_has_it(void) {
    expect(70, 128, 37, 0, 12, .75);
    expect(70, 320, 37, 0, 4, .625);
    expect(70, 128, 32, 0, 16, 1);
    expect(70, 128, 33, 0, 12, .75);
}

// S. Boehm, "How to Optimize a CUDA Matmul Kernel", from Nsight Compute on an RTX A6000 (8.6): 1024
// threads, 37 registers, 8192 bytes of shared memory: one block, 66 %.
static void as_an_a6000_had_it(void) {
    expect(86, 1024, 37, 8192, 1, 32. / 48);
}

// A block of a warp has as many as blocks may be; of all 255 registers 65536 / (255 up to 256) / 32
// warps fit; shared memory has 1 KiB of the driver's in each block from 8.0 on, and 227 KiB is the
// most that a block may have on 9.0.
static void each_limit(void) {
    expect(90, 32, 16, 0, 32, .5);
    expect(75, 32, 16, 0, 16, .5);
    expect(89, 32, 16, 0, 24, .5);
    expect(90, 1024, 16, 0, 2, 1);
    expect(86, 1024, 16, 0, 1, 32. / 48);
    expect(90, 32, 255, 0, 8, 8. / 64);
    expect(90, 128, 16, 227 << 10, 1, 4. / 64);
    expect(90, 128, 16, 113 << 10, 2, 8. / 64);
    expect(90, 128, 16, (113 << 10) + 1, 1, 4. / 64);
    expect(70, 128, 16, 48 << 10, 2, 8. / 64);
    expect(80, 128, 16, 163 << 10, 1, 4. / 64);
}

static void what_is_unknown_or_cannot_be(void) {
    expect(0, 128, 32, 0, 0, 0);
    expect(35, 128, 32, 0, 0, 0);
    expect(90, 0, 32, 0, 0, 0);
    expect(90, 2048, 32, 0, 0, 0);
    expect(90, 128, 300, 0, 0, 0);
    expect(90, 128, 32, 228 << 10, 0, 0);
    expect(90, 1024, 128, 0, 0, 0); // asks for twice the registers that there are
}

static const check_test tests[] = {
    {"as the Best Practices Guide has it", as_the_best_practices_guide_has_it},
    {"as an A6000 had it", as_an_a6000_had_it},
    {"each limit", each_limit},
    {"what is unknown or cannot be", what_is_unknown_or_cannot_be},
};
CHECK_MAIN(tests)
