// SPDX-License-Identifier: Apache-2.0
// Other machines, laid out as files below a temporary folder, and the one that runs the test.
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/machine.h"
#include "check.h"

static char root[64];

static void begin(void) {
    snprintf(root, sizeof root, "/tmp/plumb-machine-XXXXXX");
    CHECK(mkdtemp(root));
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *walk) {
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static void end(void) {
    CHECK(nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
}

static void put(const char *path, const char *text) {
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    CHECK_SAY(file, "%s", full);
    if (!file) return;
    fputs(text, file);
    fclose(file);
}

static void version_2_quota_is_the_least_of_the_chain(void) {
    plb_machine machine;
    begin();
    put("/proc/self/cgroup", "0::/system.slice/job.service/inner\n");
    put("/sys/fs/cgroup/system.slice/job.service/inner/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/system.slice/job.service/cpu.max", "150000 100000\n");
    put("/sys/fs/cgroup/system.slice/cpu.max", "400000 100000\n");
    put("/sys/fs/cgroup/system.slice/job.service/memory.max", "1073741824\n");
    put("/sys/fs/cgroup/system.slice/memory.max", "max\n");
    plb_machine_read(root, &machine);
    CHECK(machine.quota_cpus == 1.5);
    CHECK(machine.memory_limit_bytes == 1073741824);
    end();
}

// Each group's limit less what it uses; the least counts, whichever has the least limit.
static void what_the_limits_leave(void) {
    plb_machine machine;
    begin();
    put("/proc/self/cgroup", "0::/outer/inner\n");
    put("/sys/fs/cgroup/outer/inner/memory.max", "1000000000\n");
    put("/sys/fs/cgroup/outer/inner/memory.current", "300000000\n");
    put("/sys/fs/cgroup/outer/inner/memory.stat",
        "anon 200000000\ninactive_file_x 7\ninactive_file 50000000\nactive_file 1\n");
    put("/sys/fs/cgroup/outer/memory.max", "2000000000\n");
    put("/sys/fs/cgroup/outer/memory.current", "1800000000\n");
    plb_machine_read(root, &machine);
    CHECK(machine.memory_limit_bytes == 1000000000);
    CHECK(machine.memory_left_bytes == 200000000);
    put("/sys/fs/cgroup/outer/memory.current", "1200000000\n");
    plb_machine_read(root, &machine);
    CHECK(machine.memory_left_bytes == 750000000);
    put("/sys/fs/cgroup/outer/memory.current", "2000000001\n");
    plb_machine_read(root, &machine);
    CHECK(machine.memory_left_bytes == 4096);
    end();
    begin();
    put("/proc/self/cgroup", "11:memory:/job\n");
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000000000\n");
    put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "600000000\n");
    put("/sys/fs/cgroup/memory/job/memory.stat",
        "inactive_file 1\ntotal_inactive_file 100000000\n");
    plb_machine_read(root, &machine);
    CHECK(machine.memory_left_bytes == 500000000);
    end();
}

// In a container the path that the kernel names is not mounted; the limit lies at the top.
static void version_2_inside_a_container(void) {
    plb_machine machine;
    begin();
    put("/proc/self/cgroup", "0::/docker/0123456789abcdef\n");
    put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    plb_machine_read(root, &machine);
    CHECK(machine.quota_cpus == 0.5);
    CHECK(machine.memory_limit_bytes == 0);
    end();
}

static void version_1_quota(void) {
    plb_machine machine;
    begin();
    put("/proc/self/cgroup", "11:memory:/job\n4:cpu,cpuacct:/job\n1:name=systemd:/x\n");
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "200000\n");
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "50000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    plb_machine_read(root, &machine);
    CHECK(machine.quota_cpus == 4);
    CHECK(machine.memory_limit_bytes == 0);
    end();
}

// The root group limits nothing: version 2 has no files for it, version 1 says -1.
static void no_quota_in_the_root_group(void) {
    plb_machine machine;
    begin();
    put("/proc/self/cgroup", "4:cpu,cpuacct:/\n0::/\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    plb_machine_read(root, &machine);
    CHECK(machine.quota_cpus == 0 && machine.memory_limit_bytes == 0);
    end();
}

// A group of cpuset is not the group of that path of cpu.
static void version_1_cpuset_has_no_quota(void) {
    plb_machine machine;
    begin();
    put("/proc/self/cgroup", "5:cpuset:/other\n4:cpuacct,cpu:/job\n");
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "200000\n");
    put("/sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "50000\n");
    put("/sys/fs/cgroup/cpu/other/cpu.cfs_quota_us", "50000\n");
    put("/sys/fs/cgroup/cpu/other/cpu.cfs_period_us", "50000\n");
    plb_machine_read(root, &machine);
    CHECK_SAY(machine.quota_cpus == 4, "%g", machine.quota_cpus);
    end();
}

static void threads_obey_affinity_and_quota(void) {
    static const struct {
        int affinity, threads;
        double quota;
    } rows[] = {{8, 8, 0}, {8, 3, 3.9}, {8, 1, 0.5}, {2, 2, 16}, {0, 1, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        plb_machine machine = {.affinity_cpus = rows[i].affinity, .quota_cpus = rows[i].quota};
        CHECK(plb_machine_threads_of(&machine) == rows[i].threads);
    }
}

static void processor_is_read_from_its_files(void) {
    plb_machine machine;
    begin();
    char text[4096] = "";
    for (int i = 0; i < 4; i++) { // two cores with two threads each
        char part[512];
        snprintf(part, sizeof part,
                 "processor\t: %d\nmodel name\t: A  Fast CPU \nphysical id\t: 0\n"
                 "core id\t\t: %d\nflags\t\t: fpu sse4_2 avx avx2x fma avx512f_x avx2\n\n",
                 i, i / 2);
        strcat(text, part);
    }
    put("/proc/cpuinfo", text);
    put("/proc/meminfo", "MemTotal:  1024 kB\nMemFree: 1 kB\nMemAvailable:  512 kB\n");
    put("/proc/loadavg", "1.25 0.50 0.10 1/99 1234\n");
    put("/etc/os-release", "NAME=\"X\"\nPRETTY_NAME=\"Some Linux 1\"\n");
    put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n");
    put("/sys/devices/system/cpu/cpu0/cache/index0/level", "1\n");
    put("/sys/devices/system/cpu/cpu0/cache/index0/type", "Data\n");
    put("/sys/devices/system/cpu/cpu0/cache/index0/size", "32K\n");
    put("/sys/devices/system/cpu/cpu0/cache/index0/shared_cpu_list", "0-1\n");
    put("/sys/devices/system/cpu/cpu0/cache/index2/level", "3\n");
    put("/sys/devices/system/cpu/cpu0/cache/index2/type", "Unified\n");
    put("/sys/devices/system/cpu/cpu0/cache/index2/size", "8M\n");
    put("/sys/devices/system/cpu/cpu0/cache/index2/shared_cpu_list", "0,2-3\n");
    put("/sys/devices/system/cpu/cpu0/cache/index1/level", "1\n");
    put("/sys/devices/system/cpu/cpu0/cache/index1/type", "Instruction\n");
    put("/sys/devices/system/cpu/cpu0/cache/index1/size", "64K\n");
    put("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA Card\nIRQ: 1\n");
    plb_machine_read(root, &machine);
    CHECK(strcmp(machine.cpu_model, "A  Fast CPU") == 0);
    CHECK(machine.logical_cpus == 4 && machine.physical_cores == 2);
    CHECK_SAY(strcmp(machine.simd, "sse4_2 avx fma avx2") == 0, "%s", machine.simd);
    CHECK(machine.memory_bytes == 1 << 20 && machine.memory_available_bytes == 1 << 19);
    CHECK(machine.load_1min == 1.25 && strcmp(machine.system, "Some Linux 1") == 0);
    CHECK(strcmp(machine.governor, "powersave") == 0);
    CHECK(machine.cache_bytes[0] == 32768 && machine.cache_bytes[1] == 0);
    CHECK(machine.cache_total_bytes[0] == 2 * 32768 && machine.cache_total_bytes[1] == 0);
    CHECK(machine.cache_bytes[2] == 8 << 20 && machine.cache_total_bytes[2] == 16 << 20);
    CHECK(machine.gpu_count == 1 && strcmp(machine.gpu[0].name, "NVIDIA Card") == 0);
    CHECK(!machine.gpu_usable && machine.gpu[0].memory_bytes == 0);
    end();
}

// As virtual machines often have it: a socket for every processor.
static void many_sockets_are_counted(void) {
    enum { SOCKETS = 100 };
    static char text[SOCKETS * 64];
    plb_machine machine;
    int n = 0;
    for (int i = 0; i < SOCKETS; i++) {
        n += snprintf(text + n, sizeof text - (size_t)n,
                      "processor\t: %d\nphysical id\t: %d\ncore id\t\t: 0\n\n", i, i);
    }
    begin();
    put("/proc/cpuinfo", text);
    plb_machine_read(root, &machine);
    CHECK(machine.logical_cpus == SOCKETS && machine.physical_cores == SOCKETS);
    end();
}

static void nothing_known_is_unknown(void) {
    plb_machine machine;
    begin();
    plb_machine_read(root, &machine);
    CHECK(!machine.cpu_model[0] && !machine.simd[0] && !machine.governor[0]);
    CHECK(machine.load_1min < 0 && machine.quota_cpus == 0 && machine.gpu_count == 0);
    CHECK(machine.affinity_cpus >= 1);
    end();
}

static void this_machine_agrees_with_the_kernel(void) {
    plb_machine machine;
    plb_machine_read("", &machine);
    CHECK(machine.logical_cpus == sysconf(_SC_NPROCESSORS_ONLN));
    double pages = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    CHECK_NEAR((double)machine.memory_bytes, pages, 0.01 * pages);
    cpu_set_t before, one;
    CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
    CPU_ZERO(&one);
    for (int cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++) {
        if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
    }
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(plb_machine_threads() == 1);
    CHECK(sched_setaffinity(0, sizeof before, &before) == 0);
}

static const check_test tests[] = {
    {"version_2_quota_is_the_least_of_the_chain", version_2_quota_is_the_least_of_the_chain},
    {"what_the_limits_leave", what_the_limits_leave},
    {"version_2_inside_a_container", version_2_inside_a_container},
    {"version_1_quota", version_1_quota},
    {"no_quota_in_the_root_group", no_quota_in_the_root_group},
    {"version_1_cpuset_has_no_quota", version_1_cpuset_has_no_quota},
    {"threads_obey_affinity_and_quota", threads_obey_affinity_and_quota},
    {"processor_is_read_from_its_files", processor_is_read_from_its_files},
    {"many_sockets_are_counted", many_sockets_are_counted},
    {"nothing_known_is_unknown", nothing_known_is_unknown},
    {"this_machine_agrees_with_the_kernel", this_machine_agrees_with_the_kernel},
};

CHECK_MAIN(tests)
