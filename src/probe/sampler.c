// SPDX-License-Identifier: Apache-2.0
#include "probe/sampler.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "probe/chains.h"
#include "probe/places.h"

enum {
    // Of data, a power of two. A sample every millisecond fills the first in 6 s, the second, where
    // each comes with the longest chain of calls, in 2.
    RING_PAGES = 64,
    RING_PAGES_CALLS = 512,
    RING_PAGES_LEAST = 4,
};

// One processor's notes, which the kernel writes and we read.
typedef struct ring {
    int fd;
    struct perf_event_mmap_page *page;
    size_t bytes; // of data, behind the first page
} ring;

// A note where it lies in the batch: notes of several processors are only in order by time.
typedef struct note {
    uint64_t time_ns;
    size_t at;
} note;

struct plb_sampler {
    ring *ring;
    int rings;
    plb_places *places; // what is known of processes and addresses
    plb_chains *chains; // NULL: not noted
    uint8_t *batch;
    note *note;
    size_t batch_bytes, batch_room, notes, note_room;
    int64_t lost, period_ns;
    bool kernel_too;
    char reason[PLB_SAMPLED_REASON_BYTES];
};

// What stands at the end of every note but a sample, which has the same three in front.
typedef struct stamp {
    uint32_t pid, tid;
    uint64_t time_ns;
} stamp;

static int open_on(const plb_sampler *s, pid_t pid, int processor, bool kernel_too) {
    const uint64_t type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_CPU_CLOCK,
                                   .sample_period = (uint64_t)s->period_ns,
                                   .sample_type = s->chains ? type | PERF_SAMPLE_CALLCHAIN : type,
                                   .disabled = 1,
                                   .inherit = 1,
                                   .enable_on_exec = 1,
                                   .exclude_kernel = !kernel_too,
                                   .exclude_callchain_kernel = 1,
                                   .exclude_hv = 1,
                                   .mmap = 1,
                                   .mmap2 = 1,
                                   .comm = 1,
                                   .comm_exec = 1,
                                   .task = 1,
                                   .sample_id_all = 1,
                                   .use_clockid = 1,
                                   .clockid = CLOCK_MONOTONIC};
    return (int)syscall(SYS_perf_event_open, &attr, pid, processor, -1, PERF_FLAG_FD_CLOEXEC);
}

static void unmap_rings(plb_sampler *s) {
    for (int i = 0; i < s->rings; i++) {
        ring *r = &s->ring[i];
        if (r->page) munmap(r->page, r->bytes + (size_t)sysconf(_SC_PAGESIZE));
        r->page = NULL;
    }
}

static bool map_rings(plb_sampler *s, size_t pages) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < s->rings; i++) {
        ring *r = &s->ring[i];
        void *at = mmap(NULL, (pages + 1) * page, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
        if (at == MAP_FAILED) {
            const int error = errno;
            unmap_rings(s);
            errno = error;
            return false;
        }
        r->page = at, r->bytes = pages * page;
    }
    return true;
}

// All of one size: what the system lets us lock would else be used up by the first.
static bool map_all(plb_sampler *s) {
    size_t pages = s->chains ? RING_PAGES_CALLS : RING_PAGES;
    while (pages >= RING_PAGES_LEAST && !map_rings(s, pages)) pages /= 4;
    return pages >= RING_PAGES_LEAST;
}

static void tell_refusal(plb_sampler *s, int error) {
    const char *how = "";
    if (error == EACCES || error == EPERM)
        how = "; allow it by `sysctl kernel.perf_event_paranoid=2`, in a container by the "
              "capability PERFMON";
    if (error == ENOSYS || error == ENOENT) how = "; this system has no such sampling";
    snprintf(s->reason, sizeof s->reason, "perf_event_open: %s%s", strerror(error), how);
}

// A processor that is switched off has no ring; all others must have one, or shares would be of a
// part of the time.
static bool open_rings(plb_sampler *s, pid_t pid, bool kernel_too) {
    const long processors = sysconf(_SC_NPROCESSORS_CONF);
    s->ring = plb_alloc_array(processors > 0 ? (size_t)processors : 1, sizeof *s->ring);
    for (int i = 0; s->ring && i < processors; i++) {
        ring *r = &s->ring[s->rings];
        r->fd = open_on(s, pid, i, kernel_too);
        if (r->fd < 0 && errno == ENODEV) continue;
        if (r->fd < 0) {
            tell_refusal(s, errno);
            return false;
        }
        s->rings++;
    }
    s->kernel_too = kernel_too;
    if (!s->rings || !map_all(s)) {
        tell_refusal(s, s->rings ? errno : s->ring ? ENOENT : ENOMEM);
        return false;
    }
    return true;
}

static void close_rings(plb_sampler *s) {
    unmap_rings(s);
    for (int i = 0; i < s->rings; i++) close(s->ring[i].fd);
    plb_free(s->ring);
    s->ring = NULL, s->rings = 0;
}

plb_sampler *plb_sampler_open(pid_t pid, int period_ms, bool calls) {
    plb_sampler *s = plb_alloc(sizeof *s);
    if (!s) return NULL;
    // A little more, since many a program keeps the beat of milliseconds.
    *s =
        (plb_sampler){.period_ns = period_ms * INT64_C(1000000) + 3000, .places = plb_places_new()};
    if (s->places && calls) s->chains = plb_chains_new(s->places);
    if (!s->places || (calls && !s->chains)) {
        plb_sampler_close(s, NULL, NULL);
        return NULL;
    }
    if (!open_rings(s, pid, true)) {
        close_rings(s);
        if (open_rings(s, pid, false))
            s->reason[0] = '\0';
        else
            close_rings(s);
    }
    return s;
}

int64_t plb_sampler_room_ns(const plb_sampler *s) {
    // Its head, address and stamp; of a chain its length and marks between its parts, too.
    size_t note_bytes = sizeof(struct perf_event_header) + sizeof(uint64_t) + sizeof(stamp);
    if (!s || !s->rings) return INT64_MAX;
    if (s->chains) note_bytes += (PLB_CHAIN_DEPTH + 3) * sizeof(uint64_t);
    return (int64_t)(s->ring[0].bytes / 2 / note_bytes) * s->period_ns;
}

// ---------------------------------------------------------------------------- a batch of notes
static bool make_room(plb_sampler *s, size_t more_bytes) {
    if (s->batch_room - s->batch_bytes < more_bytes) {
        const size_t room = 2 * (s->batch_bytes + more_bytes);
        uint8_t *batch = plb_realloc_array(s->batch, room, 1);
        if (!batch) return false;
        s->batch = batch, s->batch_room = room;
    }
    if (s->notes == s->note_room) {
        const size_t room = 2 * s->note_room + 1024;
        note *more = plb_realloc_array(s->note, room, sizeof *more);
        if (!more) return false;
        s->note = more, s->note_room = room;
    }
    return true;
}

// From the ring, around its end.
static void copy_out(const ring *r, uint64_t from, void *out, size_t size_bytes) {
    const uint8_t *data = (const uint8_t *)r->page + sysconf(_SC_PAGESIZE);
    const size_t at = (size_t)from & (r->bytes - 1), first = r->bytes - at;
    memcpy(out, data + at, size_bytes < first ? size_bytes : first);
    if (size_bytes > first) memcpy((uint8_t *)out + first, data, size_bytes - first);
}

static stamp stamp_of(const uint8_t *bytes, const struct perf_event_header *h) {
    stamp s;
    const size_t at = h->type == PERF_RECORD_SAMPLE ? sizeof *h + 8 : h->size - sizeof s;
    memcpy(&s, bytes + at, sizeof s);
    return s;
}

static void take_ring(plb_sampler *s, const ring *r) {
    const uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = r->page->data_tail;
    while (tail < head) {
        struct perf_event_header h;
        copy_out(r, tail, &h, sizeof h);
        if (h.size < sizeof h + sizeof(stamp) || h.size > head - tail || !make_room(s, h.size)) {
            s->lost++;
            tail = h.size < sizeof h ? head : tail + h.size;
            continue;
        }
        uint8_t *bytes = s->batch + s->batch_bytes;
        copy_out(r, tail, bytes, h.size);
        s->note[s->notes++] = (note){stamp_of(bytes, &h).time_ns, s->batch_bytes};
        s->batch_bytes += h.size, tail += h.size;
    }
    __atomic_store_n(&r->page->data_tail, tail, __ATOMIC_RELEASE);
}

static int by_time(const void *left, const void *right) {
    const note *a = left, *b = right;
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

static void read_mapping(plb_sampler *s, const uint8_t *bytes, size_t size_bytes) {
    struct {
        uint32_t pid, tid;
        uint64_t begin, length, file_offset;
        uint8_t inode[24];
        uint32_t protection, flags;
    } m;
    if (size_bytes <= sizeof m + sizeof(stamp)) return;
    memcpy(&m, bytes, sizeof m);
    const char *path = (const char *)bytes + sizeof m;
    if (!memchr(path, 0, size_bytes - sizeof m - sizeof(stamp))) return;
    plb_places_map(s->places, m.pid, m.begin, m.length, m.file_offset, path);
}

// From the innermost on, as the kernel writes them; between them it marks whose they are.
static void note_chain(plb_sampler *s, uint32_t pid, bool in_kernel, const uint8_t *body,
                       size_t size_bytes) {
    plb_place place[PLB_CHAIN_DEPTH + 2];
    uint64_t words, address;
    int depth = 0;
    if (size_bytes < sizeof words) return;
    memcpy(&words, body, sizeof words);
    if (words > size_bytes / sizeof words - 1) return;
    if (in_kernel) place[depth++] = plb_places_in_kernel();
    bool innermost = true;
    for (uint64_t i = 1; i <= words && depth <= PLB_CHAIN_DEPTH; i++) {
        memcpy(&address, body + i * sizeof address, sizeof address);
        if (address >= (uint64_t)PERF_CONTEXT_MAX) continue;
        // A caller goes on behind its call, which may be the end of it.
        place[depth++] = plb_places_at(s->places, pid, innermost ? address : address - 1);
        innermost = false;
    }
    place[depth++] = plb_places_program(s->places, pid);
    plb_chains_note(s->chains, place, depth);
}

static void read_sample(plb_sampler *s, const struct perf_event_header *h, stamp at,
                        const uint8_t *body, size_t size_bytes) {
    const bool user = (h->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_USER;
    const size_t front = 8 + sizeof at;
    uint64_t address;
    memcpy(&address, body, sizeof address);
    if (user)
        plb_places_sample(s->places, at.pid, address, (int64_t)at.time_ns);
    else
        plb_places_sample_kernel(s->places, at.pid, (int64_t)at.time_ns);
    if (s->chains && size_bytes > front)
        note_chain(s, at.pid, !user, body + front, size_bytes - front);
}

// Threads have names of their own; the program's is that of its first.
static void read_name(plb_sampler *s, const struct perf_event_header *h, const uint32_t ids[2],
                      const uint8_t *body, size_t size_bytes) {
    const char *name = (const char *)body + 2 * sizeof *ids;
    if (h->misc & PERF_RECORD_MISC_COMM_EXEC) plb_places_exec(s->places, ids[0]);
    if (size_bytes <= 2 * sizeof *ids + sizeof(stamp) || ids[0] != ids[1]) return;
    if (memchr(name, 0, size_bytes - 2 * sizeof *ids - sizeof(stamp)))
        plb_places_rename(s->places, ids[0], name);
}

static void read_note(plb_sampler *s, const uint8_t *bytes) {
    struct perf_event_header h;
    uint32_t ids[4] = {0}; // of fork and exit: process, its parent, thread, its parent
    uint64_t word = 0;
    memcpy(&h, bytes, sizeof h);
    const stamp at = stamp_of(bytes, &h);
    const uint8_t *body = bytes + sizeof h;
    const size_t size_bytes = h.size - sizeof h;
    memcpy(ids, body, sizeof ids);
    memcpy(&word, body, sizeof word);
    switch (h.type) {
    case PERF_RECORD_SAMPLE: read_sample(s, &h, at, body, size_bytes); break;
    case PERF_RECORD_MMAP2: read_mapping(s, body, size_bytes); break;
    case PERF_RECORD_COMM: read_name(s, &h, ids, body, size_bytes); break;
    case PERF_RECORD_FORK:
        if (ids[0] != ids[1]) plb_places_fork(s->places, ids[0], ids[1]);
        break;
    case PERF_RECORD_EXIT:
        if (ids[0] == ids[2]) plb_places_exit(s->places, ids[0]);
        break;
    case PERF_RECORD_LOST: // a number of its own, then how many
        memcpy(&word, body + sizeof word, sizeof word);
        s->lost += (int64_t)word;
        break;
    default: break;
    }
}

void plb_sampler_drain(plb_sampler *s) {
    if (!s) return;
    s->notes = s->batch_bytes = 0;
    for (int i = 0; i < s->rings; i++) take_ring(s, &s->ring[i]);
    if (s->notes) qsort(s->note, s->notes, sizeof *s->note, by_time);
    for (size_t i = 0; i < s->notes; i++) read_note(s, s->batch + s->note[i].at);
}

void plb_sampler_close(plb_sampler *s, plb_sampled *out, plb_strbuf *folded) {
    if (out) *out = (plb_sampled){.period_ns = s ? s->period_ns : 0};
    if (!s) {
        if (out) snprintf(out->reason, sizeof out->reason, "no memory for samples");
        return;
    }
    if (out) {
        plb_sampler_drain(s);
        plb_places_functions(s->places, out);
        if (folded && s->chains) {
            if (plb_chains_fold(s->chains, folded)) folded->failed = true;
            out->in_other_chains = plb_chains_beyond(s->chains);
        }
        out->lost = s->lost, out->kernel_too = s->kernel_too;
        snprintf(out->reason, sizeof out->reason, "%s", s->reason);
    }
    close_rings(s);
    plb_chains_free(s->chains);
    plb_places_free(s->places);
    plb_free(s->batch);
    plb_free(s->note);
    plb_free(s);
}

size_t plb_sampled_bytes(const plb_sampled *s) {
    return offsetof(plb_sampled, moment) + (size_t)s->moments * sizeof *s->moment;
}

void plb_sampled_mend(plb_sampled *s) {
    const int32_t most = PLB_SAMPLED_FUNCTIONS;
    int64_t *const counts[] = {&s->samples, &s->lost, &s->others, &s->in_other_chains};
    if (s->period_ns < 0 || s->period_ns >= INT64_C(1) << 40) s->period_ns = 0;
    // As many as have a time that can be told in nanoseconds.
    const int64_t samples_most = (INT64_C(1) << 62) / (s->period_ns + 1);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (*counts[i] < 0 || *counts[i] > samples_most) *counts[i] = 0;
    s->functions = s->functions < 0 ? 0 : s->functions > most ? most : s->functions;
    s->reason[sizeof s->reason - 1] = '\0';
    if (s->moments < 0 || s->moments > PLB_SAMPLED_MOMENTS) s->moments = 0;
    for (int64_t i = 0; i < s->moments; i++)
        if (s->moment[i].function >= s->functions) s->moment[i].function = -1;
    for (int i = 0; i < s->functions; i++) {
        plb_sampled_function *f = &s->function[i];
        f->name[sizeof f->name - 1] = f->module[sizeof f->module - 1] = '\0';
        if (f->samples < 0 || f->samples > s->samples) f->samples = 0;
    }
}
