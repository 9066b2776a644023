// SPDX-License-Identifier: Apache-2.0
#include "probe/counted.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/core/hash.h"
#include "base/core/status.h"
#include "probe/mapped.h"

static const char *const names[] = {"cores", "tensor", "dram", "l2"};

const char *plb_counted_name(int total) {
    return total >= 0 && total < PLB_COUNTED_TOTALS ? names[total] : NULL;
}

static uint32_t bits_of(const char *word, size_t length) {
    if (length == 5 && strncmp(word, "flops", 5) == 0)
        return 1u << PLB_COUNTED_CORES | 1u << PLB_COUNTED_TENSOR;
    for (int i = 0; i < PLB_COUNTED_TOTALS; i++)
        if (strlen(names[i]) == length && strncmp(word, names[i], length) == 0) return 1u << i;
    return 0;
}

plb_status plb_counted_parse(const char *list, uint32_t *out_asked) {
    *out_asked = 0;
    for (const char *word = list;; word++) {
        const size_t length = strcspn(word, ",");
        const uint32_t bits = bits_of(word, length);
        if (!bits)
            return plb_fail(PLB_EINVAL,
                            "--counters: expected flops, cores, tensor, dram or l2, "
                            "separated by commas; found '%.*s'",
                            (int)length, word);
        *out_asked |= bits;
        word += length;
        if (!*word) return PLB_OK;
    }
}

plb_status plb_counted_create(const char *path, plb_counted **out) {
    void *map;
    *out = NULL;
    PLB_TRY(plb_mapped_new(path, sizeof(plb_counted), &map));
    plb_counted *c = map;
    c->magic = PLB_COUNTED_MAGIC;
    c->version = PLB_COUNTED_VERSION;
    c->size_bytes = sizeof *c;
    c->pid = (int32_t)getpid();
    *out = c;
    return PLB_OK;
}

void plb_counted_unmap(plb_counted *counted) {
    if (counted) munmap(counted, sizeof *counted);
}

plb_counted_kernel *plb_counted_row(plb_counted *c, const char *name) {
    uint64_t hash = plb_hash_string(PLB_HASH_SEED, name);
    if (!hash) hash = 1;
    for (uint32_t probe = 0; probe < 64; probe++) {
        plb_counted_kernel *row = &c->kernel[(hash + probe) & (PLB_COUNTED_KERNELS - 1)];
        if (row->hash == hash) return row;
        if (row->hash) continue;
        snprintf(row->name, sizeof row->name, "%s", name);
        row->hash = hash;
        return row;
    }
    return NULL;
}

static bool totals_are_sane(const double total[PLB_COUNTED_TOTALS]) {
    for (int i = 0; i < PLB_COUNTED_TOTALS; i++)
        if (!isfinite(total[i]) || total[i] < 0) return false;
    return true;
}

// So few that sums over all rows of all processes stay within an int64_t.
static bool is_count(int64_t n) {
    return n >= 0 && n < INT64_C(1) << 40;
}

plb_status plb_counted_check(const plb_counted *c, size_t size_bytes, const char *place) {
    if (size_bytes != sizeof *c)
        return plb_fail(PLB_EINVAL, "%s: expected %zu bytes of counters, found %zu", place,
                        sizeof *c, size_bytes);
    if (c->magic != PLB_COUNTED_MAGIC || c->version != PLB_COUNTED_VERSION ||
        c->size_bytes != sizeof *c)
        return plb_fail(PLB_EINVAL, "%s: not counters of version %d", place, PLB_COUNTED_VERSION);
    if (!memchr(c->chip, 0, sizeof c->chip) || !memchr(c->reason, 0, sizeof c->reason) ||
        !totals_are_sane(c->total) || !is_count(c->launches) || !is_count(c->passes) ||
        !is_count(c->unnamed) || !is_count(c->uncounted))
        return plb_fail(PLB_EINVAL, "%s: damaged", place);
    for (int i = 0; i < PLB_COUNTED_KERNELS; i++) {
        const plb_counted_kernel *k = &c->kernel[i];
        if (!k->hash) continue;
        if (!memchr(k->name, 0, sizeof k->name) || !totals_are_sane(k->total) ||
            !is_count(k->launches))
            return plb_fail(PLB_EINVAL, "%s: damaged: kernel %d", place, i);
    }
    return PLB_OK;
}
