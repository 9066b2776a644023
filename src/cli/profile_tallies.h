// SPDX-License-Identifier: Apache-2.0
// What a profile has by stream and by thread, and the device's memory over time, as text and JSON.
#ifndef PLB_CLI_PROFILE_TALLIES_H
#define PLB_CLI_PROFILE_TALLIES_H

#include "cli/profile_report.h"

void plb_profile_print_streams(const plb_profile_report *report);
void plb_profile_print_threads(const plb_profile_report *report);
void plb_profile_print_memory(const plb_spool_memory *memory);

// Members "streams" and "calling_threads" of the object that is open.
void plb_profile_json_tallies(const plb_profile *profile, plb_json *json);
// Member "timeline" of the object that is open.
void plb_profile_json_memory(const plb_spool_memory *memory, plb_json *json);

// Who took a device's memory, as far as that was asked for, and how full its pools were.
void plb_profile_print_takers(const plb_spool *spool, int device);
void plb_profile_json_takers(const plb_spool *spool, int device, plb_json *json);

#endif
