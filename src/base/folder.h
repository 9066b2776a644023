// SPDX-License-Identifier: Apache-2.0
// What is where: questions about paths, and folders to put files in.
#ifndef PLB_BASE_FOLDER_H
#define PLB_BASE_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/core/arena.h"
#include "plumb/status.h"

PLB_API bool plb_file_exists(const char *path);   // a regular file, or a link to one
PLB_API bool plb_folder_exists(const char *path); // a folder, or a link to one

// Whether two paths lead to one file, which need not be there yet; by links too.
PLB_API bool plb_same_file(const char *a, const char *b);

// Makes the folder and those above it; fine if it is there already.
PLB_API PLB_MUST_USE plb_status plb_folder_make(const char *path);

// The value of XDG_DATA_HOME or XDG_CACHE_HOME; NULL if it is not set, empty, or relative, which
// the XDG Base Directory Specification tells to ignore. Borrowed from the environment.
PLB_API const char *plb_folder_of_xdg(const char *variable);

// Where caches go, in `arena`: $XDG_CACHE_HOME/plumb, else ~/.cache/plumb, which need not be there.
// PLB_EMISSING: neither variable is set.
PLB_API PLB_MUST_USE plb_status plb_folder_of_cache(plb_arena *arena, const char **out);

// Names in the folder, sorted by bytes, without "." and those that begin with a dot. Strings and
// array live in `arena`.
PLB_API PLB_MUST_USE plb_status plb_folder_list(const char *path, plb_arena *arena,
                                                const char *const **out, size_t *out_count);

// Removes the folder with all that is in it; links are removed, not followed. Fine if there is no
// such folder.
PLB_API PLB_MUST_USE plb_status plb_folder_remove(const char *path);

#endif
