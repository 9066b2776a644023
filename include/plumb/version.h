// SPDX-License-Identifier: Apache-2.0
#ifndef PLUMB_VERSION_H
#define PLUMB_VERSION_H

#include "plumb/status.h"

#define PLUMB_VERSION "0.1.0" // CMakeLists.txt reads it here

// The version of the library that runs, which may differ from the header's. Static.
PLB_API const char *plb_version(void);

#endif
