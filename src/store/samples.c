// SPDX-License-Identifier: Apache-2.0
#include "store/samples.h"

#include "base/core/status.h"

static uint8_t *put(uint8_t *out, uint64_t value) {
    while (value >= 0x80) {
        *out++ = (uint8_t)(value | 0x80);
        value >>= 7;
    }
    *out++ = (uint8_t)value;
    return out;
}

// The byte after the number, or NULL if it is cut off or larger than an int64_t.
static const uint8_t *get(const uint8_t *at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; at < end && shift < 63; shift += 7) {
        *value |= (uint64_t)(*at & 0x7f) << shift;
        if (!(*at++ & 0x80)) return at;
    }
    return NULL;
}

size_t plb_samples_encode(const int64_t *samples, size_t count, uint8_t *out) {
    if (!count) return 0;
    int64_t least = samples[0];
    for (size_t i = 1; i < count; i++) least = samples[i] < least ? samples[i] : least;
    uint8_t *at = put(out, (uint64_t)least);
    for (size_t i = 0; i < count; i++) at = put(at, (uint64_t)(samples[i] - least));
    return (size_t)(at - out);
}

plb_status plb_samples_decode(const uint8_t *bytes, size_t size_bytes, size_t count, int64_t *out) {
    const uint8_t *at = bytes, *end = bytes + size_bytes;
    uint64_t least = 0, more;
    if (count && !(at = get(at, end, &least))) {
        return plb_fail(PLB_EINVAL, "samples: offset 0: expected a number");
    }
    for (size_t i = 0; i < count; i++) {
        const uint8_t *from = at;
        if (!(at = get(at, end, &more)) || more > (uint64_t)INT64_MAX - least) {
            return plb_fail(PLB_EINVAL, "samples: offset %zu: expected sample %zu of %zu",
                            (size_t)(from - bytes), i, count);
        }
        out[i] = (int64_t)(least + more);
    }
    if (at != end) {
        return plb_fail(PLB_EINVAL, "samples: offset %zu: expected the end after %zu samples",
                        (size_t)(at - bytes), count);
    }
    return PLB_OK;
}
