// SPDX-License-Identifier: Apache-2.0
#ifndef PLB_CLI_PYTHON_H
#define PLB_CLI_PYTHON_H

#include <stdbool.h>
#include <stddef.h>

// A package of the Python that PLB_PYTHON names (else python3).
typedef struct plb_python_package {
    const char *name;
    char version[48]; // "" if it is not there
} plb_python_package;

const char *plb_python_program(void); // borrowed

// Looks up the versions without importing the packages. False if there is no such Python.
bool plb_python_versions(plb_python_package *packages, size_t count);

#endif
