// SPDX-License-Identifier: Apache-2.0
#include "probe/ranges.h"

#include <pthread.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "probe/tally.h"

enum {
    THREADS = 64,
    DEPTH = 64,
    CHANGES = 1 << 18, // of a thread that are remembered, a power of two: half a second of them
    WAITING = 1 << 18, // calls and work that wait for each other, the same
    STARTED = 1024,
    NOWHERE = -1,
};

typedef struct change {
    int64_t at_ns;
    int32_t row; // the range that the thread is in from then on
} change;

typedef struct thread_marks {
    uint32_t thread;
    int depth, too_deep;
    struct {
        int32_t row;
        int64_t start_ns;
    } open[DEPTH];
    uint64_t changes; // how many there were
    change change[CHANGES];
} thread_marks;

// What is known of the call with this number.
typedef struct half {
    uint32_t correlation; // 0: free
    bool called;
    int32_t row;                // once called
    uint32_t thread;            // the same
    int64_t device_ns, started; // work that came before its call
} half;

struct plb_ranges {
    pthread_mutex_t lock;
    plb_spool *spool;
    thread_marks *marks[THREADS];
    int threads;
    struct {
        uint64_t id;
        int32_t row;
        int64_t start_ns;
    } started[STARTED];
    uint64_t last_id;
    half waiting[WAITING];
};

plb_ranges *plb_ranges_new(plb_spool *spool) {
    plb_ranges *r = plb_alloc(sizeof *r);
    if (!r) return NULL;
    pthread_mutex_init(&r->lock, NULL);
    r->spool = spool;
    return r;
}

// The row of `name` inside `parent`, made when it is new; NOWHERE when there is no room.
static int32_t row_of(plb_spool *spool, int32_t parent, const char *name) {
    uint64_t hash = plb_hash_bytes(PLB_HASH_SEED, &parent, sizeof parent);
    hash = plb_hash_string(hash, name);
    if (!hash) hash = 1;
    for (uint32_t probe = 0; probe < 64; probe++) {
        int32_t at = (int32_t)((hash + probe) & (PLB_SPOOL_RANGES - 1));
        plb_spool_range *row = &spool->range[at];
        if (row->hash == hash) return at;
        if (row->hash) continue;
        row->name = plb_spool_add_name(spool, name);
        row->parent = parent;
        row->hash = hash;
        return at;
    }
    plb_spool_lose(spool, PLB_LOST_TABLE, 1);
    return NOWHERE;
}

static thread_marks *marks_of(const plb_ranges *r, uint32_t thread) {
    for (int i = 0; i < r->threads; i++)
        if (r->marks[i]->thread == thread) return r->marks[i];
    return NULL;
}

// Of those that have a row.
static int32_t innermost(const thread_marks *m) {
    for (int i = m->depth - 1; i >= 0; i--)
        if (m->open[i].row != NOWHERE) return m->open[i].row;
    return NOWHERE;
}

static void note_change(thread_marks *m, int64_t at_ns) {
    m->change[m->changes++ & (CHANGES - 1)] = (change){at_ns, innermost(m)};
}

void plb_ranges_push(plb_ranges *r, uint32_t thread, int64_t at_ns, const char *name) {
    pthread_mutex_lock(&r->lock);
    thread_marks *m = marks_of(r, thread);
    if (!m && r->threads < THREADS && (m = plb_alloc(sizeof *m))) {
        m->thread = thread;
        r->marks[r->threads++] = m;
    }
    if (m && m->depth == DEPTH) {
        m->too_deep++;
    } else if (m) {
        int32_t row = row_of(r->spool, innermost(m), name);
        m->open[m->depth].row = row, m->open[m->depth].start_ns = at_ns;
        m->depth++;
        note_change(m, at_ns);
    }
    pthread_mutex_unlock(&r->lock);
}

// An outermost one needs no place: an end to which there is no beginning is passed over.
void plb_ranges_push_unrecorded(plb_ranges *r, uint32_t thread) {
    pthread_mutex_lock(&r->lock);
    thread_marks *m = marks_of(r, thread);
    if (m && m->depth == DEPTH)
        m->too_deep++;
    else if (m && m->depth)
        m->open[m->depth++].row = NOWHERE;
    pthread_mutex_unlock(&r->lock);
}

// Adds the range's time to its row, and tells it as a record.
static bool finish(plb_spool *spool, int32_t at, int64_t start_ns, int64_t end_ns, plb_record *out,
                   uint32_t *name) {
    if (at == NOWHERE || end_ns < start_ns) return false;
    plb_spool_range *row = &spool->range[at];
    plb_spool_add_times(&row->times, end_ns - start_ns);
    *out = (plb_record){.kind = PLB_RECORD_RANGE, .start_ns = start_ns, .end_ns = end_ns};
    *name = row->name;
    return true;
}

bool plb_ranges_pop(plb_ranges *r, uint32_t thread, int64_t at_ns, plb_record *out,
                    uint32_t *name) {
    bool found = false;
    pthread_mutex_lock(&r->lock);
    thread_marks *m = marks_of(r, thread);
    if (m && m->too_deep) {
        m->too_deep--;
    } else if (m && m->depth) {
        m->depth--;
        found =
            finish(r->spool, m->open[m->depth].row, m->open[m->depth].start_ns, at_ns, out, name);
        out->thread = thread;
        note_change(m, at_ns);
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

uint64_t plb_ranges_start(plb_ranges *r, int64_t at_ns, const char *name) {
    pthread_mutex_lock(&r->lock);
    uint64_t id = ++r->last_id;
    size_t slot = id % STARTED; // one that is open for that long is forgotten
    r->started[slot].id = id, r->started[slot].start_ns = at_ns;
    r->started[slot].row = row_of(r->spool, NOWHERE, name);
    pthread_mutex_unlock(&r->lock);
    return id;
}

bool plb_ranges_end(plb_ranges *r, uint64_t id, int64_t at_ns, plb_record *out, uint32_t *name) {
    bool found = false;
    pthread_mutex_lock(&r->lock);
    size_t slot = id % STARTED;
    if (id && r->started[slot].id == id) {
        found = finish(r->spool, r->started[slot].row, r->started[slot].start_ns, at_ns, out, name);
        r->started[slot].id = 0;
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

// Which range the thread was in at that time; what is no longer remembered is NOWHERE.
static int32_t row_at(const thread_marks *m, int64_t at_ns) {
    uint64_t kept = m->changes < CHANGES ? m->changes : CHANGES;
    uint64_t low = m->changes - kept,
             high = m->changes; // the last change before at_ns: in [low-1, high)
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (m->change[middle & (CHANGES - 1)].at_ns <= at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > m->changes - kept ? m->change[(low - 1) & (CHANGES - 1)].row : NOWHERE;
}

static int32_t range_of_call(const plb_ranges *r, const plb_record *call) {
    const thread_marks *m = marks_of(r, call->thread);
    int32_t row = m ? row_at(m, call->start_ns) : NOWHERE;
    if (row == NOWHERE && r->threads && m != r->marks[0]) row = row_at(r->marks[0], call->start_ns);
    return row;
}

static void charge(plb_ranges *r, int32_t at, int64_t device_ns, int64_t started) {
    if (at == NOWHERE) {
        r->spool->outside_ranges_ns += device_ns;
        return;
    }
    r->spool->range[at].device_ns += device_ns;
    r->spool->range[at].device_work += started;
}

static void charge_both(plb_ranges *r, const half *h, int64_t device_ns, int64_t started) {
    charge(r, h->row, device_ns, started);
    plb_tally_launched(r->spool, h->thread, device_ns, started);
}

// The number's place, taken over from an older number, whose work then belongs to no range.
static half *place_of(plb_ranges *r, uint32_t correlation) {
    half *h = &r->waiting[correlation & (WAITING - 1)];
    if (h->correlation == correlation) return h;
    if (h->correlation && !h->called) charge(r, NOWHERE, h->device_ns, h->started);
    *h = (half){.correlation = correlation};
    return h;
}

void plb_ranges_record(plb_ranges *r, const plb_record *record) {
    const bool call = record->kind == PLB_RECORD_CALL;
    if (record->kind > PLB_RECORD_CALL || !record->correlation) return;
    pthread_mutex_lock(&r->lock);
    half *h = place_of(r, record->correlation);
    if (call && !h->called) {
        h->called = true;
        h->row = range_of_call(r, record);
        h->thread = record->thread;
        if (h->started) charge_both(r, h, h->device_ns, h->started);
    } else if (!call && h->called) {
        charge_both(r, h, record->end_ns - record->start_ns, 1);
    } else if (!call) {
        h->device_ns += record->end_ns - record->start_ns;
        h->started++;
    }
    pthread_mutex_unlock(&r->lock);
}
