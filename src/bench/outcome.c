// SPDX-License-Identifier: Apache-2.0
#include "bench/outcome.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/core/status.h"
#include "base/core/utf8.h"

const char *plb_outcome_name(plb_outcome outcome) {
    static const char *const names[PLB_OUTCOME_COUNT] = {"ok",      "invalid", "refused", "oom",
                                                         "timeout", "crash",   "protocol"};
    return outcome < PLB_OUTCOME_COUNT ? names[outcome] : "?";
}

plb_outcome plb_outcome_from_name(const char *name) {
    int i = 0;
    while (i < PLB_OUTCOME_COUNT && strcmp(plb_outcome_name((plb_outcome)i), name) != 0) i++;
    return (plb_outcome)i;
}

plb_status plb_failure_set(plb_failure *failure, plb_outcome outcome, const char *format, ...) {
    if (failure->outcome == PLB_OUTCOME_OK) {
        va_list args;
        va_start(args, format);
        vsnprintf(failure->reason, sizeof failure->reason, format, args);
        va_end(args);
        failure->outcome = outcome;
        plb_utf8_make_line(failure->reason); // whatever a worker sent
    }
    return plb_fail(PLB_EBROKEN, "%s: %s", plb_outcome_name(failure->outcome), failure->reason);
}
