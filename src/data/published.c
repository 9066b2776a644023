// SPDX-License-Identifier: Apache-2.0
// Getting sets from their publishers, and comparing what is here with what was published.
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/status.h"
#include "base/file_lock.h"
#include "base/folder.h"
#include "data/archive.h"
#include "data/cache.h"
#include "data/download.h"
#include "data/image_folder.h"
#include "data/known.h"
#include "data/voc.h"

enum { CIFAR_PICTURES = 10000 };

static plb_status fetch(const plb_known_set *set, const char *name, const char *md5,
                        int64_t size_bytes, const char *path, plb_progress *progress) {
    char urls[2][256];
    const char *url_list[2] = {urls[0], urls[1]};
    size_t count = 0;
    for (; count < 2 && set->mirrors[count]; count++)
        snprintf(urls[count], sizeof urls[count], "%s%s", set->mirrors[count], name);
    plb_download download = {.urls = url_list,
                             .url_count = count,
                             .path = path,
                             .size_bytes = size_bytes,
                             .digest_kind = PLB_MD5,
                             .digest = md5,
                             .progress = progress};
    return plb_download_file(&download);
}

static plb_status get_file(const plb_known_set *set, const plb_published_file *file,
                           const char *folder, plb_progress *progress) {
    char path[PATH_MAX], name[64];
    if (plb_known_file(folder, file->name, path)) return PLB_OK; // there already
    snprintf(name, sizeof name, "%s.gz", file->name);
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= PATH_MAX)
        return plb_fail(PLB_EINVAL, "%s: the path is too long", folder);
    return fetch(set, name, file->packed_md5, 0, path, progress);
}

// The archive is removed once all of it is unpacked: while it is there, the set is not.
static plb_status get_archive(const plb_known_set *set, const char *root, const char *folder,
                              plb_arena *arena, plb_progress *progress) {
    const plb_published_archive *archive = &set->archive;
    const char *found;
    char path[PATH_MAX];
    plb_status status = plb_known_locate(set, root, arena, &found);
    if (status != PLB_EMISSING) return status; // there already
    if (snprintf(path, sizeof path, "%s/%s", folder, archive->name) >= PATH_MAX)
        return plb_fail(PLB_EINVAL, "%s: the path is too long", folder);
    if (!plb_file_exists(path))
        PLB_TRY(fetch(set, archive->name, archive->md5, archive->size_bytes, path, progress));
    plb_unpack_options options = {
        .prefix = archive->prefix, .skip = archive->skip, .progress = progress};
    PLB_TRY(plb_archive_unpack(path, folder, &options));
    return unlink(path) ? plb_fail_errno("%s: cannot remove", path) : PLB_OK;
}

plb_status plb_dataset_download(const char *name, const char *root, plb_progress *progress) {
    const plb_known_set *set;
    PLB_TRY(plb_known_find(name, &set));
    if (!set->shown.downloadable)
        return plb_fail(PLB_EUNSUPPORTED, "%s: is drawn on demand; there is nothing to download",
                        name);
    plb_status status = PLB_OK;
    plb_file_lock lock = PLB_FILE_LOCK_NONE;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "%s: no memory for its path", name);
    if (!root) PLB_TRY_OUT(plb_data_root(arena, &root));
    const char *folder = plb_arena_printf(arena, "%s/%s", root, set->folders[0]);
    const char *path = folder ? plb_arena_printf(arena, "%s/.lock", folder) : NULL;
    if (!path) PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "%s: no memory for its path", name));
    PLB_TRY_OUT(plb_folder_make(folder));
    // What another process gets meanwhile is there afterwards, and looked for below.
    PLB_TRY_OUT(plb_file_lock_take(path, name, progress, &lock));
    if (set->archive.name) {
        PLB_TRY_OUT(get_archive(set, root, folder, arena, progress));
        goto out;
    }
    for (int i = 0; i < PLB_KNOWN_FILES; i++)
        PLB_TRY_OUT(get_file(set, &set->files[i], folder, progress));
out:
    plb_file_lock_release(&lock);
    plb_arena_free(arena);
    return status;
}

// ---------------------------------------------------------------------------- checking
// What a check has found so far: the first bad file's text, and how many there are; the same of
// files that there is nothing to compare with.
typedef struct findings {
    const plb_check_report *report;
    plb_status status;
    char text[1024];
    int64_t files, bad;
    char unchecked_text[1024];
    int64_t unchecked;
} findings;

static void note_unchecked(findings *f) {
    if (!f->unchecked++)
        snprintf(f->unchecked_text, sizeof f->unchecked_text, "%s", plb_error_text());
}

// Notes a file and what became of looking at it; only what makes going on senseless is returned.
static plb_status note(findings *f, const char *file, plb_status status) {
    const char *wrong = status ? plb_error_text() : NULL;
    if (status == PLB_ENOMEM || status == PLB_ECANCELLED) return status;
    f->files++, f->bad += status != PLB_OK;
    if (status && !f->status) {
        f->status = status;
        snprintf(f->text, sizeof f->text, "%s", wrong);
    }
    if (!f->report || f->report->found(f->report->context, file, wrong)) return PLB_OK;
    return plb_fail(PLB_ECANCELLED, "interrupted");
}

static plb_status compare_digest(const char *path, bool unpack, const char *expected) {
    char found[PLB_DIGEST_TEXT_BYTES];
    PLB_TRY(plb_digest_file(PLB_MD5, path, unpack, found));
    if (!strcmp(found, expected)) return PLB_OK;
    return plb_fail(PLB_EINVAL, "%s: MD5%s: expected %s, found %s", path,
                    unpack ? " of its contents" : "", expected, found);
}

// Of an unpacked file whose publisher states the packed one's checksum alone: by the packed file,
// if it lies beside it. PLB_EUNSUPPORTED if not.
static plb_status check_unpacked(const plb_published_file *file, const char *path) {
    char packed[PATH_MAX], content[PLB_DIGEST_TEXT_BYTES];
    int length = snprintf(packed, sizeof packed, "%s.gz", path);
    if (length >= PATH_MAX || !plb_file_exists(packed))
        return plb_fail(PLB_EUNSUPPORTED,
                        "%s: cannot be checked: the checksum published is that of %s.gz", path,
                        file->name);
    PLB_TRY(compare_digest(packed, false, file->packed_md5));
    PLB_TRY(plb_digest_file(PLB_MD5, packed, true, content));
    return compare_digest(path, false, content);
}

static plb_status check_digest(const plb_published_file *file, const char *path) {
    char packed[PLB_DIGEST_TEXT_BYTES];
    size_t length = strlen(path);
    if (!file->content_md5 && (length < 3 || strcmp(path + length - 3, ".gz") != 0))
        return check_unpacked(file, path);
    if (!file->content_md5) return compare_digest(path, false, file->packed_md5);
    if (file->packed_md5) {
        PLB_TRY(plb_digest_file(PLB_MD5, path, false, packed));
        if (!strcmp(packed, file->packed_md5)) return PLB_OK;
    }
    return compare_digest(path, true, file->content_md5);
}

static plb_status check_published(const plb_known_set *set, const char *folder, findings *f) {
    for (int i = 0; i < PLB_KNOWN_FILES && set->files[i].name; i++) {
        char path[PATH_MAX];
        bool there = plb_known_file(folder, set->files[i].name, path);
        plb_status status = there ? check_digest(&set->files[i], path)
                                  : plb_known_lacks(set, folder, set->files[i].name);
        if (status == PLB_EUNSUPPORTED)
            note_unchecked(f);
        else
            PLB_TRY(note(f, there ? path : set->files[i].name, status));
    }
    return PLB_OK;
}

// Every sample of a split is decoded. Its file is named by what went wrong with it.
static plb_status check_samples(const plb_dataset *set, findings *f) {
    plb_scratch scratch = {0};
    void *sample = plb_scratch_reserve(&scratch, 0, plb_dataset_sample_bytes(set));
    plb_status status = PLB_OK;
    if (!sample) return plb_fail(PLB_ENOMEM, "%s: no memory for a sample", set->info.name);
    plb_scratch own = {0};
    for (int64_t i = 0; i < set->info.count; i++) {
        char what[64];
        snprintf(what, sizeof what, "sample %lld", (long long)i);
        PLB_TRY_OUT(note(f, what, plb_dataset_get(set, i, &own, sample, NULL)));
    }
out:
    plb_scratch_free(&own);
    plb_scratch_free(&scratch);
    return status;
}

// Publishers state no checksums of these; their splits must open and every sample must decode.
static plb_status check_by_reading(const char *name, const char *root, findings *f) {
    plb_dataset_options options = {.root = root, .size = 32};
    plb_dataset *sets[2] = {0};
    plb_status status = PLB_OK;
    bool same = false; // a folder without parts is both
    for (int split = PLB_TRAIN; split <= PLB_TEST && !same; split++) {
        status = plb_dataset_open(name, (plb_data_split)split, &options, &sets[split]);
        if (status == PLB_EMISSING) goto out;
        if (status) {
            same = split == PLB_TEST && f->status && !strcmp(f->text, plb_error_text());
            if (!same) PLB_TRY_OUT(note(f, split == PLB_TRAIN ? "train" : "test", status));
            status = PLB_OK;
            continue;
        }
        if (sets[0] && sets[1]) PLB_TRY_OUT(plb_dataset_same_source(sets[0], sets[1], &same));
        if (!same) PLB_TRY_OUT(check_samples(sets[split], f));
    }
out:
    plb_dataset_free(sets[0]);
    plb_dataset_free(sets[1]);
    return status;
}

static plb_status check_cifar_counts(const char *name, const char *root, findings *f) {
    for (int split = PLB_TRAIN; split <= PLB_TEST; split++) {
        plb_dataset_options options = {.root = root};
        plb_dataset *set = NULL;
        int64_t expected = split == PLB_TRAIN ? 5 * CIFAR_PICTURES : CIFAR_PICTURES;
        if (plb_dataset_open(name, (plb_data_split)split, &options, &set)) continue; // noted
        plb_status status = PLB_OK;
        if (set->info.count != expected)
            status = plb_fail(PLB_EINVAL, "%s: expected %lld pictures to %s, found %lld", name,
                              (long long)expected, split == PLB_TRAIN ? "train" : "test",
                              (long long)set->info.count);
        plb_dataset_free(set);
        PLB_TRY(note(f, split == PLB_TRAIN ? "train" : "test", status));
    }
    return PLB_OK;
}

// Masks of VOC: each must be a palette of classes.
static plb_status check_masks(const char *folder, plb_arena *arena, findings *f) {
    char masks[PATH_MAX], path[2 * PATH_MAX];
    const char *const *names;
    size_t count;
    snprintf(masks, sizeof masks, "%s/SegmentationClass", folder);
    if (!plb_folder_exists(masks)) return PLB_OK;
    PLB_TRY(plb_folder_list(masks, arena, &names, &count));
    for (size_t i = 0; i < count; i++) {
        plb_index_image mask = {0};
        snprintf(path, sizeof path, "%s/%s", masks, names[i]);
        PLB_TRY(note(f, path, plb_voc_mask_read(path, &mask)));
        plb_index_image_free(&mask);
    }
    return PLB_OK;
}

static plb_status check_known(const plb_known_set *set, const char *root, plb_arena *arena,
                              findings *f) {
    const char *folder;
    if (set->shown.drawn)
        return plb_fail(PLB_EUNSUPPORTED, "%s: has no published checksums to compare with",
                        set->shown.name);
    PLB_TRY(plb_known_locate(set, root, arena, &folder));
    if (set->files[0].name) return check_published(set, folder, f);
    PLB_TRY(check_by_reading(set->shown.name, root, f));
    if (set->kind == PLB_KNOWN_VOC || set->kind == PLB_KNOWN_VOC_IMAGES)
        return check_masks(folder, arena, f);
    return check_cifar_counts(set->shown.name, root, f);
}

static plb_status fail_of(plb_status status, const char *text, const char *what, int64_t count) {
    if (count == 1) return plb_fail(status, "%s", text);
    return plb_fail(status, "%s (and %lld more %s%s)", text, (long long)count - 1, what,
                    count == 2 ? "" : "s");
}

static plb_status conclude(const findings *f) {
    // A file of another kind is a bad one.
    plb_status status = f->status == PLB_EUNSUPPORTED ? PLB_EINVAL : f->status;
    if (status) return fail_of(status, f->text, "bad file", f->bad);
    return f->unchecked ? fail_of(PLB_EUNSUPPORTED, f->unchecked_text, "file", f->unchecked)
                        : PLB_OK;
}

plb_status plb_dataset_check(const char *name, const char *root, const plb_check_report *report) {
    findings f = {.report = report};
    const plb_known_set *set = NULL;
    if (!strchr(name, '/')) PLB_TRY(plb_known_find(name, &set));
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "%s: no memory for its path", name);
    plb_status status = set ? check_known(set, root, arena, &f) : check_by_reading(name, root, &f);
    plb_arena_free(arena);
    return status ? status : conclude(&f);
}
