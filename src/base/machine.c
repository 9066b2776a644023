// SPDX-License-Identifier: Apache-2.0
#include "base/machine.h"

#include <ctype.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/machine_gpu.h"

enum { PATH_BYTES = 4096, LINE_BYTES = 8192 };

static FILE *open_below(const char *root, const char *path) {
    char full[PATH_BYTES];
    int n = snprintf(full, sizeof full, "%s%s", root, path);
    return n > 0 && n < PATH_BYTES ? fopen(full, "re") : NULL;
}

static void copy_text(char *to, size_t size, const char *from) {
    from += strspn(from, " \t\"");
    size_t length = strcspn(from, "\"\n");
    while (length && isspace((unsigned char)from[length - 1])) length--;
    if (length >= size) length = size - 1;
    memcpy(to, from, length);
    to[length] = '\0';
}

// The first line of a file; "" if it cannot be read.
static void read_line(const char *root, const char *path, char *line, size_t size) {
    line[0] = '\0';
    FILE *file = open_below(root, path);
    if (!file) return;
    if (!fgets(line, (int)size, file)) line[0] = '\0';
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
}

// What follows "key" and `separator` in `line`; NULL if it begins otherwise.
static const char *value_of(const char *line, const char *key, char separator) {
    size_t length = strlen(key);
    if (strncmp(line, key, length) != 0) return NULL;
    line += length;
    line += strspn(line, " \t");
    return *line == separator ? line + 1 : NULL;
}

static void append_word(char *list, size_t size, const char *word) {
    size_t length = strlen(list);
    if (length < size) snprintf(list + length, size - length, "%s%s", length ? " " : "", word);
}

// Keeps of the kernel's long list of flags those that choose between kernels.
static void pick_simd(plb_machine *out, const char *flags) {
    static const char *const wanted[] = {
        "sse4_2",   "avx",      "f16c",     "fma",         "avx2",        "avx_vnni",    "avx512f",
        "avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile",
        "amx_int8", "amx_bf16", "asimd",    "asimdhp",     "bf16",        "sve",         "sve2",
    };
    out->simd[0] = '\0';
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        size_t length = strlen(wanted[i]);
        const char *at = flags;
        while ((at = strstr(at, wanted[i]))) {
            bool begins = at == flags || isspace((unsigned char)at[-1]);
            at += length;
            if (begins && (!*at || isspace((unsigned char)*at))) {
                append_word(out->simd, sizeof out->simd, wanted[i]);
                break;
            }
        }
    }
}

// Counts distinct pairs of socket and core: hyperthreads share one.
static void count_core(plb_machine *out, int socket, int core, unsigned char *seen, int seen_bits) {
    int bit = socket * 1024 + core;
    if (socket < 0 || core < 0 || core >= 1024 || bit >= seen_bits) return;
    if (!(seen[bit / 8] & 1 << bit % 8)) out->physical_cores++;
    seen[bit / 8] |= (unsigned char)(1 << bit % 8);
}

static void read_cpuinfo(const char *root, plb_machine *out) {
    enum { SEEN_BITS = 512 * 1024 }; // 512 sockets: a virtual machine may have one a processor
    FILE *file = open_below(root, "/proc/cpuinfo");
    if (!file) return;
    unsigned char seen[SEEN_BITS / 8] = {0};
    char line[LINE_BYTES];
    int socket = 0;
    while (fgets(line, sizeof line, file)) {
        const char *value;
        if ((value = value_of(line, "processor", ':')))
            out->logical_cpus++;
        else if ((value = value_of(line, "model name", ':')) && !out->cpu_model[0])
            copy_text(out->cpu_model, sizeof out->cpu_model, value);
        else if ((value = value_of(line, "physical id", ':')))
            socket = atoi(value);
        else if ((value = value_of(line, "core id", ':')))
            count_core(out, socket, atoi(value), seen, SEEN_BITS);
        else if (((value = value_of(line, "flags", ':')) ||
                  (value = value_of(line, "Features", ':'))) &&
                 !out->simd[0])
            pick_simd(out, value);
    }
    fclose(file);
}

// How many the kernel's list has: 16 in "0-7,64-71".
static int count_listed(const char *list) {
    int count = 0;
    for (const char *at = list; *at;) {
        char *end;
        const long first = strtol(at, &end, 10);
        long last = first;
        if (end == at) break;
        if (*end == '-') last = strtol(end + 1, &end, 10);
        if (first < 0 || last < first || last > 1 << 20) break;
        count += (int)(last - first) + 1;
        at = *end == ',' ? end + 1 : end;
    }
    return count;
}

// How many caches there are like one that the first core has.
static int cache_instances(const char *root, int index, int logical_cpus) {
    char path[96], list[512];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/shared_cpu_list",
             index);
    read_line(root, path, list, sizeof list);
    const int sharing = count_listed(list);
    return sharing > 0 && logical_cpus > sharing ? (logical_cpus + sharing - 1) / sharing : 1;
}

static void read_caches(const char *root, plb_machine *out) {
    for (int i = 0; i < 8; i++) {
        char path[96], level[16], type[32], size[32];
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        read_line(root, path, level, sizeof level);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        read_line(root, path, type, sizeof type);
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        read_line(root, path, size, sizeof size);
        int n = atoi(level);
        if (n < 1 || n > 3 || strcmp(type, "Instruction") == 0) continue;
        char *unit;
        long long bytes = strtoll(size, &unit, 10);
        if (bytes < 0 || bytes > 1 << 30) continue;
        bytes *= *unit == 'M' ? 1 << 20 : *unit == 'K' ? 1 << 10 : 1;
        out->cache_bytes[n - 1] = bytes;
        out->cache_total_bytes[n - 1] = bytes * cache_instances(root, i, out->logical_cpus);
    }
}

static void read_memory(const char *root, plb_machine *out) {
    FILE *file = open_below(root, "/proc/meminfo");
    if (!file) return;
    char line[256];
    while (fgets(line, sizeof line, file)) {
        const char *value;
        if ((value = value_of(line, "MemTotal", ':'))) out->memory_bytes = atoll(value) * 1024;
        if ((value = value_of(line, "MemAvailable", ':')))
            out->memory_available_bytes = atoll(value) * 1024;
    }
    fclose(file);
}

static void read_system(const char *root, plb_machine *out) {
    FILE *file = open_below(root, "/etc/os-release");
    char line[256];
    while (file && fgets(line, sizeof line, file)) {
        const char *value = value_of(line, "PRETTY_NAME", '=');
        if (value) copy_text(out->system, sizeof out->system, value);
    }
    if (file) fclose(file);
    struct utsname name;
    if (uname(&name) == 0) {
        copy_text(out->kernel, sizeof out->kernel, name.release);
        copy_text(out->architecture, sizeof out->architecture, name.machine);
    }
    read_line(root, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", out->governor,
              sizeof out->governor);
    read_line(root, "/proc/loadavg", line, sizeof line);
    out->load_1min = line[0] ? strtod(line, NULL) : -1;
}

static void read_affinity(plb_machine *out) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        out->affinity_cpus = CPU_COUNT(&set);
    } else { // more than 1024 CPUs do not fit cpu_set_t
        long online = sysconf(_SC_NPROCESSORS_ONLN);
        out->affinity_cpus = online > 0 && online < INT_MAX ? (int)online : 1;
    }
}

// A limit of one control group; the least of a chain counts.
static void lower_quota(plb_machine *out, double quota_us, double period_us) {
    if (quota_us <= 0 || period_us <= 0) return;
    double cpus = quota_us / period_us;
    if (out->quota_cpus == 0 || cpus < out->quota_cpus) out->quota_cpus = cpus;
}

// `used_bytes`: by all in the group, without what it would give back for the asking.
static void lower_memory(plb_machine *out, const char *text, int64_t used_bytes) {
    enum { PAGE_BYTES = 4096 };
    char *end;
    long long bytes = strtoll(text, &end, 10);
    // Version 1 writes "no limit" as the largest multiple of a page; "max" is no number.
    if (end == text || bytes <= 0 || bytes >= 1LL << 60) return;
    const int64_t left = bytes - used_bytes > PAGE_BYTES ? bytes - used_bytes : PAGE_BYTES;
    if (!out->memory_limit_bytes || left < out->memory_left_bytes) out->memory_left_bytes = left;
    if (!out->memory_limit_bytes || bytes < out->memory_limit_bytes)
        out->memory_limit_bytes = bytes;
}

// Reads `name` in the group's folder; returns whether there is text.
static bool read_group(const char *root, const char *mount, const char *group, const char *name,
                       char *line, size_t size) {
    char path[PATH_BYTES];
    int n = snprintf(path, sizeof path, "%s%s/%s", mount, group, name);
    line[0] = '\0';
    if (n > 0 && n < PATH_BYTES) read_line(root, path, line, size);
    return line[0] != '\0';
}

// The number behind a word at the beginning of a line of `name`; 0 if there is none.
static int64_t read_group_value(const char *root, const char *mount, const char *group,
                                const char *name, const char *word) {
    char path[PATH_BYTES], line[256];
    const size_t length = strlen(word);
    int64_t value = 0;
    int n = snprintf(path, sizeof path, "%s%s/%s", mount, group, name);
    FILE *file = n > 0 && n < PATH_BYTES ? open_below(root, path) : NULL;
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, word, length) == 0 && (!length || line[length] == ' '))
            value = strtoll(line + length, NULL, 10);
    if (file) fclose(file);
    return value > 0 ? value : 0;
}

// Files of which nobody has made use lately are given up before anybody is killed.
static int64_t group_uses(const char *root, const char *mount, const char *group, bool version_2) {
    const int64_t all = read_group_value(
        root, mount, group, version_2 ? "memory.current" : "memory.usage_in_bytes", "");
    const int64_t idle = read_group_value(root, mount, group, "memory.stat",
                                          version_2 ? "inactive_file" : "total_inactive_file");
    return all > idle ? all - idle : 0;
}

static void read_group_v2(const char *root, const char *group, plb_machine *out) {
    static const char *const mounts[] = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
    for (size_t i = 0; i < 2; i++) {
        char line[128];
        double quota, period;
        if (read_group(root, mounts[i], group, "cpu.max", line, sizeof line) &&
            sscanf(line, "%lf %lf", &quota, &period) == 2) {
            lower_quota(out, quota, period);
        }
        if (read_group(root, mounts[i], group, "memory.max", line, sizeof line))
            lower_memory(out, line, group_uses(root, mounts[i], group, true));
    }
}

// Whether "cpu,cpuacct" lists it, whole: "cpuset" is another one, with groups of its own.
static bool has_controller(const char *list, const char *name) {
    const size_t length = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (!at[length] || at[length] == ',')) return true;
    return false;
}

static void read_group_v1(const char *root, const char *controllers, const char *group,
                          plb_machine *out) {
    char quota[64], period[64];
    if (has_controller(controllers, "cpu") &&
        read_group(root, "/sys/fs/cgroup/cpu", group, "cpu.cfs_quota_us", quota, sizeof quota) &&
        read_group(root, "/sys/fs/cgroup/cpu", group, "cpu.cfs_period_us", period, sizeof period)) {
        lower_quota(out, strtod(quota, NULL), strtod(period, NULL));
    }
    if (has_controller(controllers, "memory") &&
        read_group(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", quota,
                   sizeof quota)) {
        lower_memory(out, quota, group_uses(root, "/sys/fs/cgroup/memory", group, false));
    }
}

// Lines "0::/user.slice/a" (version 2) or "4:cpu,cpuacct:/a" (version 1). Every group above limits
// too, and inside a container only the upper part of the path may be mounted: so walk up.
static void read_groups(const char *root, plb_machine *out) {
    FILE *file = open_below(root, "/proc/self/cgroup");
    if (!file) return;
    char line[PATH_BYTES];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group) continue;
        *group++ = '\0';
        controllers++;
        for (char *end = group + strlen(group); end; end = strrchr(group, '/')) {
            *end = '\0';
            if (*controllers)
                read_group_v1(root, controllers, group, out);
            else
                read_group_v2(root, group, out);
        }
    }
    fclose(file);
}

void plb_machine_read(const char *root, plb_machine *out) {
    *out = (plb_machine){0};
    read_system(root, out);
    read_cpuinfo(root, out);
    read_caches(root, out);
    read_memory(root, out);
    read_affinity(out);
    read_groups(root, out);
    plb_machine_read_gpus(root, out);
}

int plb_machine_threads_of(const plb_machine *machine) {
    int threads = machine->affinity_cpus;
    if (machine->quota_cpus > 0 && machine->quota_cpus < threads)
        threads = (int)machine->quota_cpus;
    return threads < 1 ? 1 : threads;
}

int plb_machine_threads(void) {
    plb_machine machine = {0};
    read_affinity(&machine);
    read_groups("", &machine);
    return plb_machine_threads_of(&machine);
}
