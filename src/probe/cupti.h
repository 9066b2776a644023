// SPDX-License-Identifier: Apache-2.0
// CUPTI as the probe needs it: found in the process that it was injected into, never linked, and
// its records read by offset. The offsets are those of CUPTI 12.5 to 13 (cupti_activity.h), which
// kept them while the structs grew at their ends; a test holds them against the header.
#ifndef PLB_PROBE_CUPTI_H
#define PLB_PROBE_CUPTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"
#include "probe/sum.h"

typedef enum plb_cupti_kind {
    PLB_CUPTI_MEMCPY = 1,
    PLB_CUPTI_MEMSET = 2,
    PLB_CUPTI_DRIVER = 4,
    PLB_CUPTI_RUNTIME = 5,
    PLB_CUPTI_KERNEL = 10, // "concurrent kernel": the other kind makes kernels wait for each other
    PLB_CUPTI_OVERHEAD = 17,
    PLB_CUPTI_PEER_COPY = 22,
    PLB_CUPTI_MEMORY = 49,
    PLB_CUPTI_GRAPH = 51,
} plb_cupti_kind;

enum { PLB_CUPTI_DOMAIN_DRIVER = 1, PLB_CUPTI_DOMAIN_RUNTIME = 2, PLB_CUPTI_QUEUE_EMPTY = 18 };

typedef void (*plb_cupti_request)(uint8_t **buffer, size_t *size_bytes, size_t *max_records);
typedef void (*plb_cupti_complete)(void *context, uint32_t stream, uint8_t *buffer,
                                   size_t size_bytes, size_t valid_bytes);

// `data` begins with an int: 0 when the call begins, 1 when it has ended.
typedef void (*plb_cupti_callback)(void *user, int domain, uint32_t id, const void *data);
typedef uint64_t (*plb_cupti_clock)(void); // nanoseconds

// Its functions; 0 means success. Those marked "may be NULL" came with later versions.
typedef struct plb_cupti {
    uint32_t version; // CUPTI_API_VERSION of the library that was found
    char path[256];   // of that library
    int (*get_version)(uint32_t *version);
    int (*register_callbacks)(plb_cupti_request request, plb_cupti_complete complete);
    int (*enable)(int kind);
    int (*disable)(int kind);
    int (*flush_all)(uint32_t flag);
    int (*next_record)(uint8_t *buffer, size_t valid_bytes, void **record);
    int (*dropped)(void *context, uint32_t stream, size_t *count);
    int (*timestamp)(uint64_t *time_ns);
    int (*result_string)(int code, const char **text);
    int (*callback_name)(int domain, uint32_t id, const char **name);
    int (*enable_runtime_call)(uint32_t id, uint8_t enable);                      // may be NULL
    int (*enable_driver_call)(uint32_t id, uint8_t enable);                       // may be NULL
    int (*subscribe)(void **subscriber, plb_cupti_callback callback, void *user); // may be NULL
    int (*unsubscribe)(void *subscriber);                                         // may be NULL
    int (*enable_callback)(uint32_t enable, void *subscriber, int domain,
                           uint32_t id);          // may be NULL
    int (*register_clock)(plb_cupti_clock clock); // may be NULL
    int (*set_thread_id_type)(int type);          // may be NULL
    int (*finalize)(void);                        // may be NULL
    int (*allocation_source)(uint8_t enable);     // may be NULL
} plb_cupti;

// Whether a program that runs may be left and joined again. With older versions its graphs may
// not survive that (PyTorch leaves it off for them); 13.0 was seen to.
bool plb_cupti_can_leave(const plb_cupti *cupti);

// The CUPTI that this process has, or that its loader finds; `file` NULL or a library to load
// instead. PLB_EMISSING says what was looked for.
PLB_MUST_USE plb_status plb_cupti_load(const char *file, plb_cupti *out);

// What a call of this name is, and whether the default list has it.
plb_busy plb_cupti_call_class(const char *name);
bool plb_cupti_call_is_listed(const char *name);

// Reads a record of CUPTI's into ours. False: of a kind that this does not read. The overhead
// kind is answered through `overhead_ns` instead. A call's name is asked from CUPTI.
bool plb_cupti_decode(const plb_cupti *cupti, const void *record, plb_record *out,
                      int64_t *overhead_ns);

#endif
