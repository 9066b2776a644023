// SPDX-License-Identifier: Apache-2.0
// NVIDIA's libraries are found at run time, so that a machine which lacks one still has all that
// does not need it.
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/device/cuda/cuda.h"

// Globs of folders, after what the user names and the loader knows.
static const char *const usual[] = {
    "/usr/local/cuda/lib64",
    "/usr/local/cuda-13*/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/opt/*/.venv/lib/python3*/site-packages/nvidia/*/lib",
    "/usr/lib/python3*/site-packages/nvidia/*/lib",
    "/usr/local/lib/python3*/*-packages/nvidia/*/lib",
};

static void *open_in(const char *folder, const char *name) {
    char path[4200];
    int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
}

static void *open_in_list(const char *folders, const char *name) {
    char folder[4096];
    void *library = NULL;
    while (folders && *folders && !library) {
        size_t length = strcspn(folders, ":");
        if (length && length < sizeof folder) {
            memcpy(folder, folders, length);
            folder[length] = '\0';
            library = open_in(folder, name);
        }
        folders += length + (folders[length] == ':');
    }
    return library;
}

static void *open_usual(const char *name) {
    void *library = NULL;
    for (size_t i = 0; i < sizeof usual / sizeof *usual && !library; i++) {
        glob_t found = {0};
        if (glob(usual[i], 0, NULL, &found) == 0) {
            for (size_t k = 0; k < found.gl_pathc && !library; k++) {
                library = open_in(found.gl_pathv[k], name);
            }
        }
        globfree(&found);
    }
    return library;
}

void *plb_cuda_open_library(const char *const *names) {
    void *library = NULL;
    for (int i = 0; names[i] && !library; i++) {
        library = open_in_list(getenv("PLUMB_CUDA_PATH"), names[i]);
        if (!library) library = dlopen(names[i], RTLD_NOW | RTLD_GLOBAL);
    }
    for (int i = 0; names[i] && !library; i++) library = open_usual(names[i]);
    return library;
}

bool plb_cuda_symbols(void *library, const plb_cuda_symbol *symbols, int n) {
    for (int i = 0; i < n; i++) {
        void *symbol = library ? dlsym(library, symbols[i].name) : NULL;
        memcpy(symbols[i].function, &symbol, sizeof symbol);
        if (!symbol) return false;
    }
    return true;
}
