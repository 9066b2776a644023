// SPDX-License-Identifier: Apache-2.0
// The index of a git work tree: the first byte says how long ids are.
#include <string.h>

#include "bench/git_index.h"
#include "fuzz.h"

static void look(void *context, const plb_git_entry *entry) {
    size_t *read = context;
    *read += strlen(entry->path) + entry->id[19];
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    size_t read = 0;
    if (!size_bytes) return 0;
    if (plb_git_index_read(bytes + 1, size_bytes - 1, bytes[0] & 1 ? 32 : 20, look, &read))
        return 0;
    return 0;
}
