// SPDX-License-Identifier: Apache-2.0
// Runs a script of the other side (numpy, the safetensors package) where $PLB_PYTHON names a Python
// that has them.
#ifndef PLB_TESTS_IO_PEER_H
#define PLB_TESTS_IO_PEER_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

// The exit status of "$PLB_PYTHON script command path", or -1 when PLB_PYTHON is not set.
static inline int peer_run(const char *script, const char *command, const char *path) {
    const char *python = getenv("PLB_PYTHON");
    if (!python || !*python) return -1;
    char line[1024];
    snprintf(line, sizeof line, "'%s' '%s' '%s' '%s'", python, script, command, path);
    fflush(NULL);
    return system(line);
}

static inline bool peer_present(void) {
    const char *python = getenv("PLB_PYTHON");
    return python && *python;
}

// The path of a file among the test data.
static inline const char *test_data(const char *name) {
    static char path[1024];
    const char *folder = getenv("PLUMB_TEST_DATA");
    snprintf(path, sizeof path, "%s/%s", folder && *folder ? folder : "../shared/data", name);
    return path;
}

#endif
