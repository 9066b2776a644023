// SPDX-License-Identifier: Apache-2.0
// The datasets that are known by name, where they are looked for, and where they come from.
//
// Places, in order: $PLUMB_DATA, else $XDG_DATA_HOME/plumb/data, else ~/.local/share/plumb/data;
// then $PLUMB_TEST_DATA. Below them each set has a folder of its name.
#ifndef PLB_DATA_REGISTRY_H
#define PLB_DATA_REGISTRY_H

#include "base/core/arena.h"
#include "data/dataset.h"

typedef struct plb_known_dataset {
    const char *name, *summary;
    bool drawn;        // made on demand: always there
    bool downloadable; // plb_dataset_download knows where from
} plb_known_dataset;

PLB_API extern const size_t plb_known_dataset_count;
PLB_API const plb_known_dataset *plb_known_dataset_at(size_t i);

typedef struct plb_dataset_options {
    const char *root;     // looked in instead of the places above; NULL: those
    uint64_t seed;        // of drawn sets
    int64_t count;        // of drawn sets; 0: their own
    int64_t size;         // of drawn sets and image folders; 0: their own
    int64_t resize_short; // of image folders
} plb_dataset_options;

// Opens a set by name, or, where the name contains a slash, the image folder of that path (its
// sub-folder "train", or "test" or "val", if there is one). options may be NULL. PLB_EINVAL: no
// such name (the nearest is suggested). PLB_EMISSING: not on this machine; the text says where it
// was looked for and how to get it.
PLB_API PLB_MUST_USE plb_status plb_dataset_open(const char *name, plb_data_split split,
                                                 const plb_dataset_options *options,
                                                 plb_dataset **out);

// The folder that holds the set, in `arena`; PLB_EMISSING as above. Drawn sets have none.
PLB_API PLB_MUST_USE plb_status plb_dataset_locate(const char *name, const char *root,
                                                   plb_arena *arena, const char **out);

// The folder that downloads go to (the first of the places above), in `arena`.
PLB_API PLB_MUST_USE plb_status plb_data_root(plb_arena *arena, const char **out);

// Gets the files of a set that are not there yet into <root>/<name> (root NULL: plb_data_root).
// PLB_EUNSUPPORTED for sets that cannot be downloaded; others as plb_download_file.
PLB_API PLB_MUST_USE plb_status plb_dataset_download(const char *name, const char *root,
                                                     plb_progress *progress);

// Compares the files of both splits with the publisher's checksums: those of the packed file or,
// where it was packed anew, of its contents. PLB_EINVAL names the first file that differs;
// PLB_EUNSUPPORTED where nothing is published to compare with.
PLB_API PLB_MUST_USE plb_status plb_dataset_check(const char *name, const char *root);

#endif
