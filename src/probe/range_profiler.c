// SPDX-License-Identifier: Apache-2.0
// The structs are those of CUPTI 12.6 to 13 (cupti_range_profiler.h, cupti_profiler_host.h), which
// learns from their first field how much of them a caller knows.
#include "probe/range_profiler.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/core/symbol.h"

enum {
    CALL_IDS = 2048,
    LAUNCHES = 64, // counted before an image is read
    IMAGE_BYTES = 64 << 20,
    AUTO_RANGE = 1,
    KERNEL_REPLAY = 2,
    DOMAIN_RESOURCE = 3,
    CONTEXT_GOES = 2,
    NOT_PERMITTED = 35,
};

// A metric, the total that it belongs to, and what one count is worth there.
static const struct {
    const char *name;
    plb_counted_total total;
    double worth;
} metrics[] = {
    {"sm__sass_thread_inst_executed_op_ffma_pred_on.sum", PLB_COUNTED_CORES, 2},
    {"sm__sass_thread_inst_executed_op_fadd_pred_on.sum", PLB_COUNTED_CORES, 1},
    {"sm__sass_thread_inst_executed_op_fmul_pred_on.sum", PLB_COUNTED_CORES, 1},
    {"sm__sass_thread_inst_executed_op_dfma_pred_on.sum", PLB_COUNTED_CORES, 2},
    {"sm__sass_thread_inst_executed_op_dadd_pred_on.sum", PLB_COUNTED_CORES, 1},
    {"sm__sass_thread_inst_executed_op_dmul_pred_on.sum", PLB_COUNTED_CORES, 1},
    {"sm__ops_path_tensor_src_bf16_dst_fp32.sum", PLB_COUNTED_TENSOR, 1},
    {"sm__ops_path_tensor_src_fp16.sum", PLB_COUNTED_TENSOR, 1},
    {"sm__ops_path_tensor_src_tf32_dst_fp32.sum", PLB_COUNTED_TENSOR, 1},
    {"sm__ops_path_tensor_src_fp64.sum", PLB_COUNTED_TENSOR, 1},
    {"dram__bytes_read.sum", PLB_COUNTED_DRAM, 1},
    {"dram__bytes_write.sum", PLB_COUNTED_DRAM, 1},
    {"lts__t_bytes.sum", PLB_COUNTED_L2, 1},
};
enum { METRICS = sizeof metrics / sizeof *metrics };

// ---------------------------------------------------------------------------- CUPTI's structs
typedef struct initialize {
    size_t size;
    void *private;
} initialize;

typedef struct chip_name {
    size_t size;
    void *private;
    size_t device;
    const char *name;
} chip_name;

typedef struct host_initialize {
    size_t size;
    void *private;
    int profiler;
    const char *chip;
    const uint8_t *availability;
    void *host;
} host_initialize;

typedef struct add_metrics {
    size_t size;
    void *private;
    void *host;
    const char **names;
    size_t count;
} add_metrics;

typedef struct config_size {
    size_t size;
    void *private;
    void *host;
    size_t bytes;
} config_size;

typedef struct config_image {
    size_t size;
    void *private;
    void *host;
    size_t bytes;
    uint8_t *image;
} config_image;

typedef struct pass_count {
    size_t size;
    void *private;
    size_t bytes;
    uint8_t *image;
    size_t passes;
} pass_count;

typedef struct enable {
    size_t size;
    void *private;
    void *context;
    void *profiler;
} enable;

typedef struct profiler_only {
    size_t size;
    void *private;
    void *profiler;
} profiler_only;

typedef struct stop {
    size_t size;
    void *private;
    void *profiler;
    size_t pass, nesting;
    uint8_t all_submitted;
} stop;

typedef struct decode {
    size_t size;
    void *private;
    void *profiler;
    size_t dropped;
} decode;

typedef struct image_size {
    size_t size;
    void *private;
    void *profiler;
    const char **names;
    size_t count, most_ranges;
    uint32_t most_nodes;
    size_t bytes;
} image_size;

typedef struct image_initialize {
    size_t size;
    void *private;
    void *profiler;
    size_t bytes;
    uint8_t *image;
} image_initialize;

typedef struct set_config {
    size_t size;
    void *private;
    void *profiler;
    size_t config_bytes;
    const uint8_t *config;
    size_t image_bytes;
    uint8_t *image;
    int range, replay;
    size_t most_ranges;
    uint16_t nestings, least_nesting;
    size_t pass;
    uint16_t target_nesting;
} set_config;

typedef struct image_info {
    size_t size;
    void *private;
    const uint8_t *image;
    size_t bytes, ranges;
} image_info;

typedef struct evaluate {
    size_t size;
    void *private;
    void *host;
    const uint8_t *image;
    size_t bytes, range;
    const char **names;
    size_t count;
    double *values;
} evaluate;

// How much of a struct a caller knows: up to its last field, without what fills it up at the end.
#define KNOWN(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

// What a callback about a call of the driver hands over.
typedef struct call_data {
    int site; // 0: begins, 1: has ended
    const char *function;
    const void *parameters;
    void *result;
    const char *symbol; // of a launch: the kernel's name
    void *context;
} call_data;

typedef int (*function)(void *params);
enum {
    F_INITIALIZE,
    F_CHIP,
    F_HOST,
    F_ADD,
    F_CONFIG_SIZE,
    F_CONFIG,
    F_PASSES,
    F_ENABLE,
    F_DISABLE,
    F_START,
    F_STOP,
    F_DECODE,
    F_IMAGE_SIZE,
    F_IMAGE,
    F_SET,
    F_INFO,
    F_EVALUATE,
    FUNCTIONS
};
static const char *const function_names[FUNCTIONS] = {
    "cuptiProfilerInitialize",
    "cuptiDeviceGetChipName",
    "cuptiProfilerHostInitialize",
    "cuptiProfilerHostConfigAddMetrics",
    "cuptiProfilerHostGetConfigImageSize",
    "cuptiProfilerHostGetConfigImage",
    "cuptiProfilerHostGetNumOfPasses",
    "cuptiRangeProfilerEnable",
    "cuptiRangeProfilerDisable",
    "cuptiRangeProfilerStart",
    "cuptiRangeProfilerStop",
    "cuptiRangeProfilerDecodeData",
    "cuptiRangeProfilerGetCounterDataSize",
    "cuptiRangeProfilerCounterDataImageInitialize",
    "cuptiRangeProfilerSetConfig",
    "cuptiRangeProfilerGetCounterDataInfo",
    "cuptiProfilerHostEvaluateToGpuValues"};

static struct {
    const plb_cupti *cupti;
    plb_counted *counted;
    function call[FUNCTIONS];
    void *subscriber;
    // Held from a launch's begin to its end, so that the order of ranges is that of launches.
    pthread_mutex_t lock;
    bool failed, started, follow;
    atomic_bool wanted; // false outside what the program marks, and at the end
    void *context, *profiler, *host;
    const char *names[METRICS];
    int metric[METRICS]; // which of the table
    size_t count;
    uint8_t *config, *image;
    size_t config_bytes, image_bytes;
    plb_counted_kernel *launched[LAUNCHES]; // rows of the kernels of this image
    size_t launches;
    bool kind[CALL_IDS], graph[CALL_IDS]; // by the driver's number of a call
} p = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---------------------------------------------------------------------------- a session
static bool fails(int which, void *params) {
    const int code = p.call[which](params);
    const char *text = NULL;
    if (!code) return false;
    if (p.cupti->result_string(code, &text) || !text) text = "no text";
    if (code == NOT_PERMITTED)
        snprintf(p.counted->reason, sizeof p.counted->reason,
                 "this user may not read the device's counters: ask as root, or let the driver "
                 "allow it to all (NVreg_RestrictProfilingToAdminUsers=0)");
    else
        snprintf(p.counted->reason, sizeof p.counted->reason, "%s: %s (%d)", function_names[which],
                 text, code);
    p.failed = true;
    return true;
}

static bool configure(void) {
    initialize begin = {KNOWN(initialize, private), NULL};
    chip_name chip = {.size = KNOWN(chip_name, name)};
    if (fails(F_INITIALIZE, &begin) || fails(F_CHIP, &chip)) return false;
    snprintf(p.counted->chip, sizeof p.counted->chip, "%s", chip.name ? chip.name : "");
    host_initialize host = {.size = KNOWN(host_initialize, host), .chip = chip.name};
    if (fails(F_HOST, &host)) return false;
    p.host = host.host;
    add_metrics add = {KNOWN(add_metrics, count), NULL, p.host, p.names, p.count};
    config_size size = {.size = KNOWN(config_size, bytes), .host = p.host};
    if (fails(F_ADD, &add) || fails(F_CONFIG_SIZE, &size)) return false;
    p.config_bytes = size.bytes;
    p.config = plb_alloc(size.bytes + 1);
    if (!p.config) return false;
    config_image image = {KNOWN(config_image, image), NULL, p.host, p.config_bytes, p.config};
    pass_count passes = {.size = KNOWN(pass_count, passes), .bytes = size.bytes, .image = p.config};
    if (fails(F_CONFIG, &image) || fails(F_PASSES, &passes)) return false;
    p.counted->passes = (int64_t)passes.passes;
    return true;
}

static bool make_image(void) {
    image_size size = {.size = KNOWN(image_size, bytes),
                       .profiler = p.profiler,
                       .names = p.names,
                       .count = p.count,
                       .most_ranges = LAUNCHES,
                       .most_nodes = LAUNCHES};
    if (fails(F_IMAGE_SIZE, &size)) return false;
    if (size.bytes <= IMAGE_BYTES) p.image = plb_alloc(size.bytes + 1);
    p.image_bytes = size.bytes;
    if (p.image) return true;
    snprintf(p.counted->reason, sizeof p.counted->reason,
             "no memory for an image of counters of %zu bytes", size.bytes);
    p.failed = true;
    return false;
}

static bool start_session(void) {
    image_initialize image = {KNOWN(image_initialize, image), NULL, p.profiler, p.image_bytes,
                              p.image};
    set_config config = {.size = KNOWN(set_config, target_nesting),
                         .profiler = p.profiler,
                         .config_bytes = p.config_bytes,
                         .config = p.config,
                         .image_bytes = p.image_bytes,
                         .image = p.image,
                         .range = AUTO_RANGE,
                         .replay = KERNEL_REPLAY,
                         .most_ranges = LAUNCHES,
                         .nestings = 1,
                         .least_nesting = 1};
    profiler_only start = {KNOWN(profiler_only, profiler), NULL, p.profiler};
    if (fails(F_IMAGE, &image) || fails(F_SET, &config) || fails(F_START, &start)) return false;
    p.launches = 0;
    p.started = true;
    return true;
}

static bool first_session(void *context) {
    p.context = context;
    if (!configure()) return false;
    enable on = {.size = KNOWN(enable, profiler), .context = context};
    if (fails(F_ENABLE, &on)) return false;
    p.profiler = on.profiler;
    return make_image();
}

static void add_range(size_t range, plb_counted_kernel *row) {
    double values[METRICS] = {0};
    evaluate e = {KNOWN(evaluate, values),
                  NULL,
                  p.host,
                  p.image,
                  p.image_bytes,
                  range,
                  p.names,
                  p.count,
                  values};
    if (fails(F_EVALUATE, &e)) return;
    p.counted->launches++;
    if (row) row->launches++;
    for (size_t i = 0; i < p.count; i++) {
        const double value = values[i] * metrics[p.metric[i]].worth;
        if (!(value >= 0)) continue; // not a number: CUPTI could not tell
        p.counted->total[metrics[p.metric[i]].total] += value;
        if (row) row->total[metrics[p.metric[i]].total] += value;
    }
}

// Ends the session and adds up its image.
static void read_session(void) {
    if (!p.started) return;
    p.started = false;
    stop end = {.size = KNOWN(stop, all_submitted), .profiler = p.profiler};
    decode data = {.size = KNOWN(decode, dropped), .profiler = p.profiler};
    image_info info = {.size = KNOWN(image_info, ranges), .image = p.image, .bytes = p.image_bytes};
    if (fails(F_STOP, &end) || fails(F_DECODE, &data) || fails(F_INFO, &info)) return;
    p.counted->uncounted += (int64_t)data.dropped;
    const bool named = info.ranges == p.launches;
    for (size_t i = 0; i < info.ranges && !p.failed; i++)
        add_range(i, named && i < LAUNCHES ? p.launched[i] : NULL);
    if (!named) p.counted->unnamed += (int64_t)info.ranges;
}

// ---------------------------------------------------------------------------- callbacks
static void launch_begins(const call_data *call) {
    if (p.failed || !atomic_load(&p.wanted)) return;
    if (!p.context && !first_session(call->context)) return;
    if (call->context != p.context) {
        p.counted->uncounted++;
        return;
    }
    if (p.launches == LAUNCHES) read_session();
    if (!p.started && !start_session()) return;
    p.launched[p.launches++] =
        plb_counted_row(p.counted, call->symbol ? call->symbol : "(no name)");
}

static void on_call(void *user, int domain, uint32_t id, const void *data) {
    (void)user;
    call_data call;
    const char *name = NULL;
    if (domain == DOMAIN_RESOURCE) {
        void *context;
        memcpy(&context, data, sizeof context);
        pthread_mutex_lock(&p.lock);
        if (context == p.context && !p.failed) read_session();
        if (context == p.context) p.failed = true; // there is nothing left to count in
        pthread_mutex_unlock(&p.lock);
        return;
    }
    memcpy(&call, data, sizeof call);
    if (domain == PLB_CUPTI_DOMAIN_DRIVER && id < CALL_IDS && p.kind[id]) {
        if (call.site == 0) pthread_mutex_lock(&p.lock);
        if (call.site == 0 && p.graph[id] && atomic_load(&p.wanted)) p.counted->uncounted++;
        if (call.site == 0 && !p.graph[id]) launch_begins(&call);
        if (call.site == 1) pthread_mutex_unlock(&p.lock);
        return;
    }
    if (!p.follow || p.cupti->callback_name(domain, id, &name) || !name) return;
    if (strstr(name, "ProfilerStart") && call.site == 1) atomic_store(&p.wanted, true);
    if (!strstr(name, "ProfilerStop") || call.site != 0) return;
    atomic_store(&p.wanted, false);
    pthread_mutex_lock(&p.lock);
    read_session();
    pthread_mutex_unlock(&p.lock);
}

static void listen(void) {
    const char *name;
    for (uint32_t id = 1; id < CALL_IDS; id++) {
        if (p.cupti->callback_name(PLB_CUPTI_DOMAIN_DRIVER, id, &name) == 0 && name) {
            p.graph[id] = strstr(name, "GraphLaunch") != NULL;
            p.kind[id] = strstr(name, "cuLaunch") && !strstr(name, "HostFunc");
            p.kind[id] = p.kind[id] || p.graph[id];
            if (p.kind[id] || (p.follow && strstr(name, "Profiler")))
                p.cupti->enable_callback(1, p.subscriber, PLB_CUPTI_DOMAIN_DRIVER, id);
        }
        if (p.follow && p.cupti->callback_name(PLB_CUPTI_DOMAIN_RUNTIME, id, &name) == 0 && name &&
            strstr(name, "Profiler"))
            p.cupti->enable_callback(1, p.subscriber, PLB_CUPTI_DOMAIN_RUNTIME, id);
    }
    p.cupti->enable_callback(1, p.subscriber, DOMAIN_RESOURCE, CONTEXT_GOES);
}

static plb_status find_functions(const plb_cupti *cupti) {
    void *library = dlopen(cupti->path, RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; i < FUNCTIONS; i++)
        if (!library || !plb_find_symbol(library, function_names[i], &p.call[i]))
            return plb_fail(PLB_EMISSING,
                            "counters need CUPTI 12.6 or later: %s has no %s, this is version %u",
                            cupti->path, function_names[i], cupti->version);
    return PLB_OK;
}

plb_status plb_range_profiler_begin(const plb_cupti *cupti, uint32_t asked, bool follow_program,
                                    plb_counted *counted) {
    p.cupti = cupti, p.counted = counted, p.follow = follow_program;
    counted->asked = asked;
    for (int i = 0; i < METRICS; i++)
        if (asked & 1u << metrics[i].total) {
            p.metric[p.count] = i;
            p.names[p.count++] = metrics[i].name;
        }
    PLB_TRY(find_functions(cupti));
    if (!cupti->subscribe || !cupti->enable_callback)
        return plb_fail(PLB_EMISSING, "this CUPTI has no callbacks");
    const int code = cupti->subscribe(&p.subscriber, on_call, NULL);
    if (code)
        return plb_fail(PLB_EMISSING, "cuptiSubscribe: error %d: does another profiler have CUPTI?",
                        code);
    atomic_store(&p.wanted, !follow_program);
    listen();
    return PLB_OK;
}

void plb_range_profiler_end(void) {
    if (!p.subscriber) return;
    atomic_store(&p.wanted, false);
    pthread_mutex_lock(&p.lock);
    if (!p.failed) read_session();
    p.failed = true;
    pthread_mutex_unlock(&p.lock);
    p.cupti->unsubscribe(p.subscriber);
    p.subscriber = NULL;
}
