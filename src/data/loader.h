// SPDX-License-Identifier: Apache-2.0
// Batches of a dataset, ready before they are asked for. Threads fill a ring of batches; the
// consumer takes them in order. What batch b of epoch e holds depends on the options and (seed, e,
// b) alone: not on threads, prefetch, or where a run was resumed.
//
// Call order: new, then next or next_into as often as needed, seek in between, free. One consumer
// at a time; only plb_loader_cancel may be called from another thread. The loader runs on into the
// next epoch by itself, so that an epoch's first batch is ready too. After `new`, and one sample
// read by each thread, nothing here allocates; the decoder of an image folder does, for each
// picture.
#ifndef PLB_DATA_LOADER_H
#define PLB_DATA_LOADER_H

#include "data/dataset.h"

typedef struct plb_loader_options {
    int64_t batch;           // samples; at least 1
    int threads;             // 0: batches are filled on the consumer's thread
    int prefetch;            // batches filled ahead; 0: 4. Without threads there are none
    int64_t epochs;          // the loader ends after so many; 0: never
    int64_t limit;           // only samples [0, limit); 0: all
    bool shuffle;            // each epoch in an order of its own
    bool drop_last;          // leaves out a last batch that is not full
    bool flip;               // augmentation, see gather.h
    int64_t crop_padding;    // augmentation, pixels
    uint64_t seed;           // of order and augmentation
    bool raw;                // of a u8 set: pixels as stored, for who normalises them elsewhere
    const float *mean, *std; // [channels], of fractions; NULL: the set's own. Copied
} plb_loader_options;

// Borrowed; valid until the next call on the loader.
typedef struct plb_batch {
    const float *x;        // [size,C,H,W]; NULL with options.raw
    const uint8_t *pixels; // [size,C,H,W] with options.raw, else NULL
    const int64_t *y;      // [size]
    int64_t size;          // 0: the last epoch has ended
    int64_t epoch, number;
} plb_batch;

typedef struct plb_loader plb_loader;

// The dataset must outlive the loader. PLB_EINVAL for bad options or a set without a whole batch.
PLB_API PLB_MUST_USE plb_status plb_loader_new(const plb_dataset *set,
                                               const plb_loader_options *options, plb_loader **out);

PLB_API int64_t plb_loader_batches(const plb_loader *loader); // of one epoch
PLB_API int64_t plb_loader_samples(const plb_loader *loader); // of one epoch

// The next batch. A sample that cannot be read fails the call with its file named; the batch is
// then passed over, and the call after it gives the one that follows. PLB_ECANCELLED after cancel.
PLB_API PLB_MUST_USE plb_status plb_loader_next(plb_loader *loader, plb_batch *out);

// The same, into x[batch,C,H,W] (f32; u8 with options.raw) and y[batch] of the caller's; without
// threads nothing is copied twice. out->x (out->pixels) and out->y are x and y.
PLB_API PLB_MUST_USE plb_status plb_loader_next_into(plb_loader *loader, void *x, int64_t *y,
                                                     plb_batch *out);

// The next batch will be `number` of `epoch`; number may equal the count of batches (the next
// epoch's first). What was prefetched is thrown away.
PLB_API PLB_MUST_USE plb_status plb_loader_seek(plb_loader *loader, int64_t epoch, int64_t number);

// How long the consumer has waited for data since `new`, filling on its own thread included.
PLB_API int64_t plb_loader_wait_ns(const plb_loader *loader);

// Makes a waiting or later `next` return PLB_ECANCELLED. Any thread; not a signal handler.
PLB_API void plb_loader_cancel(plb_loader *loader);

// Joins the threads: waits for at most the sample that each is reading.
PLB_API void plb_loader_free(plb_loader *loader);

#endif
