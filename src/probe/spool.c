// SPDX-License-Identifier: Apache-2.0
#include "probe/spool.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/status.h"
#include "probe/mapped.h"

plb_status plb_spool_create(const char *path, plb_spool **out) {
    void *map;
    *out = NULL;
    PLB_TRY(plb_mapped_new(path, sizeof(plb_spool), &map));
    plb_spool *spool = map;
    spool->version = PLB_SPOOL_VERSION;
    spool->size_bytes = sizeof *spool;
    spool->pid = (int32_t)getpid();
    spool->name_bytes = 1;
    __atomic_store_n(&spool->magic, PLB_SPOOL_MAGIC, __ATOMIC_RELEASE); // whole from here on
    *out = spool;
    return PLB_OK;
}

void plb_spool_unmap(plb_spool *spool) {
    if (spool) munmap(spool, sizeof *spool);
}

void plb_spool_lose(plb_spool *spool, plb_lost reason, int64_t records) {
    __atomic_add_fetch(&spool->lost[reason], records, __ATOMIC_RELAXED);
}

uint32_t plb_spool_add_name(plb_spool *spool, const char *name) {
    const size_t bytes = strlen(name) + 1;
    uint32_t offset = __atomic_load_n(&spool->name_bytes, __ATOMIC_RELAXED);
    do {
        if (bytes > PLB_SPOOL_NAME_BYTES - offset) return 0;
    } while (!__atomic_compare_exchange_n(&spool->name_bytes, &offset, offset + (uint32_t)bytes,
                                          true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    memcpy(spool->names + offset, name, bytes);
    return offset;
}

void plb_spool_add_times(plb_spool_times *t, int64_t length_ns) {
    if (length_ns > t->max_ns) t->max_ns = length_ns;
    __atomic_signal_fence(__ATOMIC_RELEASE); // a kill in between leaves no least above the most
    if (!t->calls || length_ns < t->min_ns) t->min_ns = length_ns;
    t->calls++; // before the time, so that a reader at any moment finds no time without calls
    t->total_ns += length_ns;
}

plb_status plb_spool_read(const char *path, plb_spool **out) {
    struct stat info;
    void *map = MAP_FAILED;
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return plb_fail_errno("%s", path);
    plb_status status = PLB_OK;
    if (fstat(fd, &info)) {
        status = plb_fail_errno("%s", path);
    } else if (!info.st_size) {
        status = plb_fail(PLB_EINVAL, "%s: the process ended while the probe came up in it", path);
    } else if (info.st_size != (off_t)sizeof(plb_spool)) {
        status = plb_fail(PLB_EINVAL, "%s: expected %zu bytes of a probe's file, found %" PRId64,
                          path, sizeof(plb_spool), (int64_t)info.st_size);
    } else { // private, so that a program that still runs does not change what was checked
        map = mmap(NULL, sizeof(plb_spool), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED) status = plb_fail_errno("%s", path);
    }
    close(fd);
    if (status) return status;
    // A private map still shows later writes to pages that nobody touched: touch them all.
    volatile unsigned char *byte = map;
    for (size_t i = 0; i < sizeof(plb_spool); i += 4096) byte[i] = byte[i];
    status = plb_spool_check(map, sizeof(plb_spool), path);
    if (status) {
        plb_spool_unmap(map);
        return status;
    }
    *out = map;
    return PLB_OK;
}

static plb_status bad(const char *place, const char *what, int64_t index, int64_t found) {
    return plb_fail(PLB_EINVAL, "%s: damaged: %s %" PRId64 ": found %" PRId64, place, what, index,
                    found);
}

static bool is_sane(int64_t value) {
    return value >= 0 && value < INT64_C(1) << 50; // 13 days
}

// Over a table. Eight of the longest rows, so that the tables of all processes can be added up.
typedef struct table_sums {
    int64_t calls, total_ns;
} table_sums;

static bool add_sane(table_sums *sums, int64_t calls, int64_t total_ns) {
    if (!is_sane(calls) || !is_sane(total_ns)) return false;
    sums->calls += calls, sums->total_ns += total_ns;
    return sums->calls < INT64_C(1) << 53 && sums->total_ns < INT64_C(1) << 53;
}

static bool times_are_sane(const plb_spool_times *t, table_sums *sums) {
    return t->min_ns >= 0 && t->max_ns >= t->min_ns && (t->calls > 0 || t->total_ns == 0) &&
           add_sane(sums, t->calls, t->total_ns);
}

static plb_status check_kernels(const plb_spool *s, const char *place) {
    table_sums sums = {0}, of_graphs = {0};
    for (int i = 0; i < PLB_SPOOL_KERNELS; i++) {
        const plb_spool_kernel *k = &s->kernel[i];
        if (!k->hash) continue;
        if (k->name >= s->name_bytes) return bad(place, "name of kernel", i, k->name);
        if (k->device < 0 || k->device >= PLB_SPOOL_DEVICES || !times_are_sane(&k->times, &sums) ||
            !add_sane(&of_graphs, k->graph_calls, 0))
            return bad(place, "kernel", i, k->device);
    }
    return PLB_OK;
}

static plb_status check_calls(const plb_spool *s, const char *place) {
    table_sums sums = {0};
    for (int i = 0; i < PLB_SPOOL_CALLS; i++) {
        const plb_spool_named *row = &s->call[i];
        if (!row->hash) continue;
        if (row->name >= s->name_bytes) return bad(place, "call", i, row->name);
        if (row->busy >= PLB_BUSY_COUNT) return bad(place, "call", i, row->busy);
        if (!times_are_sane(&row->times, &sums)) return bad(place, "call", i, row->times.total_ns);
    }
    return PLB_OK;
}

// Up from a row to one without a parent; further than any program nests, it is a circle.
static bool has_an_end(const plb_spool *s, int32_t at) {
    for (int depth = 0; depth < 100; depth++) {
        if (at == -1) return true;
        if (at < 0 || at >= PLB_SPOOL_RANGES || !s->range[at].hash) return false;
        at = s->range[at].parent;
    }
    return false;
}

static plb_status check_ranges(const plb_spool *s, const char *place) {
    table_sums host = {0}, device = {0};
    for (int32_t i = 0; i < PLB_SPOOL_RANGES; i++) {
        const plb_spool_range *row = &s->range[i];
        if (!row->hash) continue;
        if (row->name >= s->name_bytes) return bad(place, "range", i, row->name);
        if (!has_an_end(s, i)) return bad(place, "parent of range", i, row->parent);
        if (!times_are_sane(&row->times, &host) ||
            !add_sane(&device, row->device_work, row->device_ns))
            return bad(place, "range", i, row->times.total_ns);
    }
    return PLB_OK;
}

static plb_status check_blocks(const plb_spool *s, const char *place) {
    if (s->blocks < 0 || s->blocks > PLB_SPOOL_BLOCKS) return bad(place, "blocks", 0, s->blocks);
    for (int64_t i = 0; i < s->blocks; i++)
        if (s->block[i].first_ns < 0 || s->block[i].last_ns < s->block[i].first_ns)
            return bad(place, "block", i, s->block[i].first_ns);
    for (int64_t i = 0; i < s->blocks; i++) {
        const plb_spool_work *w = &s->work[i];
        const plb_spool_block *b = &s->block[i];
        if (w->first_ns < 0 || w->last_ns < w->first_ns || !is_sane(w->active_ns) ||
            !is_sane(w->copying_ns) || !is_sane(b->first_number) || !is_sane(b->last_number))
            return bad(place, "work of block", i, w->active_ns);
    }
    return PLB_OK;
}

// Also false for what is no number.
static bool is_sum(double value) {
    return value >= 0 && value < 1e30;
}

static plb_status check_sources(const plb_spool *s, const char *place) {
    for (int i = 0; i < PLB_SPOOL_SOURCES; i++) {
        const plb_spool_source *t = &s->source[i];
        if (t->name >= s->name_bytes || t->device >= PLB_SPOOL_DEVICES || t->allocations < 0)
            return bad(place, "source of memory", i, t->name);
    }
    return PLB_OK;
}

static plb_status check_part(const plb_spool *s, const char *place) {
    if (s->alternates < 0 || s->alternates > 2 || s->budget_ppm < 0 || s->budget_ppm > 1000000)
        return bad(place, "share that was recorded", 0, s->alternates);
    if (s->blocks_apart < 0 || s->blocks_apart > s->blocks)
        return bad(place, "blocks apart", 0, s->blocks_apart);
    for (int64_t i = 0; i < s->blocks; i++)
        if (!is_sane(s->block_kernels[i]) || s->window[i].start_ns < 0 ||
            s->window[i].end_ns < s->window[i].start_ns)
            return bad(place, "kernels of block", i, s->block_kernels[i]);
    for (int i = 0; i < PLB_SPOOL_KERNELS; i++) {
        const plb_spool_spread *t = &s->spread[i];
        if (!is_sane(t->calls) || !is_sane(t->ns) || !is_sum(t->calls2) || !is_sum(t->ns2))
            return bad(place, "spread of kernel", i, t->calls);
    }
    return PLB_OK;
}

// Copies inside a device may have more bytes than is sane for times: these are not added up.
static bool copies_are_sane(const plb_spool_device *d) {
    for (int kind = 0; kind < PLB_COPY_COUNT; kind++)
        for (int pinned = 0; pinned < 2; pinned++)
            for (int k = 0; k < PLB_SPOOL_SIZES; k++) {
                const plb_spool_size *size = &d->copies[kind][pinned][k];
                if (!is_sane(size->calls) || !is_sane(size->total_ns) || size->bytes < 0)
                    return false;
            }
    return true;
}

static plb_status check_device(const plb_spool *s, int i, const char *place) {
    const plb_spool_device *d = &s->device[i];
    const plb_busy_sums *b = &d->sums;
    if (d->name >= s->name_bytes) return bad(place, "name of device", i, d->name);
    if (!is_sane(d->records) || !is_sane(d->kernels) || !is_sane(d->memsets) ||
        !is_sane(d->graph_launches))
        return bad(place, "records of device", i, d->records);
    if (!is_sane(d->allocations) || !is_sane(d->releases))
        return bad(place, "allocations of device", i, d->allocations);
    if (!copies_are_sane(d)) return bad(place, "copies of device", i, d->records);
    if (b->last_ns < b->first_ns || b->first_ns < 0)
        return bad(place, "span of device", i, b->last_ns);
    int64_t left_ns = b->last_ns - b->first_ns; // what the masks may add up to
    for (int m = 0; m < PLB_BUSY_MASKS; m++) {
        if (b->mask_ns[m] < 0 || b->mask_ns[m] > left_ns)
            return bad(place, "time of a mask of device", i, b->mask_ns[m]);
        left_ns -= b->mask_ns[m];
    }
    for (int g = 0; g < PLB_GAP_LONGEST; g++)
        if (b->longest[g].end_ns < b->longest[g].start_ns)
            return bad(place, "gap of device", i, b->longest[g].end_ns);
    return PLB_OK;
}

static plb_status check_tallies(const plb_spool *s, const char *place) {
    for (int i = 0; i < PLB_SPOOL_STREAMS; i++) {
        const plb_spool_stream *t = &s->stream[i];
        if (t->device >= PLB_SPOOL_DEVICES || !is_sane(t->kernels) || !is_sane(t->kernel_ns) ||
            !is_sane(t->copies) || !is_sane(t->copy_ns) || t->copy_bytes < 0 || !is_sane(t->sets) ||
            !is_sane(t->set_ns))
            return bad(place, "stream", i, t->kernels);
    }
    for (int i = 0; i < PLB_SPOOL_THREADS; i++) {
        const plb_spool_thread *t = &s->thread[i];
        if (!is_sane(t->calls) || !is_sane(t->call_ns) || !is_sane(t->waiting_ns) ||
            !is_sane(t->copying_ns) || !is_sane(t->device_ns) || !is_sane(t->launched))
            return bad(place, "thread", i, t->calls);
    }
    return PLB_OK;
}

static plb_status check_memory(const plb_spool *s, const char *place) {
    for (int i = 0; i < PLB_SPOOL_DEVICES; i++) {
        const plb_spool_memory *m = &s->memory[i];
        if (!is_sane(m->each_ns) || m->first_ns < 0 || m->points < 0 ||
            m->points > PLB_SPOOL_POINTS || (m->points && !m->each_ns))
            return bad(place, "memory over time of device", i, m->points);
    }
    return PLB_OK;
}

plb_status plb_spool_check(const plb_spool *s, size_t size_bytes, const char *place) {
    if (size_bytes < sizeof *s)
        return plb_fail(PLB_EINVAL, "%s: expected %zu bytes of a probe's file, found %zu", place,
                        sizeof *s, size_bytes);
    if (!s->magic)
        return plb_fail(PLB_EINVAL, "%s: the process ended while the probe came up in it", place);
    if (s->magic != PLB_SPOOL_MAGIC) return plb_fail(PLB_EINVAL, "%s: not a probe's file", place);
    if (s->version != PLB_SPOOL_VERSION || s->size_bytes != sizeof *s)
        return plb_fail(PLB_EINVAL, "%s: expected version %d of a probe's file, found %" PRIu32,
                        place, PLB_SPOOL_VERSION, s->version);
    if (s->name_bytes < 1 || s->name_bytes > PLB_SPOOL_NAME_BYTES || s->names[0] ||
        s->names[s->name_bytes - 1])
        return bad(place, "length of names", 0, s->name_bytes);
    if (!memchr(s->program, 0, sizeof s->program) || !memchr(s->reason, 0, sizeof s->reason))
        return bad(place, "text", 0, 0);
    if (s->state < PLB_PROBE_STARTING || s->state > PLB_PROBE_ENDED)
        return bad(place, "state", 0, s->state);
    for (int i = 0; i < PLB_SPOOL_DEVICES; i++) PLB_TRY(check_device(s, i, place));
    for (int i = 0; i < PLB_LOST_COUNT; i++)
        if (!is_sane(s->lost[i])) return bad(place, "lost records", i, s->lost[i]);
    if (!is_sane(s->recorded_ns) || !is_sane(s->outside_ranges_ns))
        return bad(place, "time of recording", 0, s->recorded_ns);
    PLB_TRY(check_kernels(s, place));
    PLB_TRY(check_calls(s, place));
    PLB_TRY(check_ranges(s, place));
    PLB_TRY(check_tallies(s, place));
    PLB_TRY(check_memory(s, place));
    PLB_TRY(check_blocks(s, place));
    PLB_TRY(check_sources(s, place));
    return check_part(s, place);
}
