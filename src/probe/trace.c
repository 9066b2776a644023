// SPDX-License-Identifier: Apache-2.0
#include "probe/trace.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

enum { BUFFERED = 4096 }; // records

struct plb_trace {
    int fd;
    int64_t left;  // records that may still be written
    int64_t *lost; // those that were not
    size_t count;
    plb_trace_record waiting[BUFFERED];
};

plb_status plb_trace_create(const char *path, int64_t limit_bytes, int64_t *lost, plb_trace **out) {
    plb_trace *trace = plb_alloc(sizeof *trace);
    *out = NULL;
    if (!trace) return plb_fail(PLB_ENOMEM, "%s: no memory for a buffer", path);
    trace->fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    trace->left = limit_bytes / (int64_t)sizeof(plb_trace_record);
    trace->lost = lost;
    if (trace->fd < 0) {
        plb_free(trace);
        return plb_fail_errno("%s", path);
    }
    *out = trace;
    return PLB_OK;
}

// Half a record at the end, after a full disk, is cut off by the reader.
void plb_trace_flush(plb_trace *trace) {
    const char *from = (const char *)trace->waiting;
    size_t left_bytes = trace->count * sizeof *trace->waiting;
    while (left_bytes) {
        ssize_t n = write(trace->fd, from, left_bytes);
        if (n <= 0) {
            const size_t record_bytes = sizeof *trace->waiting;
            *trace->lost += (int64_t)((left_bytes + record_bytes - 1) / record_bytes);
            trace->left = 0;
            break;
        }
        from += n, left_bytes -= (size_t)n;
    }
    trace->count = 0;
}

void plb_trace_write(plb_trace *trace, const plb_record *r, uint32_t name) {
    if (trace->left <= 0) {
        ++*trace->lost;
        return;
    }
    trace->left--;
    plb_trace_record *t = &trace->waiting[trace->count++];
    *t = (plb_trace_record){.start_ns = r->start_ns,
                            .end_ns = r->end_ns,
                            .bytes = r->bytes,
                            .name = name,
                            .device = r->device,
                            .correlation = r->correlation,
                            .kind = (uint8_t)r->kind,
                            .copy = (uint8_t)r->copy,
                            .pinned = r->pinned,
                            .in_graph = r->in_graph};
    t->track = r->kind == PLB_RECORD_CALL || r->kind == PLB_RECORD_RANGE ? r->thread : r->stream;
    memcpy(t->grid, r->grid, sizeof t->grid);
    memcpy(t->block, r->block, sizeof t->block);
    if (trace->count == BUFFERED) plb_trace_flush(trace);
}

void plb_trace_free(plb_trace *trace) {
    if (!trace) return;
    plb_trace_flush(trace);
    close(trace->fd);
    plb_free(trace);
}
