// SPDX-License-Identifier: Apache-2.0
#include "bench/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/status.h"

plb_status plb_segment_open(const char *name, plb_segment *out) {
    *out = PLB_SEGMENT_CLOSED;
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0) return plb_fail_errno("shared memory");
    if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK)) {
        plb_status status = plb_fail_errno("shared memory: cannot seal");
        close(fd);
        return status;
    }
    out->fd = fd;
    return PLB_OK;
}

void plb_segment_close(plb_segment *s) {
    if (s->bytes) munmap(s->bytes, s->size_bytes);
    if (s->fd >= 0) close(s->fd);
    *s = PLB_SEGMENT_CLOSED;
}

static plb_status map(plb_segment *s, size_t size) {
    if (size == s->size_bytes) return PLB_OK;
    void *bytes = s->bytes ? mremap(s->bytes, s->size_bytes, size, MREMAP_MAYMOVE)
                           : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (bytes == MAP_FAILED) return plb_fail_errno("shared memory: cannot map %zu bytes", size);
    s->bytes = bytes, s->size_bytes = size;
    return PLB_OK;
}

plb_status plb_segment_reserve(plb_segment *s, size_t size_bytes) {
    if (size_bytes <= s->size_bytes) return PLB_OK;
    int code = posix_fallocate(s->fd, 0, (off_t)size_bytes);
    if (code) return plb_fail(PLB_ENOMEM, "shared memory: no room for %zu bytes", size_bytes);
    return map(s, size_bytes);
}

plb_status plb_segment_refresh(plb_segment *s) {
    struct stat info;
    if (fstat(s->fd, &info)) return plb_fail_errno("shared memory");
    return info.st_size > 0 ? map(s, (size_t)info.st_size) : PLB_OK;
}

plb_status plb_segment_read_only(const plb_segment *s, int *out_fd) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->fd);
    *out_fd = open(path, O_RDONLY | O_CLOEXEC);
    return *out_fd < 0 ? plb_fail_errno("shared memory: %s", path) : PLB_OK;
}
