// SPDX-License-Identifier: Apache-2.0
#include "probe/sum.h"

#include <string.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "probe/tally.h"

enum {
    LAG_MS = 2000, // records of a kernel come when it has ended: longer ones are late
    CACHE = 4096,  // rows of kernels that were seen last, a power of two
    // Of a device's timeline. A second at 100,000 launches, their calls included, several times.
    CAPACITY = 1 << 19,
};

struct plb_sum {
    plb_spool *spool;
    plb_timeline *timeline[PLB_SPOOL_DEVICES]; // from a device's first record on
    plb_spool_kernel *cached[CACHE]; // by the name's address, which says nothing for certain
};

plb_sum *plb_sum_new(plb_spool *spool) {
    plb_sum *sum = plb_alloc(sizeof *sum);
    if (sum) sum->spool = spool;
    return sum;
}

void plb_sum_free(plb_sum *sum) {
    if (!sum) return;
    for (int i = 0; i < PLB_SPOOL_DEVICES; i++) plb_timeline_free(sum->timeline[i]);
    plb_free(sum);
}

// The device's row, made on its first record.
static plb_spool_device *device_row(plb_sum *sum, uint32_t device) {
    if (device >= PLB_SPOOL_DEVICES) return NULL;
    if (!sum->timeline[device])
        sum->timeline[device] =
            plb_timeline_new(&sum->spool->device[device].sums, CAPACITY, LAG_MS * INT64_C(1000000));
    return sum->timeline[device] ? &sum->spool->device[device] : NULL;
}

static uint64_t key_of(const plb_record *r) {
    uint64_t hash = plb_hash_string(PLB_HASH_SEED, r->name);
    hash = plb_hash_bytes(hash, &r->device, sizeof r->device);
    hash = plb_hash_bytes(hash, r->grid, sizeof r->grid);
    hash = plb_hash_bytes(hash, r->block, sizeof r->block);
    hash = plb_hash_bytes(hash, &r->shared_bytes, sizeof r->shared_bytes);
    return hash ? hash : 1;
}

static plb_spool_kernel *find_row(plb_spool *spool, const plb_record *r) {
    uint64_t hash = key_of(r);
    for (uint32_t probe = 0; probe < 64; probe++) {
        plb_spool_kernel *row = &spool->kernel[(hash + probe) & (PLB_SPOOL_KERNELS - 1)];
        if (row->hash == hash) return row;
        if (row->hash) continue;
        row->name = plb_spool_add_name(spool, r->name);
        row->device = (int32_t)r->device;
        memcpy(row->grid, r->grid, sizeof row->grid);
        memcpy(row->block, r->block, sizeof row->block);
        row->registers = r->registers, row->shared_bytes = r->shared_bytes;
        row->hash = hash;
        return row;
    }
    return NULL;
}

static bool is_row_of(const plb_spool *spool, const plb_spool_kernel *row, const plb_record *r) {
    return row && row->device == (int32_t)r->device && row->registers == r->registers &&
           row->shared_bytes == r->shared_bytes &&
           memcmp(row->grid, r->grid, sizeof r->grid) == 0 &&
           memcmp(row->block, r->block, sizeof r->block) == 0 &&
           strcmp(spool->names + row->name, r->name) == 0;
}

// Mangled names are long, and comparing is cheaper than hashing.
static plb_spool_kernel *kernel_row(plb_sum *sum, const plb_record *r) {
    uint64_t key = (uint64_t)(uintptr_t)r->name >> 3 ^ (uint32_t)r->grid[0] * UINT64_C(2654435761);
    plb_spool_kernel **cached = &sum->cached[(key ^ key >> 12) & (CACHE - 1)];
    if (!is_row_of(sum->spool, *cached, r)) *cached = find_row(sum->spool, r);
    return *cached;
}

static plb_spool_named *call_row(plb_spool *spool, const plb_record *r) {
    uint64_t hash = plb_hash_string(PLB_HASH_SEED, r->name);
    if (!hash) hash = 1;
    for (uint32_t probe = 0; probe < 64; probe++) {
        plb_spool_named *row = &spool->call[(hash + probe) & (PLB_SPOOL_CALLS - 1)];
        if (row->hash == hash) return row;
        if (row->hash) continue;
        row->name = plb_spool_add_name(spool, r->name);
        row->busy = (uint32_t)r->busy;
        row->hash = hash;
        return row;
    }
    return NULL;
}

static uint32_t add_kernel(plb_sum *sum, plb_spool_device *device, const plb_record *r) {
    device->kernels++;
    plb_spool_kernel *row = kernel_row(sum, r);
    if (!row) {
        plb_spool_lose(sum->spool, PLB_LOST_TABLE, 1);
        return 0;
    }
    plb_spool_add_times(&row->times, r->end_ns - r->start_ns);
    if (r->in_graph) row->graph_calls++;
    return row->name;
}

static int size_class(int64_t bytes) {
    if (bytes < 1) return 0;
    int k = 63 - __builtin_clzll((uint64_t)bytes);
    return k < PLB_SPOOL_SIZES ? k : PLB_SPOOL_SIZES - 1;
}

static void add_copy(plb_spool_device *device, const plb_record *r) {
    plb_spool_size *row = &device->copies[r->copy][r->pinned][size_class(r->bytes)];
    row->calls++;
    row->bytes += r->bytes;
    row->total_ns += r->end_ns - r->start_ns;
}

plb_busy plb_busy_of_copy(plb_copy copy) {
    switch (copy) {
    case PLB_COPY_IN: return PLB_BUSY_COPY_IN;
    case PLB_COPY_OUT: return PLB_BUSY_COPY_OUT;
    case PLB_COPY_PEER: return PLB_BUSY_COMMUNICATION;
    default: return PLB_BUSY_COPY_INSIDE;
    }
}

// NCCL's kernels move data between devices; all begin so.
static bool communicates(const char *name) {
    return strncmp(name, "ncclDev", 7) == 0 || strncmp(name, "ncclKernel", 10) == 0;
}

static uint32_t add_device_work(plb_sum *sum, const plb_record *r) {
    plb_spool_device *device = device_row(sum, r->device);
    if (!device) {
        plb_spool_lose(sum->spool,
                       r->device < PLB_SPOOL_DEVICES ? PLB_LOST_MEMORY : PLB_LOST_DEVICE, 1);
        return 0;
    }
    plb_busy busy = PLB_BUSY_KERNEL;
    uint32_t name = 0;
    device->records++;
    if (r->kind == PLB_RECORD_KERNEL) {
        if (communicates(r->name)) busy = PLB_BUSY_COMMUNICATION;
        name = add_kernel(sum, device, r);
    } else if (r->kind == PLB_RECORD_COPY) {
        busy = plb_busy_of_copy(r->copy);
        add_copy(device, r);
    } else if (r->kind == PLB_RECORD_SET) {
        busy = PLB_BUSY_MEMSET;
        device->memsets++;
        device->memset_bytes += r->bytes;
    } else {
        device->graph_launches++;
    }
    plb_tally_stream(sum->spool, r);
    if (!r->aside) plb_timeline_add(sum->timeline[r->device], busy, r->start_ns, r->end_ns);
    return name;
}

// A call says nothing of the device it serves: what the host does while any device idles is told
// to all.
static uint32_t add_call(plb_sum *sum, const plb_record *r) {
    for (int i = 0; i < PLB_SPOOL_DEVICES && !r->aside; i++)
        if (sum->timeline[i]) plb_timeline_add(sum->timeline[i], r->busy, r->start_ns, r->end_ns);
    plb_tally_call(sum->spool, r);
    plb_spool_named *row = call_row(sum->spool, r);
    if (!row) {
        plb_spool_lose(sum->spool, PLB_LOST_TABLE, 1);
        return 0;
    }
    plb_spool_add_times(&row->times, r->end_ns - r->start_ns);
    return row->name;
}

static void add_memory(plb_sum *sum, const plb_record *r) {
    plb_spool_device *device =
        r->device < PLB_SPOOL_DEVICES ? &sum->spool->device[r->device] : NULL;
    if (!device) return;
    device->allocated_bytes += r->bytes;
    if (r->bytes >= 0)
        device->allocations++;
    else
        device->releases++;
    if (device->allocated_bytes > device->peak_bytes) device->peak_bytes = device->allocated_bytes;
    plb_tally_memory(&sum->spool->memory[r->device], r->start_ns, device->allocated_bytes);
    plb_spool_pool *pool = &sum->spool->pool[r->device];
    if (r->pool_bytes > pool->peak_bytes) pool->peak_bytes = r->pool_bytes;
    if (r->pool_used_bytes > pool->used_peak_bytes) pool->used_peak_bytes = r->pool_used_bytes;
}

bool plb_sum_has_times(const plb_record *r) {
    return r->end_ns >= r->start_ns && (r->end_ns || r->kind > PLB_RECORD_GRAPH);
}

uint32_t plb_sum_record(plb_sum *sum, const plb_record *r) {
    plb_spool *spool = sum->spool;
    spool->records++;
    if (!plb_sum_has_times(r)) {
        plb_spool_lose(spool, PLB_LOST_TIMES, 1);
        return 0;
    }
    switch (r->kind) {
    case PLB_RECORD_CALL: return add_call(sum, r);
    case PLB_RECORD_RANGE: return 0; // plb_ranges keeps those
    case PLB_RECORD_MEMORY: add_memory(sum, r); return 0;
    default: return add_device_work(sum, r);
    }
}

void plb_sum_resume(plb_sum *sum, int64_t at_ns) {
    for (int i = 0; i < PLB_SPOOL_DEVICES; i++)
        if (sum->timeline[i]) plb_timeline_resume(sum->timeline[i], at_ns);
}

void plb_sum_settle(plb_sum *sum, int all) {
    for (int i = 0; i < PLB_SPOOL_DEVICES; i++)
        if (sum->timeline[i]) plb_timeline_settle(sum->timeline[i], all);
}

void plb_sum_device(plb_sum *sum, uint32_t device, const char *name, int32_t sm_count,
                    int32_t warps_per_sm, int32_t capability, int64_t memory_bytes) {
    if (device >= PLB_SPOOL_DEVICES) return;
    plb_spool_device *row = &sum->spool->device[device];
    if (!row->name) row->name = plb_spool_add_name(sum->spool, name);
    row->sm_count = sm_count, row->warps_per_sm = warps_per_sm;
    row->capability = capability, row->memory_bytes = memory_bytes;
}
