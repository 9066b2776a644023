// SPDX-License-Identifier: Apache-2.0
// Values in files beside the model. Their paths come from the model and so from a stranger: they
// may name files of the model's own folder and below it, and no link may lead out.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "onnx/file.h"

static bool leaves_folder(const char *location) {
    if (!*location || *location == '/') return true;
    for (const char *part = location; part;) {
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || !part[2])) return true;
        part = strchr(part, '/');
        if (part) part++;
    }
    return false;
}

// The folder of the model, and the file's path, both without links.
static plb_status resolve(const plb_onnx *file, const char *location, char path[PATH_MAX]) {
    char folder[PATH_MAX], whole[PATH_MAX], real_folder[PATH_MAX];
    const char *slash = strrchr(file->path, '/');
    int n = snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - file->path) + 1 : 2,
                     slash ? file->path : "./");
    if (n < 0 || (size_t)n >= sizeof folder) return plb_fail(PLB_EINVAL, "path is too long");
    n = snprintf(whole, sizeof whole, "%s%s", folder, location);
    if (n < 0 || (size_t)n >= sizeof whole) return plb_fail(PLB_EINVAL, "path is too long");
    if (!realpath(folder, real_folder)) return plb_fail_errno("%s", folder);
    if (!realpath(whole, path)) return plb_fail_errno("external data %s", location);
    size_t length = strlen(real_folder);
    bool root = length == 1;
    if (strncmp(path, real_folder, length) != 0 || (!root && path[length] != '/')) {
        return plb_fail(PLB_EINVAL, "external data %s: a link leads out of the model's folder",
                        location);
    }
    return PLB_OK;
}

static plb_status map_of(plb_onnx *file, const char *location, const plb_file_map **out) {
    for (int i = 0; i < file->n_external; i++) {
        if (strcmp(file->external[i].location, location) != 0) continue;
        *out = &file->external[i].map;
        return PLB_OK;
    }
    if (file->n_external == PLB_ONNX_MAX_EXTERNAL) {
        return plb_fail(PLB_EUNSUPPORTED, "more than %d files of external data",
                        PLB_ONNX_MAX_EXTERNAL);
    }
    char path[PATH_MAX];
    struct plb_onnx_external *e = &file->external[file->n_external];
    PLB_TRY(resolve(file, location, path));
    PLB_TRY(plb_file_map_open(path, &e->map));
    e->location = location; // the model's string
    file->n_external++;
    *out = &e->map;
    return PLB_OK;
}

plb_status plb_onnx_external_data(plb_onnx *file, const char *location, uint64_t offset,
                                  size_t size_bytes, const void **out) {
    if (!file || file->from_memory) {
        return plb_fail(PLB_EINVAL, "external data %s: the model is no file", location);
    }
    if (leaves_folder(location)) {
        return plb_fail(PLB_EINVAL, "external data %s: a path that leaves the model's folder",
                        location);
    }
    const plb_file_map *map;
    PLB_TRY(map_of(file, location, &map));
    if (offset > map->size_bytes || size_bytes > map->size_bytes - offset) {
        return plb_fail(PLB_EINVAL,
                        "external data %s: expected %zu bytes at %llu, found a file of %zu bytes",
                        location, size_bytes, (unsigned long long)offset, map->size_bytes);
    }
    *out = map->bytes + offset;
    return PLB_OK;
}
