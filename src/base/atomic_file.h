// SPDX-License-Identifier: Apache-2.0
// A file that is there whole or not at all: written beside its target under a temporary name,
// synced, then renamed over it. Readers and a machine that loses power see the old file or the new
// one. Call order: open, write…, then commit or abort, both of which free.
//
// The temporary file is "<path>.<pid>-<number>.tmp"; only a killed process leaves one. A file that
// is replaced keeps its mode. A symbolic link is followed, as when a shell writes there; one that
// leads nowhere is replaced. A device or a pipe (/dev/stdout, /dev/null, by a link too) is written
// itself, piece by piece.
#ifndef PLB_BASE_ATOMIC_FILE_H
#define PLB_BASE_ATOMIC_FILE_H

#include <stddef.h>

#include "plumb/status.h"

typedef struct plb_atomic_file plb_atomic_file;

// Errors of all three: PLB_EFULL, PLB_EIO, PLB_ENOMEM, with the target's path.
PLB_API PLB_MUST_USE plb_status plb_atomic_open(const char *path, plb_atomic_file **out);
// Whether it could be opened now; leaves all as it is, and waits for nobody who reads a pipe.
PLB_API PLB_MUST_USE plb_status plb_atomic_check(const char *path);
// Appends; not buffered, so hand over large pieces. After a failure only abort makes sense.
PLB_API PLB_MUST_USE plb_status plb_atomic_write(plb_atomic_file *file, const void *bytes,
                                                 size_t size_bytes);
// Puts the file in place and frees `file`, also on failure, which removes the temporary file.
PLB_API PLB_MUST_USE plb_status plb_atomic_commit(plb_atomic_file *file);
// All of the above for a file whose bytes are there already; of none it is empty.
PLB_API PLB_MUST_USE plb_status plb_atomic_write_all(const char *path, const void *bytes,
                                                     size_t size_bytes);
// Removes the temporary file and frees `file`; keeps this thread's error text. NULL is legal.
PLB_API void plb_atomic_abort(plb_atomic_file *file);

#endif
