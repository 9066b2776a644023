// SPDX-License-Identifier: Apache-2.0
#include "fake_cupti.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ERROR = 1,
    QUEUE_EMPTY = 18,
    KINDS = 64,
    KERNEL = 10,
    COPY = 1,
    SET = 2,
    RUNTIME = 5,
    PEER_COPY = 22,
    MEMORY = 49
};

typedef void (*request_function)(uint8_t **buffer, size_t *size_bytes, size_t *max_records);
typedef void (*complete_function)(void *context, uint32_t stream, uint8_t *buffer,
                                  size_t size_bytes, size_t valid_bytes);

typedef void (*callback_function)(void *user, int domain, uint32_t id, const void *data);

static const char *const call_names[] = {"",
                                         "cudaLaunchKernel_v7000",
                                         "cudaDeviceSynchronize_v3020",
                                         "cudaMemcpyAsync_v3020",
                                         "cudaMalloc_v3020",
                                         "cudaFree_v3020",
                                         "cudaGraphLaunch_v10000",
                                         "cudaGetDevice_v3020",
                                         "cudaProfilerStart_v4000",
                                         "cudaProfilerStop_v4000"};
enum { CALLS = sizeof call_names / sizeof *call_names };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static request_function request;
static complete_function complete;
static bool enabled[KINDS], call_enabled[CALLS];
static callback_function heard;
static void *heard_user;
static bool listened[CALLS];
static uint8_t *buffer;
static size_t buffer_bytes, used_bytes, dropped, dropped_without_buffer;
static char failing[64];
static bool asks_for_sources;
static uint32_t correlation = 1u << 20; // below: numbers that a scenario chooses
static int64_t launched;
static _Atomic int64_t clock_ns; // 0: the system's

static bool fails(const char *function) {
    return strcmp(failing, function) == 0;
}

int fake_fails(const char *function) {
    return fails(function);
}

// The driver's own calls, of which there are few.
static const char *const driver_names[] = {"", "cuLaunchKernel", "cuGraphLaunch",
                                           "cuLaunchHostFunc"};
enum { DRIVER_CALLS = sizeof driver_names / sizeof *driver_names };
static bool driver_listened[DRIVER_CALLS];
static _Atomic bool gone; // finalized, until somebody registers again

// After it has gone nobody may use it, but to come again.
static void must_be_there(void) {
    if (gone) abort();
}

static size_t record_bytes(uint32_t kind) {
    switch (kind) {
    case KERNEL: return 208;
    case COPY: return 88;
    case PEER_COPY: return 88;
    case SET: return 88;
    case RUNTIME: return 40;
    case MEMORY: return 144;
    default: return 0;
    }
}

static void hand_over(void) {
    uint8_t *full = buffer;
    size_t size = buffer_bytes, valid = used_bytes;
    buffer = NULL;
    if (!full) return;
    pthread_mutex_unlock(&lock);
    complete(NULL, 0, full, size, valid);
    pthread_mutex_lock(&lock);
}

// Under the lock. Room for a record, zeroed, with its kind; NULL when nobody gives a buffer.
static uint8_t *room(uint32_t kind) {
    size_t bytes = record_bytes(kind), most;
    if (!enabled[kind] && kind != RUNTIME) return NULL;
    while (buffer && used_bytes + bytes > buffer_bytes) hand_over();
    if (!buffer) {
        uint8_t *fresh = NULL;
        size_t fresh_bytes = 0;
        request(&fresh, &fresh_bytes, &most);
        if (!fresh || fresh_bytes < bytes) {
            dropped_without_buffer++;
            return NULL;
        }
        buffer = fresh, buffer_bytes = fresh_bytes, used_bytes = 0;
    }
    uint8_t *record = buffer + used_bytes;
    used_bytes += bytes;
    memset(record, 0, bytes);
    memcpy(record, &kind, 4);
    return record;
}

static void put(uint8_t *record, size_t offset, const void *value, size_t bytes) {
    memcpy(record + offset, value, bytes);
}

static void put_u32(uint8_t *record, size_t offset, uint32_t value) {
    put(record, offset, &value, 4);
}

// As a launch does, whoever listens.
static void hear_launch(void) {
    uint64_t data[6] = {0};
    for (int site = 0; site < 2; site++) {
        pthread_mutex_lock(&lock);
        const callback_function to = listened[1] ? heard : NULL;
        void *user = heard_user;
        pthread_mutex_unlock(&lock);
        memcpy(data, &site, sizeof site);
        if (to) to(user, 2, 1, data);
    }
}

FAKE void fake_add_kernel(const fake_kernel *k) {
    hear_launch();
    pthread_mutex_lock(&lock);
    const int64_t number = ++launched; // whether somebody records it or not
    uint8_t *r = room(KERNEL);
    if (r) {
        uint16_t registers = (uint16_t)k->registers;
        put(r, 6, &registers, 2);
        put(r, 16, &k->start_ns, 8), put(r, 24, &k->end_ns, 8);
        put_u32(r, 40, k->device), put_u32(r, 48, k->stream);
        for (size_t i = 0; i < 3; i++) {
            put_u32(r, 52 + 4 * i, (uint32_t)k->grid[i]);
            put_u32(r, 64 + 4 * i, (uint32_t)k->block[i]);
        }
        put_u32(r, 80, (uint32_t)k->shared_bytes);
        put_u32(r, 92, k->correlation ? k->correlation : ++correlation);
        put(r, 96, &number, 8);
        put(r, 104, &k->name, sizeof k->name);
        put(r, 144, &k->graph_node, 8);
    }
    pthread_mutex_unlock(&lock);
}

FAKE void fake_add_copy(int64_t start_ns, int64_t end_ns, uint32_t device, int kind, int pinned,
                        uint64_t bytes) {
    pthread_mutex_lock(&lock);
    uint8_t *r = room(kind == 10 ? PEER_COPY : COPY);
    if (r) {
        uint8_t host = pinned ? 2 : 1;
        r[4] = (uint8_t)kind;
        r[5] = kind == 1 ? host : 3, r[6] = kind == 2 ? host : 3;
        put(r, 8, &bytes, 8), put(r, 16, &start_ns, 8), put(r, 24, &end_ns, 8);
        put_u32(r, 32, device), put_u32(r, kind == 10 ? 60 : 44, ++correlation);
    }
    pthread_mutex_unlock(&lock);
}

FAKE void fake_add_set(int64_t start_ns, int64_t end_ns, uint32_t device, uint64_t bytes) {
    pthread_mutex_lock(&lock);
    uint8_t *r = room(SET);
    if (r) {
        put(r, 8, &bytes, 8), put(r, 16, &start_ns, 8), put(r, 24, &end_ns, 8);
        put_u32(r, 32, device), put_u32(r, 44, ++correlation);
    }
    pthread_mutex_unlock(&lock);
}

static uint32_t call_number(const char *name) {
    for (uint32_t i = 1; i < CALLS; i++)
        if (strcmp(call_names[i], name) == 0) return i;
    abort(); // a scenario with a mistake
}

FAKE void fake_add_call(int64_t start_ns, int64_t end_ns, const char *name, uint32_t thread,
                        uint32_t number) {
    uint32_t id = call_number(name);
    pthread_mutex_lock(&lock);
    uint8_t *r = enabled[RUNTIME] || call_enabled[id] ? room(RUNTIME) : NULL;
    if (r) {
        put_u32(r, 4, id);
        put(r, 8, &start_ns, 8), put(r, 16, &end_ns, 8);
        put_u32(r, 28, thread), put_u32(r, 32, number ? number : ++correlation);
    }
    pthread_mutex_unlock(&lock);
}

FAKE void fake_add_memory(int64_t at_ns, uint32_t device, uint64_t bytes, int release) {
    fake_add_memory_of(at_ns, device, bytes, release, bytes, "/usr/lib/libmaker.so");
}

// A pool twice as large as what is in use has it.
FAKE void fake_add_memory_of(int64_t at_ns, uint32_t device, uint64_t bytes, int release,
                             uint64_t address, const char *library) {
    pthread_mutex_lock(&lock);
    uint8_t *r = room(MEMORY);
    if (r) {
        const uint64_t pool = 2 * bytes;
        put(r, 16, &address, 8);
        if (asks_for_sources) {
            put_u32(r, 80, 1), put(r, 104, &pool, 8), put(r, 112, &bytes, 8);
            put(r, 120, &library, sizeof library);
        }
        put_u32(r, 4, release ? 2 : 1), put_u32(r, 8, 3);
        put(r, 24, &bytes, 8), put(r, 32, &at_ns, 8), put_u32(r, 52, device);
    }
    pthread_mutex_unlock(&lock);
}

FAKE int fake_is_enabled(void) {
    pthread_mutex_lock(&lock);
    bool is = enabled[KERNEL];
    pthread_mutex_unlock(&lock);
    return is;
}

FAKE void fake_nobody_requests(uint8_t **none, size_t *size_bytes, size_t *max_records) {
    *none = NULL, *size_bytes = 0, *max_records = 0;
}

FAKE void fake_nobody_completes(void *context, uint32_t stream, uint8_t *none, size_t size_bytes,
                                size_t valid_bytes) {
    (void)context, (void)stream, (void)none, (void)size_bytes, (void)valid_bytes;
}

FAKE void fake_hear(const char *name) {
    uint32_t id = call_number(name);
    uint64_t data[6] = {0}; // the site comes first
    for (int site = 0; site < 2; site++) {
        memcpy(data, &site, sizeof site);
        if (heard && listened[id]) heard(heard_user, 2, id, data);
    }
}

static void hear_driver(uint32_t id, const char *symbol, void *context, int site) {
    const struct {
        int site;
        const void *unused[3];
        const char *symbol;
        void *context;
    } data = {.site = site, .symbol = symbol, .context = context};
    if (heard && driver_listened[id]) heard(heard_user, 1, id, &data);
}

void fake_hear_launch(const char *name, void *context, int site) {
    hear_driver(1, name, context, site);
}

FAKE void fake_graph_launch(void *context) {
    for (int site = 0; site < 2; site++) hear_driver(2, NULL, context, site);
}

FAKE void fake_clock(int64_t now_ns) {
    clock_ns = now_ns;
}

FAKE void fake_drop(size_t count) {
    pthread_mutex_lock(&lock);
    dropped += count;
    pthread_mutex_unlock(&lock);
}

FAKE void fake_fail(const char *function) {
    strncpy(failing, function, sizeof failing - 1);
}

// ---------------------------------------------------------------------------- CUPTI's names
FAKE int cuptiGetVersion(uint32_t *version);
FAKE int cuptiActivityRegisterCallbacks(request_function r, complete_function c);
FAKE int cuptiActivityRegisterTimestampCallback(uint64_t (*now_ns)(void));
FAKE int cuptiActivityEnable(int kind);
FAKE int cuptiActivityDisable(int kind);
FAKE int cuptiActivityFlushAll(uint32_t flag);
FAKE int cuptiActivityGetNextRecord(uint8_t *from, size_t valid_bytes, void **record);
FAKE int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count);
FAKE int cuptiGetTimestamp(uint64_t *time_ns);
FAKE int cuptiGetResultString(int code, const char **text);
FAKE int cuptiGetCallbackName(int domain, uint32_t id, const char **name);
FAKE int cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t enable);
FAKE int cuptiActivityEnableDriverApi(uint32_t id, uint8_t enable);
FAKE int cuptiSubscribe(void **subscriber, callback_function callback, void *user);
FAKE int cuptiUnsubscribe(void *subscriber);
FAKE int cuptiFinalize(void);
FAKE int cuptiActivityEnableAllocationSource(uint8_t enable);
FAKE int cuptiEnableCallback(uint32_t enable, void *subscriber, int domain, uint32_t id);

int cuptiGetVersion(uint32_t *version) {
    const char *text = getenv("FAKE_CUPTI_VERSION");
    *version = text ? (uint32_t)atoi(text) : 130001;
    return fails("cuptiGetVersion") ? ERROR : 0;
}

int cuptiActivityRegisterCallbacks(request_function r, complete_function c) {
    if (fails("cuptiActivityRegisterCallbacks")) return ERROR;
    pthread_mutex_lock(&lock);
    gone = false;
    request = r, complete = c;
    pthread_mutex_unlock(&lock);
    return 0;
}

// What has not been handed over by then has no times any more. So was work that CUPTI 13.0 handed
// over after PyTorch's profiler had called this and taken the records.
int cuptiActivityRegisterTimestampCallback(uint64_t (*now_ns)(void)) {
    if (!now_ns) return ERROR;
    pthread_mutex_lock(&lock);
    for (size_t at = 0; buffer && at < used_bytes;) {
        uint32_t kind;
        memcpy(&kind, buffer + at, 4);
        if (kind == KERNEL) memset(buffer + at + 16, 0, 16);
        at += record_bytes(kind);
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiActivityEnable(int kind) {
    must_be_there();
    if (fails("cuptiActivityEnable")) return ERROR;
    pthread_mutex_lock(&lock);
    if (kind >= 0 && kind < KINDS) enabled[kind] = true;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiActivityDisable(int kind) {
    pthread_mutex_lock(&lock);
    if (kind >= 0 && kind < KINDS) enabled[kind] = false;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiActivityFlushAll(uint32_t flag) {
    (void)flag;
    must_be_there();
    if (fails("cuptiActivityFlushAll")) return ERROR;
    const char *us = getenv("FAKE_FLUSH_US"); // what it takes
    if (us) usleep((useconds_t)atoi(us));
    pthread_mutex_lock(&lock);
    hand_over();
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiActivityGetNextRecord(uint8_t *from, size_t valid_bytes, void **record) {
    uint32_t kind;
    uint8_t *next = from;
    if (fails("cuptiActivityGetNextRecord")) return ERROR;
    if (*record) {
        memcpy(&kind, *record, 4);
        next = (uint8_t *)*record + record_bytes(kind);
    }
    if (next >= from + valid_bytes) return QUEUE_EMPTY;
    *record = next;
    return 0;
}

int cuptiActivityGetNumDroppedRecords(void *context, uint32_t stream, size_t *count) {
    (void)context, (void)stream;
    if (fails("cuptiActivityGetNumDroppedRecords")) return ERROR;
    pthread_mutex_lock(&lock); // a guest that holds a lock of its own here can wait for ever
    *count = dropped;
    dropped = 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiGetTimestamp(uint64_t *time_ns) {
    struct timespec t;
    must_be_there();
    if (fails("cuptiGetTimestamp")) return ERROR;
    clock_gettime(CLOCK_REALTIME, &t);
    const int64_t now_ns = clock_ns;
    if (now_ns)
        *time_ns = (uint64_t)now_ns;
    else
        *time_ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return 0;
}

int cuptiGetResultString(int code, const char **text) {
    *text = code ? "made to fail" : "fine";
    return fails("cuptiGetResultString") ? ERROR : 0;
}

int cuptiGetCallbackName(int domain, uint32_t id, const char **name) {
    if (fails("cuptiGetCallbackName") || id == 0) return ERROR;
    if (domain == 1 && id < DRIVER_CALLS) {
        *name = driver_names[id];
        return 0;
    }
    if (domain != 2 || id >= CALLS) return ERROR;
    *name = call_names[id];
    return 0;
}

int cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t enable) {
    if (fails("cuptiActivityEnableRuntimeApi") || id >= CALLS) return ERROR;
    pthread_mutex_lock(&lock);
    call_enabled[id] = enable;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiActivityEnableDriverApi(uint32_t id, uint8_t enable) {
    (void)id, (void)enable;
    return 0;
}

int cuptiSubscribe(void **subscriber, callback_function callback, void *user) {
    if (fails("cuptiSubscribe")) return ERROR;
    pthread_mutex_lock(&lock);
    const bool taken = heard != NULL;
    if (!taken) heard = callback, heard_user = user;
    pthread_mutex_unlock(&lock);
    if (taken) return ERROR;
    *subscriber = listened;
    return 0;
}

int cuptiUnsubscribe(void *subscriber) {
    pthread_mutex_lock(&lock);
    heard = NULL;
    memset(listened, 0, sizeof listened);
    pthread_mutex_unlock(&lock);
    return subscriber == listened ? 0 : ERROR;
}

// All that was asked for is forgotten, and what was recorded and not fetched is lost.
int cuptiFinalize(void) {
    if (fails("cuptiFinalize")) return ERROR;
    pthread_mutex_lock(&lock);
    memset(enabled, 0, sizeof enabled);
    memset(call_enabled, 0, sizeof call_enabled);
    memset(listened, 0, sizeof listened);
    memset(driver_listened, 0, sizeof driver_listened);
    heard = NULL;
    uint8_t *unfetched = buffer;
    const size_t size = buffer_bytes;
    buffer = NULL, used_bytes = 0, gone = true;
    pthread_mutex_unlock(&lock);
    if (unfetched) complete(NULL, 0, unfetched, size, 0);
    return 0;
}

int cuptiEnableCallback(uint32_t enable, void *subscriber, int domain, uint32_t id) {
    if (fails("cuptiEnableCallback") || subscriber != listened) return ERROR;
    if (domain == 1 && id < DRIVER_CALLS) {
        driver_listened[id] = enable;
        return 0;
    }
    if (domain != 2 || id >= CALLS) return ERROR;
    pthread_mutex_lock(&lock);
    listened[id] = enable;
    pthread_mutex_unlock(&lock);
    return 0;
}

int cuptiActivityEnableAllocationSource(uint8_t enable) {
    pthread_mutex_lock(&lock);
    asks_for_sources = enable;
    pthread_mutex_unlock(&lock);
    return 0;
}
