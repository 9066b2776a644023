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
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/arena.h"
#include "base/core/hash.h"
#include "base/folder.h"
#include "data/fit.h"

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

// The next regular file or link; *out_entry is NULL at the end.
static plb_status next_entry(struct archive *archive, const char *path,
                             struct archive_entry **out_entry) {
    for (;;) {
        int code = archive_read_next_header(archive, out_entry);
        if (code == ARCHIVE_EOF) {
            *out_entry = NULL;
            return PLB_OK;
        }
        if (code < ARCHIVE_WARN) return fail(archive, path);
        if (!archive_entry_pathname(*out_entry)) continue;
        if (archive_entry_hardlink(*out_entry)) return PLB_OK;
        unsigned type = archive_entry_filetype(*out_entry);
        if (type == AE_IFREG || type == AE_IFLNK) return PLB_OK;
    }
}

static bool is_symbolic_link(struct archive_entry *entry) {
    return !archive_entry_hardlink(entry) && archive_entry_filetype(entry) == AE_IFLNK;
}

static plb_status refuse_symbolic(const char *path, const char *name, struct archive_entry *entry) {
    const char *target = archive_entry_symlink(entry);
    return plb_fail(PLB_EINVAL, "%s: %s: expected a file, found a symbolic link to %s", path, name,
                    target ? target : "nothing");
}

static plb_status refuse_hard(const char *path, const char *name, const char *target) {
    return plb_fail(PLB_EINVAL,
                    "%s: %s: expected the file %s that it is a hard link to, found none", path,
                    name, target);
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

// One more name of a file, which the archive has only once: a second walk finds the file's bytes.
typedef struct hard_link {
    const char *name, *target;
    int64_t next; // to the same target, or -1
    bool found;
} hard_link;

typedef struct walk {
    const char *path;
    size_t limit_bytes, capacity;
    uint8_t *bytes;
    bool (*wanted)(const char *name);
    plb_archive_visit visit;
    void *context;
    plb_arena *arena; // names of links
    plb_map *heads;   // targets to their last link
    hard_link *links;
    int64_t link_count, link_capacity;
} walk;

static plb_status visit_file(walk *w, struct archive *archive, struct archive_entry *entry,
                             const char *name) {
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

static bool grow_links(walk *w) {
    if (!w->arena && !(w->arena = plb_arena_new())) return false;
    if (!w->heads && !(w->heads = plb_map_new())) return false;
    if (w->link_count < w->link_capacity) return true;
    int64_t capacity = w->link_capacity ? 2 * w->link_capacity : 64;
    hard_link *grown = plb_realloc_array(w->links, (size_t)capacity, sizeof *grown);
    if (grown) w->links = grown, w->link_capacity = capacity;
    return grown;
}

// Notes a link, in front of the others to the same file; false when out of memory.
static bool note_link(walk *w, const char *name, const char *target) {
    if (!grow_links(w)) return false;
    const hard_link link = {.name = plb_arena_strdup(w->arena, name),
                            .target = plb_arena_strdup(w->arena, target),
                            .next = plb_map_get(w->heads, target, -1)};
    if (!link.name || !link.target || plb_map_set(w->heads, target, w->link_count)) return false;
    w->links[w->link_count++] = link;
    return true;
}

static plb_status visit_entry(walk *w, struct archive *archive, struct archive_entry *entry) {
    const char *name = archive_entry_pathname(entry), *target = archive_entry_hardlink(entry);
    if (w->wanted && !w->wanted(name)) return PLB_OK;
    if (is_symbolic_link(entry)) return refuse_symbolic(w->path, name, entry);
    if (!target) return visit_file(w, archive, entry, name);
    if (note_link(w, name, target)) return PLB_OK;
    return plb_fail(PLB_ENOMEM, "%s: no memory for its links", w->path);
}

// A file that links lead to, once for each of them.
static plb_status visit_links_to(walk *w, struct archive *archive, struct archive_entry *entry) {
    int64_t at = plb_map_get(w->heads, archive_entry_pathname(entry), -1);
    if (at < 0 || w->links[at].found || archive_entry_hardlink(entry) || is_symbolic_link(entry))
        return PLB_OK;
    PLB_TRY(visit_file(w, archive, entry, w->links[at].name));
    w->links[at].found = true;
    while ((at = w->links[at].next) >= 0) {
        w->links[at].found = true;
        PLB_TRY(
            w->visit(w->context, w->links[at].name, w->bytes, (size_t)archive_entry_size(entry)));
    }
    return PLB_OK;
}

static plb_status visit_all(walk *w,
                            plb_status (*visit)(walk *, struct archive *, struct archive_entry *)) {
    struct archive *archive = NULL;
    struct archive_entry *entry;
    plb_status status;
    PLB_TRY(open_archive(w->path, &archive));
    for (;;) {
        PLB_TRY_OUT(next_entry(archive, w->path, &entry));
        if (!entry) break;
        PLB_TRY_OUT(visit(w, archive, entry));
    }
out:
    archive_read_free(archive);
    return status;
}

plb_status plb_archive_walk(const char *path, size_t limit_bytes, bool (*wanted)(const char *),
                            plb_archive_visit visit, void *context) {
    walk w = {.path = path,
              .limit_bytes = limit_bytes,
              .wanted = wanted,
              .visit = visit,
              .context = context};
    plb_status status;
    PLB_TRY_OUT(visit_all(&w, visit_entry));
    if (w.link_count) PLB_TRY_OUT(visit_all(&w, visit_links_to));
    for (int64_t i = 0; i < w.link_count && !status; i++)
        if (!w.links[i].found) status = refuse_hard(path, w.links[i].name, w.links[i].target);
out:
    plb_free(w.bytes);
    plb_free(w.links);
    plb_map_free(w.heads);
    plb_arena_free(w.arena);
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

// The target was unpacked before: archives name a file before the links to it.
static plb_status write_link(const char *path, const char *written, const char *target,
                             const char *folder, const plb_unpack_options *options) {
    char file[PATH_MAX];
    const char *name = written + strlen(folder) + 1;
    const char *wanted = wanted_name(target, options);
    if (!wanted || leads_out(wanted) ||
        snprintf(file, sizeof file, "%s/%s", folder, wanted) >= PATH_MAX || !plb_file_exists(file))
        return refuse_hard(path, name, target);
    if (!strcmp(file, written)) return PLB_OK;
    unlink(written); // of an earlier attempt
    return link(file, written) ? plb_fail_errno("%s: cannot link", written) : PLB_OK;
}

static plb_status unpack_all(struct archive *archive, const char *path, const char *folder,
                             const plb_unpack_options *options, int64_t *out_count) {
    for (;;) {
        struct archive_entry *entry;
        char target[PATH_MAX];
        PLB_TRY(next_entry(archive, path, &entry));
        if (!entry) return tell(options, archive, path, true);
        const char *name = wanted_name(archive_entry_pathname(entry), options);
        if (!name || (is_symbolic_link(entry) && !plb_is_picture(name))) continue;
        if (is_symbolic_link(entry)) return refuse_symbolic(path, name, entry);
        if (leads_out(name))
            return plb_fail(PLB_EINVAL, "%s: %s: a name that leads out of the folder", path, name);
        if (snprintf(target, sizeof target, "%s/%s", folder, name) >= PATH_MAX)
            return plb_fail(PLB_EINVAL, "%s: %s: the path is too long", path, name);
        PLB_TRY(make_parent(target));
        const char *linked = archive_entry_hardlink(entry);
        PLB_TRY(linked ? write_link(path, target, linked, folder, options)
                       : write_file(archive, path, target, options));
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
