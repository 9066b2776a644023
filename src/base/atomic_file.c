// SPDX-License-Identifier: Apache-2.0
#include "base/atomic_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

struct plb_atomic_file {
    char *path, *temporary;
    int fd;      // -1 when closed
    bool stream; // a device or a pipe, which is written itself
};

enum {
    SUFFIX_BYTES = 48,     // ".<pid>-<number>.tmp"
    NAME_TRIES = 1000,     // names left by killed processes with our number
    WRITE_BYTES = 1 << 30, // Linux writes at most 2^31 - 4096 bytes a call
};

// What takes a file's place may be read and written by the same.
static plb_status keep_mode(const plb_atomic_file *file) {
    struct stat old, mine;
    if (stat(file->path, &old) != 0) return PLB_OK;
    // Where modes cannot be set, all files have the same.
    if (fstat(file->fd, &mine) == 0 && (mine.st_mode & 0777) == (old.st_mode & 0777)) return PLB_OK;
    if (fchmod(file->fd, old.st_mode & 0777) == 0) return PLB_OK;
    plb_status status = plb_fail_errno("%s: cannot keep its mode", file->path);
    unlink(file->temporary);
    return status;
}

// Not mkstemp: its files are private, and only open() applies the umask without a race.
static plb_status create_temporary(plb_atomic_file *file) {
    static atomic_uint counter;
    size_t size = strlen(file->path) + SUFFIX_BYTES;
    for (int i = 0; i < NAME_TRIES; i++) {
        snprintf(file->temporary, size, "%s.%ld-%u.tmp", file->path, (long)getpid(),
                 atomic_fetch_add(&counter, 1u));
        file->fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->fd >= 0) return keep_mode(file);
        if (errno != EEXIST) break;
    }
    return plb_fail_errno("%s: cannot create a file beside it", file->path);
}

// -1: neither of the process's own.
static int own_stream(const char *path) {
    if (strcmp(path, "/dev/stdout") == 0) return STDOUT_FILENO;
    return strcmp(path, "/dev/stderr") == 0 ? STDERR_FILENO : -1;
}

// What holds no bytes cannot be replaced: a rename would put a file where a device was.
static bool is_stream(const char *path) {
    struct stat info;
    if (own_stream(path) >= 0) return true;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode);
}

static plb_status open_stream(plb_atomic_file *file) {
    // Opened anew, a file that output is redirected to would be written from its beginning.
    const int own = own_stream(file->path);
    file->fd = own >= 0 ? fcntl(own, F_DUPFD_CLOEXEC, 0) : open(file->path, O_WRONLY | O_CLOEXEC);
    return file->fd < 0 ? plb_fail_errno("%s: cannot open", file->path) : PLB_OK;
}

// Where a link leads: a rename would put the file in the link's place.
static char *target_of(const char *path) {
    struct stat info;
    char *real = lstat(path, &info) == 0 && S_ISLNK(info.st_mode) ? realpath(path, NULL) : NULL;
    char *target = plb_strdup(real ? real : path);
    free(real);
    return target;
}

static void release(plb_atomic_file *file) {
    if (file->fd >= 0) close(file->fd);
    plb_free(file->path);
    plb_free(file->temporary);
    plb_free(file);
}

plb_status plb_atomic_open(const char *path, plb_atomic_file **out) {
    struct stat info;
    *out = NULL;
    // The rename would find it too, but only when all is written.
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode))
        return plb_fail(PLB_EIO, "%s: expected a file to write, found a directory", path);
    plb_atomic_file *file = plb_alloc(sizeof *file);
    if (!file) return plb_fail(PLB_ENOMEM, "%s: no memory to write it", path);
    file->fd = -1;
    file->stream = is_stream(path);
    file->path = file->stream ? plb_strdup(path) : target_of(path);
    file->temporary = file->path ? plb_alloc(strlen(file->path) + SUFFIX_BYTES) : NULL;
    plb_status status = !file->path || !file->temporary
                            ? plb_fail(PLB_ENOMEM, "%s: no memory to write it", path)
                        : file->stream ? open_stream(file)
                                       : create_temporary(file);
    if (status) {
        release(file);
        return status;
    }
    *out = file;
    return PLB_OK;
}

plb_status plb_atomic_write(plb_atomic_file *file, const void *bytes, size_t size_bytes) {
    const char *at = bytes;
    while (size_bytes) {
        ssize_t n = write(file->fd, at, size_bytes < WRITE_BYTES ? size_bytes : WRITE_BYTES);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return plb_fail_errno("%s: cannot write", file->path);
        at += n;
        size_bytes -= (size_t)n;
    }
    return PLB_OK;
}

// The rename itself is on the disk only once its directory is.
static plb_status sync_directory(const plb_atomic_file *file) {
    const char *slash = strrchr(file->path, '/');
    char *folder = file->temporary; // its name is used up, and it is long enough
    if (!slash) {
        strcpy(folder, ".");
    } else {
        size_t length = slash == file->path ? 1 : (size_t)(slash - file->path);
        memcpy(folder, file->path, length);
        folder[length] = '\0';
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno == EACCES ? PLB_OK : plb_fail_errno("%s: cannot open", folder);
    bool failed = fsync(fd) != 0 && errno != EINVAL; // EINVAL: this file system has no such sync
    plb_status status = failed ? plb_fail_errno("%s: cannot sync", folder) : PLB_OK;
    close(fd);
    return status;
}

static plb_status put_in_place(plb_atomic_file *file) {
    if (!file->stream && fsync(file->fd) != 0) return plb_fail_errno("%s: cannot sync", file->path);
    int fd = file->fd;
    file->fd = -1;
    if (close(fd) != 0) return plb_fail_errno("%s: cannot close", file->path);
    if (!file->stream && rename(file->temporary, file->path) != 0) {
        return plb_fail_errno("%s: cannot put the new file in place", file->path);
    }
    return PLB_OK;
}

plb_status plb_atomic_commit(plb_atomic_file *file) {
    plb_status status = put_in_place(file);
    if (status) {
        plb_atomic_abort(file);
        return status;
    }
    status = file->stream ? PLB_OK : sync_directory(file);
    release(file);
    return status;
}

void plb_atomic_abort(plb_atomic_file *file) {
    if (!file) return;
    if (!file->stream) unlink(file->temporary);
    release(file);
}

plb_status plb_atomic_write_all(const char *path, const void *bytes, size_t size_bytes) {
    plb_atomic_file *file;
    PLB_TRY(plb_atomic_open(path, &file));
    plb_status status = size_bytes ? plb_atomic_write(file, bytes, size_bytes) : PLB_OK;
    if (!status) return plb_atomic_commit(file);
    plb_atomic_abort(file);
    return status;
}

plb_status plb_atomic_check(const char *path) {
    if (own_stream(path) >= 0) return PLB_OK;
    if (is_stream(path)) {
        return access(path, W_OK) == 0 ? PLB_OK : plb_fail_errno("%s: cannot open", path);
    }
    plb_atomic_file *file;
    PLB_TRY(plb_atomic_open(path, &file));
    plb_atomic_abort(file);
    return PLB_OK;
}
