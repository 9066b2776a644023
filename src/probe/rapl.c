// SPDX-License-Identifier: Apache-2.0
#include "probe/rapl.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"

typedef struct zone {
    int fd;
    char name[PLB_COMMAND_ZONE_BYTES], folder[32];
    int64_t range_uj, last_uj, sum_uj;
} zone;

enum { ZONES = 64 }; // that are opened; those with the first numbers get rows

struct plb_rapl {
    zone zone[ZONES];
    int count, beyond; // beyond: those for which there was no room here
    char reason[128];
};

static bool read_text(int fd, char *text, size_t size_bytes) {
    const ssize_t n = fd < 0 ? -1 : pread(fd, text, size_bytes - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return n > 0;
}

static bool read_number(int fd, int64_t *out) {
    char text[32], *end;
    if (!read_text(fd, text, sizeof text)) return false;
    *out = strtoll(text, &end, 10);
    return end != text && !*end && *out >= 0;
}

static int open_in(const char *folder, const char *name) {
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static bool read_once(const char *folder, const char *name, char *text, size_t size_bytes) {
    const int fd = open_in(folder, name);
    const bool read = read_text(fd, text, size_bytes);
    if (fd >= 0) close(fd);
    return read;
}

// "intel-rapl:0" is a package, "intel-rapl:0:1" a part of it; AMD's processors have the same names.
// The same counters behind another door (intel-rapl-mmio) would count twice.
static void add_zone(plb_rapl *r, const char *root, const char *name) {
    char folder[PATH_MAX], text[32];
    if (strncmp(name, "intel-rapl:", 11) != 0) return;
    if (r->count == ZONES) {
        r->beyond++;
        return;
    }
    snprintf(folder, sizeof folder, "%s/%s", root, name);
    zone z = {.fd = open_in(folder, "energy_uj")};
    if (z.fd < 0) {
        snprintf(r->reason, sizeof r->reason, "%s/energy_uj: %s%s", name, strerror(errno),
                 errno == EACCES ? "; Linux lets root alone read it" : "");
        return;
    }
    if (!read_once(folder, "name", z.name, sizeof z.name) ||
        !read_once(folder, "max_energy_range_uj", text, sizeof text) ||
        (z.range_uj = atoll(text)) <= 0 || !read_number(z.fd, &z.last_uj)) {
        snprintf(r->reason, sizeof r->reason, "%.40s: a zone without name, range or energy", name);
        close(z.fd);
        return;
    }
    snprintf(z.folder, sizeof z.folder, "%s", name);
    r->zone[r->count++] = z;
}

// By the numbers in the names: the parts of zone 1 come before zone 10.
static int by_folder(const void *left, const void *right) {
    return strverscmp(((const zone *)left)->folder, ((const zone *)right)->folder);
}

plb_rapl *plb_rapl_open(const char *root) {
    plb_rapl *r = plb_alloc(sizeof *r);
    if (!r) return NULL;
    if (!root) root = "/sys/class/powercap";
    snprintf(r->reason, sizeof r->reason, "this machine tells none (%.80s has no intel-rapl)",
             root);
    DIR *folder = opendir(root);
    for (struct dirent *e; folder && (e = readdir(folder));) add_zone(r, root, e->d_name);
    if (folder) closedir(folder);
    qsort(r->zone, (size_t)r->count, sizeof *r->zone, by_folder);
    return r;
}

void plb_rapl_sample(plb_rapl *r) {
    for (int i = 0; r && i < r->count; i++) {
        zone *z = &r->zone[i];
        int64_t now_uj;
        if (!read_number(z->fd, &now_uj)) continue;
        // A counter that is lower than before has gone round once.
        z->sum_uj += now_uj - z->last_uj + (now_uj < z->last_uj ? z->range_uj : 0);
        z->last_uj = now_uj;
    }
}

void plb_rapl_close(plb_rapl *r, plb_command_result *out) {
    if (!r) return;
    plb_rapl_sample(r);
    const int rows = r->count < PLB_COMMAND_ZONES ? r->count : PLB_COMMAND_ZONES;
    for (int i = 0; i < rows; i++) {
        plb_command_zone *row = &out->zone[i];
        memcpy(row->name, r->zone[i].name, sizeof row->name);
        row->part = strchr(strchr(r->zone[i].folder, ':') + 1, ':') != NULL;
        row->joules = (double)r->zone[i].sum_uj / 1e6;
    }
    for (int i = 0; i < r->count; i++) close(r->zone[i].fd);
    out->zones = rows;
    if (!rows) snprintf(out->zone_reason, sizeof out->zone_reason, "%s", r->reason);
    if (r->count + r->beyond > rows)
        snprintf(out->zone_reason, sizeof out->zone_reason,
                 "of %d more zones: there is room for %d", r->count + r->beyond - rows, rows);
    plb_free(r);
}
