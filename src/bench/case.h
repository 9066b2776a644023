// SPDX-License-Identifier: Apache-2.0
// A case: everything that fixes a measurement. Two measurements are of the same case if and only if
// their canonical texts are equal: one line of JSON, keys sorted, every key there, settings as keys
// "set.NAME". The hash of that text names the case in stores, caches and on the screen.
//
// Versions of libraries, the git revision and the machine are not part of a case: they belong to
// the run, so that one case can be followed over all of these.
#ifndef PLB_BENCH_CASE_H
#define PLB_BENCH_CASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plumb/status.h"

enum { PLB_CASE_MAX_SETTINGS = 16, PLB_CASE_TEXT_BYTES = 4096, PLB_CASE_MAX_DIFFERENCES = 40 };

typedef struct plb_setting {
    char key[48]; // of the stack, without its name: "channels_last"
    char value[80];
} plb_setting;

// Words are never empty once plb_case_init has run.
typedef struct plb_case {
    char model[64];
    char task[8];    // infer, train
    char stack[40];  // "plumb-plan"
    char device[64]; // "cpu", "cuda:0", "cuda:0,cuda:1"
    int64_t batch;
    int64_t size;     // height and width of the input
    int64_t classes;  // outputs; 0 where the model has none
    char dtype[8];    // f32, bf16, f16, f64
    char math[8];     // f32, tf32: how products of f32 may be computed
    char autocast[8]; // none, bf16, f16
    char layout[16];  // default, or what the stack was told
    int64_t threads;
    char region[12];       // latency, queued, host, return
    char cache[8];         // hot, cold: of the device's caches before an iteration
    int64_t in_flight;     // requests under way at once; 1 unless throughput is measured
    char input[24];        // distribution of the values: normal, uniform, zeros...
    char input_digest[24]; // of the batches' bytes; "none" before they exist
    plb_setting settings[PLB_CASE_MAX_SETTINGS]; // sorted by key
    int setting_count;
} plb_case;

typedef struct plb_case_hash {
    char text[17]; // 16 hexadecimal digits
} plb_case_hash;

// Defaults: task infer, device cpu, batch 1, f32, f32, none, default, 1 thread, latency, hot, 1 in
// flight, normal, none; model and stack "none".
PLB_API void plb_case_init(plb_case *out);

// Adds or replaces a setting, keeping the order. PLB_EINVAL: too many, or too long.
PLB_API PLB_MUST_USE plb_status plb_case_set(plb_case *c, const char *key, const char *value);

// The canonical text into text[PLB_CASE_TEXT_BYTES]. PLB_EINVAL if it does not fit, or if a word
// holds a byte that canonical texts do not have (control characters, quotes, backslashes).
PLB_API PLB_MUST_USE plb_status plb_case_text(const plb_case *c, char *text);

// Reads a canonical text, or any JSON object with these keys; what is missing has its default.
// Unknown keys are PLB_EINVAL, with the nearest known one.
PLB_API PLB_MUST_USE plb_status plb_case_parse(const char *text, plb_case *out);

// FNV-1a of the canonical text.
PLB_API PLB_MUST_USE plb_status plb_case_hash_of(const plb_case *c, plb_case_hash *out);

// One key in which two cases differ.
typedef struct plb_case_difference {
    char key[56];      // "batch", "set.channels_last"
    char a[80], b[80]; // "" where a setting is not set
} plb_case_difference;

// Fills `out`, at most PLB_CASE_MAX_DIFFERENCES long, in the order of the canonical text; returns
// how many there are.
PLB_API int plb_case_differences(const plb_case *a, const plb_case *b, plb_case_difference *out);

// "resnet18 infer plumb-plan cpu b16": model, task, stack, device, batch, and whatever differs from
// the defaults. For tables and messages.
PLB_API void plb_case_title(const plb_case *c, char *out, size_t size);

// Our levels, the lowest first, NULL behind: the first that ran is what other stacks are measured
// against.
PLB_API const char *const *plb_case_levels(void);

// Whether it is the name of a device: cpu, cuda or cuda:N, N without leading zeros.
PLB_API bool plb_case_is_device(const char *name);
// The name that a case has for it: cuda is cuda:0. Borrowed from `name`, or constant.
PLB_API const char *plb_case_device(const char *name);

#endif
