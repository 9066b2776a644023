// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over the files of the folders given, without a fuzzer.
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/file.h"
#include "fuzz.h"

static int run_folder(const char *folder) {
    DIR *dir = opendir(folder);
    int count = 0;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (entry->d_name[0] == '.') continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        uint8_t *bytes;
        size_t size;
        if (plb_file_read(path, 1 << 24, &bytes, &size)) {
            fprintf(stderr, "%s\n", plb_error_text());
            continue;
        }
        LLVMFuzzerTestOneInput(bytes, size);
        plb_free(bytes);
        count++;
    }
    if (dir) closedir(dir);
    return count;
}

int main(int argc, char **argv) {
    int count = 0;
    for (int i = 1; i < argc; i++) count += run_folder(argv[i]);
    // An input that does harm ends the program, so those counted passed.
    printf("%d passed, %d failed, 0 skipped\n", count, count == 0);
    return count == 0;
}
