// SPDX-License-Identifier: Apache-2.0
#include "data/inspect.h"

#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "base/thread.h"

void plb_dataset_class_counts(const plb_dataset *set, int64_t *counts) {
    for (int64_t k = 0; k < set->info.classes; k++) counts[k] = 0;
    for (int64_t i = 0; i < set->info.count; i++) counts[set->ops->label(set, i)]++;
}

plb_status plb_dataset_same_classes(const plb_dataset *train, const plb_dataset *test) {
    const plb_dataset_info *a = &train->info, *b = &test->info;
    bool named = a->class_names && b->class_names;
    int64_t most = a->classes > b->classes ? a->classes : b->classes;
    for (int64_t k = 0; named && k < most; k++) {
        const char *expected = k < a->classes ? a->class_names[k] : "none";
        const char *found = k < b->classes ? b->class_names[k] : "none";
        if (k < a->classes && k < b->classes && !strcmp(expected, found)) continue;
        return plb_fail(PLB_EINVAL,
                        "%s: class %lld of the part to test: expected %s, as in the part to train, "
                        "found %s",
                        b->name, (long long)k, expected, found);
    }
    if (a->classes == b->classes) return PLB_OK;
    return plb_fail(PLB_EINVAL,
                    "%s: expected %lld classes to test, as many as to train, found %lld", b->name,
                    (long long)a->classes, (long long)b->classes);
}

typedef struct hashed {
    uint64_t hash;
    int64_t index;
} hashed;

static int compare(const void *a, const void *b) {
    const hashed *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

typedef struct reader {
    plb_scratch scratch;
    void *sample; // room for one, where the set is not in memory
} reader;

static plb_status read_sample(const plb_dataset *set, int64_t i, reader *r, const void **out) {
    if (set->ops->peek) {
        *out = set->ops->peek(set, i);
        return PLB_OK;
    }
    *out = r->sample;
    return plb_dataset_get(set, i, &r->scratch, r->sample, NULL);
}

typedef struct hash_job {
    const plb_dataset *set;
    hashed *hashes;
    reader *readers; // [threads]
    plb_progress *progress;
} hash_job;

enum { BLOCK = 64 };

static plb_status hash_block(void *context, int64_t block, int thread) {
    hash_job *job = context;
    int64_t begin = block * BLOCK, end = begin + BLOCK, count = job->set->info.count;
    if (end > count) end = count;
    for (int64_t i = begin; i < end; i++) {
        const void *sample;
        PLB_TRY(read_sample(job->set, i, &job->readers[thread], &sample));
        size_t bytes = plb_dataset_sample_bytes(job->set);
        job->hashes[i] = (hashed){plb_hash_bytes(PLB_HASH_SEED, sample, bytes), i};
    }
    if (thread != 0) return PLB_OK;
    plb_progress_event event = {
        .what = job->set->info.name, .unit = "samples", .done = end, .total = count};
    return plb_progress_tell(job->progress, &event);
}

static plb_status hash_all(const plb_dataset *set, int threads, reader *readers,
                           plb_progress *progress, hashed **out) {
    int64_t count = set->info.count;
    hashed *hashes = plb_alloc_array((size_t)count + 1, sizeof *hashes);
    if (!hashes) return plb_fail(PLB_ENOMEM, "%s: no memory for its hashes", set->info.name);
    hash_job job = {set, hashes, readers, progress};
    plb_status status = plb_thread_for((count + BLOCK - 1) / BLOCK, threads, hash_block, &job);
    if (status) {
        plb_free(hashes);
        return status;
    }
    *out = hashes;
    return PLB_OK;
}

// The index of a sample of `a` that is equal to sample i of `b`, or -1.
static plb_status find_equal(const plb_dataset *a, const hashed *of_a, const plb_dataset *b,
                             const hashed *wanted, reader readers[2], int64_t *out) {
    int64_t low = 0, high = a->info.count;
    const void *mine, *theirs;
    *out = -1;
    while (low < high) { // the first of that hash
        int64_t middle = low + (high - low) / 2;
        if (of_a[middle].hash < wanted->hash)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < a->info.count && of_a[low].hash == wanted->hash; low++) {
        PLB_TRY(read_sample(a, of_a[low].index, &readers[0], &mine));
        PLB_TRY(read_sample(b, wanted->index, &readers[1], &theirs));
        if (memcmp(mine, theirs, plb_dataset_sample_bytes(a)) != 0) continue;
        *out = of_a[low].index;
        return PLB_OK;
    }
    return PLB_OK;
}

static plb_status match(const plb_dataset *a, const hashed *of_a, const plb_dataset *b,
                        const hashed *of_b, reader *readers, plb_shared_sample *first,
                        int64_t limit, int64_t *out_count) {
    *out_count = 0;
    for (int64_t i = 0; i < b->info.count; i++) {
        int64_t found;
        PLB_TRY(find_equal(a, of_a, b, &of_b[i], readers, &found));
        if (found < 0) continue;
        if (*out_count < limit) first[*out_count] = (plb_shared_sample){found, i};
        ++*out_count;
    }
    return PLB_OK;
}

static bool same_extents(const plb_dataset_info *a, const plb_dataset_info *b) {
    return a->channels == b->channels && a->height == b->height && a->width == b->width &&
           a->dtype == b->dtype;
}

static plb_status make_readers(const plb_dataset *set, int count, reader **out) {
    reader *readers = plb_alloc_array((size_t)count, sizeof *readers);
    *out = readers;
    bool enough = readers != NULL;
    for (int t = 0; enough && t < count; t++)
        enough = (readers[t].sample = plb_alloc(plb_dataset_sample_bytes(set))) != NULL;
    return enough ? PLB_OK : plb_fail(PLB_ENOMEM, "%s: no memory to read it", set->info.name);
}

plb_status plb_dataset_shared(const plb_dataset *a, const plb_dataset *b, int threads,
                              plb_progress *progress, plb_shared_sample *first, int64_t limit,
                              int64_t *out_count) {
    if (!same_extents(&a->info, &b->info))
        return plb_fail(PLB_EINVAL, "%s: its splits differ in size or type", a->info.name);
    hashed *of_a = NULL, *of_b = NULL;
    reader *readers = NULL;
    int count = threads < 2 ? 2 : threads; // matching reads two at a time
    plb_status status;
    PLB_TRY_OUT(make_readers(a, count, &readers));
    PLB_TRY_OUT(hash_all(a, threads < 1 ? 1 : threads, readers, progress, &of_a));
    PLB_TRY_OUT(hash_all(b, threads < 1 ? 1 : threads, readers, progress, &of_b));
    qsort(of_a, (size_t)a->info.count, sizeof *of_a, compare);
    PLB_TRY_OUT(match(a, of_a, b, of_b, readers, first, limit, out_count));
out:
    for (int t = 0; readers && t < count; t++) {
        plb_scratch_free(&readers[t].scratch);
        plb_free(readers[t].sample);
    }
    plb_free(readers);
    plb_free(of_a);
    plb_free(of_b);
    return status;
}
