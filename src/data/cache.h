// SPDX-License-Identifier: Apache-2.0
// Decoded sets on the disk: what took minutes to decode is mapped into memory the next time, and
// shared by all processes that map it. A cache file is named by the hash of what it was made from,
// so that changed pictures or sizes lead to another file; nothing ever writes to a finished one.
#ifndef PLB_DATA_CACHE_H
#define PLB_DATA_CACHE_H

#include "data/dataset.h"

// Replaces *set by the same set as a memory-mapped file in `folder` (which is made), decoding it on
// `threads` threads if the file is not there yet. Sets that lie in memory, or say that they are not
// worth it, stay as they are. On failure *set is as it was.
PLB_API PLB_MUST_USE plb_status plb_dataset_cache(plb_dataset **set, const char *folder,
                                                  int threads, plb_progress *progress);

// Whether two sets have the same samples and labels, by what they are made from: a folder without
// parts is the same for either split. False for sets that lie in memory, or that nothing is known
// of.
PLB_API PLB_MUST_USE plb_status plb_dataset_same_source(const plb_dataset *a, const plb_dataset *b,
                                                        bool *out);

// Adds name, size and time of change of a file to a hash, for plb_dataset_ops.source.
PLB_MUST_USE plb_status plb_source_add_file(const char *path, uint64_t *hash);

#endif
