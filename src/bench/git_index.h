// SPDX-License-Identifier: Apache-2.0
// The index of a git work tree: which files git knows, and what they held when it last looked.
// Format: Documentation/gitformat-index.txt of git, versions 2 to 4.
#ifndef PLB_BENCH_GIT_INDEX_H
#define PLB_BENCH_GIT_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"

typedef struct plb_git_entry {
    const char *path;          // from the work tree's root; until the next entry
    uint32_t mode, size_bytes; // the size's lowest 32 bits
    uint32_t modified_s, modified_ns;
    const uint8_t *id; // of the content, as many bytes as the repository's ids have
    int stage;         // 0, or 1 to 3 while a merge is unsettled
    bool unwatched;    // git was told not to look at the file, which may not be there
} plb_git_entry;

// Calls `visit` for each entry, in the file's order. `id_bytes`: 20 or 32. PLB_EINVAL: not such a
// file, or one that says only in part what git knows (a split index).
PLB_API PLB_MUST_USE plb_status
plb_git_index_read(const uint8_t *bytes, size_t size_bytes, size_t id_bytes,
                   void (*visit)(void *context, const plb_git_entry *entry), void *context);

#endif
