// SPDX-License-Identifier: Apache-2.0
#ifndef PLB_CLI_PROBE_LIBRARY_H
#define PLB_CLI_PROBE_LIBRARY_H

#include <stddef.h>

#include "plumb/status.h"

// Where libplumb_probe.so is: as $PLUMB_PROBE_LIBRARY says, beside the program, as it is built, or
// where it is installed. PLB_EMISSING names the places.
PLB_MUST_USE plb_status plb_probe_library(char *out, size_t out_bytes);

#endif
