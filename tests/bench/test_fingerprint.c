// SPDX-License-Identifier: Apache-2.0
// The fingerprint: of a machine shown as files, of this one, of who else is busy; git's revision.
#include "check.h"

#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/core/alloc.h"
#include "base/folder.h"
#include "bench/fingerprint.h"
#include "bench/git.h"
#include "bench/git_index.h"
#include "bench/machine_state.h"
#include "bench/work_tree.h"
#include "faults.h"

static char folder[64];

static void put(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    CHECK_OK(plb_folder_make(path));
    *slash = '/';
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0);
    if (file) fclose(file);
}

static void make_folder(void) {
    snprintf(folder, sizeof folder, "%s", fault_folder());
}

static void remove_folder(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    CHECK(system(command) == 0);
}

static void test_state_of_files(void) {
    make_folder();
    put("proc/loadavg", "1.25 0.80 0.50 2/345 6789\n");
    put("sys/class/thermal/thermal_zone0/temp", "45000\n");
    put("sys/class/thermal/thermal_zone1/temp", "61500\n");
    put("sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2400000\n");
    put("sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq", "3100000\n");
    put("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3500000\n");
    put("sys/devices/system/cpu/cpufreq/boost", "1\n");
    put("sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count", "3\n");
    put("sys/fs/cgroup/cpu.stat", "usage_usec 10\nnr_throttled 7\nthrottled_usec 900\n");
    plb_machine_state s;
    plb_machine_state_read(folder, 0, &s);
    CHECK(s.load_1min == 1.25 && s.temperature_c == 61.5 && s.clock_mhz == 3100);
    CHECK(s.clock_limit_mhz == 3500 && s.boost == 1 && s.heat_throttled == 3);
    CHECK(s.quota_throttled == 7 && s.quota_throttled_us == 900);
    CHECK(s.stolen == -1 && s.others_cpus == -1 && s.busy_count == 0);
    char *text = NULL;
    CHECK_OK(plb_fingerprint_state(folder, 0, &text));
    json_t *json = json_loads(text, 0, NULL), *state = json_object_get(json, "state");
    CHECK(json_object_size(json) == 1);
    CHECK(json_number_value(json_object_get(state, "temperature_c")) == 61.5);
    CHECK(json_number_value(json_object_get(state, "heat_throttled")) == 3);
    json_decref(json);
    plb_free(text);
    remove_folder();
    make_folder(); // a machine that tells nothing; then one with the older control groups
    plb_machine_state_read(folder, 0, &s);
    CHECK(s.load_1min == -1 && s.temperature_c == -1 && s.clock_mhz == -1 && s.boost == -1);
    CHECK(s.quota_throttled == -1 && s.quota_throttled_us == -1 && s.heat_throttled == -1);
    put("sys/fs/cgroup/cpu/cpu.stat", "nr_throttled 2\nthrottled_time 5000000\n");
    put("proc/cpuinfo", "processor : 0\ncpu MHz\t\t: 2445.404\n");
    plb_machine_state_read(folder, 0, &s);
    CHECK(s.quota_throttled == 2 && s.quota_throttled_us == 5000 && s.clock_mhz == 2445.404);
    remove_folder();
}

static json_t *parsed(const char *text) {
    json_error_t error;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    CHECK_SAY(root, "%s: %s", error.text, text);
    return root;
}

static void test_this_machine(void) {
    plb_fingerprint f, g;
    setenv("OMP_NUM_THREADS", "3", 1);
    setenv("SECRET_TOKEN", "x", 1);
    CHECK_OK(plb_fingerprint_take("", 20, &f));
    CHECK_OK(plb_fingerprint_take("", 0, &g));
    CHECK(strcmp(f.machine, g.machine) == 0); // what must be equal does not depend on the moment
    json_t *machine = parsed(f.machine), *all = parsed(f.all);
    CHECK(json_integer_value(json_object_get(machine, "logical_cpus")) >= 1);
    CHECK(json_integer_value(json_object_get(machine, "memory_gib")) >= 1);
    CHECK(json_equal(machine, json_object_get(all, "machine")));
    const json_t *environment = json_object_get(all, "environment");
    CHECK(strcmp(json_string_value(json_object_get(environment, "OMP_NUM_THREADS")), "3") == 0);
    CHECK(!json_object_get(environment, "SECRET_TOKEN"));
    const json_t *software = json_object_get(all, "software");
    CHECK(json_is_string(json_object_get(json_object_get(software, "libraries"), "SQLite")));
    CHECK(json_is_number(json_object_get(json_object_get(all, "state"), "others_cpus")));
    json_decref(machine);
    json_decref(all);
    plb_fingerprint_free(&f);
    plb_fingerprint_free(&g);
}

// A variable that slows some stacks more than others makes another machine, and is told.
static void test_unequal_environment(void) {
    plb_fingerprint without, with;
    unsetenv("OMP_WAIT_POLICY");
    CHECK_OK(plb_fingerprint_take("", 0, &without));
    setenv("OMP_WAIT_POLICY", "passive", 1);
    CHECK_OK(plb_fingerprint_take("", 0, &with));
    unsetenv("OMP_WAIT_POLICY");
    json_t *machine = parsed(with.machine);
    const json_t *set = json_object_get(machine, "environment");
    const char *policy = json_string_value(json_object_get(set, "OMP_WAIT_POLICY"));
    CHECK(policy && strcmp(policy, "passive") == 0);
    CHECK(!json_object_get(set, "OMP_NUM_THREADS")); // bench sets that one for all alike
    CHECK(strcmp(without.machine, with.machine) != 0);
    CHECK(with.warning && strstr(with.warning, "OMP_WAIT_POLICY=passive"));
    CHECK(!without.warning || !strstr(without.warning, "OMP_WAIT_POLICY"));
    json_decref(machine);
    plb_fingerprint_free(&with);
    plb_fingerprint_free(&without);
}

// So does one of the C library's allocator: who allocates most in a call has most of it.
static void test_allocator_of_the_environment(void) {
    static const char *const names[] = {"MALLOC_ARENA_MAX", "MALLOC_TRIM_THRESHOLD_",
                                        "GLIBC_TUNABLES"};
    for (int i = 0; i < 3; i++) {
        plb_fingerprint without, with;
        unsetenv(names[i]);
        CHECK_OK(plb_fingerprint_take("", 0, &without));
        setenv(names[i], "1", 1);
        CHECK_OK(plb_fingerprint_take("", 0, &with));
        unsetenv(names[i]);
        CHECK_SAY(strcmp(without.machine, with.machine) != 0, "%s", names[i]);
        CHECK_SAY(with.warning && strstr(with.warning, names[i]), "%s", names[i]);
        plb_fingerprint_free(&with);
        plb_fingerprint_free(&without);
    }
}

// Spins until killed, as a child of nobody here. Returns its number.
static pid_t start_stranger(void) {
    int ends[2];
    pid_t number = 0;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (!child) {
        pid_t grandchild = fork();
        if (grandchild) {
            (void)!write(ends[1], &grandchild, sizeof grandchild);
            _exit(0);
        }
        for (time_t end = time(NULL) + 5; time(NULL) < end;) {}
        _exit(0);
    }
    CHECK(read(ends[0], &number, sizeof number) == (ssize_t)sizeof number);
    waitpid(child, NULL, 0);
    close(ends[0]);
    close(ends[1]);
    return number;
}

static void look_at_a_stranger(void) {
    pid_t stranger = start_stranger(), own = fork();
    if (!own) { // a child of ours is not "other"
        for (time_t end = time(NULL) + 5; time(NULL) < end;) {}
        _exit(0);
    }
    plb_machine_state s;
    plb_machine_state_read("", 250, &s);
    kill(stranger, SIGKILL);
    kill(own, SIGKILL);
    waitpid(own, NULL, 0);
    bool seen = false;
    for (int i = 0; i < s.busy_count; i++) {
        seen |= s.busy[i].number == stranger && s.busy[i].cpus > 0.05 && s.busy[i].cpus < 1.6;
        CHECK(s.busy[i].number != own);
        CHECK(i == 0 || s.busy[i].cpus <= s.busy[i - 1].cpus);
    }
    CHECK(seen || s.busy_count == PLB_STATE_BUSY); // unless five others are busier
    CHECK(s.others_cpus > 0.05);
}

static void test_busy(void) {
    check_again(look_at_a_stranger);
}

// ---------------------------------------------------------------------------- git
static void test_git(void) {
    static const char one[] = "0123456789012345678901234567890123456789";
    static const char two[] = "abcdef6789012345678901234567890123456789";
    char text[256], path[256], found[PLB_GIT_BYTES];
    make_folder();
    plb_git_revision("/", found);
    CHECK(!*found);
    snprintf(text, sizeof text, "%s\n", one);
    put("repo/.git/HEAD", text); // detached
    put("repo/deep/er/file", "");
    snprintf(path, sizeof path, "%s/repo/deep/er", folder);
    plb_git_revision(path, found);
    CHECK(strcmp(found, one) == 0);
    put("repo/.git/HEAD", "ref: refs/heads/topic/x\n");
    plb_git_revision(path, found); // a branch without a commit
    CHECK(!*found);
    snprintf(text, sizeof text, "# pack-refs\n%s refs/heads/topic\n%s refs/heads/topic/x\n", one,
             two);
    put("repo/.git/packed-refs", text);
    plb_git_revision(path, found);
    CHECK(strcmp(found, two) == 0);
    snprintf(text, sizeof text, "%s\n", one);
    put("repo/.git/refs/heads/topic/x", text); // a loose one counts more than a packed one
    plb_git_revision(path, found);
    CHECK(strcmp(found, one) == 0);
    put("tree/.git", "gitdir: ../repo/.git/worktrees/tree\n"); // a linked work tree
    put("repo/.git/worktrees/tree/HEAD", "ref: refs/heads/topic/x\n");
    put("repo/.git/worktrees/tree/commondir", "../..\n");
    snprintf(path, sizeof path, "%s/tree", folder);
    plb_git_revision(path, found);
    CHECK(strcmp(found, one) == 0);
    put("tree/.git", "gitdir: /nowhere\n");
    plb_git_revision(path, found);
    CHECK(!*found);
    remove_folder();
}

// Words of a shell, in the work tree.
static bool shell(const char *words) {
    char command[512];
    snprintf(command, sizeof command,
             "cd '%s/repo' && export GIT_CONFIG_GLOBAL=/dev/null && "
             "git() { command git -c user.name=a -c user.email=a@b \"$@\"; } && { %s; } "
             ">/dev/null 2>&1",
             folder, words);
    return system(command) == 0;
}

static void take_tree(char out[PLB_WORK_TREE_BYTES]) {
    char path[256];
    snprintf(path, sizeof path, "%s/repo/deep", folder);
    plb_work_tree_hash(path, out);
}

static void check_tree(const char *expected, bool same) {
    char found[PLB_WORK_TREE_BYTES];
    take_tree(found);
    CHECK_SAY(strlen(found) == 16 && (strcmp(found, expected) == 0) == same, "%s and %s", expected,
              found);
}

// What is edited shows, however git is told of it; what is only touched does not.
static void check_edits(void) {
    char clean[PLB_WORK_TREE_BYTES], edited[PLB_WORK_TREE_BYTES];
    take_tree(clean);
    CHECK(shell("git status") && strlen(clean) == 16);
    check_tree(clean, true);
    put("repo/new", "nobody told git of it\n");
    check_tree(clean, true);
    CHECK(shell("touch -d '2001-02-03 04:05:06' deep/b"));
    check_tree(clean, true);
    put("repo/deep/b", "B\n"); // as long as before
    take_tree(edited);
    check_tree(clean, false);
    CHECK(shell("git add -u"));
    check_tree(edited, true);
    put("repo/deep/b", "b\n");
    check_tree(clean, true);
    CHECK(shell("git add -u"));
    check_tree(clean, true);
    CHECK(shell("chmod +x a"));
    check_tree(clean, false);
    CHECK(shell("chmod -x a && rm link && ln -s deep link"));
    check_tree(clean, false);
    CHECK(shell("git checkout link && rm a"));
    check_tree(clean, false);
    CHECK(shell("git checkout a"));
    check_tree(clean, true);
}

static void test_work_tree(void) {
    char found[PLB_WORK_TREE_BYTES];
    make_folder();
    put("repo/a", "a\n");
    put("repo/deep/b", "b\n");
    plb_work_tree_hash("/", found);
    CHECK(!*found);
    if (!shell("git init")) {
        remove_folder();
        SKIP("no git");
    }
    take_tree(found);
    CHECK(!*found); // without a commit
    CHECK(shell("ln -s a link && git add -A && git commit -m one"));
    for (int version = 2; version <= 4; version += 2) {
        CHECK(shell(version == 2 ? "git update-index --index-version 2"
                                 : "git update-index --index-version 4"));
        check_edits();
    }
    CHECK(shell("git update-index --split-index"));
    take_tree(found);
    CHECK(!*found); // says in part what git knows
    remove_folder();
}

static void count_entry(void *context, const plb_git_entry *entry) {
    (void)entry;
    ++*(int *)context;
}

static void test_bad_index(void) {
    static const uint8_t zeros[200] = {0};
    uint8_t bytes[200] = "DIRC\0\0\0\2\0\0\0\1";
    int entries = 0;
    CHECK_FAILS(PLB_EINVAL, "version 2 to 4",
                plb_git_index_read(zeros, 200, 20, count_entry, NULL));
    CHECK_FAILS(PLB_EINVAL, "found its end", plb_git_index_read(bytes, 20, 20, count_entry, NULL));
    for (size_t size = 32; size < 96; size++)
        CHECK_FAILS(PLB_EINVAL, "found its end",
                    plb_git_index_read(bytes, size, 20, count_entry, &entries));
    CHECK(entries == 0);
    memcpy(bytes + 76, "link", 4); // behind the one entry
    CHECK_FAILS(PLB_EINVAL, "extension that is not known",
                plb_git_index_read(bytes, 104, 20, count_entry, &entries));
    memcpy(bytes + 76, "TREE", 4);
    CHECK_OK(plb_git_index_read(bytes, 104, 20, count_entry, &entries));
    CHECK(entries == 2);
}

static plb_status take_and_free(void *root) {
    plb_fingerprint f;
    plb_status status = plb_fingerprint_take(root, 0, &f);
    if (!status) plb_fingerprint_free(&f);
    return status;
}

static void test_out_of_memory(void) {
    char none[] = "/nonexistent";
    CHECK(fault_every_allocation(take_and_free, none) >= 2);
}

static const check_test tests[] = {
    {"state_of_files", test_state_of_files},
    {"this_machine", test_this_machine},
    {"unequal_environment", test_unequal_environment},
    {"allocator_of_the_environment", test_allocator_of_the_environment},
    {"busy", test_busy},
    {"git", test_git},
    {"work_tree", test_work_tree},
    {"bad_index", test_bad_index},
    {"out_of_memory", test_out_of_memory},
};
CHECK_MAIN(tests)
