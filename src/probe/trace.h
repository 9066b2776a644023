// SPDX-License-Identifier: Apache-2.0
// Every record, one after the other, in a file beside the spool; names are offsets into the
// spool's. Written only when a trace is asked for, up to a limit of bytes.
#ifndef PLB_PROBE_TRACE_H
#define PLB_PROBE_TRACE_H

#include <stdint.h>
#include <string.h>

#include "probe/sum.h"

// As it stands in the file.
typedef struct plb_trace_record {
    int64_t start_ns, end_ns, bytes;
    uint32_t name;                       // offset into the spool's names; 0: none
    uint32_t device, track, correlation; // track: the stream; of a call or range the thread
    int32_t grid[3], block[3];
    uint8_t kind, copy, pinned, in_graph; // plb_record_kind, plb_copy
    uint32_t unused;
} plb_trace_record;

// Record i of a file that lies at any address.
static inline plb_trace_record plb_trace_record_at(const void *bytes, size_t i) {
    plb_trace_record record;
    memcpy(&record, (const char *)bytes + i * sizeof record, sizeof record);
    return record;
}

typedef struct plb_trace plb_trace;

// Makes `path`; at most limit_bytes are written. `lost`, borrowed, counts the records that are not
// in the file since the limit or the disk's end was reached.
PLB_MUST_USE plb_status plb_trace_create(const char *path, int64_t limit_bytes, int64_t *lost,
                                         plb_trace **out);
void plb_trace_write(plb_trace *trace, const plb_record *record, uint32_t name);
void plb_trace_flush(plb_trace *trace);
void plb_trace_free(plb_trace *trace); // flushes

#endif
