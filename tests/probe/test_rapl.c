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

// Each part behind its package, also where there are more than ten.
static void zones_are_in_the_order_of_their_numbers(void) {
    plb_command_result *out = plb_alloc(sizeof *out);
    put_zone("intel-rapl:2", "package-2", "0");
    put_zone("intel-rapl:10", "package-10", "0");
    put_zone("intel-rapl:1:0", "dram", "0");
    plb_rapl_close(plb_rapl_open(root), out);
    static const char *const names[] = {"package-0", "dram",      "package-1",
                                        "dram",      "package-2", "package-10"};
    CHECK(out->zones == 6);
    for (int i = 0; i < 6; i++)
        CHECK_SAY(strcmp(out->zone[i].name, names[i]) == 0, "zone %d is %s, not %s", i,
                  out->zone[i].name, names[i]);
    plb_free(out);
}

static void zones_without_a_row_are_told(void) {
    plb_command_result *out = plb_alloc(sizeof *out);
    char name[32];
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "intel-rapl:%d", i);
        put_zone(name, name, "0");
    }
    plb_rapl_close(plb_rapl_open(root), out);
    CHECK(out->zones == PLB_COMMAND_ZONES);
    CHECK(strcmp(out->zone[PLB_COMMAND_ZONES - 1].name, "intel-rapl:13") == 0); // and two parts
    CHECK_SAY(strstr(out->zone_reason, "of 6 more zones"), "%s", out->zone_reason);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "intel-rapl:%d", i);
        put(name, "energy_uj", "");
    }
    plb_free(out);
}

static void what_cannot_be_read_is_told(void) {
    plb_command_result *out = plb_alloc(sizeof *out);
    plb_rapl_close(plb_rapl_open("/nowhere/at/all"), out);
    CHECK(out->zones == 0 && strstr(out->zone_reason, "no intel-rapl"));
    put("intel-rapl:0", "energy_uj", "soon");
    put("intel-rapl:1", "max_energy_range_uj", "0");
    put("intel-rapl:0:0", "energy_uj", "");
    put("intel-rapl:1:0", "energy_uj", "");
    plb_rapl_close(plb_rapl_open(root), out);
    CHECK(out->zones == 0 && strstr(out->zone_reason, "without name, range or energy"));
    plb_free(out);
}

static void in_a_folder(void) {
    char command[64];
    CHECK(mkdtemp(root) != NULL);
    what_was_used_meanwhile();
    zones_are_in_the_order_of_their_numbers();
    zones_without_a_row_are_told();
    what_cannot_be_read_is_told();
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0);
}

static const check_test tests[] = {{"in a folder like powercap's", in_a_folder}};
CHECK_MAIN(tests)
