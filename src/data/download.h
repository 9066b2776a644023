// SPDX-License-Identifier: Apache-2.0
// Files from the net, by libcurl. A download grows in "<path>.part", goes on from there when it was
// interrupted, is checked against the publisher's checksum, and only then gets its name: a file
// under `path` is whole and right. A part whose checksum is wrong is removed.
#ifndef PLB_DATA_DOWNLOAD_H
#define PLB_DATA_DOWNLOAD_H

#include <stddef.h>
#include <stdint.h>

#include "base/progress.h"
#include "data/digest.h"

typedef struct plb_download {
    const char *const *urls; // mirrors, tried in turn; http, https or file
    size_t url_count;
    const char *path;   // of the finished file; its folder must exist
    int64_t size_bytes; // as published; 0: not known
    plb_digest_kind digest_kind;
    const char *digest;     // lower-case hexadecimal; NULL: not checked
    plb_progress *progress; // bytes; may be NULL
} plb_download;

// Gets the file, replacing what is under its path. On failure with all mirrors the text is that of
// the last one. PLB_EIO: unreachable, refused, cut off (the part is kept for the next attempt).
// PLB_EINVAL: wrong checksum everywhere. PLB_ECANCELLED, PLB_EFULL; PLB_EMISSING in a build
// without libcurl. Not for several threads or processes at once with the same path:
// plb_dataset_download sees to that.
PLB_API PLB_MUST_USE plb_status plb_download_file(const plb_download *download);

#endif
