// SPDX-License-Identifier: Apache-2.0
// Between the program and a backend that is a module of its own (libplumb_cuda.so). The module
// must not bring a second copy of what the process has once: error texts, the allocator with its
// hook and counter, the log. It gets them from the program in a table when it is opened; its own
// plb_fail, plb_alloc and the like only pass on (cuda/host.c). Code without state (ops, shapes,
// arenas) is simply linked into both.
#ifndef PLB_ENGINE_DEVICE_MODULE_H
#define PLB_ENGINE_DEVICE_MODULE_H

#include "base/core/log.h"
#include "engine/device/device.h"

typedef struct plb_host {
    const char *version;                             // PLUMB_VERSION of the program
    size_t backend_bytes, query_bytes, launch_bytes; // sizes of the structs that both sides share
    void *(*alloc)(size_t size_bytes);
    void *(*realloc_array)(void *pointer, size_t count, size_t size_bytes);
    void *(*alloc_slab)(size_t size_bytes);
    void (*free)(void *pointer);
    plb_status (*fail)(plb_status code, const char *format, ...);
    const char *(*error_text)(void);
    void (*log_line)(plb_log_level level, const char *format, ...);
} plb_host;

// The one name that a module exports: its backend, or NULL when the program is of another version.
// `host` must outlive the process's use of the module.
typedef const plb_backend *(*plb_module_open)(const plb_host *host);
#define PLB_MODULE_OPEN "plb_module_open_backend"

#endif
