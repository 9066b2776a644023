// SPDX-License-Identifier: Apache-2.0
// A worker's process and its keeper. The keeper is a process of its own between us and the worker:
// it holds a pipe to us, and when that closes, because we closed it or because we are dead, it
// kills the worker and everything that the worker ever started, compilers and their children too
// (it is their subreaper, so nobody escapes by a new session). The worker in turn dies with its
// keeper. So nothing outlives `plumb bench`, not even under kill -9.
//
// Legal order: start, then anything, then stop (which kills what still lives).
#ifndef PLB_BENCH_PROCESS_H
#define PLB_BENCH_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "plumb/status.h"

typedef struct plb_process_options {
    const char *const *command;     // ends in NULL; the first is a path, or is searched in $PATH
    const char *folder;             // to run in; NULL: here
    const char *const *environment; // "NAME=value" added to ours, ends in NULL; may be NULL
    int message_fd, in_fd, out_fd, log_fd; // become 3, 4, 5, and 1 with 2
} plb_process_options;

typedef struct plb_process {
    pid_t keeper, worker; // 0 when there is none
    int keep_fd;          // closing it ends everything
    int news_fd;          // keeper and worker tell what became of the worker
    bool ended, paused;
    int wait_status; // of the worker, when ended, as waitpid gives it
    int exec_errno;  // why the command could not be started; 0: it was
} plb_process;

PLB_API PLB_MUST_USE plb_status plb_process_start(const plb_process_options *options,
                                                  plb_process *out);
// Looks whether the worker has ended, without waiting.
PLB_API void plb_process_look(plb_process *process);
// Stops (SIGSTOP) or continues the worker's whole group.
PLB_API void plb_process_pause(plb_process *process, bool paused);
// False from its fork until it is the program of the command, since what it holds then is a copy of
// ours, and once it has gone.
PLB_API bool plb_process_is_program(const plb_process *process);
// Kills all of it and waits until it is gone. Zeroed ones and stopped ones are legal.
PLB_API void plb_process_stop(plb_process *process);

// "ended with status 3", "killed by signal 11 (Segmentation fault)".
PLB_API void plb_process_describe_end(const plb_process *process, char *out, size_t size);

#endif
