// SPDX-License-Identifier: Apache-2.0
#include "engine/ops/window.h"

#include "base/core/status.h"

plb_status plb_window_expect(const char *op, int axis, const char *what, int64_t value, int64_t low,
                             int64_t high) {
    if (value >= low && value <= high) return PLB_OK;
    return plb_fail(PLB_EINVAL, "%s: axis %d: expected %s of %lld to %lld, found %lld", op, axis,
                    what, (long long)low, (long long)high, (long long)value);
}

int64_t plb_window_reach(int64_t count, int64_t step) {
    const int64_t most = INT64_MAX / 4; // sums of a few stay representable
    int64_t reach;
    if (__builtin_mul_overflow(count - 1, step, &reach) || reach >= most) return most;
    return reach + 1;
}
