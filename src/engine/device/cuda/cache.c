// SPDX-License-Identifier: Apache-2.0
// What took long to make, kept on disk for the next process: compiled kernels, libraries' plans.
// One file a thing, put in place whole, with a checksum; several processes may write the same one.
// A cache that cannot be read or written only costs time.
#include <stdio.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/core/alloc.h"
#include "base/core/arena.h"
#include "base/core/hash.h"
#include "base/core/log.h"
#include "base/core/status.h"
#include "base/file.h"
#include "base/folder.h"
#include "engine/device/cuda/cuda.h"

enum { LIMIT_BYTES = 256 << 20 };

typedef struct header {
    char magic[16];
    uint64_t size_bytes, checksum;
} header;

static const char magic[16] = "plumb cuda 1\n";

static bool path_of(const char *name, bool make, char *path, size_t size_bytes) {
    const char *cache = NULL, *folder = NULL;
    plb_arena *arena = plb_arena_new();
    bool fine = arena && plb_folder_of_cache(arena, &cache) == PLB_OK;
    if (fine) fine = (folder = plb_arena_printf(arena, "%s/cuda", cache)) != NULL;
    if (fine && make) fine = plb_folder_make(folder) == PLB_OK;
    int n = fine ? snprintf(path, size_bytes, "%s/%s", folder, name) : -1;
    plb_arena_free(arena);
    return n >= 0 && (size_t)n < size_bytes;
}

bool plb_cuda_cache_read(const char *name, void **out, size_t *out_bytes) {
    char path[1024];
    uint8_t *bytes = NULL;
    size_t size = 0;
    header h;
    *out = NULL;
    if (!path_of(name, false, path, sizeof path) || !plb_file_exists(path)) return false;
    if (plb_file_read(path, LIMIT_BYTES, &bytes, &size) != PLB_OK) return false;
    bool fine = size >= sizeof h;
    if (fine) {
        memcpy(&h, bytes, sizeof h);
        fine = !memcmp(h.magic, magic, sizeof magic) && h.size_bytes == size - sizeof h &&
               h.checksum == plb_hash_bytes(PLB_HASH_SEED, bytes + sizeof h, size - sizeof h);
    }
    if (!fine) {
        plb_log_line(PLB_LOG_DEBUG, "%s: not what was written there: made anew", path);
        plb_free(bytes);
        return false;
    }
    memmove(bytes, bytes + sizeof h, size - sizeof h);
    *out = bytes;
    *out_bytes = size - sizeof h;
    return true;
}

void plb_cuda_cache_write(const char *name, const void *bytes, size_t size_bytes) {
    char path[1024];
    plb_atomic_file *file = NULL;
    header h = {.size_bytes = size_bytes,
                .checksum = plb_hash_bytes(PLB_HASH_SEED, bytes, size_bytes)};
    memcpy(h.magic, magic, sizeof magic);
    if (!path_of(name, true, path, sizeof path)) return;
    plb_status status = plb_atomic_open(path, &file);
    if (!status) status = plb_atomic_write(file, &h, sizeof h);
    if (!status) status = plb_atomic_write(file, bytes, size_bytes);
    if (!status) {
        status = plb_atomic_commit(file);
    } else {
        plb_atomic_abort(file);
    }
    if (status) plb_log_line(PLB_LOG_DEBUG, "%s: could not be written", path);
}
