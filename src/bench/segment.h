// SPDX-License-Identifier: Apache-2.0
// Memory shared with one worker. It has no name anywhere, so nothing has to be unlinked: it is gone
// when the last process that has its descriptor is gone, however that one ended. It can grow and is
// sealed against shrinking, so that reading what a worker wrote cannot fault.
#ifndef PLB_BENCH_SEGMENT_H
#define PLB_BENCH_SEGMENT_H

#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"

typedef struct plb_segment {
    int fd; // -1 when closed
    uint8_t *bytes;
    size_t size_bytes; // mapped
} plb_segment;

#define PLB_SEGMENT_CLOSED ((plb_segment){.fd = -1})

PLB_API PLB_MUST_USE plb_status plb_segment_open(const char *name, plb_segment *out);
PLB_API void plb_segment_close(plb_segment *segment); // closed ones are legal

// Makes it at least that long, zeroed, and maps it for writing. Pointers into it move.
PLB_API PLB_MUST_USE plb_status plb_segment_reserve(plb_segment *segment, size_t size_bytes);
// Maps all that a worker has made of it by now.
PLB_API PLB_MUST_USE plb_status plb_segment_refresh(plb_segment *segment);
// A second descriptor of it that cannot write. The caller closes it.
PLB_API PLB_MUST_USE plb_status plb_segment_read_only(const plb_segment *segment, int *out_fd);

#endif
