// SPDX-License-Identifier: Apache-2.0
// What the files of a git work tree hold, in a hash: two runs of one revision measured the same
// code only if nothing was edited between them. Untracked files do not count, nor does whether an
// edit is staged. Read from the index and from files that differ from it, as the revision is read:
// no git needs to be installed, and none of its hooks runs.
#ifndef PLB_BENCH_WORK_TREE_H
#define PLB_BENCH_WORK_TREE_H

#include "plumb/status.h"

enum { PLB_WORK_TREE_BYTES = 17 };

// 16 hexadecimal digits, or "" where `folder` is in no work tree with a commit, or its index cannot
// be read. Files that changed are read whole.
PLB_API void plb_work_tree_hash(const char *folder, char out[PLB_WORK_TREE_BYTES]);

#endif
