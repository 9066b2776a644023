// SPDX-License-Identifier: Apache-2.0
// A kept profile, taken apart into the probe's own files, merged and told whole: the reading of
// those files, of their packing and of a trace's records is under test all at once. Each run has a
// folder of its own, emptied after every input.
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/core/arena.h"
#include "cli/profile_report.h"
#include "cli/profile_show.h"
#include "cli/profile_trace.h"
#include "fuzz.h"
#include "probe/kept.h"

static char input_path[64];

static void remove_input(void) {
    unlink(input_path);
}

static void write_input(const uint8_t *bytes, size_t size_bytes) {
    if (!input_path[0]) {
        snprintf(input_path, sizeof input_path, "/tmp/plumb-fuzz-%d.profile", (int)getpid());
        atexit(remove_input);
    }
    int fd = open(input_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, size_bytes) != (ssize_t)size_bytes) abort();
    close(fd);
}

static void tell(const plb_kept_about *about, const plb_profile *profile) {
    const plb_profile_report report = {.command = about->command,
                                       .words = about->words,
                                       .run = about->run,
                                       .sampled = about->sampled,
                                       .profile = profile,
                                       .steps = 3,
                                       .group = "kernel"};
    plb_json json = {0};
    plb_json_begin_object(&json, NULL);
    plb_profile_json(&report, &json);
    plb_json_end(&json);
    if (plb_json_status(&json)) abort(); // whatever was read makes a document
    plb_json_free(&json);
    if (plb_profile_write_trace(&report, "/dev/null")) return;
}

static void read_folder(const char *folder, plb_arena *arena) {
    plb_kernel_classes *classes = NULL;
    plb_profile *profile = NULL;
    plb_kept_about about;
    if (plb_kept_extract(input_path, folder, arena, &about)) return;
    if (plb_kernel_classes_new(NULL, &classes)) abort();
    if (plb_profile_read(folder, classes, &profile) == PLB_OK) tell(&about, profile);
    plb_profile_free(profile);
    plb_kernel_classes_free(classes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes) {
    char folder[PATH_MAX];
    plb_arena *arena = plb_arena_new();
    if (!arena || plb_profile_folder(folder)) abort();
    write_input(bytes, size_bytes);
    read_folder(folder, arena);
    plb_profile_remove_folder(folder);
    plb_arena_free(arena);
    return 0;
}
