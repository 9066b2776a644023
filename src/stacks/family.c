// SPDX-License-Identifier: Apache-2.0
#include "stacks/family.h"

#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "base/core/strbuf.h"

typedef struct row {
    const char *name, *summary, *worker, *stacks, *packages;
} row;

static const row rows[] = {
#define FAMILY(name, summary, worker, stacks, packages) {#name, summary, worker, stacks, packages},
#include "stacks/family.def"
#undef FAMILY
};

enum { ROWS = sizeof rows / sizeof *rows };

// "a,b" into names; "" ends them.
static void split(const char *list, char names[PLB_FAMILY_NAMES][32]) {
    memset(names, 0, PLB_FAMILY_NAMES * sizeof *names);
    for (int i = 0; i < PLB_FAMILY_NAMES && *list; i++) {
        size_t length = strcspn(list, ",");
        snprintf(names[i], sizeof names[i], "%.*s", (int)length, list);
        list += length + (list[length] == ',');
    }
}

size_t plb_stack_family_count(void) {
    return ROWS;
}

plb_stack_family plb_stack_family_at(size_t i) {
    plb_stack_family family = {
        .name = rows[i].name, .summary = rows[i].summary, .worker = rows[i].worker};
    split(rows[i].stacks, family.stacks);
    split(rows[i].packages, family.packages);
    return family;
}

plb_status plb_stack_family_get(const char *name, plb_stack_family *out) {
    const char *names[ROWS];
    for (size_t i = 0; i < ROWS; i++) {
        *out = plb_stack_family_at(i);
        names[i] = rows[i].name;
        if (strcmp(out->name, name) == 0) return PLB_OK;
        for (int s = 0; s < PLB_FAMILY_NAMES && out->stacks[s][0]; s++) {
            if (strcmp(out->stacks[s], name) == 0) return PLB_OK;
        }
    }
    const char *nearest = plb_nearest_name(name, names, ROWS);
    return plb_fail(PLB_EINVAL, "no stack \"%s\" that could be added; did you mean %s?", name,
                    nearest ? nearest : "torch, onnxruntime, openvino or libtorch");
}
