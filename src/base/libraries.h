// SPDX-License-Identifier: Apache-2.0
// The libraries that this build of Plumb stands on, with the versions that are loaded now. Results
// are stored with them, since a number belongs to the versions that made it.
#ifndef PLB_BASE_LIBRARIES_H
#define PLB_BASE_LIBRARIES_H

#include <stdbool.h>
#include <stddef.h>

#include "plumb/status.h"

typedef struct plb_library {
    const char *name;
    const char *purpose; // what it is there for, one line
    const char *package; // Debian's, to build with it
    bool found;          // this build has it
    char version[48];    // "" if the library does not tell
} plb_library;

enum { PLB_LIBRARIES_MAX = 16 };

// Fills `out`, at most PLB_LIBRARIES_MAX long, and returns how many there are.
PLB_API size_t plb_libraries(plb_library *out);

#endif
