// SPDX-License-Identifier: Apache-2.0
// Which library took a device's memory, and what of it is left: what is given back is known by its
// address. In the spool's own rows.
#ifndef PLB_PROBE_TAKERS_H
#define PLB_PROBE_TAKERS_H

#include "probe/sum.h"

typedef struct plb_takers plb_takers;

plb_takers *plb_takers_new(plb_spool *spool); // borrowed; NULL when out of memory
void plb_takers_free(plb_takers *takers);
// Memory that was taken or given back; only that with a name counts. One thread at a time.
void plb_takers_note(plb_takers *takers, const plb_record *record);

#endif
