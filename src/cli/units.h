// SPDX-License-Identifier: Apache-2.0
// Numbers with their units, short enough for a table.
#ifndef PLB_CLI_UNITS_H
#define PLB_CLI_UNITS_H

typedef struct plb_quantity {
    char text[32];
} plb_quantity;

plb_quantity plb_show_count(double count); // "1.82 G"; powers of 1000
plb_quantity plb_show_flops(double flops); // "3.64 GF"
plb_quantity plb_show_bytes(double bytes); // "44.7 MiB"; powers of 1024

#endif
