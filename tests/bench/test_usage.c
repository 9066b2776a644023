// SPDX-License-Identifier: Apache-2.0
// What a process with many children uses: all of them count, and nobody else.
#include "check.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/usage.h"

enum { CHILDREN = 600 }; // their numbers are more than a page of text

static pid_t child[CHILDREN];

static void begin_children(void) {
    for (int i = 0; i < CHILDREN; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;) pause();
        }
        CHECK(child[i] > 0);
    }
}

static void end_children(void) {
    for (int i = 0; i < CHILDREN; i++)
        if (child[i] > 0) kill(child[i], SIGKILL);
    for (int i = 0; i < CHILDREN; i++)
        if (child[i] > 0) waitpid(child[i], NULL, 0);
}

typedef struct count {
    int ours, others;
} count;

static bool is_ours(pid_t pid) {
    for (int i = 0; i < CHILDREN; i++)
        if (child[i] == pid) return true;
    return pid == getpid();
}

static bool count_thread(void *context, pid_t pid, pid_t thread) {
    count *c = context;
    (void)thread;
    *(is_ours(pid) ? &c->ours : &c->others) += 1;
    return true;
}

static void all_children_count(void) {
    count found = {0};
    begin_children();
    plb_usage_each_thread(getpid(), count_thread, &found);
    CHECK_SAY(found.ours == CHILDREN + 1 && found.others == 0, "%d of ours, %d others", found.ours,
              found.others);
    const int64_t all = plb_usage_tree_rss(getpid()), one = plb_usage_tree_rss(child[0]);
    CHECK_SAY(one > 0 && all > CHILDREN / 2 * one, "%lld bytes of one, %lld of all", (long long)one,
              (long long)all);
    end_children();
}

static void what_has_gone_uses_nothing(void) {
    const pid_t pid = fork();
    if (pid == 0) _exit(0);
    CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid);
    CHECK(plb_usage_tree_rss(pid) == 0 && plb_usage_cpu_ns(pid) == -1);
}

static const check_test tests[] = {
    {"all children count", all_children_count},
    {"what has gone uses nothing", what_has_gone_uses_nothing},
};
CHECK_MAIN(tests)
