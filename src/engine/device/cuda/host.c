// SPDX-License-Identifier: Apache-2.0
// The module's side of engine/device/module.h: what the process has once is the program's.
#include "engine/device/module.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "plumb/version.h"

enum { TEXT_BYTES = 1024 }; // as base/core/status.c keeps

static const plb_host *host;

extern const plb_backend plb_backend_cuda;
__attribute__((visibility("default"))) const plb_backend *plb_module_open_backend(
    const plb_host *program);

const plb_backend *plb_module_open_backend(const plb_host *program) {
    bool same = strcmp(program->version, PLUMB_VERSION) == 0 &&
                program->backend_bytes == sizeof(plb_backend) &&
                program->query_bytes == sizeof(plb_query) &&
                program->launch_bytes == sizeof(plb_launch);
    if (!same) return NULL;
    host = program;
    return &plb_backend_cuda;
}

void *plb_alloc(size_t size_bytes) {
    return host->alloc(size_bytes);
}

void *plb_alloc_array(size_t count, size_t size_bytes) {
    size_t total;
    return __builtin_mul_overflow(count, size_bytes, &total) ? NULL : host->alloc(total);
}

void *plb_realloc_array(void *pointer, size_t count, size_t size_bytes) {
    return host->realloc_array(pointer, count, size_bytes);
}

void *plb_alloc_slab(size_t size_bytes) {
    return host->alloc_slab(size_bytes);
}

char *plb_strdup(const char *string) {
    size_t size = strlen(string) + 1;
    char *copy = host->alloc(size);
    return copy ? memcpy(copy, string, size) : NULL;
}

void plb_free(void *pointer) {
    host->free(pointer);
}

const char *plb_error_text(void) {
    return host->error_text();
}

plb_status plb_fail(plb_status code, const char *format, ...) {
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return host->fail(code, "%s", text);
}

plb_status plb_fail_errno(const char *format, ...) {
    int code = errno;
    char text[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    plb_status status = code == ENOSPC || code == EDQUOT ? PLB_EFULL
                        : code == ENOMEM                 ? PLB_ENOMEM
                                                         : PLB_EIO;
    return host->fail(status, "%s: %s", text, strerror(code));
}

plb_status plb_fail_context(plb_status code, const char *format, ...) {
    char text[TEXT_BYTES], inner[TEXT_BYTES];
    snprintf(inner, sizeof inner, "%s", host->error_text());
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return host->fail(code, "%s: %s", text, inner);
}

void plb_log_line(plb_log_level level, const char *format, ...) {
    char line[TEXT_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    host->log_line(level, "%s", line);
}
