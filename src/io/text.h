// SPDX-License-Identifier: Apache-2.0
// Words of a stranger's file, made fit for a one-line message.
#ifndef PLB_IO_TEXT_H
#define PLB_IO_TEXT_H

#include <stddef.h>

#include "plumb/status.h"

typedef struct plb_shown {
    char text[80];
} plb_shown;

// At most 79 bytes of `string`, control characters as '?', cut ones ending in "...".
PLB_API plb_shown plb_show(const char *string, size_t length);

#endif
