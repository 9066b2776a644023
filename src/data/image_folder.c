// SPDX-License-Identifier: Apache-2.0
#include "data/image_folder.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "base/folder.h"
#include "data/cache.h"
#include "data/fit.h"

typedef struct file_list {
    const char **names; // in the arena
    int32_t *classes;
    size_t count, capacity;
} file_list;

typedef struct image_folder {
    plb_dataset base;
    plb_arena *names; // path and files' names
    const char *path;
    file_list files;
    int64_t size, resize_short;
} image_folder;

static void file_list_free(file_list *list) {
    plb_free(list->names);
    plb_free(list->classes);
    *list = (file_list){0};
}

static bool file_list_grow(file_list *list) {
    size_t capacity = list->capacity ? 2 * list->capacity : 256;
    const char **names = plb_realloc_array(list->names, capacity, sizeof *names);
    if (!names) return false;
    list->names = names;
    int32_t *classes = plb_realloc_array(list->classes, capacity, sizeof *classes);
    if (!classes) return false;
    list->classes = classes, list->capacity = capacity;
    return true;
}

// Appends the pictures of one class; *out_found says how many.
static plb_status list_class(file_list *list, plb_arena *arena, const char *folder, int32_t class,
                             size_t *out_found) {
    const char *const *names;
    size_t count, before = list->count;
    PLB_TRY(plb_folder_list(folder, arena, &names, &count));
    for (size_t i = 0; i < count; i++) {
        if (!plb_is_picture(names[i])) continue;
        if (list->count == list->capacity && !file_list_grow(list))
            return plb_fail(PLB_ENOMEM, "%s: no memory for its names", folder);
        list->names[list->count] = names[i];
        list->classes[list->count++] = class;
    }
    *out_found = list->count - before;
    return PLB_OK;
}

// Class names (folders, sorted) into *out_classes, the pictures of all into `list`.
static plb_status list_all(const char *path, plb_arena *arena, file_list *list,
                           const char ***out_classes, size_t *out_count) {
    const char *const *names;
    size_t count, classes = 0, found;
    PLB_TRY(plb_folder_list(path, arena, &names, &count));
    const char **kept = plb_arena_alloc(arena, count * sizeof *kept);
    if (!kept) return plb_fail(PLB_ENOMEM, "%s: no memory for its classes", path);
    for (size_t i = 0; i < count; i++) {
        char folder[PATH_MAX];
        int length = snprintf(folder, sizeof folder, "%s/%s", path, names[i]);
        if (length >= PATH_MAX) return plb_fail(PLB_EINVAL, "%s: its path is too long", path);
        if (!plb_folder_exists(folder)) continue;
        PLB_TRY(list_class(list, arena, folder, (int32_t)classes, &found));
        if (!found)
            return plb_fail(PLB_EINVAL, "%s: expected pictures (.jpg, .jpeg, .png), found none",
                            folder);
        kept[classes++] = names[i];
    }
    if (!classes)
        return plb_fail(PLB_EINVAL, "%s: expected a folder for each class, found none", path);
    *out_classes = kept, *out_count = classes;
    return PLB_OK;
}

const char *plb_image_folder_path(const plb_dataset *set, int64_t i, char *text,
                                  size_t size_bytes) {
    const image_folder *self = (const image_folder *)set;
    snprintf(text, size_bytes, "%s/%s/%s", self->path,
             set->info.class_names[self->files.classes[i]], self->files.names[i]);
    return text;
}

static plb_status folder_get(const plb_dataset *set, int64_t i, plb_scratch *scratch,
                             void *sample) {
    const image_folder *self = (const image_folder *)set;
    const plb_dataset_info *info = &set->info;
    const plb_fit fit = {.size = self->size, .resize_short = self->resize_short};
    char path[PATH_MAX];
    plb_image image;
    plb_image_folder_path(set, i, path, sizeof path);
    PLB_TRY(plb_image_read_fit(path, &fit, scratch, &image));
    if (image.height != info->height || image.width != info->width)
        return plb_fail(PLB_EINVAL,
                        "%s: expected %" PRId64 " x %" PRId64
                        " pixels like the first picture, found %" PRId64 " x %" PRId64
                        " (a size makes them equal)",
                        path, info->width, info->height, image.width, image.height);
    plb_image_to_planes(&image, sample);
    return PLB_OK;
}

static int64_t folder_label(const plb_dataset *set, int64_t i) {
    return ((const image_folder *)set)->files.classes[i];
}

static void folder_release(plb_dataset *set) {
    image_folder *self = (image_folder *)set;
    file_list_free(&self->files);
    plb_arena_free(self->names);
}

static plb_status folder_source(const plb_dataset *set, uint64_t *out_hash) {
    const image_folder *self = (const image_folder *)set;
    char path[PATH_MAX];
    *out_hash = plb_hash_bytes(*out_hash, &self->resize_short, sizeof self->resize_short);
    for (int64_t i = 0; i < set->info.count; i++)
        PLB_TRY(plb_source_add_file(plb_image_folder_path(set, i, path, sizeof path), out_hash));
    return PLB_OK;
}

static const plb_dataset_ops folder_ops = {
    .get = folder_get, .label = folder_label, .release = folder_release, .source = folder_source};

// Height and width of the first picture.
static plb_status measure_first(const char *path, const char *class, const char *name,
                                plb_dataset_info *info) {
    char file[PATH_MAX];
    plb_image image;
    if (snprintf(file, sizeof file, "%s/%s/%s", path, class, name) >= PATH_MAX)
        return plb_fail(PLB_EINVAL, "%s: its path is too long", path);
    PLB_TRY(plb_image_read(file, NULL, &image));
    info->height = image.height, info->width = image.width;
    plb_image_free(&image);
    return PLB_OK;
}

static plb_status check_sizes(const char *path, const plb_image_folder_options *options) {
    int64_t size = options->size, resize = options->resize_short;
    if (size >= 0 && (resize == 0 || (size > 0 && resize >= size))) return PLB_OK;
    return plb_fail(PLB_EINVAL,
                    "%s: expected a size of 0 or more and a resize of no less, found %" PRId64
                    " and %" PRId64,
                    path, size, resize);
}

plb_status plb_image_folder_open(const char *path, const plb_image_folder_options *options,
                                 plb_dataset **out) {
    PLB_TRY(check_sizes(path, options));
    plb_status status = PLB_OK;
    file_list files = {0};
    const char **classes = NULL;
    size_t class_count = 0;
    image_folder *self = NULL;
    plb_arena *arena = plb_arena_new(); // the names; handed to the set
    if (!arena) return plb_fail(PLB_ENOMEM, "%s: no memory for its names", path);
    PLB_TRY_OUT(list_all(path, arena, &files, &classes, &class_count));
    plb_dataset_info info = {.name = options->name ? options->name : path,
                             .kind = "folder",
                             .count = (int64_t)files.count,
                             .classes = (int64_t)class_count,
                             .channels = 3,
                             .height = options->size,
                             .width = options->size,
                             .dtype = PLB_U8,
                             .class_names = classes};
    plb_image_set_normalisation(&info, options->mean, options->std);
    if (!options->size) PLB_TRY_OUT(measure_first(path, classes[0], files.names[0], &info));
    PLB_TRY_OUT(plb_dataset_new(&info, &folder_ops, sizeof *self, &self));
    self->files = files, files = (file_list){0};
    self->names = arena, arena = NULL;
    self->size = options->size;
    self->resize_short = options->resize_short ? options->resize_short : options->size;
    self->path = plb_arena_strdup(self->names, path);
    if (!self->path) PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "%s: no memory for its name", path));
    *out = &self->base;
    self = NULL;
out:
    if (self) plb_dataset_free(&self->base);
    file_list_free(&files);
    plb_arena_free(arena);
    return status;
}
