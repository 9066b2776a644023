// SPDX-License-Identifier: Apache-2.0
// Lines over a stream socket or pipe, with deadlines: how a worker and its caller talk. What comes
// from the other side is taken for hostile: a line has a limit, and a NUL byte ends nothing.
#ifndef PLB_BASE_LINES_H
#define PLB_BASE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"

enum { PLB_LINE_MAX_BYTES = 16 << 20 };

typedef struct plb_lines {
    int fd; // borrowed
    char *buffer;
    size_t used, taken, capacity; // bytes read so far, of which `taken` were handed out
} plb_lines;

typedef enum plb_lines_event {
    PLB_LINES_LINE, // *line holds one, NUL-terminated, without its newline; until the next call
    PLB_LINES_END,  // the other side has closed; what came after its last newline is lost
    PLB_LINES_LATE, // the deadline has passed
} plb_lines_event;

PLB_API void plb_lines_open(plb_lines *lines, int fd);
PLB_API void plb_lines_free(plb_lines *lines); // not the descriptor

// Waits for a whole line until plb_now_ns() reaches `deadline_ns` (below 0: for ever). PLB_EBROKEN:
// a line that is too long or has a NUL byte. PLB_EIO, PLB_ENOMEM.
PLB_API PLB_MUST_USE plb_status plb_lines_read(plb_lines *lines, int64_t deadline_ns,
                                               plb_lines_event *event, char **line, size_t *length);

// Writes all bytes, waiting while the other side does not read, at most until the deadline.
// PLB_EBROKEN when it has closed or the deadline has passed; never SIGPIPE on a socket.
PLB_API PLB_MUST_USE plb_status plb_lines_write(plb_lines *lines, const char *bytes, size_t length,
                                                int64_t deadline_ns);

#endif
