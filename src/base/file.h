// SPDX-License-Identifier: Apache-2.0
// Whole files as bytes. A map is for large files used in place; whoever truncates a mapped file
// kills its readers with SIGBUS, so what is looked at once and copied anyway is read instead.
#ifndef PLB_BASE_FILE_H
#define PLB_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"

typedef struct plb_file_map {
    const uint8_t *bytes; // NULL for an empty file
    size_t size_bytes;
} plb_file_map;

// Maps a regular file for reading; anything else is PLB_EINVAL. `out` is closed by the caller.
PLB_API PLB_MUST_USE plb_status plb_file_map_open(const char *path, plb_file_map *out);
PLB_API void plb_file_map_close(plb_file_map *map); // back to {0}; {0} is legal

// Reads a file or a pipe to its end. More than `limit_bytes` is PLB_EINVAL. `*out` is the caller's
// to plb_free, never NULL on success.
PLB_API PLB_MUST_USE plb_status plb_file_read(const char *path, size_t limit_bytes, uint8_t **out,
                                              size_t *size_bytes);

#endif
