// SPDX-License-Identifier: Apache-2.0
#include "bench/usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/machine.h"

// The beginning of a small file; false if it cannot be read.
static bool read_text(const char *path, char *text, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t n = read(fd, text, size - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static int64_t own_rss(pid_t pid) {
    char path[64], text[128];
    long long size, resident;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)pid);
    if (!read_text(path, text, sizeof text)) return 0;
    if (sscanf(text, "%lld %lld", &size, &resident) != 2) return 0;
    return (int64_t)resident * sysconf(_SC_PAGESIZE);
}

// The process and its descendants, parents first, however many: what a worker does in children may
// not stay unseen because there are more of them.
typedef struct tree {
    pid_t *pid;
    int count, room;
} tree;

// What there is no memory for is left out.
static void add_process(tree *t, pid_t pid) {
    if (t->count == t->room) {
        const int room = t->room ? 2 * t->room : 64;
        pid_t *grown = plb_realloc_array(t->pid, (size_t)room, sizeof *grown);
        if (!grown) return;
        t->pid = grown, t->room = room;
    }
    t->pid[t->count++] = pid;
}

// Children are listed by the thread that made them.
static void add_children(tree *t, pid_t pid) {
    char path[512];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    if (!folder) return;
    for (const struct dirent *entry; (entry = readdir(folder));) {
        int child;
        if (entry->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%s/children", (int)pid, entry->d_name);
        FILE *list = fopen(path, "re");
        while (list && fscanf(list, "%d", &child) == 1) add_process(t, (pid_t)child);
        if (list) fclose(list);
    }
    closedir(folder);
}

// Freed by the caller.
static tree read_tree(pid_t root) {
    tree t = {0};
    add_process(&t, root);
    for (int i = 0; i < t.count; i++) add_children(&t, t.pid[i]);
    return t;
}

int64_t plb_usage_tree_rss(pid_t pid) {
    int64_t sum = 0;
    tree t = read_tree(pid);
    for (int i = 0; i < t.count; i++) sum += own_rss(t.pid[i]);
    plb_free(t.pid);
    return sum;
}

static int64_t own_cpu_ns(pid_t pid) {
    clockid_t clock;
    struct timespec now;
    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &now)) return -1;
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t plb_usage_cpu_ns(pid_t pid) {
    tree t = read_tree(pid);
    int64_t sum = own_cpu_ns(pid);
    for (int i = 1; i < t.count && sum >= 0; i++) {
        int64_t ns = own_cpu_ns(t.pid[i]);
        if (ns > 0) sum += ns;
    }
    plb_free(t.pid);
    return sum;
}

void plb_usage_each_thread(pid_t root, bool (*each)(void *context, pid_t pid, pid_t thread),
                           void *context) {
    tree t = read_tree(root);
    for (int i = 0; i < t.count; i++) {
        char path[64];
        snprintf(path, sizeof path, "/proc/%d/task", (int)t.pid[i]);
        DIR *folder = opendir(path);
        if (!folder) continue;
        for (const struct dirent *entry; (entry = readdir(folder));) {
            pid_t thread = (pid_t)atoi(entry->d_name);
            if (thread > 0 && !each(context, t.pid[i], thread)) break;
        }
        closedir(folder);
    }
    plb_free(t.pid);
}

static bool add_thread(void *context, pid_t pid, pid_t thread) {
    plb_usage_threads *out = context;
    char path[64], text[128];
    long long ran = 0;
    if (out->count == PLB_USAGE_MAX_THREADS) return false;
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)pid, (int)thread);
    if (!read_text(path, text, sizeof text) || sscanf(text, "%lld", &ran) != 1) return true;
    out->id[out->count] = thread;
    out->cpu_ns[out->count++] = ran;
    return true;
}

void plb_usage_threads_read(pid_t pid, plb_usage_threads *out) {
    out->count = 0;
    plb_usage_each_thread(pid, add_thread, out);
}

static int64_t ran_between(const plb_usage_threads *before, const plb_usage_threads *after, int i) {
    int64_t ran = after->cpu_ns[i];
    for (int k = 0; k < before->count; k++) {
        if (before->id[k] == after->id[i]) ran -= before->cpu_ns[k];
    }
    return ran;
}

int plb_usage_busy_threads(const plb_usage_threads *before, const plb_usage_threads *after,
                           double share) {
    int64_t most = 0;
    int busy = 0;
    for (int i = 0; i < after->count; i++) {
        int64_t ran = ran_between(before, after, i);
        if (ran > most) most = ran;
    }
    for (int i = 0; i < after->count; i++) {
        int64_t ran = ran_between(before, after, i);
        busy += ran > 0 && (double)ran >= share * (double)most;
    }
    return busy;
}

int64_t plb_usage_memory_available(void) {
    plb_machine machine;
    plb_machine_read("", &machine);
    int64_t available = machine.memory_available_bytes;
    if (machine.memory_limit_bytes && machine.memory_left_bytes < available)
        available = machine.memory_left_bytes;
    return available;
}
