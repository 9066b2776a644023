// SPDX-License-Identifier: Apache-2.0
#include "bench/work_tree.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "base/file.h"
#include "bench/git.h"
#include "bench/git_index.h"
#include "data/digest.h"

static const size_t limit_bytes = (size_t)1 << 30;

enum { KIND = 0170000, FILE_KIND = 0100000, LINK_KIND = 0120000, REPOSITORY_KIND = 0160000 };

typedef struct walk {
    const char *root;
    size_t id_bytes;
    struct timespec looked; // when git last wrote what it knows
    uint64_t hash;
} walk;

static void add_text(walk *w, const char *text) {
    w->hash = plb_hash_string(w->hash, text);
}

static void add_id(walk *w, const uint8_t *id) {
    char text[2 * 32 + 1] = "";
    for (size_t i = 0; i < w->id_bytes; i++) snprintf(text + 2 * i, 3, "%02x", id[i]);
    add_text(w, text);
}

// What git would call this content, so that a file that was only touched counts as it was. Without
// libcrypto such a file counts as another one.
static void add_content(walk *w, const void *bytes, size_t size_bytes) {
    char text[PLB_DIGEST_TEXT_BYTES];
    if (plb_digest_blob(w->id_bytes == 32, bytes, size_bytes, text))
        w->hash = plb_hash_bytes(w->hash, bytes, size_bytes);
    else
        add_text(w, text);
}

static bool is_later(const struct timespec *a, int64_t s, int64_t ns) {
    return a->tv_sec != s ? a->tv_sec > s : a->tv_nsec > ns;
}

// Whether the file is as git last saw it, told without reading it: by size and time, unless it may
// have changed in the moment in which git looked.
static bool is_known(const walk *w, const plb_git_entry *e, const struct stat *found) {
    const struct timespec *at = &found->st_mtim;
    const bool same_ns = !e->modified_ns || at->tv_nsec == (long)e->modified_ns;
    return (uint32_t)found->st_size == e->size_bytes && (uint32_t)at->tv_sec == e->modified_s &&
           same_ns && is_later(&w->looked, at->tv_sec, at->tv_nsec);
}

static void add_link(walk *w, const char *path) {
    char target[PATH_MAX];
    const ssize_t length = readlink(path, target, sizeof target);
    add_content(w, target, length < 0 ? 0 : (size_t)length);
}

static void add_file(walk *w, const char *path) {
    uint8_t *bytes = NULL;
    size_t size_bytes = 0;
    if (plb_file_read(path, limit_bytes, &bytes, &size_bytes)) {
        add_text(w, "unreadable");
        return;
    }
    add_content(w, bytes, size_bytes);
    plb_free(bytes);
}

static void add_repository(walk *w, const char *path, const plb_git_entry *e) {
    char revision[PLB_GIT_BYTES];
    plb_git_revision(path, revision); // of the one around, where this one was never fetched
    if (revision[0])
        add_text(w, revision);
    else
        add_id(w, e->id);
}

static void add_entry(void *context, const plb_git_entry *e) {
    walk *w = context;
    char path[2 * PATH_MAX];
    struct stat found;
    snprintf(path, sizeof path, "%s/%s", w->root, e->path);
    add_text(w, e->path);
    w->hash = plb_hash_bytes(w->hash, &e->stage, sizeof e->stage);
    const uint32_t kind = e->mode & KIND;
    if (e->unwatched || e->stage ||
        (kind != FILE_KIND && kind != LINK_KIND && kind != REPOSITORY_KIND)) {
        add_id(w, e->id);
    } else if (lstat(path, &found) != 0) {
        add_text(w, "absent");
    } else if (kind == REPOSITORY_KIND) {
        add_repository(w, path, e);
    } else if ((found.st_mode & S_IFMT) != (kind == LINK_KIND ? S_IFLNK : S_IFREG)) {
        add_text(w, "of another kind");
    } else {
        add_text(w, kind == FILE_KIND && found.st_mode & S_IXUSR ? "runs" : "");
        if (is_known(w, e, &found))
            add_id(w, e->id);
        else if (kind == LINK_KIND)
            add_link(w, path);
        else
            add_file(w, path);
    }
}

void plb_work_tree_hash(const char *folder, char out[PLB_WORK_TREE_BYTES]) {
    char root[PLB_GIT_PATH_BYTES], repository[PLB_GIT_PATH_BYTES], revision[PLB_GIT_BYTES];
    char path[PLB_GIT_PATH_BYTES + 8];
    uint8_t *bytes = NULL;
    size_t size_bytes = 0;
    struct stat index;
    out[0] = '\0';
    plb_git_revision(folder, revision);
    if (!revision[0] || !plb_git_find(folder, repository, root)) return;
    snprintf(path, sizeof path, "%s/index", repository);
    if (stat(path, &index) != 0 || plb_file_read(path, limit_bytes, &bytes, &size_bytes)) return;
    walk w = {.root = root,
              .id_bytes = strlen(revision) / 2,
              .looked = index.st_mtim,
              .hash = PLB_HASH_SEED};
    if (plb_git_index_read(bytes, size_bytes, w.id_bytes, add_entry, &w) == PLB_OK)
        snprintf(out, PLB_WORK_TREE_BYTES, "%016llx", (unsigned long long)w.hash);
    plb_free(bytes);
}
