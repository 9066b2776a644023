// SPDX-License-Identifier: Apache-2.0
#include "bench/fingerprint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/json.h"
#include "base/libraries.h"
#include "base/machine.h"
#include "base/machine_gpu.h"
#include "bench/machine_state.h"
#include "bench/work_tree.h"
#include "plumb/version.h"

extern char **environ;

static void unless_unknown(plb_json *json, const char *key, double value) {
    if (value < 0)
        plb_json_null(json, key);
    else
        plb_json_double(json, key, value);
}

// ---------------------------------------------------------------------------- the machine
// Memory in whole GiB: what a kernel keeps for itself differs from boot to boot.
static int64_t whole_gib(int64_t bytes) {
    return (bytes + (INT64_C(1) << 29)) >> 30;
}

// Variables of which it is known that they make stacks faster or slower, and not all alike:
// a thread that sleeps between two loops costs whoever has the shortest loops most. Those that
// bench sets itself for every worker (numbers of threads) are not among them.
static const char *const unequal[] = {
    "OMP_WAIT_POLICY",
    "GOMP_SPINCOUNT",
    "KMP_BLOCKTIME",
    "KMP_LIBRARY",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "GOMP_CPU_AFFINITY",
    "KMP_AFFINITY",
    "OMP_DYNAMIC",
    "OMP_SCHEDULE",
    "MKL_DYNAMIC",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_VERBOSE",
    "DNNL_MAX_CPU_ISA",
    "ONEDNN_MAX_CPU_ISA",
    "DNNL_DEFAULT_FPMATH_MODE",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "DNNL_VERBOSE",
    "ONEDNN_VERBOSE",
    "OPENBLAS_CORETYPE",
    "CUDA_LAUNCH_BLOCKING",
    "NVIDIA_TF32_OVERRIDE",
    "LD_PRELOAD",
    "GLIBC_TUNABLES",
    "MALLOC_ARENA_MAX",
    "MALLOC_ARENA_TEST",
    "MALLOC_CHECK_",
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_PERTURB_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
    "MALLOC_CONF",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
};
enum { UNEQUAL = sizeof unequal / sizeof *unequal };

// Only where one is set, so that machines of runs from before there was this still match.
static void write_unequal(plb_json *json) {
    bool open = false;
    for (int i = 0; i < UNEQUAL; i++) {
        const char *value = getenv(unequal[i]);
        if (!value) continue;
        if (!open) plb_json_begin_object(json, "environment");
        open = true;
        plb_json_string(json, unequal[i], value);
    }
    if (open) plb_json_end(json);
}

static void write_machine(plb_json *json, const plb_machine *m) {
    plb_json_string(json, "architecture", m->architecture);
    plb_json_string(json, "cpu_model", m->cpu_model);
    plb_json_string(json, "simd", m->simd);
    plb_json_int(json, "logical_cpus", m->logical_cpus);
    plb_json_int(json, "physical_cores", m->physical_cores);
    plb_json_int(json, "affinity_cpus", m->affinity_cpus);
    plb_json_double(json, "quota_cpus", m->quota_cpus);
    plb_json_int(json, "memory_gib", whole_gib(m->memory_bytes));
    plb_json_int(json, "memory_limit_gib", whole_gib(m->memory_limit_bytes));
    plb_json_begin_array(json, "gpus");
    for (int i = 0; i < m->gpu_count; i++) {
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", m->gpu[i].name);
        plb_json_int(json, "memory_gib", whole_gib(m->gpu[i].memory_bytes));
        plb_json_end(json);
    }
    plb_json_end(json);
    write_unequal(json);
}

// ---------------------------------------------------------------------------- its state
static void write_gpu_states(plb_json *json) {
    plb_gpu_state states[PLB_MACHINE_MAX_GPUS];
    int count = plb_machine_gpu_states(states);
    plb_json_begin_array(json, "gpus");
    for (int i = 0; i < count; i++) {
        plb_json_begin_object(json, NULL);
        unless_unknown(json, "temperature_c", states[i].temperature_c);
        unless_unknown(json, "clock_mhz", states[i].clock_mhz);
        unless_unknown(json, "memory_clock_mhz", states[i].memory_clock_mhz);
        unless_unknown(json, "throttle_reasons", (double)states[i].throttle_reasons);
        plb_json_end(json);
    }
    plb_json_end(json);
}

static void write_state(plb_json *json, const plb_machine *m, const plb_machine_state *s,
                        bool here) {
    plb_json_begin_object(json, "state");
    plb_json_string(json, "governor", m->governor);
    unless_unknown(json, "load_1min", s->load_1min);
    unless_unknown(json, "temperature_c", s->temperature_c);
    unless_unknown(json, "clock_mhz", s->clock_mhz);
    unless_unknown(json, "clock_limit_mhz", s->clock_limit_mhz);
    unless_unknown(json, "boost", s->boost);
    unless_unknown(json, "quota_throttled", (double)s->quota_throttled);
    unless_unknown(json, "quota_throttled_us", (double)s->quota_throttled_us);
    unless_unknown(json, "heat_throttled", (double)s->heat_throttled);
    unless_unknown(json, "stolen", s->stolen);
    unless_unknown(json, "others_cpus", s->others_cpus);
    plb_json_begin_array(json, "busy");
    for (int i = 0; i < s->busy_count; i++) {
        plb_json_begin_object(json, NULL);
        plb_json_int(json, "process", s->busy[i].number);
        plb_json_string(json, "name", s->busy[i].name);
        plb_json_double(json, "cpus", s->busy[i].cpus);
        plb_json_end(json);
    }
    plb_json_end(json);
    if (here) write_gpu_states(json);
    plb_json_end(json);
}

// ---------------------------------------------------------------------------- software
static void write_software(plb_json *json, const plb_machine *m, bool here) {
    char work_tree[PLB_WORK_TREE_BYTES];
    plb_library libraries[PLB_LIBRARIES_MAX];
    size_t count = plb_libraries(libraries);
    plb_json_begin_object(json, "software");
    work_tree[0] = '\0';
    if (here) plb_work_tree_hash(".", work_tree);
    plb_json_string(json, "plumb", plb_version());
    if (work_tree[0]) plb_json_string(json, "work_tree", work_tree);
    plb_json_string(json, "system", m->system);
    plb_json_string(json, "kernel", m->kernel);
    plb_json_string(json, "gpu_driver", m->gpu_driver);
    plb_json_begin_object(json, "libraries");
    for (size_t i = 0; i < count; i++) {
        if (libraries[i].found) plb_json_string(json, libraries[i].name, libraries[i].version);
    }
    plb_json_end(json);
    plb_json_end(json);
}

// Whether a variable can change how fast something runs.
static bool matters(const char *variable) {
    static const char *const beginnings[] = {
        "OMP_",  "GOMP_",   "KMP_",      "MKL_",   "OPENBLAS_", "BLIS_",
        "DNNL_", "ONEDNN_", "CUDA_",     "CUDNN_", "CUBLAS_",   "NVIDIA_",
        "NCCL_", "TORCH",   "PYTORCH_",  "ORT_",   "OPENVINO",  "MALLOC_",
        "LD_",   "GLIBC_",  "TCMALLOC_", "TF32",   "PLUMB_",    "PYTHONHASHSEED",
    };
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (strncmp(variable, beginnings[i], strlen(beginnings[i])) == 0) return true;
    return false;
}

static void write_environment(plb_json *json) {
    plb_json_begin_object(json, "environment");
    for (char **at = environ; at && *at; at++) {
        const char *equals = strchr(*at, '=');
        char name[128];
        if (!equals || (size_t)(equals - *at) >= sizeof name || !matters(*at)) continue;
        memcpy(name, *at, (size_t)(equals - *at));
        name[equals - *at] = '\0';
        plb_json_string(json, name, equals + 1);
    }
    plb_json_end(json);
}

// ---------------------------------------------------------------------------- warning
static void warn_of_environment(const char *glue, plb_strbuf *text) {
    int set = 0;
    for (int i = 0; i < UNEQUAL; i++) {
        const char *value = getenv(unequal[i]);
        if (value) plb_strbuf_printf(text, "%s%s=%s", set++ ? ", " : glue, unequal[i], value);
    }
    if (set)
        plb_strbuf_printf(text, " in the environment %s some stacks' speed more than others'",
                          set > 1 ? "change" : "changes");
}

static void warn(const plb_machine *m, const plb_machine_state *s, plb_strbuf *text) {
    const char *glue = "";
    if (s->others_cpus > 0.25) {
        plb_strbuf_printf(text, "other processes keep %.1f processors busy", s->others_cpus);
        if (s->busy_count)
            plb_strbuf_printf(text, " (%s, %ld)", s->busy[0].name, s->busy[0].number);
        glue = "; ";
    }
    if (s->stolen > 0.02) {
        plb_strbuf_printf(text, "%sthe hypervisor takes %.0f %% of the time", glue,
                          100 * s->stolen);
        glue = "; ";
    }
    if (m->governor[0] && strcmp(m->governor, "performance") != 0) {
        plb_strbuf_printf(text, "%sthe frequency governor is %s, not performance", glue,
                          m->governor);
        glue = "; ";
    }
    if (s->temperature_c > 90) {
        plb_strbuf_printf(text, "%sa sensor reads %.0f C", glue, s->temperature_c);
        glue = "; ";
    }
    warn_of_environment(glue, text);
}

// ---------------------------------------------------------------------------- all
static plb_status take(plb_json *json, char **out) {
    plb_status status = plb_json_status(json);
    if (!status) {
        *out = json->text.text;
        json->text = (plb_strbuf){0};
    }
    plb_json_free(json);
    return status;
}

plb_status plb_fingerprint_take(const char *root, int watch_ms, plb_fingerprint *out) {
    plb_machine machine;
    plb_machine_state state;
    plb_status status = PLB_OK;
    plb_json json = {.compact = true};
    plb_strbuf warning = {0};
    *out = (plb_fingerprint){0};
    plb_machine_read(root, &machine);
    plb_machine_state_read(root, watch_ms, &state);
    plb_json_begin_object(&json, NULL);
    write_machine(&json, &machine);
    plb_json_end(&json);
    PLB_TRY_OUT(take(&json, &out->machine));
    json = (plb_json){.compact = true};
    plb_json_begin_object(&json, NULL);
    plb_json_begin_object(&json, "machine");
    write_machine(&json, &machine);
    plb_json_end(&json);
    write_state(&json, &machine, &state, root[0] == '\0');
    write_software(&json, &machine, root[0] == '\0');
    write_environment(&json);
    plb_json_end(&json);
    PLB_TRY_OUT(take(&json, &out->all));
    warn(&machine, &state, &warning);
    if (warning.failed) status = plb_fail(PLB_ENOMEM, "out of memory");
    if (warning.length && !status)
        out->warning = warning.text;
    else
        plb_strbuf_free(&warning);
out:
    if (status) plb_fingerprint_free(out);
    return status;
}

plb_status plb_fingerprint_state(const char *root, int watch_ms, char **out) {
    plb_machine machine;
    plb_machine_state state;
    plb_json json = {.compact = true};
    *out = NULL;
    plb_machine_read(root, &machine);
    plb_machine_state_read(root, watch_ms, &state);
    plb_json_begin_object(&json, NULL);
    write_state(&json, &machine, &state, root[0] == '\0');
    plb_json_end(&json);
    return take(&json, out);
}

void plb_fingerprint_free(plb_fingerprint *fingerprint) {
    plb_free(fingerprint->machine);
    plb_free(fingerprint->all);
    plb_free(fingerprint->warning);
    *fingerprint = (plb_fingerprint){0};
}
