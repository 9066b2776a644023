// SPDX-License-Identifier: Apache-2.0
#ifndef PLB_STACKS_PYTHON_H
#define PLB_STACKS_PYTHON_H

#include <stdbool.h>
#include <stddef.h>

#include "plumb/status.h"

typedef struct plb_python_package {
    const char *name;
    char version[48]; // "" if it is not there
} plb_python_package;

// Looks up the versions that the Python called `python` has of at most 16 packages, without
// importing them. False if there is no such Python.
PLB_API bool plb_python_versions(const char *python, plb_python_package *packages, size_t count);

#endif
