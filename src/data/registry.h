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
    const char *page;  // where its publisher describes it; NULL for drawn sets
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

// Opens a set by name, or, where the name contains a slash, the folder or tar file of pictures of
// that path (what is in "train", or "test" or "val", if there is such a folder; else all of it for
// either split, which plb_dataset_same_source tells). options may be NULL. PLB_EINVAL: no such name
// (the nearest is suggested). PLB_EMISSING: not on this machine; the text says where it was looked
// for and how to get it.
PLB_API PLB_MUST_USE plb_status plb_dataset_open(const char *name, plb_data_split split,
                                                 const plb_dataset_options *options,
                                                 plb_dataset **out);

// The folder that holds the set, in `arena`; PLB_EMISSING as above. Drawn sets have none.
PLB_API PLB_MUST_USE plb_status plb_dataset_locate(const char *name, const char *root,
                                                   plb_arena *arena, const char **out);

// The first file that the folder of a set lacks; NULL: it has all, or it is not known which.
PLB_API const char *plb_dataset_lacks(const char *name, const char *folder);

// The folder that downloads go to (the first of the places above), in `arena`.
PLB_API PLB_MUST_USE plb_status plb_data_root(plb_arena *arena, const char **out);

// Gets the files of a set that are not there yet into its folder below root (NULL: plb_data_root),
// and unpacks them where they come in an archive. PLB_EUNSUPPORTED for sets that are drawn; others
// as plb_download_file and plb_archive_unpack.
PLB_API PLB_MUST_USE plb_status plb_dataset_download(const char *name, const char *root,
                                                     plb_progress *progress);

// Told of every file, or sample, that a check looked at; `wrong` is NULL where it is as it should
// be. All is borrowed for the call. False ends the check as PLB_ECANCELLED.
typedef struct plb_check_report {
    bool (*found)(void *context, const char *file, const char *wrong);
    void *context;
} plb_check_report;

// Compares the files of both splits with the publisher's checksums: those of the packed file or,
// where it was packed anew, of its contents; PLB_EUNSUPPORTED, unless a file is bad, where only the
// packed one's is published and it is not there. Where none are published, and for folders and tar
// files of pictures, every sample of both splits is decoded. The text of PLB_EINVAL (or PLB_EIO)
// names the first bad file, and how many more there are; `report`, unless NULL, is told of all.
PLB_API PLB_MUST_USE plb_status plb_dataset_check(const char *name, const char *root,
                                                  const plb_check_report *report);

#endif
