// SPDX-License-Identifier: Apache-2.0
// The CPU as a device: host memory, a thread a stream, and the kernels of kernels.def.
#include "engine/device/cpu/cpu.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/device/cpu/dnnl.h"

struct plb_device {
    int index;
};

static struct plb_device the_cpu;

static int device_count(void) {
    return 1;
}

static plb_status open_device(int index, plb_device **out) {
    *out = NULL;
    if (index != 0) return plb_fail(PLB_EINVAL, "cpu:%d: there is one CPU device, cpu:0", index);
    *out = &the_cpu;
    return PLB_OK;
}

static void close_device(plb_device *device) {
    (void)device;
}

static const char *describe(const plb_device *device) {
    (void)device;
    return plb_isa_name(plb_cpu_isa());
}

static plb_status alloc_memory(plb_device *device, size_t size_bytes, void **out) {
    (void)device;
    *out = plb_alloc_slab(size_bytes);
    return *out ? PLB_OK
                : plb_fail(PLB_ENOMEM, "out of memory for a slab of %zu bytes", size_bytes);
}

static void free_memory(plb_device *device, void *memory) {
    (void)device;
    plb_free(memory);
}

plb_isa plb_cpu_isa(void) {
    static atomic_int known = -1; // whoever comes first finds the same as the others
    int isa = atomic_load_explicit(&known, memory_order_relaxed);
    if (isa >= 0) return (plb_isa)isa;
    plb_isa best = PLB_ISA_PORTABLE;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) best = PLB_ISA_AVX2;
    if (best == PLB_ISA_AVX2 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq")) {
        best = PLB_ISA_AVX512;
    }
#endif
    const char *wish = getenv("PLUMB_ISA");
    for (plb_isa lower = PLB_ISA_PORTABLE; wish && lower < best; lower++) {
        if (strcmp(wish, plb_isa_name(lower)) == 0) best = lower;
    }
    atomic_store_explicit(&known, (int)best, memory_order_relaxed);
    return best;
}

const char *plb_isa_name(plb_isa isa) {
    return isa == PLB_ISA_AVX512 ? "avx512" : isa == PLB_ISA_AVX2 ? "avx2" : "portable";
}

// Filled once: the processor's name without blanks, the vectors in use, oneDNN's version.
static char fingerprint_text[160];

static void fill_fingerprint(void) {
    char line[256], model[96] = "unknown";
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, "model name", 10) != 0 || !strchr(line, ':')) continue;
        snprintf(model, sizeof model, "%.90s", strchr(line, ':') + 2);
        break;
    }
    if (file) fclose(file);
    for (char *p = model; *p; p++) {
        if (*p == ' ' || *p == '\t' || *p == '\n') *p = '-';
    }
    snprintf(fingerprint_text, sizeof fingerprint_text, "cpu:%s:%s:%s", model,
             plb_isa_name(plb_cpu_isa()), plb_dnnl_version());
}

static const char *fingerprint(const plb_query *q) {
    (void)q;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_fingerprint);
    return fingerprint_text;
}

// Channels last: what oneDNN's matrix kernels and our own Winograd read with whole vectors, and
// concatenation, slicing and pooling need no padding of channels. The result tells the type: the
// first operand of a pooling's gradient is positions.
static plb_layout spatial_layout(const plb_query *q) {
    int rank = q->in[0].shape.rank;
    bool fits = q->out[0].dtype == PLB_F32 || q->op == PLB_OP_int8_conv;
    return (plb_layout){rank >= 3 && rank <= 5 && fits ? PLB_LAYOUT_NHWC : PLB_LAYOUT_PLAIN, 0};
}

const plb_backend plb_backend_cpu = {
    .name = "cpu",
    .host_memory = true,
    .device_count = device_count,
    .open = open_device,
    .close = close_device,
    .describe = describe,
    .fingerprint = fingerprint,
    .alloc = alloc_memory,
    .free = free_memory,
    .copy = plb_cpu_copy,
    .stream_new = plb_cpu_stream_new,
    .stream_free = plb_cpu_stream_free,
    .enqueue = plb_cpu_enqueue,
    .wait = plb_cpu_wait,
    .event_new = plb_cpu_event_new,
    .event_free = plb_cpu_event_free,
    .record = plb_cpu_record,
    .wait_event = plb_cpu_wait_event,
    .elapsed_ns = plb_cpu_elapsed_ns,
    .capture_begin = plb_cpu_capture_begin,
    .capture_end = plb_cpu_capture_end,
    .replay = plb_cpu_replay,
    .capture_free = plb_cpu_capture_free,
    .kernels = plb_cpu_kernels,
    .spatial_layout = spatial_layout,
    .takes_beta_for_y = true,
    .has_int8 = plb_dnnl_has_int8,
};
