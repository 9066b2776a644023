// SPDX-License-Identifier: Apache-2.0
#include "data/dataset.h"

#include <inttypes.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/thread.h"

void *plb_scratch_reserve(plb_scratch *scratch, int slot, size_t size_bytes) {
    if (scratch->buffer[slot] && scratch->size_bytes[slot] >= size_bytes)
        return scratch->buffer[slot];
    size_t grown = size_bytes + size_bytes / 4; // slightly larger samples will follow
    void *buffer = plb_alloc_slab(grown > size_bytes ? grown : size_bytes);
    if (!buffer) return NULL;
    plb_free(scratch->buffer[slot]);
    scratch->buffer[slot] = buffer;
    scratch->size_bytes[slot] = grown > size_bytes ? grown : size_bytes;
    return buffer;
}

void plb_scratch_free(plb_scratch *scratch) {
    for (int slot = 0; slot < 4; slot++) plb_free(scratch->buffer[slot]);
    *scratch = (plb_scratch){0};
}

int64_t plb_dataset_elements(const plb_dataset *set) {
    return set->info.channels * set->info.height * set->info.width;
}

size_t plb_dataset_sample_bytes(const plb_dataset *set) {
    return (size_t)plb_dataset_elements(set) * plb_dtype_size(set->info.dtype);
}

plb_status plb_dataset_get(const plb_dataset *set, int64_t i, plb_scratch *scratch, void *sample,
                           int64_t *label) {
    if (i < 0 || i >= set->info.count)
        return plb_fail(PLB_EINVAL, "%s: sample %" PRId64 ": expected one of 0 to %" PRId64,
                        set->info.name, i, set->info.count - 1);
    plb_scratch own = {0};
    plb_status status = sample ? set->ops->get(set, i, scratch ? scratch : &own, sample) : PLB_OK;
    plb_scratch_free(&own);
    if (!status && label) *label = set->ops->label(set, i);
    return status;
}

plb_status plb_dataset_majority(const plb_dataset *set, int64_t limit, double *out_share,
                                int64_t *out_class) {
    int64_t count = set->info.count, classes = set->info.classes, best = 0;
    if (limit > 0 && limit < count) count = limit;
    int64_t *found = plb_alloc_array((size_t)classes, sizeof *found);
    if (!found) return plb_fail(PLB_ENOMEM, "%s: no memory to count classes", set->info.name);
    for (int64_t i = 0; i < count; i++) found[set->ops->label(set, i)]++;
    for (int64_t k = 1; k < classes; k++)
        if (found[k] > found[best]) best = k;
    *out_share = count ? (double)found[best] / (double)count : 0.0;
    if (out_class) *out_class = best;
    plb_free(found);
    return PLB_OK;
}

void plb_dataset_free(plb_dataset *set) {
    if (!set) return;
    if (set->ops->release) set->ops->release(set);
    plb_arena_free(set->arena);
    plb_free(set);
}

static plb_status check_info(const plb_dataset_info *info) {
    plb_shape shape = plb_shape_of(info->count, info->channels, info->height, info->width);
    plb_status status = plb_shape_check(&shape);
    if (status) return plb_fail_context(status, "%s", info->name);
    if (info->channels < 1 || info->channels > PLB_MAX_CHANNELS)
        return plb_fail(PLB_EUNSUPPORTED, "%s: expected 1 to %d channels, found %" PRId64,
                        info->name, PLB_MAX_CHANNELS, info->channels);
    if (info->height < 1 || info->width < 1)
        return plb_fail(PLB_EINVAL, "%s: samples have no pixels (%" PRId64 " x %" PRId64 ")",
                        info->name, info->height, info->width);
    if (info->classes < 1) return plb_fail(PLB_EINVAL, "%s: has no classes", info->name);
    if (info->dtype != PLB_U8 && info->dtype != PLB_F32)
        return plb_fail(PLB_EUNSUPPORTED, "%s: expected samples of u8 or f32, found %s", info->name,
                        plb_dtype_name(info->dtype));
    return PLB_OK;
}

// Copies name and class names into the set's arena; false when out of memory.
static bool copy_names(plb_dataset *set) {
    plb_dataset_info *info = &set->info;
    if (!(info->name = plb_arena_strdup(set->arena, info->name))) return false;
    if (!info->class_names) return true;
    size_t count = (size_t)info->classes;
    const char **names = plb_arena_alloc(set->arena, count * sizeof *names);
    if (!names) return false;
    for (size_t k = 0; k < count; k++)
        if (!(names[k] = plb_arena_strdup(set->arena, info->class_names[k]))) return false;
    info->class_names = names;
    return true;
}

plb_status plb_dataset_new(const plb_dataset_info *info, const plb_dataset_ops *ops,
                           size_t size_bytes, void *out) {
    PLB_TRY(check_info(info));
    plb_dataset *set = plb_alloc(size_bytes);
    plb_arena *arena = set ? plb_arena_new() : NULL;
    if (arena) {
        *set = (plb_dataset){.info = *info, .ops = ops, .arena = arena};
        for (int c = 0; c < PLB_MAX_CHANNELS; c++)
            if (set->info.std[c] == 0) set->info.mean[c] = 0, set->info.std[c] = 1;
        if (copy_names(set)) {
            memcpy(out, &set, sizeof set);
            return PLB_OK;
        }
    }
    plb_arena_free(arena);
    plb_free(set);
    return plb_fail(PLB_ENOMEM, "%s: no memory for the dataset", info->name);
}

typedef struct memory_dataset {
    plb_dataset base;
    unsigned char *samples; // [N,C,H,W]
    int64_t *labels;        // [N]
    size_t sample_bytes;
} memory_dataset;

static const void *memory_peek(const plb_dataset *set, int64_t i) {
    const memory_dataset *memory = (const memory_dataset *)set;
    return memory->samples + (size_t)i * memory->sample_bytes;
}

static plb_status memory_get(const plb_dataset *set, int64_t i, plb_scratch *scratch,
                             void *sample) {
    (void)scratch;
    memcpy(sample, memory_peek(set, i), ((const memory_dataset *)set)->sample_bytes);
    return PLB_OK;
}

static int64_t memory_label(const plb_dataset *set, int64_t i) {
    return ((const memory_dataset *)set)->labels[i];
}

static void memory_release(plb_dataset *set) {
    memory_dataset *memory = (memory_dataset *)set;
    plb_free(memory->samples);
    plb_free(memory->labels);
}

static const plb_dataset_ops memory_ops = {
    .get = memory_get, .peek = memory_peek, .label = memory_label, .release = memory_release};

plb_status plb_memory_dataset_new(const plb_dataset_info *info, void *samples, int64_t *labels,
                                  plb_dataset **out) {
    for (int64_t i = 0; i < info->count; i++)
        if (labels[i] < 0 || labels[i] >= info->classes)
            return plb_fail(PLB_EINVAL,
                            "%s: label of sample %" PRId64 ": expected below %" PRId64
                            ", found %" PRId64,
                            info->name, i, info->classes, labels[i]);
    memory_dataset *memory;
    PLB_TRY(plb_dataset_new(info, &memory_ops, sizeof *memory, &memory));
    memory->samples = samples;
    memory->labels = labels;
    memory->sample_bytes = plb_dataset_sample_bytes(&memory->base);
    *out = &memory->base;
    return PLB_OK;
}

// Samples are copied in blocks, so that threads meet rarely.
enum { COPY_BLOCK = 64 };

typedef struct copy_job {
    const plb_dataset *from;
    unsigned char *samples;
    int64_t *labels;
    plb_scratch *scratch; // [threads]
    plb_progress *progress;
} copy_job;

static plb_status copy_block(void *context, int64_t block, int thread) {
    copy_job *job = context;
    int64_t count = job->from->info.count, begin = block * COPY_BLOCK, end = begin + COPY_BLOCK;
    size_t sample_bytes = plb_dataset_sample_bytes(job->from);
    if (end > count) end = count;
    for (int64_t i = begin; i < end; i++)
        PLB_TRY(plb_dataset_get(job->from, i, &job->scratch[thread],
                                job->samples + (size_t)i * sample_bytes, &job->labels[i]));
    if (thread != 0) return PLB_OK; // one thread tells; blocks go out in order, so `end` is fair
    plb_progress_event event = {
        .what = job->from->info.name, .unit = "samples", .done = end, .total = count};
    return plb_progress_tell(job->progress, &event);
}

plb_status plb_dataset_copy(const plb_dataset *set, int threads, plb_progress *progress,
                            void *samples, int64_t *labels) {
    const plb_dataset_info *info = &set->info;
    if (threads < 1) threads = 1;
    plb_status status = PLB_OK;
    copy_job job = {.from = set,
                    .samples = samples,
                    .labels = labels,
                    .scratch = plb_alloc_array((size_t)threads, sizeof *job.scratch),
                    .progress = progress};
    if (!job.scratch) return plb_fail(PLB_ENOMEM, "%s: no memory to read it", info->name);
    int64_t blocks = (info->count + COPY_BLOCK - 1) / COPY_BLOCK;
    PLB_TRY_OUT(plb_thread_for(blocks, threads, copy_block, &job));
    plb_progress_event all = {info->name, "samples", info->count, info->count, true};
    PLB_TRY_OUT(plb_progress_tell(progress, &all));
out:
    for (int t = 0; t < threads; t++) plb_scratch_free(&job.scratch[t]);
    plb_free(job.scratch);
    return status;
}

plb_status plb_dataset_materialise(const plb_dataset *set, int threads, plb_progress *progress,
                                   plb_dataset **out) {
    size_t count = (size_t)set->info.count;
    void *samples = plb_alloc_slab(count * plb_dataset_sample_bytes(set));
    int64_t *labels = plb_alloc_array(count, sizeof *labels);
    plb_status status;
    if (!samples || !labels)
        PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "%s: no memory for %zu samples", set->info.name, count));
    PLB_TRY_OUT(plb_dataset_copy(set, threads, progress, samples, labels));
    PLB_TRY_OUT(plb_memory_dataset_new(&set->info, samples, labels, out));
    samples = NULL, labels = NULL;
out:
    plb_free(samples);
    plb_free(labels);
    return status;
}
