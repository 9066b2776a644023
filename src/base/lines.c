// SPDX-License-Identifier: Apache-2.0
#include "base/lines.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"

void plb_lines_open(plb_lines *lines, int fd) {
    *lines = (plb_lines){.fd = fd};
}

void plb_lines_free(plb_lines *lines) {
    plb_free(lines->buffer);
    *lines = (plb_lines){.fd = -1};
}

// Milliseconds that poll may sleep, rounded up; -1 for ever.
static int sleep_ms(int64_t deadline_ns) {
    if (deadline_ns < 0) return -1;
    int64_t left = deadline_ns - plb_now_ns();
    if (left <= 0) return 0;
    left = (left + 999999) / 1000000;
    return left > 1000000 ? 1000000 : (int)left;
}

// Waits until the descriptor can be read or written; *out_ready is false at the deadline.
static plb_status wait_for(int fd, short events, int64_t deadline_ns, bool *out_ready) {
    for (;;) {
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, sleep_ms(deadline_ns));
        if (n > 0) {
            *out_ready = true;
            return PLB_OK;
        }
        if (n < 0 && errno != EINTR) return plb_fail_errno("cannot wait for a message");
        if (deadline_ns >= 0 && plb_now_ns() >= deadline_ns) {
            *out_ready = false;
            return PLB_OK;
        }
        if (n < 0) { // interrupted: whoever caught the signal may want to stop
            *out_ready = false;
            return PLB_OK;
        }
    }
}

static plb_status make_room(plb_lines *l) {
    enum { STEP = 64 << 10 };
    if (l->taken) {
        memmove(l->buffer, l->buffer + l->taken, l->used - l->taken);
        l->used -= l->taken, l->taken = 0;
    }
    if (l->used >= PLB_LINE_MAX_BYTES) { // of one line: those before it were handed out
        return plb_fail(PLB_EBROKEN, "expected a line of at most %d bytes, found a longer one",
                        PLB_LINE_MAX_BYTES);
    }
    if (l->used + 1 < l->capacity) return PLB_OK;
    size_t capacity = l->capacity ? 2 * l->capacity : STEP;
    char *buffer = plb_realloc_array(l->buffer, capacity, 1);
    if (!buffer) return plb_fail(PLB_ENOMEM, "out of memory for a message");
    l->buffer = buffer, l->capacity = capacity;
    return PLB_OK;
}

// Hands out the next line that is there in whole.
static plb_status take(plb_lines *l, bool *out_found, char **line, size_t *length) {
    char *begin = l->buffer + l->taken;
    size_t held = l->used - l->taken;
    char *end = held ? memchr(begin, '\n', held) : NULL;
    *out_found = end != NULL;
    if (!end) return PLB_OK;
    *end = '\0', *line = begin, *length = (size_t)(end - begin);
    l->taken = (size_t)(end + 1 - l->buffer);
    if (strlen(begin) == *length) return PLB_OK;
    return plb_fail(PLB_EBROKEN, "expected text, found a line with a NUL byte");
}

plb_status plb_lines_read(plb_lines *l, int64_t deadline_ns, plb_lines_event *event, char **line,
                          size_t *length) {
    for (;;) {
        bool found = false;
        *event = PLB_LINES_LINE;
        if (l->buffer) PLB_TRY(take(l, &found, line, length));
        if (found) return PLB_OK;
        PLB_TRY(make_room(l));
        bool ready = false;
        PLB_TRY(wait_for(l->fd, POLLIN, deadline_ns, &ready));
        *event = PLB_LINES_LATE;
        if (!ready) return PLB_OK;
        ssize_t n = read(l->fd, l->buffer + l->used, l->capacity - l->used - 1);
        *event = PLB_LINES_END;
        if (n == 0 || (n < 0 && errno == ECONNRESET)) return PLB_OK;
        if (n < 0 && errno != EINTR && errno != EAGAIN) {
            return plb_fail_errno("cannot read a message");
        }
        if (n > 0) l->used += (size_t)n;
    }
}

plb_status plb_lines_write(plb_lines *l, const char *bytes, size_t length, int64_t deadline_ns) {
    while (length) {
        ssize_t n = send(l->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == ENOTSOCK) n = write(l->fd, bytes, length);
        if (n > 0) {
            bytes += n, length -= (size_t)n;
            continue;
        }
        if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
            return plb_fail(PLB_EBROKEN, "the other side has closed its end");
        }
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
            return plb_fail_errno("cannot write a message");
        }
        bool ready = false;
        PLB_TRY(wait_for(l->fd, POLLOUT, deadline_ns, &ready));
        if (!ready && deadline_ns >= 0 && plb_now_ns() >= deadline_ns) {
            return plb_fail(PLB_EBROKEN, "the other side does not read");
        }
    }
    return PLB_OK;
}
