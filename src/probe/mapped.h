// SPDX-License-Identifier: Apache-2.0
// A new file that is written through memory, so that what is in it outlives the process that is
// killed.
#ifndef PLB_PROBE_MAPPED_H
#define PLB_PROBE_MAPPED_H

#include <stddef.h>

#include "plumb/status.h"

// Makes the file with room for `size_bytes` zeros and maps it: *out is the caller's to munmap. On
// failure there is no file and *out is NULL; one of that name is an error.
PLB_MUST_USE plb_status plb_mapped_new(const char *path, size_t size_bytes, void **out);

#endif
