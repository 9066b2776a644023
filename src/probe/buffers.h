// SPDX-License-Identifier: Apache-2.0
// The buffers that CUPTI fills. It asks for them on the program's own threads, so that taking one
// must be quick: they come from a pool and go back to it.
#ifndef PLB_PROBE_BUFFERS_H
#define PLB_PROBE_BUFFERS_H

#include <stddef.h>
#include <stdint.h>

enum { PLB_PROBE_BUFFER_BYTES = 1 << 20 };

// NULL when out of memory. Any thread.
uint8_t *plb_probe_buffer_take(void);
void plb_probe_buffer_give(uint8_t *buffer);

#endif
