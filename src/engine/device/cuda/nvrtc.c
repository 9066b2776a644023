// SPDX-License-Identifier: Apache-2.0
// Kernels compiled at run time. The compiled code is kept in the process by the hash of its text,
// and on disk by text, architecture and compiler.
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "engine/device/cuda/cuda.h"

typedef struct nvrtc_program *program;

// The few functions of libnvrtc, declared here since some toolkits come without nvrtc.h.
static struct {
    int (*version)(int *major, int *minor);
    int (*create)(program *out, const char *source, const char *name, int n_headers,
                  const char *const *headers, const char *const *names);
    int (*compile)(program p, int n_options, const char *const *options);
    int (*cubin_size)(program p, size_t *out);
    int (*cubin)(program p, char *out);
    int (*log_size)(program p, size_t *out);
    int (*log)(program p, char *out);
    int (*destroy)(program *p);
    const char *(*text)(int code);
} nvrtc;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool found;
static int version_major, version_minor;

static void open_nvrtc(void) {
    static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", NULL};
    const plb_cuda_symbol symbols[] = {
        {"nvrtcVersion", &nvrtc.version},        {"nvrtcCreateProgram", &nvrtc.create},
        {"nvrtcCompileProgram", &nvrtc.compile}, {"nvrtcGetCUBINSize", &nvrtc.cubin_size},
        {"nvrtcGetCUBIN", &nvrtc.cubin},         {"nvrtcGetProgramLogSize", &nvrtc.log_size},
        {"nvrtcGetProgramLog", &nvrtc.log},      {"nvrtcDestroyProgram", &nvrtc.destroy},
        {"nvrtcGetErrorString", &nvrtc.text},
    };
    found =
        plb_cuda_symbols(plb_cuda_open_library(names), symbols, sizeof symbols / sizeof *symbols) &&
        nvrtc.version(&version_major, &version_minor) == 0;
}

bool plb_cuda_has_nvrtc(void) {
    pthread_once(&once, open_nvrtc);
    return found;
}

const char *plb_nvrtc_version(void) {
    static char text[24];
    if (!plb_cuda_has_nvrtc()) return NULL;
    snprintf(text, sizeof text, "%d.%d", version_major, version_minor);
    return text;
}

static plb_status failed(program p, int code, const char *what) {
    size_t size = 0;
    char *log = NULL;
    if (p && nvrtc.log_size(p, &size) == 0 && size > 1) log = plb_alloc(size + 1);
    if (log && nvrtc.log(p, log) != 0) log[0] = '\0';
    plb_status status = plb_fail(PLB_EBROKEN, "cuda: NVRTC: %s: %s%s%.700s", what, nvrtc.text(code),
                                 log ? ": " : "", log ? log : "");
    plb_free(log);
    return status;
}

static plb_status compile(const char *source, const char *arch, void **out, size_t *out_bytes) {
    const char *const options[] = {arch, "--std=c++17", "-lineinfo"};
    program p = NULL;
    plb_status status = PLB_OK;
    char *cubin = NULL;
    int code = nvrtc.create(&p, source, "plumb.cu", 0, NULL, NULL);
    if (code) return failed(NULL, code, "make a program");
    code = nvrtc.compile(p, 3, options);
    if (code) PLB_TRY_OUT(failed(p, code, "compile"));
    code = nvrtc.cubin_size(p, out_bytes);
    if (code) PLB_TRY_OUT(failed(p, code, "size"));
    cubin = plb_alloc(*out_bytes);
    if (!cubin) PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "out of memory for a kernel"));
    code = nvrtc.cubin(p, cubin);
    if (code) PLB_TRY_OUT(failed(p, code, "code"));
    *out = cubin;
    cubin = NULL;
out:
    plb_free(cubin);
    nvrtc.destroy(&p);
    return status;
}

// From disk, or compiled and put there.
static plb_status code_of(const char *source, int major, int minor, uint64_t hash, void **out,
                          size_t *out_bytes) {
    char arch[48], name[64];
    *out = NULL;
    pthread_once(&once, open_nvrtc);
    if (!found) {
        return plb_fail(PLB_EMISSING, "cuda: NVRTC (libnvrtc.so.13) was not found: set "
                                      "PLUMB_CUDA_PATH to its folder");
    }
    snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d%d", major, minor);
    snprintf(name, sizeof name, "kernel-%016llx-sm%d%d-nvrtc%d.%d", (unsigned long long)hash, major,
             minor, version_major, version_minor);
    if (plb_cuda_cache_read(name, out, out_bytes)) return PLB_OK;
    PLB_TRY(compile(source, arch, out, out_bytes));
    plb_cuda_cache_write(name, *out, *out_bytes);
    return PLB_OK;
}

plb_status plb_cuda_compile_only(const char *source, int major, int minor, void **out,
                                 size_t *out_bytes) {
    return code_of(source, major, minor, plb_hash_string(PLB_HASH_SEED, source), out, out_bytes);
}

// ---------------------------------------------------------------------------- loaded kernels
typedef struct loaded {
    uint64_t hash;
    int device_class; // 10 major + minor
    CUlibrary library;
} loaded;

static loaded *all;
static int n_all, capacity;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static plb_status load(const plb_device *device, const char *source, uint64_t hash,
                       CUlibrary *out) { // locked
    void *code = NULL;
    size_t bytes = 0;
    const int class = 10 * device->major + device->minor;
    for (int i = 0; i < n_all; i++) {
        if (all[i].hash != hash || all[i].device_class != class) continue;
        *out = all[i].library;
        return PLB_OK;
    }
    if (n_all == capacity) {
        int more = capacity ? 2 * capacity : 64;
        loaded *grown = plb_realloc_array(all, (size_t)more, sizeof *all);
        if (!grown) return plb_fail(PLB_ENOMEM, "out of memory for a kernel");
        all = grown;
        capacity = more;
    }
    PLB_TRY(code_of(source, device->major, device->minor, hash, &code, &bytes));
    // The driver keeps its own copy.
    plb_status status = plb_cuda_check(cuLibraryLoadData(out, code, NULL, NULL, 0, NULL, NULL, 0),
                                       "load a compiled kernel");
    plb_free(code);
    if (!status) all[n_all++] = (loaded){hash, class, *out};
    return status;
}

plb_status plb_cuda_compile(plb_device *device, const char *source, const char *name,
                            CUfunction *out) {
    CUlibrary library = NULL;
    CUkernel kernel = NULL;
    *out = NULL;
    PLB_TRY(plb_cuda_enter(device));
    pthread_mutex_lock(&lock);
    plb_status status = load(device, source, plb_hash_string(PLB_HASH_SEED, source), &library);
    pthread_mutex_unlock(&lock);
    if (!status) status = plb_cuda_check(cuLibraryGetKernel(&kernel, library, name), name);
    return status ? status : plb_cuda_check(cuKernelGetFunction(out, kernel), name);
}
