// SPDX-License-Identifier: Apache-2.0
#include "bench/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const ssize_t n = (ssize_t)strlen(text);
    bool written = write(fd, text, (size_t)n) == n;
    close(fd);
    return written;
}

static bool write_number(const plb_cgroup *g, const char *file, int64_t number) {
    char path[576], text[32];
    snprintf(path, sizeof path, "%s/%s", g->folder, file);
    snprintf(text, sizeof text, "%" PRId64, number);
    return write_text(path, text);
}

// This process's own group in a hierarchy: "/a/b" of the line "4:memory:/a/b" in version 1, of
// "0::/a/b" in version 2, where no controller is named.
static bool own_group(const char *controller, char *out, size_t size) {
    char line[512];
    bool found = false;
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file) return false;
    while (!found && fgets(line, sizeof line, file)) {
        char *name = strchr(line, ':'), *path = name ? strchr(name + 1, ':') : NULL;
        if (!path) continue;
        *path++ = '\0';
        path[strcspn(path, "\n")] = '\0';
        found = strcmp(name + 1, controller) == 0;
        if (found) snprintf(out, size, "%s", path);
    }
    fclose(file);
    return found;
}

static bool make_below(const char *mount, const char *group, plb_cgroup *out) {
    static atomic_int number;
    int n =
        snprintf(out->folder, sizeof out->folder, "%s%s/plumb-%d-%d", mount,
                 strcmp(group, "/") == 0 ? "" : group, (int)getpid(), atomic_fetch_add(&number, 1));
    if (n < 0 || (size_t)n >= sizeof out->folder || mkdir(out->folder, 0755)) {
        out->folder[0] = '\0';
        return false;
    }
    snprintf(out->processes, sizeof out->processes, "%s/cgroup.procs", out->folder);
    return true;
}

// A container may see the hierarchy from its own group on: then that is the mount itself.
static bool make_in(const char *mount, const char *controller, plb_cgroup *out) {
    char group[400];
    if (!own_group(controller, group, sizeof group)) return false;
    return make_below(mount, group, out) || make_below(mount, "/", out);
}

bool plb_cgroup_make(int64_t limit_bytes, plb_cgroup *out) {
    *out = (plb_cgroup){.oom_file = "memory.oom_control"};
    if (make_in("/sys/fs/cgroup/memory", "memory", out)) {
        if (write_number(out, "memory.limit_in_bytes", limit_bytes)) {
            // Where swapping is counted it is not a way round.
            (void)write_number(out, "memory.memsw.limit_in_bytes", limit_bytes);
            return true;
        }
        plb_cgroup_remove(out);
    }
    *out = (plb_cgroup){.oom_file = "memory.events"};
    if (make_in("/sys/fs/cgroup", "", out)) {
        if (write_number(out, "memory.max", limit_bytes)) {
            (void)write_number(out, "memory.swap.max", 0);
            return true;
        }
        plb_cgroup_remove(out);
    }
    *out = (plb_cgroup){0};
    return false;
}

void plb_cgroup_enter(const plb_cgroup *cgroup) {
    if (cgroup->folder[0]) (void)write_text(cgroup->processes, "0"); // 0: whoever writes
}

bool plb_cgroup_ran_out(const plb_cgroup *cgroup) {
    char path[576], line[128];
    long long kills = 0;
    if (!cgroup->folder[0]) return false;
    snprintf(path, sizeof path, "%s/%s", cgroup->folder, cgroup->oom_file);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    while (kills == 0 && fgets(line, sizeof line, file)) sscanf(line, "oom_kill %lld", &kills);
    fclose(file);
    return kills > 0;
}

void plb_cgroup_remove(const plb_cgroup *cgroup) {
    enum { TRIES = 200 };
    const struct timespec nap = {.tv_nsec = 5000000};
    if (!cgroup->folder[0]) return;
    for (int i = 0; i < TRIES && rmdir(cgroup->folder) && errno == EBUSY; i++) {
        nanosleep(&nap, NULL);
    }
}
