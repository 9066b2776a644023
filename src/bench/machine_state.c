// SPDX-License-Identifier: Apache-2.0
#include "bench/machine_state.h"

#include <dirent.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"

enum { PATH_BYTES = 4096 };

static FILE *open_below(const char *root, const char *path) {
    char full[PATH_BYTES];
    int n = snprintf(full, sizeof full, "%s%s", root, path);
    return n > 0 && n < PATH_BYTES ? fopen(full, "re") : NULL;
}

// The first number in a file, or −1.
static double number_in(const char *root, const char *path) {
    FILE *file = open_below(root, path);
    double value = -1;
    if (!file) return -1;
    if (fscanf(file, "%lf", &value) != 1) value = -1;
    fclose(file);
    return value;
}

// The number behind a word at the beginning of a line, or −1.
static int64_t number_after(const char *root, const char *path, const char *word) {
    FILE *file = open_below(root, path);
    char line[512];
    long long value = -1;
    const size_t length = strlen(word);
    while (file && value < 0 && fgets(line, sizeof line, file)) {
        if (strncmp(line, word, length) == 0 && line[length] == ' ')
            value = strtoll(line + length, NULL, 10);
    }
    if (file) fclose(file);
    return value;
}

// ---------------------------------------------------------------------------- heat and clocks
static double hottest(const char *root) {
    char path[128];
    double most = -1;
    for (int i = 0; i < 64; i++) {
        snprintf(path, sizeof path, "/sys/class/thermal/thermal_zone%d/temp", i);
        double value = number_in(root, path) / 1000;
        if (value > most && value < 200) most = value;
    }
    for (int i = 0; i < 16; i++) {
        for (int k = 1; k <= 4; k++) {
            snprintf(path, sizeof path, "/sys/class/hwmon/hwmon%d/temp%d_input", i, k);
            double value = number_in(root, path) / 1000;
            if (value > most && value < 200) most = value;
        }
    }
    return most < 0 ? -1 : most;
}

static double fastest_clock(const char *root) {
    double most = -1;
    char path[128], line[512];
    for (int i = 0; i < 1024; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", i);
        double khz = number_in(root, path);
        if (khz < 0) break;
        most = fmax(most, khz / 1000);
    }
    if (most > 0) return most;
    FILE *file = open_below(root, "/proc/cpuinfo");
    while (file && fgets(line, sizeof line, file)) {
        double mhz;
        if (sscanf(line, "cpu MHz : %lf", &mhz) == 1) most = fmax(most, mhz);
    }
    if (file) fclose(file);
    return most;
}

static void read_clocks(const char *root, plb_machine_state *out) {
    out->temperature_c = hottest(root);
    out->clock_mhz = fastest_clock(root);
    double limit = number_in(root, "/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
    out->clock_limit_mhz = limit < 0 ? -1 : limit / 1000;
    double no_turbo = number_in(root, "/sys/devices/system/cpu/intel_pstate/no_turbo");
    double boost = number_in(root, "/sys/devices/system/cpu/cpufreq/boost");
    out->boost = no_turbo >= 0 ? no_turbo == 0 : boost >= 0 ? boost == 1 : -1;
    out->heat_throttled = (int64_t)number_in(
        root, "/sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count");
}

static void read_quota(const char *root, plb_machine_state *out) {
    static const char two[] = "/sys/fs/cgroup/cpu.stat", one[] = "/sys/fs/cgroup/cpu/cpu.stat";
    out->quota_throttled = number_after(root, two, "nr_throttled");
    out->quota_throttled_us = number_after(root, two, "throttled_usec");
    if (out->quota_throttled >= 0) return;
    out->quota_throttled = number_after(root, one, "nr_throttled");
    int64_t ns = number_after(root, one, "throttled_time");
    out->quota_throttled_us = ns < 0 ? -1 : ns / 1000;
}

// ---------------------------------------------------------------------------- other processes
typedef struct process {
    long number, parent;
    char name[32];
    double ticks; // of processor time so far
    bool ours;
} process;

typedef struct process_list {
    process *items;
    size_t count, capacity;
    double total, idle, stolen; // of all processors, in ticks
} process_list;

// Fields 2 (in parentheses, may hold anything), 4, 14 and 15 of /proc/N/stat.
static bool read_process(const char *root, long number, process *out) {
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", number);
    FILE *file = open_below(root, path);
    if (!file) return false;
    size_t n = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[n] = '\0';
    const char *name = strchr(line, '('), *end = strrchr(line, ')');
    double user, system;
    if (!name || !end || end < name ||
        sscanf(end + 1, " %*c %ld %*s %*s %*s %*s %*s %*s %*s %*s %*s %lf %lf", &out->parent, &user,
               &system) != 3) {
        return false;
    }
    snprintf(out->name, sizeof out->name, "%.*s", (int)(end - name - 1), name + 1);
    out->number = number;
    out->ticks = user + system;
    return true;
}

static void read_totals(const char *root, process_list *list) {
    FILE *file = open_below(root, "/proc/stat");
    double t[8] = {0};
    if (!file) return;
    if (fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3], &t[4],
               &t[5], &t[6], &t[7]) == 8) {
        for (int i = 0; i < 8; i++) list->total += t[i];
        list->idle = t[3] + t[4];
        list->stolen = t[7];
    }
    fclose(file);
}

static void list_processes(const char *root, process_list *list) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/proc", root);
    read_totals(root, list);
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        char *end;
        long number = strtol(entry->d_name, &end, 10);
        process p = {0};
        if (*end || number <= 0 || !read_process(root, number, &p)) continue;
        if (list->count == list->capacity) {
            size_t capacity = list->capacity ? 2 * list->capacity : 256;
            process *items = plb_realloc_array(list->items, capacity, sizeof *items);
            if (!items) break; // then fewer are seen
            list->items = items, list->capacity = capacity;
        }
        list->items[list->count++] = p;
    }
    if (folder) closedir(folder);
}

static process *find_process(const process_list *list, long number) {
    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].number == number) return &list->items[i];
    return NULL;
}

// This process and what descends from it; and so on until nothing is added.
static void mark_ours(process_list *list, long self) {
    bool more = true;
    process *p = find_process(list, self);
    if (p) p->ours = true;
    while (more) {
        more = false;
        for (size_t i = 0; i < list->count; i++) {
            const process *parent = find_process(list, list->items[i].parent);
            if (!list->items[i].ours && parent && parent->ours) list->items[i].ours = more = true;
        }
    }
}

static void add_busy(plb_machine_state *out, const process *p, double cpus) {
    int at = out->busy_count;
    while (at > 0 && out->busy[at - 1].cpus < cpus) at--;
    if (at == PLB_STATE_BUSY) return;
    int last = out->busy_count < PLB_STATE_BUSY ? out->busy_count++ : PLB_STATE_BUSY - 1;
    memmove(&out->busy[at + 1], &out->busy[at], (size_t)(last - at) * sizeof out->busy[0]);
    out->busy[at] = (plb_busy_process){.number = p->number, .cpus = cpus};
    memcpy(out->busy[at].name, p->name, sizeof p->name);
}

// Ticks are a hundredth of a second: with so coarse a measure only what is clearly busy is named.
static void compare_lists(const process_list *before, process_list *after, double seconds,
                          plb_machine_state *out) {
    const double ticks = seconds * (double)sysconf(_SC_CLK_TCK);
    mark_ours(after, getpid());
    out->others_cpus = 0;
    for (size_t i = 0; i < after->count; i++) {
        const process *p = &after->items[i], *q = find_process(before, p->number);
        double cpus = q && !p->ours ? (p->ticks - q->ticks) / ticks : 0;
        out->others_cpus += cpus;
        if (cpus > 0.05) add_busy(out, p, cpus);
    }
    double total = after->total - before->total;
    if (total > 0) out->stolen = (after->stolen - before->stolen) / total;
}

static void watch(const char *root, int watch_ms, plb_machine_state *out) {
    process_list before = {0}, after = {0};
    const struct timespec pause = {watch_ms / 1000, watch_ms % 1000 * 1000000L};
    int64_t began = plb_now_ns();
    list_processes(root, &before);
    nanosleep(&pause, NULL);
    double seconds = (double)(plb_now_ns() - began) * 1e-9;
    list_processes(root, &after);
    compare_lists(&before, &after, seconds, out);
    plb_free(before.items);
    plb_free(after.items);
}

void plb_machine_state_read(const char *root, int watch_ms, plb_machine_state *out) {
    *out = (plb_machine_state){.stolen = -1, .others_cpus = -1};
    out->load_1min = number_in(root, "/proc/loadavg");
    read_clocks(root, out);
    read_quota(root, out);
    if (watch_ms > 0) watch(root, watch_ms, out);
}
