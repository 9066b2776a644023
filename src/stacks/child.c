// SPDX-License-Identifier: Apache-2.0
// The program gets a process group of its own: the terminal's Ctrl-C reaches us alone, and we end
// the program with all that it has started.
#include "stacks/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/core/status.h"
#include "base/lines.h"

extern char **environ;

enum { TELL_EVERY_NS = 100000000, PATIENCE_TENTHS = 50 };

static plb_status start(const plb_child *child, pid_t *pid, int *end) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return plb_fail_errno("a pipe");
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setpgroup(&attributes, 0);
    int error = posix_spawnp(pid, child->argv[0], &actions, &attributes,
                             (char *const *)(void *)child->argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    *end = ends[0];
    if (!error) return PLB_OK;
    close(ends[0]);
    return plb_fail(PLB_EMISSING, "%s: %s", child->argv[0], strerror(error));
}

// Ends the whole group: politely, and after five seconds by force.
static void stop(pid_t pid) {
    kill(-pid, SIGTERM);
    for (int i = 0; i < PATIENCE_TENTHS; i++) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid) break;
        nanosleep(&(struct timespec){.tv_nsec = TELL_EVERY_NS}, NULL);
    }
    kill(-pid, SIGKILL); // what the leader has left behind; it is not reaped yet, so it is the one
}

// Tells lines until the program closes its output.
static plb_status follow(const plb_child *child, plb_lines *lines, FILE *log) {
    for (;;) {
        plb_lines_event event;
        char *line;
        size_t length;
        PLB_TRY(
            plb_lines_read(lines, (int64_t)plb_now_ns() + TELL_EVERY_NS, &event, &line, &length));
        if (event == PLB_LINES_END) return PLB_OK;
        const char *told = event == PLB_LINES_LINE ? line : NULL;
        if (told && log) fprintf(log, "%s\n", told);
        if (child->callback && !child->callback(child->context, told)) {
            return plb_fail(PLB_ECANCELLED, "interrupted");
        }
    }
}

plb_status plb_child_run(const plb_child *child, int *exit_code) {
    pid_t pid;
    int end = -1, ended = 0;
    *exit_code = -1;
    PLB_TRY(start(child, &pid, &end));
    FILE *log = child->log ? fopen(child->log, "ae") : NULL;
    plb_lines lines;
    plb_lines_open(&lines, end);
    plb_status status = follow(child, &lines, log);
    if (status) stop(pid);
    while (waitpid(pid, &ended, 0) < 0 && errno == EINTR) continue;
    *exit_code = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
    plb_lines_free(&lines);
    close(end);
    if (log) fclose(log);
    return status;
}
