// SPDX-License-Identifier: Apache-2.0
#include "store/process.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void read_boot(char *out, size_t size) {
    out[0] = '\0';
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file) return;
    if (!fgets(out, (int)size, file)) out[0] = '\0';
    fclose(file);
    out[strcspn(out, "\n")] = '\0';
}

// Field 22 of /proc/N/stat, clock ticks since boot; 0 if there is no such process, or one that has
// ended and is not waited for yet (Z in field 3). The command's name in field 2 may hold blanks and
// parentheses.
static unsigned long long start_of(long number) {
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", number);
    FILE *file = fopen(path, "re");
    if (!file) return 0;
    size_t n = fread(line, 1, sizeof line - 1, file);
    fclose(file);
    line[n] = '\0';
    const char *at = strrchr(line, ')');
    unsigned long long start = 0;
    if (at && (strncmp(at, ") Z", 3) == 0 || strncmp(at, ") X", 3) == 0)) return 0;
    for (int field = 2; at && field < 22; field++) {
        at = strchr(at, ' ');
        if (at) at++;
    }
    if (at) (void)sscanf(at, "%llu", &start);
    return start;
}

void plb_process_self(char out[PLB_PROCESS_BYTES]) {
    char boot[48];
    read_boot(boot, sizeof boot);
    snprintf(out, PLB_PROCESS_BYTES, "%s %ld %llu", *boot ? boot : "-", (long)getpid(),
             start_of(getpid()));
}

bool plb_process_alive(const char *text) {
    char boot[48], theirs[48];
    long number;
    unsigned long long start;
    read_boot(boot, sizeof boot);
    if (sscanf(text, "%47s %ld %llu", theirs, &number, &start) != 3) return false;
    return strcmp(*boot ? boot : "-", theirs) == 0 && start_of(number) == start;
}

long plb_process_number(const char *text) {
    long number;
    return sscanf(text, "%*s %ld", &number) == 1 ? number : 0;
}
