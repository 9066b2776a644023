// SPDX-License-Identifier: Apache-2.0
// What NVML tells of the cards while a program runs. NVML is loaded at run time; without it there
// are no cards.
#ifndef PLB_PROBE_CARDS_H
#define PLB_PROBE_CARDS_H

#include "probe/command.h"

typedef struct plb_cards plb_cards;

plb_cards *plb_cards_open(void); // NULL: no NVML, no card, or no memory
void plb_cards_sample(plb_cards *cards);
// The last sample, and the sums; frees.
void plb_cards_close(plb_cards *cards, plb_command_result *out);

#endif
