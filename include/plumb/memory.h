// SPDX-License-Identifier: Apache-2.0
// Memory that the library hands over.
#ifndef PLUMB_MEMORY_H
#define PLUMB_MEMORY_H

#include "plumb/status.h"

// Frees what a declaration says is the caller's to plb_free. NULL is legal.
PLB_API void plb_free(void *pointer);

#endif
