// SPDX-License-Identifier: Apache-2.0
#include "data/archive.h"

#include "base/core/status.h"

#ifdef PLB_HAVE_ARCHIVE
#include <archive.h>
#include <archive_entry.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/core/alloc.h"
#include "base/folder.h"

enum { READ_BYTES = 1 << 16 };

static plb_status fail(struct archive *archive, const char *path) {
    const char *text = archive_error_string(archive);
    return plb_fail(PLB_EINVAL, "%s: archive: %s", path, text ? text : "not one that is known");
}

static plb_status open_archive(const char *path, struct archive **out) {
    struct archive *archive = archive_read_new();
    if (!archive) return plb_fail(PLB_ENOMEM, "%s: no memory to unpack", path);
    archive_read_support_filter_all(archive);
    archive_read_support_format_tar(archive);
    archive_read_support_format_gnutar(archive);
    if (archive_read_open_filename(archive, path, READ_BYTES) == ARCHIVE_OK) {
        *out = archive;
        return PLB_OK;
    }
    plb_status status = fail(archive, path);
    archive_read_free(archive);
    return status;
}

// The next regular file; *out_entry is NULL at the end.
static plb_status next_file(struct archive *archive, const char *path,
                            struct archive_entry **out_entry) {
    for (;;) {
        int code = archive_read_next_header(archive, out_entry);
        if (code == ARCHIVE_EOF) {
            *out_entry = NULL;
            return PLB_OK;
        }
        if (code < ARCHIVE_WARN) return fail(archive, path);
        if (archive_entry_filetype(*out_entry) == AE_IFREG && archive_entry_pathname(*out_entry))
            return PLB_OK;
    }
}

// ---------------------------------------------------------------------------- walk
static plb_status read_whole(struct archive *archive, const char *path, uint8_t *bytes,
                             size_t size_bytes) {
    for (size_t at = 0; at < size_bytes;) {
        la_ssize_t got = archive_read_data(archive, bytes + at, size_bytes - at);
        if (got < 0) return fail(archive, path);
        if (got == 0)
            return plb_fail(PLB_EINVAL, "%s: archive: a file ends after %zu of %zu bytes", path, at,
                            size_bytes);
        at += (size_t)got;
    }
    return PLB_OK;
}

typedef struct walk {
    const char *path;
    size_t limit_bytes, capacity;
    uint8_t *bytes;
    plb_archive_visit visit;
    void *context;
} walk;

static plb_status visit_file(walk *w, struct archive *archive, struct archive_entry *entry) {
    const char *name = archive_entry_pathname(entry);
    int64_t size = archive_entry_size(entry);
    if (size < 0 || (uint64_t)size > w->limit_bytes)
        return plb_fail(PLB_EINVAL, "%s: %s: expected at most %zu bytes, found %lld", w->path, name,
                        w->limit_bytes, (long long)size);
    if ((size_t)size + 1 > w->capacity) {
        uint8_t *grown = plb_realloc_array(w->bytes, 2 * ((size_t)size + 1), 1);
        if (!grown) return plb_fail(PLB_ENOMEM, "%s: no memory for %s", w->path, name);
        w->bytes = grown, w->capacity = 2 * ((size_t)size + 1);
    }
    PLB_TRY(read_whole(archive, w->path, w->bytes, (size_t)size));
    return w->visit(w->context, name, w->bytes, (size_t)size);
}

plb_status plb_archive_walk(const char *path, size_t limit_bytes, bool (*wanted)(const char *),
                            plb_archive_visit visit, void *context) {
    struct archive *archive = NULL;
    walk w = {.path = path, .limit_bytes = limit_bytes, .visit = visit, .context = context};
    plb_status status;
    PLB_TRY(open_archive(path, &archive));
    for (;;) {
        struct archive_entry *entry;
        PLB_TRY_OUT(next_file(archive, path, &entry));
        if (!entry) break;
        if (wanted && !wanted(archive_entry_pathname(entry))) continue;
        PLB_TRY_OUT(visit_file(&w, archive, entry));
    }
out:
    plb_free(w.bytes);
    archive_read_free(archive);
    return status;
}

// ---------------------------------------------------------------------------- unpack
static bool leads_out(const char *name) {
    if (name[0] == '/') return true;
    for (const char *at = name; at; at = strchr(at, '/')) {
        if (*at == '/') at++;
        if (!strncmp(at, "..", 2) && (at[2] == '/' || !at[2])) return true;
    }
    return false;
}

// The name below the folder, or NULL for a file that is left out.
static const char *wanted_name(const char *name, const plb_unpack_options *options) {
    while (!strncmp(name, "./", 2)) name += 2;
    size_t length = options->prefix ? strlen(options->prefix) : 0;
    if (length && strncmp(name, options->prefix, length) != 0) return NULL;
    name += length;
    return !*name || (options->skip && !strcmp(name, options->skip)) ? NULL : name;
}

static plb_status make_parent(char *path) {
    char *slash = strrchr(path, '/');
    if (!slash) return PLB_OK;
    *slash = '\0';
    plb_status status = plb_folder_exists(path) ? PLB_OK : plb_folder_make(path);
    *slash = '/';
    return status;
}

static plb_status tell(const plb_unpack_options *options, struct archive *archive, const char *path,
                       bool last) {
    const char *slash = strrchr(path, '/');
    struct stat info;
    plb_progress_event event = {.what = slash ? slash + 1 : path,
                                .unit = "bytes",
                                .done = archive_filter_bytes(archive, -1),
                                .total = stat(path, &info) ? -1 : (int64_t)info.st_size,
                                .last = last};
    return plb_progress_tell(options->progress, &event);
}

static plb_status write_file(struct archive *archive, const char *path, const char *target,
                             const plb_unpack_options *options) {
    plb_status status = PLB_OK;
    FILE *file = fopen(target, "wb");
    if (!file) return plb_fail_errno("%s: cannot write", target);
    for (;;) {
        char piece[READ_BYTES];
        la_ssize_t got = archive_read_data(archive, piece, sizeof piece);
        if (got < 0) PLB_TRY_OUT(fail(archive, path));
        if (got == 0) break;
        if (fwrite(piece, 1, (size_t)got, file) != (size_t)got)
            PLB_TRY_OUT(plb_fail_errno("%s: cannot write", target));
        PLB_TRY_OUT(tell(options, archive, path, false));
    }
out:
    if (fclose(file) && !status) status = plb_fail_errno("%s: cannot write", target);
    return status;
}

static plb_status unpack_all(struct archive *archive, const char *path, const char *folder,
                             const plb_unpack_options *options, int64_t *out_count) {
    for (;;) {
        struct archive_entry *entry;
        char target[PATH_MAX];
        PLB_TRY(next_file(archive, path, &entry));
        if (!entry) return tell(options, archive, path, true);
        const char *name = wanted_name(archive_entry_pathname(entry), options);
        if (!name) continue;
        if (leads_out(name))
            return plb_fail(PLB_EINVAL, "%s: %s: a name that leads out of the folder", path, name);
        if (snprintf(target, sizeof target, "%s/%s", folder, name) >= PATH_MAX)
            return plb_fail(PLB_EINVAL, "%s: %s: the path is too long", path, name);
        PLB_TRY(make_parent(target));
        PLB_TRY(write_file(archive, path, target, options));
        ++*out_count;
    }
}

plb_status plb_archive_unpack(const char *path, const char *folder,
                              const plb_unpack_options *options) {
    struct archive *archive = NULL;
    int64_t count = 0;
    PLB_TRY(open_archive(path, &archive));
    plb_status status = unpack_all(archive, path, folder, options, &count);
    archive_read_free(archive);
    if (status || count) return status;
    return plb_fail(PLB_EINVAL, "%s: expected files below %s, found none", path,
                    options->prefix ? options->prefix : "it");
}

#else

plb_status plb_archive_walk(const char *path, size_t limit_bytes, bool (*wanted)(const char *),
                            plb_archive_visit visit, void *context) {
    (void)limit_bytes, (void)wanted, (void)visit, (void)context;
    return plb_fail(PLB_EMISSING,
                    "%s: cannot be read: this build has no libarchive (Debian: libarchive-dev)",
                    path);
}

plb_status plb_archive_unpack(const char *path, const char *folder,
                              const plb_unpack_options *options) {
    (void)folder, (void)options;
    return plb_fail(PLB_EMISSING,
                    "%s: cannot be unpacked: this build has no libarchive (Debian: libarchive-dev)",
                    path);
}

#endif
