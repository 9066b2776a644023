// SPDX-License-Identifier: Apache-2.0
// What can be added, from family.def: a family is what one environment serves.
#ifndef PLB_STACKS_FAMILY_H
#define PLB_STACKS_FAMILY_H

#include <stddef.h>

#include "plumb/status.h"

enum { PLB_FAMILY_NAMES = 8 };

typedef struct plb_stack_family {
    const char *name, *summary;
    const char *worker;                  // below the folder of sources
    char stacks[PLB_FAMILY_NAMES][32];   // names of its stacks; "" ends them
    char packages[PLB_FAMILY_NAMES][32]; // of Python, that must be there; "" ends them
} plb_stack_family;

PLB_API size_t plb_stack_family_count(void);
PLB_API plb_stack_family plb_stack_family_at(size_t i); // i is below the count
// The family of that name, or that has a stack of that name. PLB_EINVAL with the nearest name.
PLB_API PLB_MUST_USE plb_status plb_stack_family_get(const char *name, plb_stack_family *out);

#endif
