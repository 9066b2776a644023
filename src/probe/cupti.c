// SPDX-License-Identifier: Apache-2.0
#include "probe/cupti.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/status.h"
#include "base/core/symbol.h"

static plb_status find_all(void *library, plb_cupti *out) {
    const struct {
        const char *name;
        void *function;
    } needed[] = {
        {"cuptiGetVersion", &out->get_version},
        {"cuptiActivityRegisterCallbacks", &out->register_callbacks},
        {"cuptiActivityEnable", &out->enable},
        {"cuptiActivityDisable", &out->disable},
        {"cuptiActivityFlushAll", &out->flush_all},
        {"cuptiActivityGetNextRecord", &out->next_record},
        {"cuptiActivityGetNumDroppedRecords", &out->dropped},
        {"cuptiGetTimestamp", &out->timestamp},
        {"cuptiGetResultString", &out->result_string},
        {"cuptiGetCallbackName", &out->callback_name},
    };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!plb_find_symbol(library, needed[i].name, needed[i].function))
            return plb_fail(PLB_EMISSING, "CUPTI has no %s", needed[i].name);
    plb_find_symbol(library, "cuptiActivityEnableRuntimeApi", &out->enable_runtime_call);
    plb_find_symbol(library, "cuptiActivityEnableDriverApi", &out->enable_driver_call);
    plb_find_symbol(library, "cuptiSubscribe", &out->subscribe);
    plb_find_symbol(library, "cuptiUnsubscribe", &out->unsubscribe);
    plb_find_symbol(library, "cuptiEnableCallback", &out->enable_callback);
    plb_find_symbol(library, "cuptiActivityRegisterTimestampCallback", &out->register_clock);
    plb_find_symbol(library, "cuptiSetThreadIdType", &out->set_thread_id_type);
    plb_find_symbol(library, "cuptiFinalize", &out->finalize);
    plb_find_symbol(library, "cuptiActivityEnableAllocationSource", &out->allocation_source);
    return PLB_OK;
}

static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
enum { NAMES = sizeof names / sizeof *names };

static void *open_in(const char *folder, int length, const char *below) {
    char path[1024];
    for (int i = 0; i < NAMES; i++) {
        snprintf(path, sizeof path, "%.*s%s/%s", length, folder, below, names[i]);
        void *library = access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (library) return library;
    }
    return NULL;
}

// Beside the CUDA libraries that the process has mapped: what the program brought along is newer
// or older than the system's, but fits it. Wheels for CUDA 12 have a folder a library.
static void *open_beside_others(void) {
    char line[1280];
    void *library = NULL;
    FILE *maps = fopen("/proc/self/maps", "re");
    if (!maps) return NULL;
    while (!library && fgets(line, sizeof line, maps)) {
        const char *path = strchr(line, '/');
        const char *file = path ? strrchr(path, '/') : NULL;
        if (!file ||
            (strncmp(file, "/libcudart.so", 13) != 0 && strncmp(file, "/libcublas.so", 13) != 0 &&
             strncmp(file, "/libnvrtc.so", 12) != 0))
            continue;
        library = open_in(path, (int)(file - path), "");
        if (!library) library = open_in(path, (int)(file - path), "/../../cuda_cupti/lib");
        if (!library) library = open_in(path, (int)(file - path), "/../extras/CUPTI/lib64");
    }
    fclose(maps);
    return library;
}

// One that is mapped already comes first: two copies in one process disturb each other.
static void *open_library(const char *file) {
    static const char *const toolkit[] = {"/usr/local/cuda/extras/CUPTI/lib64",
                                          "/usr/local/cuda/lib64"};
    void *library = NULL;
    if (file) return dlopen(file, RTLD_NOW | RTLD_LOCAL);
    for (int i = 0; i < NAMES && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
    if (!library) library = open_beside_others();
    for (int i = 0; i < NAMES && !library; i++) library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; i < 2 && !library; i++)
        library = open_in(toolkit[i], (int)strlen(toolkit[i]), "");
    return library;
}

plb_status plb_cupti_load(const char *file, plb_cupti *out) {
    *out = (plb_cupti){0};
    void *library = open_library(file);
    if (!library)
        return plb_fail(PLB_EMISSING,
                        "no CUPTI: looked for %s in the process, beside its CUDA libraries, in the "
                        "loader's path and in /usr/local/cuda",
                        file ? file : "libcupti.so.13, libcupti.so.12");
    PLB_TRY(find_all(library, out));
    Dl_info info;
    void *symbol = dlsym(library, "cuptiGetVersion");
    if (symbol && dladdr(symbol, &info) && info.dli_fname)
        snprintf(out->path, sizeof out->path, "%s", info.dli_fname);
    if (out->get_version(&out->version)) return plb_fail(PLB_EMISSING, "CUPTI tells no version");
    return PLB_OK; // the library stays open for good
}

bool plb_cupti_can_leave(const plb_cupti *c) {
    return c->version >= 130000 && c->finalize && c->subscribe && c->enable_callback &&
           c->unsubscribe;
}

plb_busy plb_cupti_call_class(const char *name) {
    if (strstr(name, "Synchronize")) return PLB_BUSY_SYNCHRONIZE;
    if (strstr(name, "Memcpy")) return PLB_BUSY_COPY_CALL;
    if (strstr(name, "Launch")) return PLB_BUSY_LAUNCH;
    if (strstr(name, "Free")) return PLB_BUSY_FREE;
    if (strstr(name, "Alloc") || strstr(name, "Malloc")) return PLB_BUSY_ALLOCATE;
    return PLB_BUSY_OTHER_CALL;
}

// Calls that wait or take memory, and whole graphs: a handful an iteration. Launches of kernels
// are not among them: recording each of those costs a launch-bound program half of its speed.
bool plb_cupti_call_is_listed(const char *name) {
    switch (plb_cupti_call_class(name)) {
    case PLB_BUSY_SYNCHRONIZE:
    case PLB_BUSY_COPY_CALL:
    case PLB_BUSY_FREE:
    case PLB_BUSY_ALLOCATE: return true;
    case PLB_BUSY_LAUNCH: return strstr(name, "GraphLaunch") != NULL;
    default: return false;
    }
}

// Fields by offset, and not through a struct: records are packed to 8 bytes and grow at the end.
static uint8_t u8(const void *record, size_t offset) {
    return ((const uint8_t *)record)[offset];
}

static uint16_t u16(const void *record, size_t offset) {
    uint16_t value;
    memcpy(&value, (const char *)record + offset, sizeof value);
    return value;
}

static uint32_t u32(const void *record, size_t offset) {
    uint32_t value;
    memcpy(&value, (const char *)record + offset, sizeof value);
    return value;
}

static int64_t i64(const void *record, size_t offset) {
    int64_t value;
    memcpy(&value, (const char *)record + offset, sizeof value);
    return value;
}

static const char *text(const void *record, size_t offset) {
    const char *value;
    memcpy(&value, (const char *)record + offset, sizeof value);
    return value ? value : "(no name)";
}

static void decode_kernel(const void *r, plb_record *out) {
    *out = (plb_record){.kind = PLB_RECORD_KERNEL,
                        .start_ns = i64(r, 16),
                        .end_ns = i64(r, 24),
                        .device = u32(r, 40),
                        .stream = u32(r, 48),
                        .correlation = u32(r, 92),
                        .grid_number = i64(r, 96),
                        .name = text(r, 104),
                        .in_graph = i64(r, 144) != 0,
                        .registers = u16(r, 6),
                        .shared_bytes = (int32_t)(u32(r, 76) + u32(r, 80))};
    for (size_t i = 0; i < 3; i++) {
        out->grid[i] = (int32_t)u32(r, 52 + 4 * i);
        out->block[i] = (int32_t)u32(r, 64 + 4 * i);
    }
}

static plb_copy copy_kind(uint8_t kind) {
    switch (kind) {
    case 1:                     // host to device
    case 3: return PLB_COPY_IN; // host to array
    case 2:
    case 4: return PLB_COPY_OUT;
    case 5:
    case 6:
    case 7:
    case 8: return PLB_COPY_INSIDE;
    case 9: return PLB_COPY_HOST;
    case 10: return PLB_COPY_PEER;
    default: return PLB_COPY_UNKNOWN;
    }
}

static void decode_copy(const void *r, plb_record *out) {
    enum { PINNED = 2 }; // CUpti_ActivityMemoryKind
    *out = (plb_record){.kind = PLB_RECORD_COPY,
                        .start_ns = i64(r, 16),
                        .end_ns = i64(r, 24),
                        .device = u32(r, 32),
                        .stream = u32(r, 40),
                        .correlation = u32(r, 44),
                        .bytes = i64(r, 8),
                        .copy = copy_kind(u8(r, 4)),
                        .in_graph = i64(r, 64) != 0};
    uint8_t host_side = out->copy == PLB_COPY_IN ? u8(r, 5) : u8(r, 6);
    out->pinned = (out->copy == PLB_COPY_IN || out->copy == PLB_COPY_OUT) && host_side == PINNED;
}

static void decode_peer_copy(const void *r, plb_record *out) {
    *out = (plb_record){.kind = PLB_RECORD_COPY,
                        .start_ns = i64(r, 16),
                        .end_ns = i64(r, 24),
                        .device = u32(r, 32),
                        .stream = u32(r, 40),
                        .correlation = u32(r, 60),
                        .bytes = i64(r, 8),
                        .copy = PLB_COPY_PEER};
}

static void decode_set(const void *r, plb_record *out) {
    *out = (plb_record){.kind = PLB_RECORD_SET,
                        .start_ns = i64(r, 16),
                        .end_ns = i64(r, 24),
                        .device = u32(r, 32),
                        .stream = u32(r, 40),
                        .correlation = u32(r, 44),
                        .bytes = i64(r, 8),
                        .in_graph = i64(r, 64) != 0};
}

static void decode_graph(const void *r, plb_record *out) {
    *out = (plb_record){.kind = PLB_RECORD_GRAPH,
                        .start_ns = i64(r, 8),
                        .end_ns = i64(r, 16),
                        .device = u32(r, 24),
                        .stream = u32(r, 36),
                        .correlation = u32(r, 4)};
}

static void decode_call(const plb_cupti *cupti, int domain, const void *r, plb_record *out) {
    const char *name = NULL;
    *out = (plb_record){.kind = PLB_RECORD_CALL,
                        .start_ns = i64(r, 8),
                        .end_ns = i64(r, 16),
                        .thread = u32(r, 28),
                        .correlation = u32(r, 32)};
    if (cupti->callback_name(domain, u32(r, 4), &name) || !name) name = "(no name)";
    out->name = name;
    out->busy = plb_cupti_call_class(name);
}

// Only memory of the device: kinds 3 to 6 of CUpti_ActivityMemoryKind. The library that asked for
// it is in records of CUPTI 13, where that was wanted.
static bool decode_memory(const plb_cupti *cupti, const void *r, plb_record *out) {
    enum { LOCAL = 1 }; // CUpti_ActivityMemoryPoolType
    uint32_t operation = u32(r, 4), kind = u32(r, 8);
    if (kind < 3 || kind > 6 || operation < 1 || operation > 2) return false;
    *out = (plb_record){.kind = PLB_RECORD_MEMORY,
                        .start_ns = i64(r, 32),
                        .end_ns = i64(r, 32),
                        .device = u32(r, 52),
                        .address = i64(r, 16),
                        .bytes = operation == 1 ? i64(r, 24) : -i64(r, 24)};
    if (u32(r, 80) == LOCAL) out->pool_bytes = i64(r, 104), out->pool_used_bytes = i64(r, 112);
    if (cupti->version >= 130000 && i64(r, 120)) out->name = text(r, 120);
    return true;
}

bool plb_cupti_decode(const plb_cupti *cupti, const void *r, plb_record *out,
                      int64_t *overhead_ns) {
    *overhead_ns = 0;
    switch (u32(r, 0)) {
    case PLB_CUPTI_KERNEL: decode_kernel(r, out); return true;
    case PLB_CUPTI_MEMCPY: decode_copy(r, out); return true;
    case PLB_CUPTI_PEER_COPY: decode_peer_copy(r, out); return true;
    case PLB_CUPTI_MEMSET: decode_set(r, out); return true;
    case PLB_CUPTI_GRAPH: decode_graph(r, out); return true;
    case PLB_CUPTI_DRIVER: decode_call(cupti, PLB_CUPTI_DOMAIN_DRIVER, r, out); return true;
    case PLB_CUPTI_RUNTIME: decode_call(cupti, PLB_CUPTI_DOMAIN_RUNTIME, r, out); return true;
    case PLB_CUPTI_MEMORY: return decode_memory(cupti, r, out);
    case PLB_CUPTI_OVERHEAD:
        // CUPTI's own kinds begin at 1 << 16, but 4 and 5 of those are CUDA loading modules.
        if (u32(r, 4) >> 16 && u32(r, 4) >> 16 != 4 && u32(r, 4) >> 16 != 5)
            *overhead_ns = i64(r, 32) - i64(r, 24);
        return false;
    default: return false;
    }
}
