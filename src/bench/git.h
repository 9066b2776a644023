// SPDX-License-Identifier: Apache-2.0
// The revision of the git work tree around a folder, read from its files: a run is stored with the
// state of the code it measured, and no git needs to be installed for that.
#ifndef PLB_BENCH_GIT_H
#define PLB_BENCH_GIT_H

#include "plumb/status.h"

enum { PLB_GIT_BYTES = 65 };

// The commit that is checked out, 40 or 64 hexadecimal digits, or "" if there is none. `folder` is
// in the work tree; changes that are not committed do not show.
PLB_API void plb_git_revision(const char *folder, char out[PLB_GIT_BYTES]);

#endif
