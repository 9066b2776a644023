// SPDX-License-Identifier: Apache-2.0
// A profile as text and as JSON.
#ifndef PLB_CLI_PROFILE_REPORT_H
#define PLB_CLI_PROFILE_REPORT_H

#include <jansson.h>

#include "base/json.h"
#include "probe/bandwidth.h"
#include "probe/command.h"
#include "probe/operators.h"
#include "probe/profile.h"

typedef struct plb_profile_report {
    char *const *command;          // words, NULL at the end
    const char *words;             // what the probe was asked for, "host" for nothing; or NULL
    const plb_command_result *run; // NULL: a profile that was stored
    const plb_sampled *sampled;    // functions of the host; NULL: not looked for
    const plb_profile *profile;
    int top;           // rows of a table; 0: all
    int64_t steps;     // that the program made; 0: as its ranges say
    const char *group; // "kernel", "class", "range", "stream" or "thread"
    plb_operator_order operators_by;
    const json_t *operators; // that a case's stack recorded itself; NULL: none
    int64_t operator_iterations;
    const plb_bandwidth *bandwidth; // of each device; NULL: not measured
} plb_profile_report;

void plb_profile_print(const plb_profile_report *report);
void plb_profile_json(const plb_profile_report *report, plb_json *json);

// Whether something that was asked for is missing; then `why` says what.
bool plb_profile_incomplete(const plb_profile_report *report, char *why, size_t why_bytes);

// Whether work of a device was looked for and none was found; then `why` says what the cause may be
// and what to do. A profile of the host alone is not empty.
bool plb_profile_empty(const plb_profile_report *report, char *why, size_t why_bytes);

#endif
