// SPDX-License-Identifier: Apache-2.0
// Runs a program under the probe and watches it from outside. The program keeps its terminal, its
// streams, its signals and its exit code; what is learnt here needs no help from it: time on and
// off the CPU, memory, the counters of perf where the system allows them, and the card's energy.
#ifndef PLB_PROBE_COMMAND_H
#define PLB_PROBE_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>

#include "plumb/status.h"
#include "probe/sampler.h"

enum {
    PLB_COMMAND_THREADS = 256,
    PLB_COMMAND_CARDS = 16,
    PLB_COMMAND_COUNTERS = 6,
    PLB_COMMAND_SAMPLES = 1024,
    PLB_COMMAND_ZONES = 16,
    PLB_COMMAND_ZONE_BYTES = 32,
};

typedef struct plb_command_options {
    const char *library;  // of the probe; NULL: only watch from outside
    const char *folder;   // where the probe's files go; it exists
    const char *words;    // PLUMB_PROBE_OPTIONS
    const char *powercap; // NULL, or where to look for the processors' energy instead
    const char *cupti;    // NULL, or a CUPTI to load instead of the process's
    bool ranges;          // let NVTX find the probe
    bool preload;         // load the probe before all others: it then sees other profilers come
    int64_t sample_ms;    // between two looks at threads and cards
    int function_ms;      // of processor time between two samples of `sampled`
    plb_sampled *sampled; // NULL, or where to say in which functions processors were busy
    plb_strbuf *folded;   // NULL, or where to append which of them called which (chains.h)
    bool (*interrupted)(void); // NULL, or asked before the program starts
} plb_command_options;

typedef struct plb_command_thread {
    int tid;
    char name[16];
    int64_t on_cpu_ns, waiting_ns; // waiting: ready to run, without a processor
} plb_command_thread;

// Zeroed where NVML tells nothing.
typedef struct plb_command_card {
    char name[96];
    double joules, watts_max, seconds; // joules: from the counter, or the powers added up
    double utilisation;                // mean of NVML's share of time in which some kernel ran
    int64_t memory_max_bytes;          // of the whole card, others' included
    int sm_mhz_min, sm_mhz_max, celsius_max;
    unsigned long long throttle; // all reasons seen, as NVML's bits
    int samples;
} plb_command_card;

// One look at a card.
typedef struct plb_command_sample {
    int64_t at_ns; // CLOCK_MONOTONIC
    int32_t card;
    float watts, utilisation; // watts: the mean since the one before it
    int64_t memory_bytes;
} plb_command_sample;

typedef struct plb_command_counter {
    const char *name;
    bool known;
    int64_t value;
} plb_command_counter;

// A part of the machine whose energy the processors count.
typedef struct plb_command_zone {
    double joules;
    char name[PLB_COMMAND_ZONE_BYTES]; // "package-0", "dram"
    int32_t part, unused;              // part 1: its energy is in that of the package before it
} plb_command_zone;

typedef struct plb_command_result {
    bool started;  // false: `error_text` says why the program never ran; true: what kept the probe
                   // out of it, or ""
    int exit_code; // as a shell gives it: 128 + n after signal n
    int64_t wall_ns, begin_ns; // begin on CLOCK_MONOTONIC
    struct rusage use;         // of the program and the children that it waited for
    plb_command_thread thread[PLB_COMMAND_THREADS];
    // Unseen: different ones for which no row was left. Older versions counted each at each look.
    int threads, threads_unseen;
    plb_command_counter counter[PLB_COMMAND_COUNTERS];
    char counter_reason[128]; // why counters are unknown, or ""
    plb_command_card card[PLB_COMMAND_CARDS];
    int cards;
    plb_command_sample
        sample[PLB_COMMAND_SAMPLES]; // in order; of a long run every second, fourth ...
    int samples;
    char error_text[256];
    // From here on: zeros in what older versions kept.
    plb_command_zone zone[PLB_COMMAND_ZONES];
    int64_t zones;
    char zone_reason[128]; // why there are none, or no more, or ""
} plb_command_result;

enum { PLB_COMMAND_BYTES_1 = offsetof(plb_command_result, zone) }; // of the first version

// Runs argv[0] with its arguments and waits for its end. Ctrl-C goes to the program alone, which
// decides; a signal to end that only we get is handed on.
// PLB_ECANCELLED: it never ran.
PLB_MUST_USE plb_status plb_command_run(const plb_command_options *options, char *const *argv,
                                        plb_command_result *out);

#endif
