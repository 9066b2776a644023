// SPDX-License-Identifier: Apache-2.0
// What is known of the sets that have a name: their files, where these come from, and what their
// publishers state of them. Private to src/data.
#ifndef PLB_DATA_KNOWN_H
#define PLB_DATA_KNOWN_H

#include "data/registry.h"

// A file as published: MD5 of the .gz and, where known, of what is in it.
typedef struct plb_published_file {
    const char *name, *packed_md5, *content_md5;
} plb_published_file;

// An archive as published, and which of its files are the set.
typedef struct plb_published_archive {
    const char *name, *md5;
    int64_t size_bytes;
    const char *prefix, *skip; // see plb_unpack_options
} plb_published_archive;

typedef enum plb_known_kind {
    PLB_KNOWN_IDX,
    PLB_KNOWN_CIFAR10,
    PLB_KNOWN_CIFAR100,
    PLB_KNOWN_STL10,
    PLB_KNOWN_VOC,
    PLB_KNOWN_VOC_IMAGES,
    PLB_KNOWN_DIGITS,
    PLB_KNOWN_SHAPES,
    PLB_KNOWN_VOC_SHAPES,
} plb_known_kind;

enum { PLB_KNOWN_FILES = 4 };

typedef struct plb_known_set {
    plb_known_dataset shown;
    plb_known_kind kind;
    const char *folders[5]; // below a root, ours first; NULL ends
    const char *packed[2];  // tar files below a root that hold an edition of it; NULL ends
    const char *marks[4];   // a folder that has one of these, or of the files below, is the set
    plb_published_file files[PLB_KNOWN_FILES]; // checked one by one; NULL name ends
    plb_published_archive archive; // what is downloaded; NULL name: each file, as NAME.gz
    const char *mirrors[2];
    plb_dataset_info info;
} plb_known_set;

extern const plb_known_set plb_known_sets[];

// PLB_EINVAL suggests the nearest name.
PLB_MUST_USE plb_status plb_known_find(const char *name, const plb_known_set **out);
// The path of a published file in `folder` into path[PATH_MAX], packed or not, if it is there.
bool plb_known_file(const char *folder, const char *name, char *path);
// The set's folder, or the tar file that holds it, in `arena`.
PLB_MUST_USE plb_status plb_known_locate(const plb_known_set *set, const char *root,
                                         plb_arena *arena, const char **out);
PLB_MUST_USE plb_status plb_known_lacks(const plb_known_set *set, const char *folder,
                                        const char *file);

#endif
