// SPDX-License-Identifier: Apache-2.0
#include "base/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/core/status.h"

enum { LOOK_NS = 50000000 };

// Who held it removes the file: a lock on one that has lost its name keeps nobody out.
static bool has_name(const plb_file_lock *lock) {
    struct stat held, named;
    return !fstat(lock->fd, &held) && !stat(lock->path, &named) && held.st_dev == named.st_dev &&
           held.st_ino == named.st_ino;
}

// Polls, for a wait in flock() would ask nobody whether to go on.
static plb_status wait_for(plb_file_lock *lock, const char *what, plb_progress *progress,
                           bool *told) {
    const plb_progress_event event = {.what = what, .unit = "bytes", .total = -1};
    const struct timespec pause = {.tv_nsec = LOOK_NS};
    while (flock(lock->fd, LOCK_EX | LOCK_NB) && (errno == EWOULDBLOCK || errno == EINTR)) {
        if (!*told) plb_log_line(PLB_LOG_INFO, "%s: another process is at it; waiting", what);
        *told = true;
        PLB_TRY(plb_progress_tell(progress, &event));
        nanosleep(&pause, NULL);
    }
    return PLB_OK;
}

plb_status plb_file_lock_take(const char *path, const char *what, plb_progress *progress,
                              plb_file_lock *out) {
    bool told = false;
    *out = (plb_file_lock){path, -1};
    for (;;) {
        out->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (out->fd < 0) return PLB_OK;
        plb_status status = wait_for(out, what, progress, &told);
        if (!status && has_name(out)) return PLB_OK;
        close(out->fd);
        out->fd = -1;
        if (status) return status;
    }
}

void plb_file_lock_release(plb_file_lock *lock) {
    if (lock->fd < 0) return;
    unlink(lock->path); // before others can have it
    close(lock->fd);
    lock->fd = -1;
}
