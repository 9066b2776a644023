// SPDX-License-Identifier: Apache-2.0
// Batches are numbered through all epochs: sequence = epoch * batches + number. Batch s lives in
// slot s % ring. Work is handed out in chunks of a batch, in order, under one lock; a slot is ready
// when none of its chunks is left. A slot is reused once the consumer has let its batch go, so the
// batches in flight are [released, released + ring).
//
// The orders of two epochs are kept, at epoch % 2. A batch of epoch e is begun only when the
// consumer is past epoch e - 2, so nobody reads the order that e replaces.
#include "data/loader.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "base/thread.h"
#include "data/gather.h"
#include "data/order.h"

enum {
    DEFAULT_PREFETCH = 4,
    MAX_PREFETCH = 4096,
    MAX_THREADS = 1024,
    READ_CHUNK = 4,
    PREFETCH_BYTES = 4096
};

typedef struct slot {
    char *x;             // [batch,C,H,W]
    int64_t *y;          // [batch]
    int64_t sequence;    // -1: none yet
    int64_t size;        // samples
    int64_t chunks_left; // not yet filled
    int64_t failed_at;   // lowest position that failed, if status
    plb_status status;
    char text[1024];
} slot;

typedef struct worker {
    plb_loader *loader;
    plb_thread thread;
    plb_scratch scratch;
    void *sample; // one sample as stored; NULL where the set lies in memory
} worker;

// A part of a batch to fill: positions [begin, end) of the batch.
typedef struct chunk {
    int64_t sequence, begin, end;
    char *x;
    int64_t *y;
} chunk;

struct plb_loader {
    const plb_dataset *set;
    plb_gather gather;
    bool shuffle, raw;
    uint64_t seed;
    size_t x_bytes;                  // of a sample in x
    int64_t batch, samples, batches; // of a batch; of an epoch
    int64_t chunk_size, ring, end;   // end: sequence after the last batch
    int thread_count, worker_count;  // threads that were started; length of workers
    worker *workers;                 // one per thread, or one for the consumer
    slot *slots;                     // [ring]
    char *x;                         // [ring,batch,C,H,W], what the slots point into
    int64_t *y;
    uint32_t *order[2]; // NULL without shuffling
    int64_t order_epoch[2];
    atomic_bool stop, cancelled;
    bool locks_made;
    pthread_mutex_t lock; // guards what follows, and the slots
    pthread_cond_t work, ready, idle;
    int64_t next, released;  // sequence that the consumer takes next; oldest that it may still read
    int64_t begun, begun_at; // batch and position of the chunk that is handed out next
    int busy;                // chunks that are being filled
    bool paused;
    int64_t wait_ns; // the consumer's alone
};

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t batch_size(const plb_loader *loader, int64_t sequence) {
    int64_t first = sequence % loader->batches * loader->batch;
    return min_i64(loader->batch, loader->samples - first);
}

// Makes the order of the batch's epoch present. Under the lock, where there are threads.
static void need_order(plb_loader *loader, int64_t sequence) {
    int64_t epoch = sequence / loader->batches;
    int which = (int)(epoch % 2);
    if (!loader->shuffle || loader->order_epoch[which] == epoch) return;
    plb_order_shuffle(loader->order[which], (uint32_t)loader->samples, loader->seed, epoch);
    loader->order_epoch[which] = epoch;
}

static plb_status fill_sample(plb_loader *loader, worker *self, int64_t epoch, int64_t index,
                              void *x, int64_t *y) {
    const plb_dataset *set = loader->set;
    const void *sample = self->sample;
    if (set->ops->peek)
        sample = set->ops->peek(set, index);
    else
        PLB_TRY(set->ops->get(set, index, &self->scratch, self->sample));
    if (loader->raw)
        plb_gather_pixels(&loader->gather, sample, epoch, index, x);
    else
        plb_gather_sample(&loader->gather, sample, epoch, index, x);
    *y = set->ops->label(set, index);
    return PLB_OK;
}

// Shuffled samples lie anywhere in memory: the next one is asked for while this one is worked on.
static void prefetch_sample(const plb_loader *loader, int64_t index) {
    const plb_dataset_ops *ops = loader->set->ops;
    if (ops->prefetch) ops->prefetch(loader->set, index);
    if (!ops->peek) return;
    const char *sample = loader->set->ops->peek(loader->set, index);
    size_t size_bytes = plb_dataset_sample_bytes(loader->set);
    for (size_t i = 0; i < size_bytes && i < PREFETCH_BYTES; i += PLB_CACHE_LINE)
        __builtin_prefetch(sample + i);
}

// Fills the chunk up to the first sample that fails, whose position goes to *out_failed_at.
static plb_status fill_chunk(plb_loader *loader, worker *self, const chunk *part,
                             int64_t *out_failed_at) {
    int64_t epoch = part->sequence / loader->batches;
    int64_t first = part->sequence % loader->batches * loader->batch;
    const uint32_t *order = loader->shuffle ? loader->order[epoch % 2] : NULL;
    for (int64_t i = part->begin; i < part->end; i++) {
        if (atomic_load_explicit(&loader->stop, memory_order_relaxed)) break;
        int64_t index = order ? order[first + i] : first + i;
        if (order && i + 1 < part->end) prefetch_sample(loader, order[first + i + 1]);
        *out_failed_at = i;
        PLB_TRY(fill_sample(loader, self, epoch, index, part->x + (size_t)i * loader->x_bytes,
                            part->y + i));
    }
    return PLB_OK;
}

// The next chunk, if there is one that may be begun. Under the lock.
static bool take_chunk(plb_loader *loader, chunk *out) {
    int64_t sequence = loader->begun;
    if (loader->paused || sequence >= loader->end) return false;
    if (sequence >= loader->released + loader->ring) return false;
    if (sequence / loader->batches > loader->released / loader->batches + 1) return false;
    slot *at = &loader->slots[sequence % loader->ring];
    if (loader->begun_at == 0) {
        int64_t size = batch_size(loader, sequence);
        need_order(loader, sequence);
        at->sequence = sequence, at->size = size, at->status = PLB_OK;
        at->chunks_left = (size + loader->chunk_size - 1) / loader->chunk_size;
    }
    int64_t begin = loader->begun_at, end = min_i64(begin + loader->chunk_size, at->size);
    *out = (chunk){.sequence = sequence, .begin = begin, .end = end, .x = at->x, .y = at->y};
    loader->begun_at = end;
    if (end == at->size) loader->begun++, loader->begun_at = 0;
    return true;
}

// Notes in the slot that a chunk is done. Under the lock.
static void finish_chunk(plb_loader *loader, const chunk *part, plb_status status,
                         int64_t failed_at) {
    slot *at = &loader->slots[part->sequence % loader->ring];
    if (status && (!at->status || failed_at < at->failed_at)) {
        at->status = status, at->failed_at = failed_at;
        snprintf(at->text, sizeof at->text, "%s", plb_error_text());
    }
    loader->busy--;
    if (--at->chunks_left == 0) pthread_cond_signal(&loader->ready);
    if (loader->busy == 0 && loader->paused) pthread_cond_signal(&loader->idle);
}

static void *run_worker(void *context) {
    worker *self = context;
    plb_loader *loader = self->loader;
    chunk part;
    pthread_mutex_lock(&loader->lock);
    while (!atomic_load_explicit(&loader->stop, memory_order_relaxed)) {
        if (!take_chunk(loader, &part)) {
            pthread_cond_wait(&loader->work, &loader->lock);
            continue;
        }
        loader->busy++;
        pthread_mutex_unlock(&loader->lock);
        int64_t failed_at = 0;
        plb_status status = fill_chunk(loader, self, &part, &failed_at);
        pthread_mutex_lock(&loader->lock);
        finish_chunk(loader, &part, status, failed_at);
    }
    pthread_mutex_unlock(&loader->lock);
    return NULL;
}

static plb_status check_options(const plb_dataset *set, const plb_loader_options *options) {
    const char *name = set->info.name;
    if (options->batch < 1)
        return plb_fail(PLB_EINVAL, "%s: batch: expected at least 1, found %" PRId64, name,
                        options->batch);
    if (options->threads < 0 || options->threads > MAX_THREADS)
        return plb_fail(PLB_EINVAL, "%s: loader threads: expected 0 to %d, found %d", name,
                        MAX_THREADS, options->threads);
    if (options->prefetch < 0 || options->prefetch > MAX_PREFETCH)
        return plb_fail(PLB_EINVAL, "%s: prefetch: expected 0 to %d, found %d", name, MAX_PREFETCH,
                        options->prefetch);
    if (options->epochs < 0 || options->limit < 0 || options->crop_padding < 0)
        return plb_fail(PLB_EINVAL, "%s: expected epochs, limit and crop padding of 0 or more",
                        name);
    if (options->crop_padding > set->info.height || options->crop_padding > set->info.width)
        return plb_fail(PLB_EINVAL, "%s: crop padding: expected at most the sample's size", name);
    if (options->raw && set->info.dtype != PLB_U8)
        return plb_fail(PLB_EINVAL, "%s: raw batches are of pixels, found %s", name,
                        plb_dtype_name(set->info.dtype));
    if (set->info.count > UINT32_MAX)
        return plb_fail(PLB_EUNSUPPORTED, "%s: expected fewer than 2^32 samples", name);
    return PLB_OK;
}

// Samples and batches of an epoch, and where the loader ends.
static plb_status set_extents(plb_loader *loader, const plb_loader_options *options) {
    const plb_dataset_info *info = &loader->set->info;
    int64_t samples = info->count, whole;
    if (options->limit > 0) samples = min_i64(samples, options->limit);
    whole = samples / options->batch;
    if (samples == 0 || (options->drop_last && whole == 0))
        return plb_fail(PLB_EINVAL,
                        "%s: expected a batch of %" PRId64 " or more samples, found %" PRId64,
                        info->name, options->drop_last ? options->batch : 1, samples);
    loader->samples = samples;
    loader->batches = whole + (!options->drop_last && samples % options->batch != 0);
    loader->batch = min_i64(options->batch, samples);
    loader->end = INT64_MAX;
    if (options->epochs && __builtin_mul_overflow(options->epochs, loader->batches, &loader->end))
        loader->end = INT64_MAX;
    return PLB_OK;
}

static void point_slots(plb_loader *loader) {
    size_t batch_bytes = (size_t)loader->batch * loader->x_bytes;
    for (int64_t i = 0; i < loader->ring; i++)
        loader->slots[i] = (slot){.x = loader->x + (size_t)i * batch_bytes,
                                  .y = loader->y + i * loader->batch,
                                  .sequence = -1};
}

static plb_status allocate(plb_loader *loader, int workers) {
    size_t ring = (size_t)loader->ring, batch = (size_t)loader->batch, x_bytes;
    size_t sample_bytes = plb_dataset_sample_bytes(loader->set);
    loader->worker_count = workers;
    bool too_large = __builtin_mul_overflow(ring * batch, loader->x_bytes, &x_bytes);
    loader->x = too_large ? NULL : plb_alloc_slab(x_bytes);
    loader->y = plb_alloc_array(ring * batch, sizeof *loader->y);
    loader->slots = plb_alloc_array(ring, sizeof *loader->slots);
    loader->workers = plb_alloc_array((size_t)workers, sizeof *loader->workers);
    bool enough = loader->x && loader->y && loader->slots && loader->workers;
    for (int which = 0; which < 2 && loader->shuffle; which++) {
        loader->order[which] = plb_alloc_array((size_t)loader->samples, sizeof(uint32_t));
        enough = enough && loader->order[which];
    }
    for (int t = 0; enough && t < workers && !loader->set->ops->peek; t++)
        enough = (loader->workers[t].sample = plb_alloc_slab(sample_bytes)) != NULL;
    if (!enough)
        return plb_fail(PLB_ENOMEM, "%s: no memory for %zu batches of %zu samples",
                        loader->set->info.name, ring, batch);
    point_slots(loader);
    return PLB_OK;
}

static plb_status start_workers(plb_loader *loader, int threads) {
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->work, NULL);
    pthread_cond_init(&loader->ready, NULL);
    pthread_cond_init(&loader->idle, NULL);
    loader->locks_made = true;
    for (int t = 0; t < threads; t++) {
        loader->workers[t].loader = loader;
        PLB_TRY(plb_thread_start(&loader->workers[t].thread, "plb-loader", run_worker,
                                 &loader->workers[t]));
        loader->thread_count++;
    }
    return PLB_OK;
}

plb_status plb_loader_new(const plb_dataset *set, const plb_loader_options *options,
                          plb_loader **out) {
    PLB_TRY(check_options(set, options));
    plb_loader *loader = plb_alloc(sizeof *loader);
    if (!loader) return plb_fail(PLB_ENOMEM, "%s: no memory for a loader", set->info.name);
    plb_status status = PLB_OK;
    loader->set = set;
    loader->shuffle = options->shuffle, loader->seed = options->seed;
    loader->raw = options->raw;
    loader->x_bytes = (size_t)plb_dataset_elements(set) * (options->raw ? 1 : sizeof(float));
    loader->order_epoch[0] = loader->order_epoch[1] = -1;
    PLB_TRY_OUT(plb_gather_init(&loader->gather, &set->info, options->mean, options->std));
    loader->gather.flip = options->flip;
    loader->gather.crop_padding = options->crop_padding;
    loader->gather.seed = options->seed;
    PLB_TRY_OUT(set_extents(loader, options));
    int threads = options->threads, prefetch = options->prefetch;
    // One slot more than is filled ahead: the one that the consumer reads.
    loader->ring = threads ? (prefetch ? prefetch : DEFAULT_PREFETCH) + 1 : 1;
    loader->chunk_size = set->ops->peek ? loader->batch : READ_CHUNK;
    PLB_TRY_OUT(allocate(loader, threads ? threads : 1));
    PLB_TRY_OUT(start_workers(loader, threads));
    *out = loader;
    loader = NULL;
out:
    plb_loader_free(loader);
    return status;
}

int64_t plb_loader_batches(const plb_loader *loader) {
    return loader->batches;
}

int64_t plb_loader_samples(const plb_loader *loader) {
    return min_i64(loader->samples, loader->batches * loader->batch);
}

int64_t plb_loader_wait_ns(const plb_loader *loader) {
    return loader->wait_ns;
}

static void give(const plb_loader *loader, const void *x, const int64_t *y, plb_batch *out) {
    out->x = loader->raw ? NULL : x;
    out->pixels = loader->raw ? x : NULL;
    out->y = y;
}

static void describe(const plb_loader *loader, int64_t sequence, const void *x, const int64_t *y,
                     plb_batch *out) {
    *out = (plb_batch){.size = batch_size(loader, sequence),
                       .epoch = sequence / loader->batches,
                       .number = sequence % loader->batches};
    give(loader, x, y, out);
}

static plb_status cancelled(const plb_loader *loader) {
    return plb_fail(PLB_ECANCELLED, "%s: loading was stopped on request", loader->set->info.name);
}

// The whole of the next batch on this thread.
static plb_status fill_here(plb_loader *loader, void *x, int64_t *y, plb_batch *out) {
    if (atomic_load(&loader->cancelled)) return cancelled(loader);
    int64_t begin_ns = plb_now_ns(), sequence = loader->next++, failed_at;
    chunk all = {.sequence = sequence, .end = batch_size(loader, sequence), .x = x, .y = y};
    need_order(loader, sequence);
    plb_status status = fill_chunk(loader, &loader->workers[0], &all, &failed_at);
    describe(loader, sequence, x, y, out);
    loader->wait_ns += plb_now_ns() - begin_ns;
    return status;
}

// Waits until the slot holds batch `next`. Under the lock.
static void wait_ready(plb_loader *loader, const slot *at) {
    if (at->sequence == loader->next && at->chunks_left == 0) return;
    int64_t begin_ns = plb_now_ns();
    while (!(at->sequence == loader->next && at->chunks_left == 0) &&
           !atomic_load(&loader->cancelled))
        pthread_cond_wait(&loader->ready, &loader->lock);
    loader->wait_ns += plb_now_ns() - begin_ns;
}

// Lets the batches before `next` go, then takes `next` out of its slot.
static plb_status take_batch(plb_loader *loader, plb_batch *out) {
    plb_status status = PLB_OK;
    pthread_mutex_lock(&loader->lock);
    if (loader->released < loader->next) {
        loader->released = loader->next;
        pthread_cond_broadcast(&loader->work);
    }
    slot *at = &loader->slots[loader->next % loader->ring];
    wait_ready(loader, at);
    if (atomic_load(&loader->cancelled)) PLB_TRY_OUT(cancelled(loader));
    describe(loader, loader->next, at->x, at->y, out);
    loader->next++;
    if (at->status) status = plb_fail(at->status, "%s", at->text);
out:
    pthread_mutex_unlock(&loader->lock);
    return status;
}

plb_status plb_loader_next(plb_loader *loader, plb_batch *out) {
    *out = (plb_batch){0};
    if (loader->next >= loader->end) return PLB_OK;
    if (loader->thread_count) return take_batch(loader, out);
    return fill_here(loader, loader->slots[0].x, loader->slots[0].y, out);
}

plb_status plb_loader_next_into(plb_loader *loader, void *x, int64_t *y, plb_batch *out) {
    *out = (plb_batch){0};
    if (loader->next >= loader->end) return PLB_OK;
    if (!loader->thread_count) return fill_here(loader, x, y, out);
    PLB_TRY(take_batch(loader, out));
    memcpy(x, out->x ? (const void *)out->x : out->pixels, (size_t)out->size * loader->x_bytes);
    memcpy(y, out->y, (size_t)out->size * sizeof *y);
    give(loader, x, y, out);
    return PLB_OK;
}

plb_status plb_loader_seek(plb_loader *loader, int64_t epoch, int64_t number) {
    int64_t sequence;
    if (epoch < 0 || number < 0 || number > loader->batches ||
        __builtin_mul_overflow(epoch, loader->batches, &sequence) ||
        __builtin_add_overflow(sequence, number, &sequence) || sequence > loader->end)
        return plb_fail(PLB_EINVAL,
                        "%s: position: expected a batch of 0 to %" PRId64
                        " in an epoch to come, found batch %" PRId64 " of epoch %" PRId64,
                        loader->set->info.name, loader->batches, number, epoch);
    pthread_mutex_lock(&loader->lock);
    loader->paused = true;
    while (loader->busy) pthread_cond_wait(&loader->idle, &loader->lock);
    loader->next = loader->released = loader->begun = sequence;
    loader->begun_at = 0;
    for (int64_t i = 0; i < loader->ring; i++) loader->slots[i].sequence = -1;
    loader->paused = false;
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
    return PLB_OK;
}

void plb_loader_cancel(plb_loader *loader) {
    pthread_mutex_lock(&loader->lock);
    atomic_store(&loader->cancelled, true);
    pthread_cond_broadcast(&loader->ready);
    pthread_mutex_unlock(&loader->lock);
}

static void join_workers(plb_loader *loader) {
    pthread_mutex_lock(&loader->lock);
    atomic_store(&loader->stop, true);
    pthread_cond_broadcast(&loader->work);
    pthread_mutex_unlock(&loader->lock);
    for (int t = 0; t < loader->thread_count; t++) plb_thread_join(&loader->workers[t].thread);
    pthread_cond_destroy(&loader->work);
    pthread_cond_destroy(&loader->ready);
    pthread_cond_destroy(&loader->idle);
    pthread_mutex_destroy(&loader->lock);
}

void plb_loader_free(plb_loader *loader) {
    if (!loader) return;
    if (loader->locks_made) join_workers(loader);
    for (int t = 0; loader->workers && t < loader->worker_count; t++) {
        plb_scratch_free(&loader->workers[t].scratch);
        plb_free(loader->workers[t].sample);
    }
    plb_free(loader->workers);
    plb_free(loader->slots);
    plb_free(loader->x);
    plb_free(loader->y);
    plb_free(loader->order[0]);
    plb_free(loader->order[1]);
    plb_free(loader);
}
