// SPDX-License-Identifier: Apache-2.0
#include "cli/probe_library.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/status.h"
#include "base/folder.h"

plb_status plb_probe_library(char *out, size_t out_bytes) {
    static const char *const places[] = {"libplumb_probe.so", "../lib/libplumb_probe.so",
                                         "../" PLB_LIBDIR "/libplumb_probe.so"};
    const char *given = getenv("PLUMB_PROBE_LIBRARY");
    char self[PATH_MAX], path[PATH_MAX + 64];
    if (given && plb_file_exists(given)) {
        snprintf(out, out_bytes, "%s", given);
        return PLB_OK;
    }
    if (given) return plb_fail(PLB_EMISSING, "PLUMB_PROBE_LIBRARY=%s: no such file", given);
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) return plb_fail_errno("/proc/self/exe");
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", self, places[i]);
        if (!plb_file_exists(path)) continue;
        snprintf(out, out_bytes, "%s", path);
        return PLB_OK;
    }
    return plb_fail(PLB_EMISSING,
                    "libplumb_probe.so: looked beside %s and in ../lib; "
                    "--host-only does without it",
                    self);
}
