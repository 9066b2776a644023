// SPDX-License-Identifier: Apache-2.0
// Which process runs a run, so that one that was killed is known to be gone, also after its number
// was given to another process or the machine was started anew.
#ifndef PLB_STORE_PROCESS_H
#define PLB_STORE_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

enum { PLB_PROCESS_BYTES = 96 };

// "BOOT NUMBER START" of this process.
void plb_process_self(char out[PLB_PROCESS_BYTES]);

// Whether the process that wrote this text still runs, as far as can be seen from here.
bool plb_process_alive(const char *text);

long plb_process_number(const char *text); // 0 if it is not such a text

#endif
