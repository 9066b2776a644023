// SPDX-License-Identifier: Apache-2.0
// The part of CUPTI that counts, made up: the i-th launch since counting began, from 1, has i of
// the first metric that was asked for, 10 i of the second, 100 i of the third and so on. It keeps
// what CUPTI demands: nothing counts without an image that was made, set and started, and an image
// holds as many launches as it was told.
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fake_cupti.h"

enum { FAILED = 1, NOT_PERMITTED = 35, IMAGE_BYTES = 4096 };

// Where fields lie in NVIDIA's structs, in words of 8 bytes.
static uint64_t word(const void *params, int at) {
    uint64_t value;
    memcpy(&value, (const char *)params + 8 * at, sizeof value);
    return value;
}

static void set_word(void *params, int at, uint64_t value) {
    memcpy((char *)params + 8 * at, &value, sizeof value);
}

static void set_text(void *params, int at, const char *value) {
    memcpy((char *)params + 8 * at, &value, sizeof value);
}

static struct {
    bool initialized, enabled, image, set, started, stopped;
    uint64_t context, metrics, ranges, most, all;
} f;

FAKE int cuptiProfilerInitialize(void *params);
FAKE int cuptiDeviceGetChipName(void *params);
FAKE int cuptiProfilerHostInitialize(void *params);
FAKE int cuptiProfilerHostConfigAddMetrics(void *params);
FAKE int cuptiProfilerHostGetConfigImageSize(void *params);
FAKE int cuptiProfilerHostGetConfigImage(void *params);
FAKE int cuptiProfilerHostGetNumOfPasses(void *params);
FAKE int cuptiRangeProfilerEnable(void *params);
FAKE int cuptiRangeProfilerDisable(void *params);
FAKE int cuptiRangeProfilerStart(void *params);
FAKE int cuptiRangeProfilerStop(void *params);
FAKE int cuptiRangeProfilerDecodeData(void *params);
FAKE int cuptiRangeProfilerGetCounterDataSize(void *params);
FAKE int cuptiRangeProfilerCounterDataImageInitialize(void *params);
FAKE int cuptiRangeProfilerSetConfig(void *params);
FAKE int cuptiRangeProfilerGetCounterDataInfo(void *params);
FAKE int cuptiProfilerHostEvaluateToGpuValues(void *params);

int cuptiProfilerInitialize(void *params) {
    f.initialized = true;
    return word(params, 0) == 16 ? 0 : FAILED;
}

int cuptiDeviceGetChipName(void *params) {
    set_text(params, 3, "FAKE100");
    return f.initialized && word(params, 0) == 32 ? 0 : FAILED;
}

int cuptiProfilerHostInitialize(void *params) {
    set_word(params, 5, 77);
    return word(params, 0) == 48 ? 0 : FAILED;
}

int cuptiProfilerHostConfigAddMetrics(void *params) {
    f.metrics = word(params, 4);
    return word(params, 0) == 40 && word(params, 2) == 77 && f.metrics ? 0 : FAILED;
}

int cuptiProfilerHostGetConfigImageSize(void *params) {
    set_word(params, 3, 96);
    return word(params, 0) == 32 ? 0 : FAILED;
}

int cuptiProfilerHostGetConfigImage(void *params) {
    return word(params, 0) == 40 && word(params, 3) == 96 ? 0 : FAILED;
}

int cuptiProfilerHostGetNumOfPasses(void *params) {
    set_word(params, 4, f.metrics > 9 ? 5 : 1);
    return word(params, 0) == 40 && word(params, 2) == 96 ? 0 : FAILED;
}

int cuptiRangeProfilerEnable(void *params) {
    if (fake_fails("counters")) return NOT_PERMITTED;
    f.context = word(params, 2);
    f.enabled = f.context != 0;
    set_word(params, 3, 88);
    return f.enabled && word(params, 0) == 32 ? 0 : FAILED;
}

int cuptiRangeProfilerDisable(void *params) {
    return word(params, 2) == 88 ? 0 : FAILED;
}

int cuptiRangeProfilerGetCounterDataSize(void *params) {
    set_word(params, 7, IMAGE_BYTES);
    return word(params, 0) == 64 && word(params, 4) == f.metrics ? 0 : FAILED;
}

int cuptiRangeProfilerCounterDataImageInitialize(void *params) {
    f.image = word(params, 0) == 40 && word(params, 3) == IMAGE_BYTES && !f.started;
    return f.image ? 0 : FAILED;
}

// Ranges are kernels (1), replayed by CUPTI (2): two ints in one word.
int cuptiRangeProfilerSetConfig(void *params) {
    f.set = f.image && word(params, 0) == 90 && word(params, 3) == 96 &&
            word(params, 7) == (1 | UINT64_C(2) << 32);
    f.most = word(params, 8);
    return f.set ? 0 : FAILED;
}

int cuptiRangeProfilerStart(void *params) {
    f.started = f.set && word(params, 2) == 88;
    f.ranges = 0, f.stopped = false;
    return f.started ? 0 : FAILED;
}

int cuptiRangeProfilerStop(void *params) {
    const bool was = f.started;
    f.started = false, f.stopped = true;
    return was && word(params, 0) == 41 ? 0 : FAILED;
}

int cuptiRangeProfilerDecodeData(void *params) {
    set_word(params, 3, f.ranges > f.most ? f.ranges - f.most : 0);
    return f.stopped ? 0 : FAILED;
}

int cuptiRangeProfilerGetCounterDataInfo(void *params) {
    set_word(params, 4, f.ranges < f.most ? f.ranges : f.most);
    return word(params, 0) == 40 ? 0 : FAILED;
}

int cuptiProfilerHostEvaluateToGpuValues(void *params) {
    double *values;
    memcpy(&values, (char *)params + 64, sizeof values);
    double value = (double)(f.all - f.ranges + word(params, 5) + 1);
    if (word(params, 0) != 72 || word(params, 5) >= f.ranges) return FAILED;
    for (uint64_t i = 0; i < word(params, 7); i++, value *= 10) values[i] = value;
    return 0;
}

void fake_launch(const char *name, void *context) {
    fake_hear_launch(name, context, 0);
    if (f.started && f.context == (uint64_t)(uintptr_t)context) f.ranges++, f.all++;
    fake_hear_launch(name, context, 1);
}
