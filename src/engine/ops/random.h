// SPDX-License-Identifier: Apache-2.0
// Which random number an element gets. The key mixes the seed with the node's id; the counter is
// the number of the block of four elements (logical row-major order) and the step. So the numbers
// depend on nothing else: not on threads, layout or device.
#ifndef PLB_ENGINE_OPS_RANDOM_H
#define PLB_ENGINE_OPS_RANDOM_H

#include "base/core/philox.h"
#include "engine/ops/op.h"
#include "plumb/ops.h"

// The random state is u64[2]: seed, step.
static inline uint64_t plb_random_key(const uint64_t *state, int64_t id) {
    return state[0] ^ ((uint64_t)id + 1) * UINT64_C(0x9E3779B97F4A7C15);
}

static inline uint32_t plb_random_word(const uint64_t *state, int64_t id, uint64_t element) {
    plb_philox_block block = plb_philox(plb_random_key(state, id), element / 4, state[1]);
    return block.word[element % 4];
}

// The largest number of a float dtype that is below `high`: where rounding would reach the bound
// of [low, high), this one stands. INFINITY, no bound, of integers and where the range is empty.
PLB_API double plb_uniform_most(plb_dtype dtype, double low, double high);
// Whether any of the numbers that 24 bits give is past it; where none is, nobody need look.
PLB_API bool plb_uniform_reaches(plb_dtype dtype, double low, double high);

// PLB_EINVAL unless `type` is that of a random state.
PLB_MUST_USE plb_status plb_random_check_state(const plb_type *type, const char *op);

#endif
