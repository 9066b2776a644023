// SPDX-License-Identifier: Apache-2.0
// What every dataset can do: say what it holds and hand out sample i. A dataset is immutable once
// opened, so any number of threads may read it, each with a scratch of its own.
//
// A sample is an image [C,H,W], plain, as u8 (pixels as stored) or f32, with one label. Reading is
// random access by index; order, batches, normalisation and augmentation are the loader's.
#ifndef PLB_DATA_DATASET_H
#define PLB_DATA_DATASET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/core/arena.h"
#include "base/progress.h"
#include "plumb/tensor.h"

enum { PLB_MAX_CHANNELS = 4 };

typedef enum plb_data_split { PLB_TRAIN, PLB_TEST } plb_data_split;

typedef struct plb_dataset_info {
    const char *name; // "mnist"
    const char *kind; // "idx", "cifar", "folder", "synthetic": how it is stored. Static
    int64_t count, classes;
    int64_t channels, height, width;
    plb_dtype dtype;                // of a sample: PLB_U8 or PLB_F32
    const char *const *class_names; // [classes], or NULL
    // The usual normalisation of a sample as a fraction (u8 / 255): (x - mean) / std per channel;
    // a std of 0 stands for none, mean 0 and std 1.
    float mean[PLB_MAX_CHANNELS], std[PLB_MAX_CHANNELS];
} plb_dataset_info;

// Buffers that a reader needs between samples: they grow to the largest sample and stay. Zero-
// initialise; one per thread.
typedef struct plb_scratch {
    void *buffer[4];
    size_t size_bytes[4];
} plb_scratch;

// At least `size_bytes` in `slot`, contents undefined; NULL when out of memory.
PLB_API void *plb_scratch_reserve(plb_scratch *scratch, int slot, size_t size_bytes);
PLB_API void plb_scratch_free(plb_scratch *scratch); // back to {0}

typedef struct plb_dataset plb_dataset;

// What an implementation provides; i is in range. It embeds plb_dataset as its first member.
typedef struct plb_dataset_ops {
    // Writes sample[C,H,W] of info.dtype. Failures name the file.
    plb_status (*get)(const plb_dataset *set, int64_t i, plb_scratch *scratch, void *sample);
    // The sample where it lies in memory, borrowed. NULL function: the set is not in memory.
    const void *(*peek)(const plb_dataset *set, int64_t i);
    int64_t (*label)(const plb_dataset *set, int64_t i); // cheap: reads no sample
    void (*release)(plb_dataset *set);                   // what it owns beyond the arena, or NULL
    // Asks for the memory that `get` will read, ahead of it. NULL function: nothing to ask for.
    void (*prefetch)(const plb_dataset *set, int64_t i);
    // A hash of what the samples are made from (names, sizes and times of files), for the cache of
    // decoded sets. NULL function: the set is not worth a cache.
    plb_status (*source)(const plb_dataset *set, uint64_t *out_hash);
} plb_dataset_ops;

struct plb_dataset {
    plb_dataset_info info; // read-only for users
    const plb_dataset_ops *ops;
    plb_arena *arena; // names, and what the implementation puts there
};

PLB_API int64_t plb_dataset_elements(const plb_dataset *set); // C * H * W
PLB_API size_t plb_dataset_sample_bytes(const plb_dataset *set);

// Writes sample i and its label (either may be NULL). Without a scratch (NULL) buffers are made for
// this call. PLB_EINVAL when i is out of range.
PLB_API PLB_MUST_USE plb_status plb_dataset_get(const plb_dataset *set, int64_t i,
                                                plb_scratch *scratch, void *sample, int64_t *label);

// Share of the samples [0, limit) that the most frequent class has (all samples if limit is 0):
// the accuracy of always answering that class. `*out_class` (may be NULL) gets the class.
PLB_API PLB_MUST_USE plb_status plb_dataset_majority(const plb_dataset *set, int64_t limit,
                                                     double *out_share, int64_t *out_class);

// Reads every sample into samples[N,C,H,W] of info.dtype and every label into labels[N], on
// `threads` threads.
PLB_API PLB_MUST_USE plb_status plb_dataset_copy(const plb_dataset *set, int threads,
                                                 plb_progress *progress, void *samples,
                                                 int64_t *labels);

// A copy of the set that lies in memory, read (drawn, decoded) on `threads` threads.
PLB_API PLB_MUST_USE plb_status plb_dataset_materialise(const plb_dataset *set, int threads,
                                                        plb_progress *progress, plb_dataset **out);

PLB_API void plb_dataset_free(plb_dataset *set);

// For implementations: allocates `size_bytes` that begin with a plb_dataset, and copies the names
// of `info`. Checks info (PLB_EINVAL). Free with plb_dataset_free.
PLB_API PLB_MUST_USE plb_status plb_dataset_new(const plb_dataset_info *info,
                                                const plb_dataset_ops *ops, size_t size_bytes,
                                                void *out);

// A dataset over memory: samples[N,C,H,W] of info->dtype and labels[N] below info->classes, both
// from plb_alloc or plb_alloc_slab; owned by the set once the call succeeds.
PLB_API PLB_MUST_USE plb_status plb_memory_dataset_new(const plb_dataset_info *info, void *samples,
                                                       int64_t *labels, plb_dataset **out);

#endif
