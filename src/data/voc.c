// SPDX-License-Identifier: Apache-2.0
#include "data/voc.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "base/file.h"
#include "base/folder.h"
#include "data/cache.h"
#include "data/fit.h"
#include "data/transform.h"

enum { DEFAULT_SIZE = 96 };
static const size_t file_limit_bytes = (size_t)1 << 26;

typedef struct voc_sample {
    const char *id; // in the set's arena of names
    plb_voc_object object;
    uint32_t classes; // bits
} voc_sample;

typedef struct voc_set {
    plb_dataset base;
    plb_arena *names;
    const char *folder;
    voc_sample *samples;
    plb_voc_form form;
} voc_set;

// What open fills.
typedef struct listing {
    plb_arena *names; // handed to the set
    const char *folder;
    plb_voc_form form;
    voc_sample *samples;
    size_t count, capacity;
} listing;

static plb_status add_sample(listing *list, const voc_sample *sample) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? 2 * list->capacity : 256;
        voc_sample *grown = plb_realloc_array(list->samples, capacity, sizeof *grown);
        if (!grown) return plb_fail(PLB_ENOMEM, "%s: no memory for its objects", list->folder);
        list->samples = grown, list->capacity = capacity;
    }
    list->samples[list->count++] = *sample;
    return PLB_OK;
}

static int64_t area(const plb_voc_object *object) {
    return (object->right - object->left) * (object->bottom - object->top);
}

static plb_status add_annotation(listing *list, const char *id, const plb_voc_annotation *found) {
    voc_sample picture = {.id = id};
    for (size_t i = 0; i < found->count; i++) {
        const plb_voc_object *object = &found->objects[i];
        if (object->difficult) continue;
        voc_sample crop = {.id = id, .object = *object, .classes = UINT32_C(1) << object->class};
        if (list->form == PLB_VOC_CROPS) PLB_TRY(add_sample(list, &crop));
        if (!picture.classes || area(object) > area(&picture.object)) picture.object = *object;
        picture.classes |= crop.classes;
    }
    if (list->form == PLB_VOC_IMAGES && picture.classes) return add_sample(list, &picture);
    return PLB_OK;
}

static plb_status read_annotation(listing *list, const char *id) {
    char path[PATH_MAX];
    uint8_t *bytes = NULL;
    size_t size_bytes = 0;
    plb_voc_annotation found;
    snprintf(path, sizeof path, "%s/Annotations/%s.xml", list->folder, id);
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "%s: no memory to read it", path);
    plb_status status;
    PLB_TRY_OUT(plb_file_read(path, file_limit_bytes, &bytes, &size_bytes));
    PLB_TRY_OUT(plb_voc_annotation_parse(bytes, size_bytes, path, arena, &found));
    PLB_TRY_OUT(add_annotation(list, id, &found));
out:
    plb_free(bytes);
    plb_arena_free(arena);
    return status;
}

// IDs are the first word of each line.
static plb_status read_list(listing *list, const char *path) {
    uint8_t *bytes = NULL;
    size_t size_bytes = 0;
    PLB_TRY(plb_file_read(path, file_limit_bytes, &bytes, &size_bytes));
    plb_status status = PLB_OK;
    for (size_t at = 0; at < size_bytes && !status;) {
        size_t end = at, word = at;
        while (end < size_bytes && bytes[end] != '\n') end++;
        while (word < end && bytes[word] > ' ') word++;
        char *id = word > at ? plb_arena_printf(list->names, "%.*s", (int)(word - at),
                                                (const char *)bytes + at)
                             : NULL;
        if (word > at && !id) status = plb_fail(PLB_ENOMEM, "%s: no memory for its lines", path);
        if (id) status = read_annotation(list, id);
        at = end + 1;
    }
    plb_free(bytes);
    return status;
}

// Every annotation there is, where no lists are.
static plb_status read_all(listing *list) {
    char folder[PATH_MAX];
    const char *const *names;
    size_t count;
    snprintf(folder, sizeof folder, "%s/Annotations", list->folder);
    PLB_TRY(plb_folder_list(folder, list->names, &names, &count));
    for (size_t i = 0; i < count; i++) {
        const char *dot = strrchr(names[i], '.');
        if (!dot || strcmp(dot, ".xml") != 0) continue;
        char *id = plb_arena_printf(list->names, "%.*s", (int)(dot - names[i]), names[i]);
        if (!id) return plb_fail(PLB_ENOMEM, "%s: no memory for its names", folder);
        PLB_TRY(read_annotation(list, id));
    }
    return PLB_OK;
}

static plb_status read_split(listing *list, plb_data_split split) {
    char path[PATH_MAX];
    const char *part = split == PLB_TRAIN ? "train" : "val";
    int length = snprintf(path, sizeof path, "%s/ImageSets/Main/%s.txt", list->folder, part);
    if (length >= PATH_MAX) return plb_fail(PLB_EINVAL, "%s: its path is too long", list->folder);
    PLB_TRY(plb_file_exists(path) ? read_list(list, path) : read_all(list));
    if (list->count) return PLB_OK;
    return plb_fail(PLB_EINVAL, "%s: expected objects that are not difficult, found none",
                    list->folder);
}

const char *plb_voc_path(const plb_dataset *set, int64_t i, char *text, size_t size_bytes) {
    const voc_set *self = (const voc_set *)set;
    snprintf(text, size_bytes, "%s/JPEGImages/%s.jpg", self->folder, self->samples[i].id);
    return text;
}

uint32_t plb_voc_classes(const plb_dataset *set, int64_t i) {
    return ((const voc_set *)set)->samples[i].classes;
}

static plb_status voc_get(const plb_dataset *set, int64_t i, plb_scratch *scratch, void *sample) {
    const voc_set *self = (const voc_set *)set;
    const plb_voc_object *object = &self->samples[i].object;
    const plb_image_part box = {object->top, object->left, object->bottom - object->top,
                                object->right - object->left};
    const int64_t size = set->info.height;
    const plb_fit fit = {size, size, self->form == PLB_VOC_CROPS ? &box : NULL};
    char path[PATH_MAX];
    plb_image image;
    plb_voc_path(set, i, path, sizeof path);
    PLB_TRY(plb_image_read_fit(path, &fit, scratch, &image));
    plb_image_to_planes(&image, sample);
    return PLB_OK;
}

static int64_t voc_label(const plb_dataset *set, int64_t i) {
    return ((const voc_set *)set)->samples[i].object.class;
}

static void voc_release(plb_dataset *set) {
    voc_set *self = (voc_set *)set;
    plb_free(self->samples);
    plb_arena_free(self->names);
}

static plb_status voc_source(const plb_dataset *set, uint64_t *out_hash) {
    const voc_set *self = (const voc_set *)set;
    const uint64_t form = (uint64_t)self->form;
    char path[PATH_MAX];
    *out_hash = plb_hash_bytes(*out_hash, &form, sizeof form);
    for (int64_t i = 0; i < set->info.count; i++) {
        const voc_sample *at = &self->samples[i];
        const int64_t facts[] = {at->object.class, at->classes,      at->object.left,
                                 at->object.top,   at->object.right, at->object.bottom};
        PLB_TRY(plb_source_add_file(plb_voc_path(set, i, path, sizeof path), out_hash));
        *out_hash = plb_hash_bytes(*out_hash, facts, sizeof facts);
    }
    return PLB_OK;
}

static const plb_dataset_ops voc_ops = {
    .get = voc_get, .label = voc_label, .release = voc_release, .source = voc_source};

plb_status plb_voc_open(const char *folder, plb_data_split split, const plb_voc_options *options,
                        plb_dataset **out) {
    listing list = {.names = plb_arena_new(), .form = options->form};
    int64_t size = options->size ? options->size : DEFAULT_SIZE;
    voc_set *self = NULL;
    plb_status status;
    if (!list.names || !(list.folder = plb_arena_strdup(list.names, folder)))
        PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "%s: no memory for its names", folder));
    PLB_TRY_OUT(read_split(&list, split));
    plb_dataset_info info = {.name = options->form == PLB_VOC_CROPS ? "voc2012" : "voc2012-images",
                             .kind = "voc",
                             .count = (int64_t)list.count,
                             .classes = PLB_VOC_CLASSES,
                             .channels = 3,
                             .height = size,
                             .width = size,
                             .dtype = PLB_U8,
                             .class_names = plb_voc_names};
    plb_image_set_normalisation(&info, NULL, NULL);
    PLB_TRY_OUT(plb_dataset_new(&info, &voc_ops, sizeof *self, &self));
    self->names = list.names, self->folder = list.folder;
    self->samples = list.samples, self->form = list.form;
    list = (listing){0};
    *out = &self->base;
out:
    plb_free(list.samples);
    plb_arena_free(list.names);
    return status;
}

plb_status plb_voc_mask_read(const char *path, plb_index_image *out) {
    uint8_t *bytes = NULL;
    size_t size_bytes = 0;
    *out = (plb_index_image){0};
    PLB_TRY(plb_file_read(path, file_limit_bytes, &bytes, &size_bytes));
    plb_status status = plb_png_decode_indices(bytes, size_bytes, path, NULL, out);
    plb_free(bytes);
    PLB_TRY(status);
    for (int64_t i = 0; i < out->height * out->width; i++) {
        uint8_t found = out->index[i];
        if (found <= PLB_VOC_CLASSES || found == PLB_VOC_BORDER) continue;
        status = plb_fail(PLB_EINVAL,
                          "%s: pixel %" PRId64 " of row %" PRId64
                          ": expected a class up to 20 or 255, found %d",
                          path, i % out->width, i / out->width, found);
        plb_index_image_free(out);
        return status;
    }
    return PLB_OK;
}
