// SPDX-License-Identifier: Apache-2.0
// A process that takes memory faster than anybody looks, in a group that the kernel limits: the
// kernel's own counters are the truth. Skipped where no group can be made.
#include "check.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/cgroup.h"

// Takes and touches so many bytes in the group; returns its wait status.
static int take(const plb_cgroup *cgroup, size_t bytes) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        plb_cgroup_enter(cgroup);
        char *memory = malloc(bytes);
        if (!memory) _exit(3);
        memset(memory, 1, bytes);
        _exit(memory[bytes / 2] == 1 ? 0 : 4);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static void test_limit(void) {
    const size_t mib = 1 << 20;
    struct stat info;
    plb_cgroup cgroup;
    if (!plb_cgroup_make(64 << 20, &cgroup)) {
        CHECK(cgroup.folder[0] == '\0' && !plb_cgroup_ran_out(&cgroup));
        plb_cgroup_enter(&cgroup), plb_cgroup_remove(&cgroup); // of none: nothing
        SKIP("no control group for memory can be made here");
    }
    CHECK(stat(cgroup.folder, &info) == 0 && S_ISDIR(info.st_mode));
    int status = take(&cgroup, 16 * mib);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0 && !plb_cgroup_ran_out(&cgroup));
    status = take(&cgroup, 256 * mib);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && plb_cgroup_ran_out(&cgroup));
    plb_cgroup_remove(&cgroup);
    CHECK(stat(cgroup.folder, &info) != 0);
}

static const check_test tests[] = {
    {"limit", test_limit},
};
CHECK_MAIN(tests)
