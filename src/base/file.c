// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

static plb_status open_for_reading(const char *path, int *fd, struct stat *info) {
    *fd = open(path, O_RDONLY | O_CLOEXEC);
    if (*fd < 0 || fstat(*fd, info) != 0) return plb_fail_errno("%s: cannot open", path);
    if (S_ISDIR(info->st_mode)) {
        return plb_fail(PLB_EINVAL, "%s: expected a file, found a directory", path);
    }
    return PLB_OK;
}

plb_status plb_file_map_open(const char *path, plb_file_map *out) {
    *out = (plb_file_map){0};
    int fd = -1;
    struct stat info;
    plb_status status;
    PLB_TRY_OUT(open_for_reading(path, &fd, &info));
    if (!S_ISREG(info.st_mode)) {
        status =
            plb_fail(PLB_EINVAL, "%s: expected a regular file, found a device or a pipe", path);
        goto out;
    }
    if (info.st_size > 0) {
        void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) {
            status = plb_fail_errno("%s: cannot map %lld bytes", path, (long long)info.st_size);
            goto out;
        }
        *out = (plb_file_map){bytes, (size_t)info.st_size};
    }
out:
    if (fd >= 0) close(fd);
    return status;
}

void plb_file_map_close(plb_file_map *map) {
    if (map->bytes) munmap((void *)(uintptr_t)map->bytes, map->size_bytes);
    *map = (plb_file_map){0};
}

// Fills bytes[used, capacity); *used moves on. Less than full means the end of the file.
static plb_status fill(const char *path, int fd, uint8_t *bytes, size_t capacity, size_t *used) {
    while (*used < capacity) {
        ssize_t n = read(fd, bytes + *used, capacity - *used);
        if (n == 0) break;
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return plb_fail_errno("%s: cannot read at byte %zu", path, *used);
        *used += (size_t)n;
    }
    return PLB_OK;
}

// One byte more than the stated size, so that the end is seen without another round.
static size_t first_capacity(const struct stat *info) {
    bool sized = S_ISREG(info->st_mode) && info->st_size > 0;
    return sized ? (size_t)info->st_size + 1 : 1 << 16;
}

plb_status plb_file_read(const char *path, size_t limit_bytes, uint8_t **out, size_t *size_bytes) {
    *out = NULL, *size_bytes = 0;
    int fd = -1;
    struct stat info;
    uint8_t *bytes = NULL;
    size_t used = 0;
    plb_status status;
    PLB_TRY_OUT(open_for_reading(path, &fd, &info));
    for (size_t capacity = first_capacity(&info);; capacity *= 2) {
        if (limit_bytes < SIZE_MAX && capacity > limit_bytes + 1) capacity = limit_bytes + 1;
        uint8_t *grown = plb_realloc_array(bytes, capacity, 1);
        if (!grown) {
            status = plb_fail(PLB_ENOMEM, "%s: no memory for %zu bytes", path, capacity);
            goto out;
        }
        bytes = grown;
        PLB_TRY_OUT(fill(path, fd, bytes, capacity, &used));
        if (used < capacity) break;
        if (used > limit_bytes) {
            status = plb_fail(PLB_EINVAL, "%s: expected at most %zu bytes, found more", path,
                              limit_bytes);
            goto out;
        }
    }
    *out = bytes, *size_bytes = used;
    bytes = NULL;
out:
    if (fd >= 0) close(fd);
    plb_free(bytes);
    return status;
}
