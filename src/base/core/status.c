// SPDX-License-Identifier: Apache-2.0
// Per-thread error text. A failure formats into a fixed buffer, so that failing never allocates.
#include "base/core/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 1024 };
static _Thread_local char text[TEXT_BYTES] = "no error";

const char *plb_error_text(void) {
    return text;
}

const char *plb_status_name(plb_status status) {
    switch (status) {
    case PLB_OK: return "PLB_OK";
    case PLB_EINVAL: return "PLB_EINVAL";
    case PLB_EUNSUPPORTED: return "PLB_EUNSUPPORTED";
    case PLB_ENOMEM: return "PLB_ENOMEM";
    case PLB_EIO: return "PLB_EIO";
    case PLB_EFULL: return "PLB_EFULL";
    case PLB_EMISSING: return "PLB_EMISSING";
    case PLB_ECANCELLED: return "PLB_ECANCELLED";
    case PLB_EBROKEN: return "PLB_EBROKEN";
    }
    return "unknown status";
}

plb_status plb_fail(plb_status code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return code;
}

static plb_status status_of_errno(int code) {
    if (code == ENOSPC || code == EDQUOT) return PLB_EFULL;
    if (code == EINTR) return PLB_ECANCELLED; // by a signal that shall end what waits
    return code == ENOMEM ? PLB_ENOMEM : PLB_EIO;
}

plb_status plb_fail_errno(const char *format, ...) {
    int code = errno;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n >= 0 && n < TEXT_BYTES) {
        snprintf(text + n, sizeof text - (size_t)n, ": %s", strerror(code));
    }
    return status_of_errno(code);
}

plb_status plb_fail_context(plb_status code, const char *format, ...) {
    char inner[TEXT_BYTES];
    memcpy(inner, text, sizeof inner);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (n >= 0 && n < TEXT_BYTES) {
        snprintf(text + n, sizeof text - (size_t)n, ": %s", inner);
    }
    return code;
}
