// SPDX-License-Identifier: Apache-2.0
#include "probe/mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/core/status.h"

plb_status plb_mapped_new(const char *path, size_t size_bytes, void **out) {
    *out = NULL;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return plb_fail_errno("%s", path);
    int code = posix_fallocate(fd, 0, (off_t)size_bytes);
    void *map = MAP_FAILED;
    if (code == 0) map = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int saved = code ? code : errno;
    close(fd);
    if (map == MAP_FAILED) {
        unlink(path);
        errno = saved;
        return plb_fail_errno("%s: %zu bytes", path, size_bytes);
    }
    *out = map;
    return PLB_OK;
}
