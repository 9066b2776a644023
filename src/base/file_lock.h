// SPDX-License-Identifier: Apache-2.0
// One process at a time, by an empty file that is there as long as somebody works. The kernel lets
// go of it when its holder dies, however that happens, so that nobody waits for a dead one.
#ifndef PLB_BASE_FILE_LOCK_H
#define PLB_BASE_FILE_LOCK_H

#include "base/progress.h"

typedef struct plb_file_lock {
    const char *path; // borrowed
    int fd;           // -1: none
} plb_file_lock;

#define PLB_FILE_LOCK_NONE ((plb_file_lock){NULL, -1})

// Waits until nobody else holds it, and says once that it does: `what` is done by another process.
// Where no such file can be made or locked there is no lock, which is no error: whatever it was for
// fails there too, or has nothing to write. PLB_ECANCELLED when `progress`, which may be NULL, asks
// for it.
PLB_API PLB_MUST_USE plb_status plb_file_lock_take(const char *path, const char *what,
                                                   plb_progress *progress, plb_file_lock *out);
PLB_API void plb_file_lock_release(plb_file_lock *lock); // of none is legal

#endif
