// SPDX-License-Identifier: Apache-2.0
#include "probe/counters.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    uint32_t type;
    uint64_t config;
} kinds[PLB_COMMAND_COUNTERS] = {
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS},
    {"cache_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES},
    {"branch_misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES},
    {"context_switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES},
    {"migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS},
};

const char *plb_counter_name(int i) {
    return kinds[i].name;
}

static int open_one(int i, pid_t pid, bool kernel_too) {
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = kinds[i].type,
                                   .config = kinds[i].config,
                                   .disabled = 1,
                                   .inherit = 1,
                                   .enable_on_exec = 1,
                                   .exclude_kernel = !kernel_too,
                                   .exclude_hv = 1,
                                   .read_format = PERF_FORMAT_TOTAL_TIME_ENABLED |
                                                  PERF_FORMAT_TOTAL_TIME_RUNNING};
    return (int)syscall(SYS_perf_event_open, &attr, pid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

void plb_counters_open(plb_counters *counters, pid_t pid) {
    counters->error = 0;
    for (int i = 0; i < PLB_COMMAND_COUNTERS; i++) {
        counters->fd[i] = open_one(i, pid, kinds[i].type == PERF_TYPE_SOFTWARE);
        if (counters->fd[i] < 0) counters->fd[i] = open_one(i, pid, false);
        if (counters->fd[i] < 0 && !counters->error) counters->error = errno;
    }
}

// Several counters share few registers: each is scaled from the time that it really counted.
static bool read_one(int fd, int64_t *out) {
    struct {
        uint64_t value, enabled_ns, running_ns;
    } got;
    if (fd < 0 || read(fd, &got, sizeof got) != (ssize_t)sizeof got) return false;
    if (!got.running_ns) return false;
    *out = (int64_t)((double)got.value * (double)got.enabled_ns / (double)got.running_ns);
    return true;
}

void plb_counters_close(plb_counters *counters, plb_command_result *out) {
    for (int i = 0; i < PLB_COMMAND_COUNTERS; i++) {
        out->counter[i].name = kinds[i].name;
        out->counter[i].known = read_one(counters->fd[i], &out->counter[i].value);
        if (counters->fd[i] >= 0) close(counters->fd[i]);
    }
    if (counters->error)
        snprintf(
            out->counter_reason, sizeof out->counter_reason, "perf_event_open: %s%s",
            strerror(counters->error),
            counters->error == EACCES || counters->error == EPERM
                ? "; /proc/sys/kernel/perf_event_paranoid is above 2, or a container forbids it"
                : "; this machine has no such counter");
}
