// SPDX-License-Identifier: Apache-2.0
#include "stacks/python.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

// Starts argv[0] with its standard output in a pipe, whose reading end is returned; -1 if it
// cannot be started.
static int start(char *const *argv, pid_t *child) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return -1;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int failed = posix_spawnp(child, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (!failed) return ends[0];
    close(ends[0]);
    return -1;
}

// Lines "name version".
static void read_versions(FILE *lines, plb_python_package *packages, size_t count) {
    char line[160];
    while (fgets(line, sizeof line, lines)) {
        line[strcspn(line, "\n")] = '\0';
        char *blank = strchr(line, ' ');
        if (!blank) continue;
        *blank = '\0';
        for (size_t i = 0; i < count; i++) {
            if (strcmp(packages[i].name, line) == 0)
                snprintf(packages[i].version, sizeof packages[i].version, "%s", blank + 1);
        }
    }
}

bool plb_python_versions(const char *python, plb_python_package *packages, size_t count) {
    enum { MAX_PACKAGES = 16 };
    char *argv[MAX_PACKAGES + 4] = {(char *)python, "-c",
                                    "import sys, importlib.metadata as m\n"
                                    "for name in sys.argv[1:]:\n"
                                    "    try: print(name, m.version(name))\n"
                                    "    except m.PackageNotFoundError: pass\n"};
    for (size_t i = 0; i < count && i < MAX_PACKAGES; i++) argv[3 + i] = (char *)packages[i].name;
    pid_t child;
    int end = start(argv, &child);
    if (end < 0) return false;
    FILE *lines = fdopen(end, "r");
    if (lines) {
        read_versions(lines, packages, count);
        fclose(lines);
    } else {
        close(end);
    }
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
