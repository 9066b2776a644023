// SPDX-License-Identifier: Apache-2.0
// The file in which the probe keeps its sums while a program runs: one a process, of fixed size,
// mapped, so that it is whole up to the last second however the program ends. All numbers are in
// the machine's own byte order; the file is read where it was written, or refused.
//
// Whoever reads it trusts nothing: plb_spool_read checks every count and offset against the size.
#ifndef PLB_PROBE_SPOOL_H
#define PLB_PROBE_SPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"
#include "probe/timeline.h"

enum {
    PLB_SPOOL_VERSION = 4,
    PLB_SPOOL_DEVICES = 16,
    PLB_SPOOL_KERNELS = 8192, // a power of two: a hash table
    PLB_SPOOL_CALLS = 1024,   // the same
    PLB_SPOOL_RANGES = 4096,  // the same
    PLB_SPOOL_SIZES = 48,     // class k of a copy's size: [2^k, 2^(k+1)) bytes
    PLB_SPOOL_NAME_BYTES = 2 << 20,
    PLB_SPOOL_REASONS = 8,
    PLB_SPOOL_BLOCKS = 2048,
    PLB_SPOOL_STREAMS = 256,
    PLB_SPOOL_THREADS = 256,
    PLB_SPOOL_SOURCES = 64,       // libraries that take memory, the last for all further ones
    PLB_SPOOL_POINTS = 128,       // of memory over time, an even number
    PLB_SPOOL_POINT_NS = 1000000, // of each at first
};
#define PLB_SPOOL_MAGIC UINT64_C(0x31626f72506d6c50) // "PlmProb1"

// Why a record was not counted.
typedef enum plb_lost {
    PLB_LOST_CUPTI,  // dropped by CUPTI itself
    PLB_LOST_TABLE,  // its time counted, its name in no row: the table was full
    PLB_LOST_TIMES,  // work without times, or what ended before it began
    PLB_LOST_DEVICE, // of a device beyond the last row
    PLB_LOST_MEMORY, // no buffer could be had
    PLB_LOST_TRACE,  // counted, but the trace's limit was reached
    PLB_LOST_COUNT
} plb_lost;

typedef enum plb_copy {
    PLB_COPY_IN,     // host to device
    PLB_COPY_OUT,    // device to host
    PLB_COPY_INSIDE, // within a device
    PLB_COPY_PEER,   // from one device to another
    PLB_COPY_HOST,   // host to host
    PLB_COPY_UNKNOWN,
    PLB_COPY_COUNT
} plb_copy;

typedef struct plb_spool_times {
    int64_t calls, total_ns, min_ns, max_ns;
} plb_spool_times;

typedef struct plb_spool_kernel {
    uint64_t hash; // 0: the row is free
    uint32_t name; // offset into names
    int32_t device;
    int32_t grid[3], block[3];
    int32_t registers, shared_bytes;
    int64_t graph_calls; // of the calls: as a node of a graph
    plb_spool_times times;
} plb_spool_kernel;

// A call of CUDA's runtime or driver.
typedef struct plb_spool_named {
    uint64_t hash;
    uint32_t name;
    uint32_t busy; // plb_busy
    plb_spool_times times;
} plb_spool_named;

// A range that the program marked, at its place among the others.
typedef struct plb_spool_range {
    uint64_t hash; // of the parent and the name; 0: the row is free
    uint32_t name;
    int32_t parent;        // row of the range around it, or -1; added later than its parent
    plb_spool_times times; // of the host
    int64_t device_ns, device_work; // of what was launched in it and in no range inside it
} plb_spool_range;

// A stretch of a run of which only stretches are recorded.
typedef struct plb_spool_block {
    int64_t first_ns, last_ns;         // ends of its first and last kernel, on CUPTI's clock
    int64_t first_number, last_number; // by which the driver counts launches
} plb_spool_block;

// The block's work, on device 0: from its first to its last, and what it did between.
typedef struct plb_spool_work {
    int64_t first_ns, last_ns, active_ns, copying_ns;
} plb_spool_work;

// How a kernel's calls and time are spread over the blocks: what tells how well they stand for the
// rest. Each block counts by how many kernels it had, n.
typedef struct plb_spool_spread {
    int64_t calls, ns;  // in all blocks but those apart
    double calls2, ns2; // sums of calls^2 / n and of ns^2 / n
} plb_spool_spread;

typedef struct plb_spool_size {
    int64_t calls, bytes, total_ns;
} plb_spool_size;

typedef struct plb_spool_device {
    int64_t records; // kernels, copies and sets
    int64_t kernels, memsets, memset_bytes;
    int64_t graph_launches; // only seen as a whole: their inside counts as active
    plb_busy_sums sums;
    plb_spool_size copies[PLB_COPY_COUNT][2][PLB_SPOOL_SIZES];  // [kind][pinned][size]
    int64_t allocated_bytes, peak_bytes, allocations, releases; // of device memory
    uint32_t name;                                              // of the device, or 0
    int32_t sm_count, warps_per_sm, capability; // the last: 10 x major + minor, or 0
    int64_t memory_bytes;
} plb_spool_device;

// Work of a device in one of its streams.
typedef struct plb_spool_stream {
    uint32_t used, shared; // 0: free; shared: that of further streams is in it, too
    uint32_t device, stream;
    int64_t kernels, kernel_ns, copies, copy_ns, copy_bytes, sets, set_ns;
} plb_spool_stream;

// Calls that were recorded, of one thread; what it launched is known where launches are among them.
typedef struct plb_spool_thread {
    uint32_t used, shared;
    uint32_t thread, unused;                        // the system's number
    int64_t calls, call_ns, waiting_ns, copying_ns; // waiting: in calls that synchronise
    int64_t device_ns, launched;
} plb_spool_thread;

// The most that was taken in each of equal stretches of time, which grow so that all fit.
typedef struct plb_spool_memory {
    int64_t first_ns, each_ns; // on CUPTI's clock; each_ns 0: none was taken
    int64_t points, now_bytes;
    int64_t most_bytes[PLB_SPOOL_POINTS];
} plb_spool_memory;

// Device memory that one library took.
typedef struct plb_spool_source {
    uint32_t used, name, device, unused;               // used 0: free
    int64_t allocations, bytes, now_bytes, peak_bytes; // bytes: of all together
} plb_spool_source;

// Of a device's pools of memory that streams take and give: as large, and as full, as seen.
typedef struct plb_spool_pool {
    int64_t peak_bytes, used_peak_bytes;
} plb_spool_pool;

typedef enum plb_probe_state {
    PLB_PROBE_STARTING,
    PLB_PROBE_ARMED, // records come
    PLB_PROBE_ASIDE, // it stepped back; `reason` says why
    PLB_PROBE_ENDED, // the program ended and everything was written
} plb_probe_state;

typedef struct plb_spool {
    uint64_t magic;
    uint32_t version, size_bytes;
    int32_t pid, state; // plb_probe_state
    uint32_t cupti_version;
    uint32_t name_bytes; // used of names
    char program[64];
    char reason[256]; // NUL-terminated
    // The same moment on CUPTI's clock and on CLOCK_MONOTONIC, and how far apart the readings were.
    int64_t begin_cupti_ns, begin_ns, clock_error_ns;
    int64_t settled_ns;   // on CLOCK_MONOTONIC: when the sums were last brought up to date
    int64_t probe_app_ns; // time of the program's own threads inside the probe
    int64_t probe_ns;     // time of the probe's own work in other threads
    int64_t cupti_ns;     // CUPTI's own overhead, as it records it
    int64_t recorded_ns;  // of CLOCK_MONOTONIC: how long records were asked for
    int64_t open_ns;      // on CUPTI's clock: since when a block is open that is in no list; or 0
    int64_t outside_ranges_ns; // work of the device that was launched in no range
    int64_t buffers, records;
    int64_t blocks; // of block[]; later ones were not kept
    int64_t lost[PLB_SPOOL_REASONS];
    plb_spool_device device[PLB_SPOOL_DEVICES];
    plb_spool_kernel kernel[PLB_SPOOL_KERNELS];
    plb_spool_named call[PLB_SPOOL_CALLS];
    plb_spool_range range[PLB_SPOOL_RANGES];
    plb_spool_block block[PLB_SPOOL_BLOCKS];
    char names[PLB_SPOOL_NAME_BYTES]; // strings, each NUL-terminated; the first is ""
    // From here on: since version 3, and zeros in what was kept by version 2.
    plb_spool_stream stream[PLB_SPOOL_STREAMS];
    plb_spool_thread thread[PLB_SPOOL_THREADS];
    plb_spool_memory memory[PLB_SPOOL_DEVICES];
    plb_spool_work work[PLB_SPOOL_BLOCKS]; // of the block with the same number
    // From here on: since version 4.
    plb_gap window[PLB_SPOOL_BLOCKS];        // in which all work of device 0 is in that block
    int64_t block_kernels[PLB_SPOOL_BLOCKS]; // that it recorded, of all devices
    int64_t blocks_apart; // of the first blocks: they were recorded whole and stand for no others
    int64_t alternates;   // of kernels 1, of all records 2: they are of a part of the time
    int64_t budget_ppm;   // millionths of the time that recording may cost; 0: all of it
    int64_t unbudgeted;   // 1: it could not be kept to that
    plb_spool_spread spread[PLB_SPOOL_KERNELS]; // of the kernel in the same row
    plb_spool_source source[PLB_SPOOL_SOURCES];
    plb_spool_pool pool[PLB_SPOOL_DEVICES];
} plb_spool;

enum {
    PLB_SPOOL_BYTES_2 = offsetof(plb_spool, stream), // of version 2
    PLB_SPOOL_BYTES_3 = offsetof(plb_spool, window),
};

void plb_spool_add_times(plb_spool_times *times, int64_t length_ns);

// Makes `path` at full size, its disk space taken, and maps it. Fails rather than let a full disk
// end the program later.
PLB_MUST_USE plb_status plb_spool_create(const char *path, plb_spool **out);
void plb_spool_unmap(plb_spool *spool);

// Counts records that were lost. From any thread: rows of ranges and of calls run out under
// different locks.
void plb_spool_lose(plb_spool *spool, plb_lost reason, int64_t records);

// Adds `name` and returns its offset in the names; 0 when there is no room. From any thread: the
// program's own name ranges while CUPTI's name kernels.
uint32_t plb_spool_add_name(plb_spool *spool, const char *name);

// Maps a copy of `path` and checks it whole: afterwards every offset and string of it can be
// used. PLB_EINVAL with what is wrong. Freed by plb_spool_unmap.
PLB_MUST_USE plb_status plb_spool_read(const char *path, plb_spool **out);
// The same for bytes in memory, in place.
PLB_MUST_USE plb_status plb_spool_check(const plb_spool *spool, size_t size_bytes,
                                        const char *place);

#endif
