// SPDX-License-Identifier: Apache-2.0
#include "probe/operators.h"

#include <stdlib.h>
#include <string.h>

#include "base/core/hash.h"
#include "base/core/status.h"

enum { DEPTH = 128 }; // deeper than any profile's ranges

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "no memory for operators");
}

static int64_t key_of(const plb_operator *o, plb_operator_order order) {
    switch (order) {
    case PLB_OPERATORS_BY_SELF_CPU: return o->self_cpu_ns;
    case PLB_OPERATORS_BY_CPU: return o->cpu_ns;
    case PLB_OPERATORS_BY_CPU_AVERAGE: return o->calls ? o->cpu_ns / o->calls : 0;
    case PLB_OPERATORS_BY_SELF_DEVICE: return o->self_device_ns;
    case PLB_OPERATORS_BY_DEVICE: return o->device_ns;
    case PLB_OPERATORS_BY_CALLS: return o->calls;
    default: return 0;
    }
}

static int compare(const void *left, const void *right, void *order) {
    const plb_operator *a = left, *b = right;
    const int64_t x = key_of(a, *(plb_operator_order *)order);
    const int64_t y = key_of(b, *(plb_operator_order *)order);
    if (x != y) return x < y ? 1 : -1;
    return strcmp(a->name, b->name);
}

// The row of a range's name, made when it is new.
static plb_status row_of(plb_map *index, plb_operator *rows, int *count, const char *name,
                         int *out) {
    int64_t at = plb_map_get(index, name, -1);
    if (at < 0) {
        at = (*count)++;
        rows[at] = (plb_operator){.name = name};
        PLB_TRY(plb_map_set(index, name, at));
    }
    *out = (int)at;
    return PLB_OK;
}

static plb_status add_all(const plb_profile *p, plb_map *index, plb_operator *rows, int *count) {
    int path[DEPTH]; // the row of each range around the one at hand
    for (int i = 0; i < p->ranges; i++) {
        const plb_profile_range *r = &p->range[i];
        const int depth = r->depth < DEPTH ? r->depth : DEPTH - 1;
        bool inside_itself = false;
        PLB_TRY(row_of(index, rows, count, r->name, &path[depth]));
        plb_operator *o = &rows[path[depth]];
        for (int d = 0; d < depth; d++) inside_itself |= path[d] == path[depth];
        o->calls += r->calls;
        o->self_cpu_ns += r->total_ns;
        o->self_device_ns += r->self_device_ns;
        if (!inside_itself) o->cpu_ns += r->total_ns, o->device_ns += r->device_ns;
        o->work += r->device_work;
        if (!depth) continue;
        rows[path[depth - 1]].self_cpu_ns -= r->total_ns;
        rows[path[depth - 1]].work -= r->device_work;
    }
    return PLB_OK;
}

plb_status plb_operators_of(const plb_profile *p, plb_operator_order order, plb_arena *arena,
                            plb_operator **out, int *out_count) {
    *out = NULL, *out_count = 0;
    plb_operator *rows = plb_arena_alloc(arena, ((size_t)p->ranges + 1) * sizeof *rows);
    plb_map *index = plb_map_new();
    plb_status status;
    if (!rows || !index) PLB_TRY_OUT(no_memory());
    PLB_TRY_OUT(add_all(p, index, rows, out_count));
    qsort_r(rows, (size_t)*out_count, sizeof *rows, compare, &order);
    *out = rows;
out:
    plb_map_free(index);
    return status;
}
