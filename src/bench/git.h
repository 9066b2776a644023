// SPDX-License-Identifier: Apache-2.0
// The revision of the git work tree around a folder, read from its files: a run is stored with the
// state of the code it measured, and no git needs to be installed for that.
#ifndef PLB_BENCH_GIT_H
#define PLB_BENCH_GIT_H

#include <stdbool.h>

#include "plumb/status.h"

enum { PLB_GIT_BYTES = 65, PLB_GIT_PATH_BYTES = 4096 };

// The commit that is checked out, 40 or 64 hexadecimal digits, or "" if there is none. `folder` is
// in the work tree; changes that are not committed do not show (bench/work_tree.h).
PLB_API void plb_git_revision(const char *folder, char out[PLB_GIT_BYTES]);

// The folder that git keeps of the work tree around `folder`, and the work tree's root; false if
// there is none.
bool plb_git_find(const char *folder, char repository[PLB_GIT_PATH_BYTES],
                  char root[PLB_GIT_PATH_BYTES]);

#endif
