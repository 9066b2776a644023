// SPDX-License-Identifier: Apache-2.0
#include "cli/units.h"

#include <stdio.h>

// Three significant digits before `units[k]`, the largest whose number is at least 1.
static plb_quantity scaled(double value, double base, const char *const *units, int count) {
    plb_quantity q;
    int k = 0;
    // 999.5 would be shown as 1000.
    while (k + 1 < count && value >= (base == 1000 ? 999.5 : base)) value /= base, k++;
    int digits = k == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    snprintf(q.text, sizeof q.text, "%.*f%s", digits, value, units[k]);
    return q;
}

plb_quantity plb_show_count(double count) {
    static const char *const units[] = {"", " k", " M", " G", " T", " P"};
    return scaled(count, 1000, units, 6);
}

plb_quantity plb_show_flops(double flops) {
    static const char *const units[] = {" F", " kF", " MF", " GF", " TF", " PF"};
    return scaled(flops, 1000, units, 6);
}

plb_quantity plb_show_bytes(double bytes) {
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB"};
    return scaled(bytes, 1024, units, 5);
}
