// SPDX-License-Identifier: Apache-2.0
// A CUPTI that makes up its records: what it is told happened is what it reports, in CUPTI's own
// layouts. It can drop records, and fail each of its functions.
#ifndef PLB_TESTS_FAKE_CUPTI_H
#define PLB_TESTS_FAKE_CUPTI_H

#include <stddef.h>
#include <stdint.h>

#define FAKE __attribute__((visibility("default")))

typedef struct fake_kernel {
    int64_t start_ns, end_ns;
    uint32_t device, stream;
    const char *name;
    int grid[3], block[3];
    int registers, shared_bytes;
    uint64_t graph_node;
    uint32_t correlation; // 0: one that nothing else has
} fake_kernel;

FAKE void fake_add_kernel(const fake_kernel *kernel);
// kind: 1 to the device, 2 to the host, 8 inside, 10 between devices; pinned: the host's side.
FAKE void fake_add_copy(int64_t start_ns, int64_t end_ns, uint32_t device, int kind, int pinned,
                        uint64_t bytes);
FAKE void fake_add_set(int64_t start_ns, int64_t end_ns, uint32_t device, uint64_t bytes);
// A call of the runtime by name, dropped unless its recording was asked for; number 0: one that
// nothing else has.
FAKE void fake_add_call(int64_t start_ns, int64_t end_ns, const char *name, uint32_t thread,
                        uint32_t number);
FAKE void fake_add_memory(int64_t at_ns, uint32_t device, uint64_t bytes, int release);
FAKE void fake_add_memory_of(int64_t at_ns, uint32_t device, uint64_t bytes, int release,
                             uint64_t address, const char *library);
FAKE int fake_is_enabled(void); // whether kernels are recorded
typedef void (*fake_request)(uint8_t **buffer, size_t *size_bytes, size_t *max_records);
typedef void (*fake_complete)(void *context, uint32_t stream, uint8_t *buffer, size_t size_bytes,
                              size_t valid_bytes);
// What another profiler would register.
FAKE void fake_nobody_requests(uint8_t **none, size_t *size_bytes, size_t *max_records);
FAKE void fake_nobody_completes(void *context, uint32_t stream, uint8_t *none, size_t size_bytes,
                                size_t valid_bytes);
// A launch of the driver whose callbacks were asked for, counted if counting was begun.
FAKE void fake_launch(const char *name, void *context);
FAKE void fake_graph_launch(void *context);
FAKE void fake_hear(const char *name);     // a call whose callbacks were asked for begins and ends
FAKE void fake_clock(int64_t now_ns);      // what cuptiGetTimestamp answers from now on
FAKE void fake_drop(size_t count);         // reported with the next buffer
FAKE void fake_fail(const char *function); // from now on this function answers with an error

// Between the files of this library.
int fake_fails(const char *function);
void fake_hear_launch(const char *name, void *context, int site);

#endif
