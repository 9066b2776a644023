// SPDX-License-Identifier: Apache-2.0
// Processes that begin, or cannot, over and over: whichever of the three processes is the faster,
// the same is told.
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "bench/process.h"
#include "bench/usage.h"

enum { TIMES = 300 };
static const int64_t PATIENCE_NS = 20000000000; // for what comes within milliseconds when quiet

static void wait_for_end(plb_process *p) {
    const struct timespec nap = {.tv_nsec = 200000};
    for (const int64_t end = plb_now_ns() + PATIENCE_NS; !p->ended && plb_now_ns() < end;) {
        plb_process_look(p);
        nanosleep(&nap, NULL);
    }
}

static plb_process started(const char *const *command, int null_fd) {
    const plb_process_options options = {.command = command,
                                         .message_fd = null_fd,
                                         .in_fd = null_fd,
                                         .out_fd = null_fd,
                                         .log_fd = null_fd};
    plb_process p;
    CHECK(!plb_process_start(&options, &p));
    return p;
}

static plb_process ended(const char *const *command, int null_fd) {
    plb_process p = started(command, null_fd);
    wait_for_end(&p);
    return p;
}

static void test_programs_that_are_not_there(void) {
    const char *const command[] = {"/nowhere/program", NULL};
    const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < TIMES; i++) {
        plb_process p = ended(command, null_fd);
        CHECK(p.ended && p.exec_errno == ENOENT);
        plb_process_stop(&p);
    }
    close(null_fd);
}

static void test_programs_that_end_at_once(void) {
    const char *const command[] = {"sh", "-c", "exit 3", NULL};
    const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int i = 0; i < TIMES / 3; i++) {
        plb_process p = ended(command, null_fd);
        CHECK(p.ended && !p.exec_errno && WEXITSTATUS(p.wait_status) == 3);
        plb_process_stop(&p);
    }
    close(null_fd);
}

static atomic_bool done;

static pid_t first_child(pid_t of) {
    char path[64];
    int pid = 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)of, (int)of);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    if (fscanf(file, "%d", &pid) != 1) pid = 0;
    fclose(file);
    return pid;
}

// Kills the workers, our children's children, as soon as they are there.
static void *kill_workers(void *unused) {
    (void)unused;
    while (!done) {
        const pid_t keeper = first_child(getpid()), worker = keeper ? first_child(keeper) : 0;
        if (worker) kill(worker, SIGKILL);
    }
    return NULL;
}

static void test_workers_killed_at_any_moment(void) {
    const char *const command[] = {"sleep", "60", NULL};
    const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    pthread_t killer;
    CHECK(!pthread_create(&killer, NULL, kill_workers, NULL));
    for (int i = 0; i < TIMES; i++) {
        plb_process p = ended(command, null_fd);
        CHECK(p.ended && WIFSIGNALED(p.wait_status) && WTERMSIG(p.wait_status) == SIGKILL);
        plb_process_stop(&p);
    }
    done = true;
    pthread_join(killer, NULL);
    close(null_fd);
}

// What we hold is no memory of the worker's, at whatever moment one looks.
static void test_copies_are_no_programs(void) {
    enum { OURS = 64 << 20 };
    const char *const missing[] = {"/nowhere/program", NULL}, *const lasting[] = {"sleep", "60",
                                                                                  NULL};
    const int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    volatile char *held = malloc(OURS);
    for (size_t i = 0; held && i < OURS; i += 512) held[i] = 1;
    for (int i = 0; i < TIMES; i++) {
        plb_process p = started(i % 2 ? lasting : missing, null_fd);
        const int64_t too_late_ns = plb_now_ns() + PATIENCE_NS;
        bool seen = false;
        while (!p.ended && !seen && plb_now_ns() < too_late_ns) {
            seen = plb_process_is_program(&p);
            if (seen) CHECK(plb_usage_tree_rss(p.worker) < OURS);
            plb_process_look(&p);
        }
        CHECK(seen == i % 2 && p.ended == !seen);
        plb_process_stop(&p);
    }
    free((void *)held);
    close(null_fd);
}

static const check_test tests[] = {
    {"programs that are not there are no failure to begin", test_programs_that_are_not_there},
    {"programs that end at once are told with their status", test_programs_that_end_at_once},
    {"copies of ours are no programs", test_copies_are_no_programs},
    {"workers that are killed at any moment have ended", test_workers_killed_at_any_moment},
};
CHECK_MAIN(tests)
