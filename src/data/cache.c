// SPDX-License-Identifier: Apache-2.0
// Layout: a header, labels as i64, samples from the next page on. Everything is in this machine's
// byte order: a cache is not a format to exchange.
#include "data/cache.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/hash.h"
#include "base/core/status.h"
#include "base/file.h"
#include "base/folder.h"

enum { PAGE = 4096 };
static const char magic[8] = {'P', 'L', 'B', 'P', 'I', 'X', '0', '2'};

typedef struct header {
    char magic[8];
    uint64_t source; // hash of what it was made from
    int64_t count, classes, channels, height, width, dtype;
} header;

typedef struct mapped_set {
    plb_dataset base;
    plb_file_map map;
    const int64_t *labels;
    const uint8_t *samples;
    size_t sample_bytes;
} mapped_set;

plb_status plb_source_add_file(const char *path, uint64_t *hash) {
    struct stat info;
    if (stat(path, &info)) return plb_fail_errno("%s: cannot be looked at", path);
    int64_t facts[] = {(int64_t)info.st_size, (int64_t)info.st_mtim.tv_sec,
                       (int64_t)info.st_mtim.tv_nsec};
    *hash = plb_hash_bytes(plb_hash_string(*hash, path), facts, sizeof facts);
    return PLB_OK;
}

static header header_of(const plb_dataset_info *info, uint64_t source) {
    header h = {.source = source,
                .count = info->count,
                .classes = info->classes,
                .channels = info->channels,
                .height = info->height,
                .width = info->width,
                .dtype = info->dtype};
    memcpy(h.magic, magic, sizeof magic);
    return h;
}

static size_t samples_offset(int64_t count) {
    size_t end = sizeof(header) + (size_t)count * sizeof(int64_t);
    return (end + PAGE - 1) / PAGE * PAGE;
}

static size_t file_bytes(const plb_dataset *set) {
    return samples_offset(set->info.count) +
           (size_t)set->info.count * plb_dataset_sample_bytes(set);
}

// ---------------------------------------------------------------------------- the mapped set
static const void *mapped_peek(const plb_dataset *set, int64_t i) {
    const mapped_set *self = (const mapped_set *)set;
    return self->samples + (size_t)i * self->sample_bytes;
}

static plb_status mapped_get(const plb_dataset *set, int64_t i, plb_scratch *scratch,
                             void *sample) {
    (void)scratch;
    memcpy(sample, mapped_peek(set, i), ((const mapped_set *)set)->sample_bytes);
    return PLB_OK;
}

static int64_t mapped_label(const plb_dataset *set, int64_t i) {
    return ((const mapped_set *)set)->labels[i];
}

static void mapped_release(plb_dataset *set) {
    plb_file_map_close(&((mapped_set *)set)->map);
}

static const plb_dataset_ops mapped_ops = {
    .get = mapped_get, .peek = mapped_peek, .label = mapped_label, .release = mapped_release};

static plb_status check_labels(const mapped_set *self, const char *path) {
    for (int64_t i = 0; i < self->base.info.count; i++)
        if (self->labels[i] < 0 || self->labels[i] >= self->base.info.classes)
            return plb_fail(PLB_EINVAL, "%s: label of sample %" PRId64 ": found %" PRId64, path, i,
                            self->labels[i]);
    return PLB_OK;
}

// PLB_EINVAL if the file is not what it should be: it is then made anew.
static plb_status open_mapped(const plb_dataset *set, uint64_t source, const char *path,
                              plb_dataset **out) {
    plb_file_map map = {0};
    mapped_set *self = NULL;
    header expected = header_of(&set->info, source);
    plb_status status;
    PLB_TRY(plb_file_map_open(path, &map));
    if (map.size_bytes != file_bytes(set) || memcmp(map.bytes, &expected, sizeof expected) != 0)
        PLB_TRY_OUT(plb_fail(PLB_EINVAL, "%s: not the cache that was expected", path));
    PLB_TRY_OUT(plb_dataset_new(&set->info, &mapped_ops, sizeof *self, &self));
    self->map = map, map = (plb_file_map){0};
    self->labels = (const int64_t *)(const void *)(self->map.bytes + sizeof(header));
    self->samples = self->map.bytes + samples_offset(set->info.count);
    self->sample_bytes = plb_dataset_sample_bytes(set);
    PLB_TRY_OUT(check_labels(self, path));
    *out = &self->base, self = NULL;
out:
    if (self) plb_dataset_free(&self->base);
    plb_file_map_close(&map);
    return status;
}

// ---------------------------------------------------------------------------- making one
// The room is taken before anything is written: a full disk is an error then, not a signal later.
static plb_status fill_file(const plb_dataset *set, uint64_t source, int file, const char *path,
                            int threads, plb_progress *progress) {
    size_t size_bytes = file_bytes(set);
    int code = posix_fallocate(file, 0, (off_t)size_bytes);
    if (code == ENOSPC) return plb_fail(PLB_EFULL, "%s: no room for %zu bytes", path, size_bytes);
    if (code) return plb_fail(PLB_EIO, "%s: cannot write: %s", path, strerror(code));
    uint8_t *bytes = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (bytes == MAP_FAILED) return plb_fail_errno("%s: cannot map", path);
    header h = header_of(&set->info, source);
    plb_status status =
        plb_dataset_copy(set, threads, progress, bytes + samples_offset(set->info.count),
                         (int64_t *)(void *)(bytes + sizeof h));
    memcpy(bytes, &h, sizeof h);
    if (!status && msync(bytes, size_bytes, MS_SYNC)) status = plb_fail_errno("%s: msync", path);
    munmap(bytes, size_bytes);
    return status;
}

static plb_status make_file(const plb_dataset *set, uint64_t source, const char *path, int threads,
                            plb_progress *progress) {
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s-%d.tmp", path, (int)getpid()) >= PATH_MAX)
        return plb_fail(PLB_EINVAL, "%s: the path is too long", path);
    int file = open(part, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) return plb_fail_errno("%s: cannot write", part);
    plb_status status = fill_file(set, source, file, part, threads, progress);
    close(file);
    if (!status && rename(part, path)) status = plb_fail_errno("%s: cannot rename", part);
    if (status) unlink(part);
    return status;
}

// A hash of what samples and labels are made from; 0: nothing is known of that.
static plb_status source_of(const plb_dataset *set, uint64_t *out_hash) {
    const plb_dataset_info *info = &set->info;
    int64_t extents[] = {info->count, info->height, info->width};
    *out_hash = 0;
    if (set->ops->peek || !set->ops->source) return PLB_OK;
    uint64_t source = plb_hash_string(PLB_HASH_SEED, info->kind);
    source = plb_hash_bytes(source, extents, sizeof extents);
    PLB_TRY(set->ops->source(set, &source));
    *out_hash = source ? source : 1;
    return PLB_OK;
}

plb_status plb_dataset_same_source(const plb_dataset *a, const plb_dataset *b, bool *out) {
    uint64_t of_a, of_b;
    *out = false;
    if (a->info.count != b->info.count) return PLB_OK; // before a look at every file
    PLB_TRY(source_of(a, &of_a));
    PLB_TRY(source_of(b, &of_b));
    *out = of_a && of_a == of_b;
    return PLB_OK;
}

plb_status plb_dataset_cache(plb_dataset **set, const char *folder, int threads,
                             plb_progress *progress) {
    uint64_t source;
    char path[PATH_MAX];
    plb_dataset *mapped = NULL;
    PLB_TRY(source_of(*set, &source));
    if (!source) return PLB_OK;
    PLB_TRY(plb_folder_make(folder));
    if (snprintf(path, sizeof path, "%s/%016" PRIx64 ".pixels", folder, source) >= PATH_MAX)
        return plb_fail(PLB_EINVAL, "%s: the path is too long", folder);
    if (!plb_file_exists(path) || open_mapped(*set, source, path, &mapped)) {
        PLB_TRY(make_file(*set, source, path, threads, progress));
        PLB_TRY(open_mapped(*set, source, path, &mapped));
    }
    plb_dataset_free(*set);
    *set = mapped;
    return PLB_OK;
}
