// SPDX-License-Identifier: Apache-2.0
// Failures on demand: the n-th allocation, and a disk that is nearly full.
#ifndef PLB_TESTS_FAULTS_H
#define PLB_TESTS_FAULTS_H

#include <dirent.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/core/alloc.h"

static bool fault_count_down(void *left, size_t size_bytes) {
    (void)size_bytes;
    return --*(int *)left != 0;
}

// Runs call(context) with the 1st, 2nd, … allocation failing until it succeeds; every failure must
// be PLB_ENOMEM. Leaks are the address sanitizer's to find. Returns how many allocations failed.
static inline int fault_every_allocation(plb_status (*call)(void *), void *context) {
    for (int n = 1; n < 1000; n++) {
        int left = n;
        plb_alloc_set_hook(fault_count_down, &left);
        plb_status status = call(context);
        plb_alloc_set_hook(NULL, NULL);
        if (status == PLB_OK) return n - 1;
        CHECK_SAY(status == PLB_ENOMEM, "allocation %d: %s", n, plb_status_name(status));
    }
    CHECK_SAY(false, "still failing after 1000 allocations");
    return 0;
}

// A fresh empty folder, removed by nobody but fault_folder_remove.
static inline char *fault_folder(void) {
    static char path[64];
    strcpy(path, "/tmp/plumb-test-XXXXXX");
    return mkdtemp(path);
}

// Mounts `size` ("64k") bytes of memory on `folder`, seen by this process alone and gone with it.
// False where the system does not permit it.
static inline bool fault_small_disk(const char *folder, const char *size) {
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return false;
    char options[32];
    snprintf(options, sizeof options, "size=%s", size);
    return mount("tmpfs", folder, "tmpfs", 0, options) == 0;
}

static inline int fault_count_files(const char *folder) {
    DIR *dir = opendir(folder);
    int count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) count += entry->d_name[0] != '.';
    if (dir) closedir(dir);
    return count;
}

// Removes the folder and the files in it; no sub-folders.
static inline void fault_folder_remove(const char *folder) {
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..")) {
            unlinkat(dirfd(dir), entry->d_name, 0);
        }
    }
    if (dir) closedir(dir);
    rmdir(folder);
}

#endif
