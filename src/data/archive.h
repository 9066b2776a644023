// SPDX-License-Identifier: Apache-2.0
// Archives by libarchive: tar, packed by gzip, bzip2, xz or zstd or not at all. An archive is a
// stranger's: names that lead out of the folder are refused, and so are files that are larger than
// allowed. A hard link is the file that it leads to, whose bytes an archive has only once; symbolic
// links to pictures are refused, not followed. PLB_EMISSING in a build without libarchive.
#ifndef PLB_DATA_ARCHIVE_H
#define PLB_DATA_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/progress.h"

// One regular file of an archive; all is borrowed for the call. `bytes` is never NULL.
typedef plb_status (*plb_archive_visit)(void *context, const char *name, const uint8_t *bytes,
                                        size_t size_bytes);

// Calls visit for every regular file whose name `wanted` accepts (NULL: for all), in the archive's
// order, then for every hard link that it accepts. PLB_EINVAL: not an archive, cut off, a file
// above limit_bytes, a symbolic link that `wanted` accepts, a hard link to no file in it.
PLB_API PLB_MUST_USE plb_status plb_archive_walk(const char *path, size_t limit_bytes,
                                                 bool (*wanted)(const char *name),
                                                 plb_archive_visit visit, void *context);

typedef struct plb_unpack_options {
    const char *prefix;     // of the names that are unpacked; it is cut off. NULL: all
    const char *skip;       // a name, after the prefix is cut off, that is left out. NULL: none
    plb_progress *progress; // bytes of the archive
} plb_unpack_options;

// Writes the archive's files below `folder`, which exists. PLB_EINVAL: not an archive, cut off, no
// file with that prefix, a name that leads out of the folder, a hard link to no file that was
// unpacked, a symbolic link with a picture's name; other symbolic links are left out.
PLB_API PLB_MUST_USE plb_status plb_archive_unpack(const char *path, const char *folder,
                                                   const plb_unpack_options *options);

#endif
