// SPDX-License-Identifier: Apache-2.0
#include "data/image_tar.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "data/archive.h"
#include "data/cache.h"
#include "data/fit.h"

static const size_t picture_limit_bytes = (size_t)64 << 20, all_limit_bytes = (size_t)16 << 30;
enum { PREFETCH_BYTES = 2048, SYNSET_LENGTH = 9 }; // "n01440764"

typedef struct picture {
    const char *name;  // in the archive
    const char *class; // its class's name
    const uint8_t *bytes;
    size_t size_bytes;
    int64_t label;
} picture;

typedef struct picture_list {
    picture *items;
    size_t count, capacity, size_bytes;
    plb_arena *arena; // names and bytes
    const char *path;
} picture_list;

typedef struct image_tar {
    plb_dataset base;
    picture_list pictures;
    int64_t size, resize_short;
} image_tar;

bool plb_image_tar_named(const char *path) {
    static const char *const endings[] = {".tar",    ".tar.gz",  ".tgz",
                                          ".tar.xz", ".tar.bz2", ".tar.zst"};
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t end = strlen(endings[i]);
        if (length > end && !strcmp(path + length - end, endings[i])) return true;
    }
    return false;
}

static plb_status keep(void *context, const char *name, const uint8_t *bytes, size_t size_bytes) {
    picture_list *list = context;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 256;
        picture *items = plb_realloc_array(list->items, capacity, sizeof *items);
        if (!items) return plb_fail(PLB_ENOMEM, "%s: no memory for its names", list->path);
        list->items = items, list->capacity = capacity;
    }
    list->size_bytes += size_bytes;
    if (list->size_bytes > all_limit_bytes)
        return plb_fail(PLB_EINVAL, "%s: holds more than 16 GiB of pictures; unpack it first",
                        list->path);
    picture *at = &list->items[list->count];
    *at = (picture){.name = plb_arena_strdup(list->arena, name),
                    .bytes = plb_arena_copy(list->arena, bytes, size_bytes + 1),
                    .size_bytes = size_bytes};
    if (!at->name || !at->bytes)
        return plb_fail(PLB_ENOMEM, "%s: no memory for its pictures", list->path);
    list->count++;
    return PLB_OK;
}

static const char *file_of(const char *name) {
    const char *slash = strrchr(name, '/');
    return slash ? slash + 1 : name;
}

// Where the folder begins that the file or folder at `inner` lies in; NULL: in none.
static const char *folder_of(const char *name, const char *inner) {
    if (!inner || inner == name) return NULL;
    const char *begin = inner - 1;
    while (begin > name && begin[-1] != '/') begin--;
    return begin;
}

static bool begins_as_synset(const char *file) {
    if (file[0] != 'n' || strlen(file) <= SYNSET_LENGTH || file[SYNSET_LENGTH] != '_') return false;
    for (int i = 1; i < SYNSET_LENGTH; i++)
        if (!isdigit((unsigned char)file[i])) return false;
    return true;
}

// Whether the picture is of that split. Its name is that of the folder above the class's, or in the
// flat form of the pictures' own: other folders are classes, whatever they are called.
static bool in_split(const char *name, const char *split, bool flat) {
    size_t length = strlen(split);
    const char *folder = folder_of(name, file_of(name));
    if (!flat) folder = folder_of(name, folder);
    return folder && !strncmp(folder, split, length) && folder[length] == '/';
}

static bool has_split(const picture_list *list, const char *split, bool flat) {
    for (size_t i = 0; i < list->count; i++)
        if (in_split(list->items[i].name, split, flat)) return true;
    return false;
}

static bool in_any_split(const char *name, bool flat) {
    return in_split(name, "train", flat) || in_split(name, "test", flat) ||
           in_split(name, "val", flat);
}

// Whether every picture lies in a split itself, and its name begins with its class.
static bool is_flat(const picture_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        const char *name = list->items[i].name;
        if (in_any_split(name, false) || !in_any_split(name, true) ||
            !begins_as_synset(file_of(name)))
            return false;
    }
    return true;
}

// Drops what belongs to the other split, where the archive has splits.
static plb_status choose_split(picture_list *list, plb_data_split split) {
    bool flat = is_flat(list);
    const char *held_out = has_split(list, "test", flat) ? "test" : "val";
    if (!has_split(list, "train", flat) && !has_split(list, held_out, flat)) return PLB_OK;
    const char *wanted = split == PLB_TRAIN ? "train" : held_out;
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++)
        if (in_split(list->items[i].name, wanted, flat)) list->items[kept++] = list->items[i];
    list->count = kept;
    if (kept) return PLB_OK;
    return plb_fail(PLB_EMISSING, "%s: expected pictures below a folder %s in it", list->path,
                    wanted);
}

// The folder that a picture lies in, or "".
static const char *parent_of(picture_list *list, const char *name) {
    const char *file = file_of(name), *begin = folder_of(name, file);
    if (!begin) return "";
    char *copy = plb_arena_copy(list->arena, begin, (size_t)(file - begin));
    if (copy) copy[file - begin - 1] = '\0';
    return copy;
}

// "n01440764" of ".../n01440764_tench.JPEG".
static const char *synset_of(picture_list *list, const char *name) {
    char *copy = plb_arena_copy(list->arena, file_of(name), SYNSET_LENGTH + 1);
    if (copy) copy[SYNSET_LENGTH] = '\0';
    return copy;
}

static plb_status name_classes(picture_list *list) {
    bool flat = true;
    for (size_t i = 0; i < list->count; i++) {
        picture *at = &list->items[i];
        if (!(at->class = parent_of(list, at->name)))
            return plb_fail(PLB_ENOMEM, "%s: no memory for its classes", list->path);
        flat =
            flat && !strcmp(at->class, list->items[0].class) && begins_as_synset(file_of(at->name));
    }
    for (size_t i = 0; flat && i < list->count; i++) {
        if (!(list->items[i].class = synset_of(list, list->items[i].name)))
            return plb_fail(PLB_ENOMEM, "%s: no memory for its classes", list->path);
    }
    return PLB_OK;
}

static int compare(const void *a, const void *b) {
    const picture *x = a, *y = b;
    int order = strcmp(x->class, y->class);
    return order ? order : strcmp(x->name, y->name);
}

// Sorts, numbers the classes and collects their names.
static plb_status number_classes(picture_list *list, const char ***out_names, int64_t *out_count) {
    const char **names = plb_arena_alloc(list->arena, (list->count + 1) * sizeof *names);
    if (!names) return plb_fail(PLB_ENOMEM, "%s: no memory for its classes", list->path);
    int64_t classes = 0;
    qsort(list->items, list->count, sizeof *list->items, compare);
    for (size_t i = 0; i < list->count; i++) {
        if (!classes || strcmp(names[classes - 1], list->items[i].class) != 0)
            names[classes++] = list->items[i].class;
        list->items[i].label = classes - 1;
    }
    *out_names = names, *out_count = classes;
    return PLB_OK;
}

static plb_status tar_get(const plb_dataset *set, int64_t i, plb_scratch *scratch, void *sample) {
    const image_tar *self = (const image_tar *)set;
    const picture *at = &self->pictures.items[i];
    const plb_fit fit = {.size = self->size, .resize_short = self->resize_short};
    plb_image image;
    plb_status status =
        plb_image_decode_fit(at->bytes, at->size_bytes, at->name, &fit, scratch, &image);
    if (status) return plb_fail_context(status, "%s", self->pictures.path);
    if (image.height != set->info.height || image.width != set->info.width)
        return plb_fail(PLB_EINVAL,
                        "%s: %s: expected %" PRId64 " x %" PRId64
                        " pixels like the first picture, found %" PRId64 " x %" PRId64
                        " (a size makes them equal)",
                        self->pictures.path, at->name, set->info.width, set->info.height,
                        image.width, image.height);
    plb_image_to_planes(&image, sample);
    return PLB_OK;
}

static void tar_prefetch(const plb_dataset *set, int64_t i) {
    const picture *at = &((const image_tar *)set)->pictures.items[i];
    for (size_t k = 0; k < at->size_bytes && k < PREFETCH_BYTES; k += PLB_CACHE_LINE)
        __builtin_prefetch(at->bytes + k);
}

static int64_t tar_label(const plb_dataset *set, int64_t i) {
    return ((const image_tar *)set)->pictures.items[i].label;
}

static void tar_release(plb_dataset *set) {
    image_tar *self = (image_tar *)set;
    plb_free(self->pictures.items);
    plb_arena_free(self->pictures.arena);
}

// The splits of one archive differ only in the pictures that they took from it.
static plb_status tar_source(const plb_dataset *set, uint64_t *out_hash) {
    const image_tar *self = (const image_tar *)set;
    *out_hash = plb_hash_bytes(*out_hash, &self->resize_short, sizeof self->resize_short);
    for (size_t i = 0; i < self->pictures.count; i++) {
        const picture *at = &self->pictures.items[i];
        *out_hash = plb_hash_string(*out_hash, at->name);
        *out_hash = plb_hash_bytes(*out_hash, &at->label, sizeof at->label);
    }
    return plb_source_add_file(self->pictures.path, out_hash);
}

static const plb_dataset_ops tar_ops = {.get = tar_get,
                                        .label = tar_label,
                                        .release = tar_release,
                                        .prefetch = tar_prefetch,
                                        .source = tar_source};

static plb_status read_pictures(picture_list *list, plb_data_split split) {
    list->arena = plb_arena_new();
    if (!list->arena) return plb_fail(PLB_ENOMEM, "%s: no memory for its pictures", list->path);
    PLB_TRY(plb_archive_walk(list->path, picture_limit_bytes, plb_is_picture, keep, list));
    if (!list->count)
        return plb_fail(PLB_EINVAL, "%s: expected pictures (.jpg, .jpeg, .png), found none",
                        list->path);
    PLB_TRY(choose_split(list, split));
    return name_classes(list);
}

static plb_status measure_first(const picture_list *list, plb_dataset_info *info) {
    plb_image image;
    PLB_TRY(plb_image_decode(list->items[0].bytes, list->items[0].size_bytes, list->items[0].name,
                             NULL, &image));
    info->height = image.height, info->width = image.width;
    plb_image_free(&image);
    return PLB_OK;
}

plb_status plb_image_tar_open(const char *path, plb_data_split split,
                              const plb_image_folder_options *options, plb_dataset **out) {
    picture_list list = {.path = path};
    image_tar *self = NULL;
    const char **classes = NULL;
    plb_status status;
    plb_dataset_info info = {.name = options->name ? options->name : path,
                             .kind = "tar",
                             .channels = 3,
                             .height = options->size,
                             .width = options->size,
                             .dtype = PLB_U8};
    PLB_TRY_OUT(read_pictures(&list, split));
    PLB_TRY_OUT(number_classes(&list, &classes, &info.classes));
    info.count = (int64_t)list.count, info.class_names = classes;
    plb_image_set_normalisation(&info, options->mean, options->std);
    if (!options->size) PLB_TRY_OUT(measure_first(&list, &info));
    list.path = plb_arena_strdup(list.arena, path);
    if (!list.path) PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "%s: no memory for its name", path));
    PLB_TRY_OUT(plb_dataset_new(&info, &tar_ops, sizeof *self, &self));
    self->pictures = list, list = (picture_list){0};
    self->size = options->size;
    self->resize_short = options->resize_short ? options->resize_short : options->size;
    *out = &self->base;
out:
    plb_free(list.items);
    plb_arena_free(list.arena);
    return status;
}
