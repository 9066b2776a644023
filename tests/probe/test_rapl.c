// SPDX-License-Identifier: Apache-2.0
// Energy from a folder laid out as Linux lays out powercap (Documentation/power/powercap), whose
// counters go on and round while it is looked at.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "check.h"
#include "probe/rapl.h"

static char root[] = "/tmp/plumb-powercap-XXXXXX";

static void put(const char *zone, const char *file, const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", root, zone);
    mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/%s/%s", root, zone, file);
    FILE *f = fopen(path, "w");
    CHECK(f != NULL);
    if (!f) return;
    fprintf(f, "%s\n", text);
    fclose(f);
}

static void put_zone(const char *zone, const char *name, const char *energy) {
    put(zone, "name", name);
    put(zone, "max_energy_range_uj", "262143328850");
    put(zone, "energy_uj", energy);
}

static void what_was_used_meanwhile(void) {
    plb_command_result *out = plb_alloc(sizeof *out);
    put_zone("intel-rapl:0", "package-0", "262143000000");
    put_zone("intel-rapl:0:0", "dram", "5000000");
    put_zone("intel-rapl:1", "package-1", "1000000");
    put_zone("intel-rapl-mmio:0", "package-0", "7"); // the first one's, seen another way
    plb_rapl *r = plb_rapl_open(root);
    put("intel-rapl:0", "energy_uj", "671150"); // once round: 0.32885 J to its end, and 0.67115
    put("intel-rapl:0:0", "energy_uj", "5250000");
    plb_rapl_sample(r);
    put("intel-rapl:0", "energy_uj", "2671150");
    put("intel-rapl:1", "energy_uj", "31000000");
    plb_rapl_close(r, out);
    CHECK(out->zones == 3 && !out->zone_reason[0]);
    CHECK(strcmp(out->zone[0].name, "package-0") == 0 && !out->zone[0].part);
    CHECK_NEAR(out->zone[0].joules, 3, 1e-9);
    CHECK(strcmp(out->zone[1].name, "dram") == 0 && out->zone[1].part);
    CHECK_NEAR(out->zone[1].joules, .25, 1e-9);
    CHECK_NEAR(out->zone[2].joules, 30, 1e-9);
    plb_free(out);
}

static void what_cannot_be_read_is_told(void) {
    plb_command_result *out = plb_alloc(sizeof *out);
    plb_rapl_close(plb_rapl_open("/nowhere/at/all"), out);
    CHECK(out->zones == 0 && strstr(out->zone_reason, "no intel-rapl"));
    put("intel-rapl:0", "energy_uj", "soon");
    put("intel-rapl:1", "max_energy_range_uj", "0");
    put("intel-rapl:0:0", "energy_uj", "");
    plb_rapl_close(plb_rapl_open(root), out);
    CHECK(out->zones == 0 && strstr(out->zone_reason, "without name, range or energy"));
    plb_free(out);
}

static void in_a_folder(void) {
    char command[64];
    CHECK(mkdtemp(root) != NULL);
    what_was_used_meanwhile();
    what_cannot_be_read_is_told();
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0);
}

static const check_test tests[] = {{"in a folder like powercap's", in_a_folder}};
CHECK_MAIN(tests)
