// SPDX-License-Identifier: Apache-2.0
#include "base/memory_use.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// getrusage's ru_maxrss would begin with what the parent had before exec.
static int64_t status_bytes(const char *key) {
    char line[256];
    int64_t kib = -1;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && kib < 0 && fgets(line, sizeof line, file)) {
        size_t length = strlen(key);
        if (strncmp(line, key, length) == 0) (void)sscanf(line + length, "%" SCNd64, &kib);
    }
    if (file) fclose(file);
    return kib < 0 ? -1 : kib * 1024;
}

int64_t plb_memory_resident(void) {
    return status_bytes("VmRSS:");
}

int64_t plb_memory_resident_peak(void) {
    return status_bytes("VmHWM:");
}
