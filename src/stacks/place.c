// SPDX-License-Identifier: Apache-2.0
#include "stacks/place.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/status.h"
#include "base/folder.h"

plb_status plb_stacks_home(plb_arena *arena, const char **out) {
    const char *xdg = plb_folder_of_xdg("XDG_DATA_HOME"), *home = getenv("HOME");
    if (xdg) {
        *out = plb_arena_printf(arena, "%s/plumb/stacks", xdg);
    } else if (home && *home) {
        *out = plb_arena_printf(arena, "%s/.local/share/plumb/stacks", home);
    } else {
        return plb_fail(PLB_EMISSING, "neither XDG_DATA_HOME nor HOME says where stacks live");
    }
    return *out ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory");
}

plb_status plb_stacks_sources(plb_arena *arena, const char **out) {
    const char *named = getenv("PLUMB_STACK_SOURCES");
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0) return plb_fail_errno("/proc/self/exe");
    self[n] = '\0';
    char *slash = strrchr(self, '/');
    if (slash) *slash = '\0';
    const char *places[] = {named && *named ? named : NULL,
                            plb_arena_printf(arena, "%s/../share/plumb/stacks", self),
                            plb_arena_printf(arena, "%s/../stacks", self)};
    for (int i = 0; i < 3; i++) {
        if (!places[i]) continue;
        const char *worker = plb_arena_printf(arena, "%s/torch/worker.py", places[i]);
        if (!worker) return plb_fail(PLB_ENOMEM, "out of memory");
        char whole[PATH_MAX];
        if (!plb_file_exists(worker) || !realpath(places[i], whole)) continue;
        *out = plb_arena_strdup(arena, whole);
        return *out ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory");
    }
    return plb_fail(PLB_EMISSING,
                    "the workers' sources are missing: looked for torch/worker.py in %s and %s",
                    places[1], places[2]);
}
