// SPDX-License-Identifier: Apache-2.0
#include "base/folder.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

bool plb_file_exists(const char *path) {
    struct stat info;
    return !stat(path, &info) && S_ISREG(info.st_mode);
}

bool plb_folder_exists(const char *path) {
    struct stat info;
    return !stat(path, &info) && S_ISDIR(info.st_mode);
}

// Whether a file that is not there yet would be the same: its name, in the same folder.
static bool same_place(const char *a, const char *b) {
    const char *const paths[2] = {a, b};
    const char *names[2];
    struct stat info[2];
    for (int i = 0; i < 2; i++) {
        char folder[PATH_MAX];
        const char *slash = strrchr(paths[i], '/');
        const int length = slash ? (int)(slash + 1 - paths[i]) : 0;
        names[i] = paths[i] + length;
        if (snprintf(folder, sizeof folder, "%.*s.", length, paths[i]) >= PATH_MAX) return false;
        if (stat(folder, &info[i])) return false;
    }
    return strcmp(names[0], names[1]) == 0 && info[0].st_dev == info[1].st_dev &&
           info[0].st_ino == info[1].st_ino;
}

bool plb_same_file(const char *a, const char *b) {
    struct stat first, second;
    const bool one = !stat(a, &first), other = !stat(b, &second);
    if (one && other) return first.st_dev == second.st_dev && first.st_ino == second.st_ino;
    return !one && !other && same_place(a, b);
}

static plb_status make_one(const char *path) {
    if (!mkdir(path, 0777) || (errno == EEXIST && plb_folder_exists(path))) return PLB_OK;
    return plb_fail_errno("%s: cannot make this folder", path);
}

plb_status plb_folder_make(const char *path) {
    if (!path[0]) return plb_fail(PLB_EINVAL, "expected the name of a folder, found nothing");
    plb_status status = PLB_OK;
    char *part = plb_strdup(path);
    if (!part) return plb_fail(PLB_ENOMEM, "%s: no memory for its name", path);
    for (char *slash = strchr(part + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        PLB_TRY_OUT(make_one(part));
        *slash = '/';
    }
    status = make_one(part);
out:
    plb_free(part);
    return status;
}

const char *plb_folder_of_xdg(const char *variable) {
    const char *value = getenv(variable);
    return value && *value == '/' ? value : NULL;
}

plb_status plb_folder_of_cache(plb_arena *arena, const char **out) {
    const char *xdg = plb_folder_of_xdg("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg)
        *out = plb_arena_printf(arena, "%s/plumb", xdg);
    else if (home && *home)
        *out = plb_arena_printf(arena, "%s/.cache/plumb", home);
    else
        return plb_fail(PLB_EMISSING,
                        "no place for a cache: neither XDG_CACHE_HOME nor HOME is set");
    return *out ? PLB_OK : plb_fail(PLB_ENOMEM, "no memory for a path");
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

typedef struct name_list {
    const char **names;
    size_t count, capacity;
} name_list;

static plb_status append(name_list *list, plb_arena *arena, const char *path, const char *name) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 64;
        const char **names = plb_realloc_array(list->names, capacity, sizeof *names);
        if (!names) return plb_fail(PLB_ENOMEM, "%s: no memory for its names", path);
        list->names = names, list->capacity = capacity;
    }
    char *copy = plb_arena_strdup(arena, name);
    if (!copy) return plb_fail(PLB_ENOMEM, "%s: no memory for its names", path);
    list->names[list->count++] = copy;
    return PLB_OK;
}

plb_status plb_folder_list(const char *path, plb_arena *arena, const char *const **out,
                           size_t *out_count) {
    plb_status status = PLB_OK;
    name_list list = {0};
    DIR *folder = opendir(path);
    if (!folder) return plb_fail_errno("%s: cannot list this folder", path);
    const struct dirent *entry;
    while (errno = 0, (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.') PLB_TRY_OUT(append(&list, arena, path, entry->d_name));
    if (errno) PLB_TRY_OUT(plb_fail_errno("%s: cannot list this folder", path));
    if (list.count) qsort(list.names, list.count, sizeof *list.names, by_bytes);
    const char **names = plb_arena_copy(arena, list.names, list.count * sizeof *names);
    if (!names) PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "%s: no memory for its names", path));
    *out = names, *out_count = list.count;
out:
    closedir(folder);
    plb_free(list.names);
    return status;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info, (void)kind, (void)where;
    return remove(path);
}

plb_status plb_folder_remove(const char *path) {
    enum { DESCRIPTORS = 16 };
    struct stat info;
    if (lstat(path, &info) != 0 && errno == ENOENT) return PLB_OK;
    if (nftw(path, remove_entry, DESCRIPTORS, FTW_DEPTH | FTW_PHYS) == 0) return PLB_OK;
    return plb_fail_errno("%s: cannot remove this folder", path);
}
