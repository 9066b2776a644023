// SPDX-License-Identifier: Apache-2.0
#include "bench/git_index.h"

#include <string.h>

#include "base/core/status.h"

enum { PATH_BYTES = 4096, HEADER_BYTES = 12, FACTS_BYTES = 40 };

typedef struct reader {
    const uint8_t *at, *end; // the end: where the file's own checksum begins
    size_t id_bytes;
    uint32_t version;
    char path[PATH_BYTES];
    size_t path_bytes; // of the entry before, of which version 4 tells what the next one shares
} reader;

static plb_status fail_short(void) {
    return plb_fail(PLB_EINVAL, "a git index: expected more, found its end");
}

static uint32_t number_at(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint32_t half_at(const uint8_t *at) {
    return (uint32_t)at[0] << 8 | at[1];
}

// How much of the path before is no part of the next one: seven bits a byte, the highest first.
static plb_status read_cut(reader *r, size_t *out) {
    size_t value = 0;
    for (int i = 0; i < 4; i++) {
        if (r->at == r->end) return fail_short();
        const uint8_t byte = *r->at++;
        value = value << 7 | (byte & 0x7f);
        if (!(byte & 0x80)) {
            *out = value;
            return PLB_OK;
        }
        value++;
    }
    return plb_fail(PLB_EINVAL, "a git index: expected a path, found a number too large");
}

static plb_status read_path(reader *r, const uint8_t *entry) {
    size_t kept = 0;
    if (r->version == 4) {
        PLB_TRY(read_cut(r, &kept));
        if (kept > r->path_bytes)
            return plb_fail(PLB_EINVAL, "a git index: a path shares too much");
        kept = r->path_bytes - kept;
    }
    const uint8_t *end = memchr(r->at, 0, (size_t)(r->end - r->at));
    if (!end) return fail_short();
    const size_t length = (size_t)(end - r->at);
    if (kept + length >= PATH_BYTES)
        return plb_fail(PLB_EINVAL, "a git index: expected a path below %d bytes", PATH_BYTES);
    memcpy(r->path + kept, r->at, length + 1);
    r->path_bytes = kept + length;
    r->at = end + 1;
    if (r->version == 4) return PLB_OK;
    const size_t used = (size_t)(end - entry), whole = used / 8 * 8 + 8; // one to eight zeros
    if ((size_t)(r->end - entry) < whole) return fail_short();
    r->at = entry + whole;
    return PLB_OK;
}

static plb_status read_entry(reader *r, plb_git_entry *out) {
    const uint8_t *entry = r->at;
    if ((size_t)(r->end - entry) < FACTS_BYTES + r->id_bytes + 4) return fail_short();
    *out = (plb_git_entry){.modified_s = number_at(entry + 8),
                           .modified_ns = number_at(entry + 12),
                           .mode = number_at(entry + 24),
                           .size_bytes = number_at(entry + 36),
                           .id = entry + FACTS_BYTES};
    r->at = entry + FACTS_BYTES + r->id_bytes;
    const uint32_t flags = half_at(r->at);
    const bool extended = r->version > 2 && flags & 0x4000;
    out->stage = (int)(flags >> 12 & 3);
    out->unwatched = flags & 0x8000 || (extended && half_at(r->at + 2) & 0x4000);
    r->at += extended ? 4 : 2;
    PLB_TRY(read_path(r, entry));
    out->path = r->path;
    return PLB_OK;
}

// Extensions of other than capital letters change what the entries mean. "sdir" alone does not
// matter: an entry is then a folder that is not there.
static plb_status check_extensions(const reader *r) {
    for (const uint8_t *at = r->at; at < r->end;) {
        if (r->end - at < 8) return fail_short();
        const bool known = (at[0] >= 'A' && at[0] <= 'Z') || memcmp(at, "sdir", 4) == 0;
        if (!known) return plb_fail(PLB_EINVAL, "a git index: an extension that is not known");
        const size_t length = number_at(at + 4);
        if ((size_t)(r->end - at) - 8 < length) return fail_short();
        at += 8 + length;
    }
    return PLB_OK;
}

plb_status plb_git_index_read(const uint8_t *bytes, size_t size_bytes, size_t id_bytes,
                              void (*visit)(void *context, const plb_git_entry *entry),
                              void *context) {
    if (size_bytes < HEADER_BYTES + id_bytes) return fail_short();
    reader r = {.at = bytes + HEADER_BYTES,
                .end = bytes + size_bytes - id_bytes,
                .id_bytes = id_bytes,
                .version = number_at(bytes + 4)};
    if (memcmp(bytes, "DIRC", 4) != 0 || r.version < 2 || r.version > 4)
        return plb_fail(PLB_EINVAL, "a git index: expected version 2 to 4 of it");
    for (uint32_t left = number_at(bytes + 8); left; left--) {
        plb_git_entry entry;
        PLB_TRY(read_entry(&r, &entry));
        visit(context, &entry);
    }
    return check_extensions(&r);
}
