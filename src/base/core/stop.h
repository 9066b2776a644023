// SPDX-License-Identifier: Apache-2.0
// Long work that keeps nothing when it is cut short (drawing weights, timing kernels) asks between
// its parts whether somebody wants it to stop. Work that has something to save has a callback of
// its own, and programs in it set nothing here.
#ifndef PLB_BASE_CORE_STOP_H
#define PLB_BASE_CORE_STOP_H

#include <stdbool.h>

#include "plumb/status.h"

typedef bool (*plb_stop_asked)(void *context); // from any thread

// For the whole process; set before threads start. NULL removes it.
PLB_API void plb_stop_set(plb_stop_asked asked, void *context);

// PLB_ECANCELLED if it wants that.
PLB_API PLB_MUST_USE plb_status plb_stop_check(void);

#endif
