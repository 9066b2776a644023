// SPDX-License-Identifier: Apache-2.0
// Runs another program to its end, line by line, so that it can be shown and stopped.
#ifndef PLB_STACKS_CHILD_H
#define PLB_STACKS_CHILD_H

#include <stdbool.h>

#include "plumb/status.h"

// Told each line of what the program prints (both streams), and NULL about ten times a second.
// Returning false ends the program, whole process group, and the run with PLB_ECANCELLED.
typedef bool (*plb_child_callback)(void *context, const char *line);

typedef struct plb_child {
    const char *const *argv; // argv[0] is looked for in PATH; ends in NULL
    const char *log;         // a file that all output is appended to; NULL: none
    plb_child_callback callback;
    void *context;
} plb_child;

// `*exit_code` gets what the program ended with; 128 + the signal where one ended it. PLB_EMISSING
// when it cannot be started; PLB_ECANCELLED; PLB_EIO, PLB_ENOMEM.
PLB_API PLB_MUST_USE plb_status plb_child_run(const plb_child *child, int *exit_code);

#endif
