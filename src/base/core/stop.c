// SPDX-License-Identifier: Apache-2.0
#include "base/core/stop.h"

#include "base/core/status.h"

static plb_stop_asked stop_asked;
static void *stop_context;

void plb_stop_set(plb_stop_asked asked, void *context) {
    stop_asked = asked;
    stop_context = context;
}

plb_status plb_stop_check(void) {
    if (!stop_asked || !stop_asked(stop_context)) return PLB_OK;
    return plb_fail(PLB_ECANCELLED, "interrupted");
}
