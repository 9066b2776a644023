// SPDX-License-Identifier: Apache-2.0
// Layouts and numbers are NVTX 3's (nvtxTypes.h, nvToolsExt.h), which it keeps for all time.
#include "probe/nvtx.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

enum { TABLE_OF_CALLBACKS = 1, MODULE_CORE = 1, MODULE_CORE2 = 5 };
enum { // NvtxCallbackIdCore
    START_EX = 4,
    START_A = 5,
    RANGE_END = 7,
    PUSH_EX = 8,
    PUSH_A = 9,
    POP = 11,
};
enum { // NvtxCallbackIdCore2
    DOMAIN_START_EX = 2,
    DOMAIN_END = 3,
    DOMAIN_PUSH_EX = 4,
    DOMAIN_POP = 5,
    DOMAIN_REGISTER_A = 10,
};
enum { MESSAGE_ASCII = 1, MESSAGE_REGISTERED = 3, NAMES_KEPT = 4096, NAME_BYTES = 96 };

typedef void (*function)(void);

typedef struct export_table {
    size_t size_bytes;
    int (*module_table)(int module, function ***out_table, unsigned *out_count);
} export_table;

// Of nvtxEventAttributes_t.
typedef struct attributes {
    uint16_t version, size_bytes;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    uint64_t payload;
    int32_t message_type;
    const char *message; // or what register_name returned
} attributes;

static const plb_nvtx_sink *sink;

// Names that a library registers once to use them often (cuDNN, NCCL): kept for good.
static char registered[NAMES_KEPT][NAME_BYTES];
static int registered_count;
static pthread_mutex_t registered_lock = PTHREAD_MUTEX_INITIALIZER;

static void *register_name(void *domain, const char *name) {
    char *kept = NULL;
    (void)domain;
    pthread_mutex_lock(&registered_lock);
    if (name && registered_count < NAMES_KEPT) {
        kept = registered[registered_count++];
        strncpy(kept, name, NAME_BYTES - 1);
    }
    pthread_mutex_unlock(&registered_lock);
    return kept;
}

static const char *name_of(const attributes *a) {
    if (!a || a->size_bytes < offsetof(attributes, message) + sizeof a->message || !a->message)
        return "(no name)";
    if (a->message_type == MESSAGE_ASCII) return a->message;
    if (a->message_type == MESSAGE_REGISTERED && a->message >= registered[0] &&
        a->message < registered[0] + sizeof registered)
        return a->message;
    return "(a name of another kind)"; // wide characters, or registered before we came
}

// NVTX wants the depth; no program is known to use it.
static int push(const char *name) {
    sink->push(name ? name : "(no name)");
    return 0;
}

static int push_ex(const attributes *a) {
    return push(name_of(a));
}

static int pop(void) {
    sink->pop();
    return 0;
}

static uint64_t start(const char *name) {
    return sink->start(name ? name : "(no name)");
}

static uint64_t start_ex(const attributes *a) {
    return start(name_of(a));
}

static void end(uint64_t id) {
    sink->end(id);
}

static int domain_push_ex(void *domain, const attributes *a) {
    (void)domain;
    return push_ex(a);
}

static int domain_pop(void *domain) {
    (void)domain;
    return pop();
}

static uint64_t domain_start_ex(void *domain, const attributes *a) {
    (void)domain;
    return start_ex(a);
}

static void domain_end(void *domain, uint64_t id) {
    (void)domain;
    end(id);
}

static void put(function **table, unsigned count, unsigned at, function ours) {
    if (at < count && table[at]) *table[at] = ours;
}

int plb_nvtx_take(const void *(*get_table)(uint32_t id), const plb_nvtx_sink *use) {
    const export_table *exported = get_table ? get_table(TABLE_OF_CALLBACKS) : NULL;
    function **core, **core2;
    unsigned count = 0, count2 = 0;
    if (!exported || exported->size_bytes < sizeof *exported ||
        !exported->module_table(MODULE_CORE, &core, &count))
        return 0;
    sink = use;
    put(core, count, PUSH_A, (function)push);
    put(core, count, PUSH_EX, (function)push_ex);
    put(core, count, POP, (function)pop);
    put(core, count, START_A, (function)start);
    put(core, count, START_EX, (function)start_ex);
    put(core, count, RANGE_END, (function)end);
    if (!exported->module_table(MODULE_CORE2, &core2, &count2)) return 1;
    put(core2, count2, DOMAIN_PUSH_EX, (function)domain_push_ex);
    put(core2, count2, DOMAIN_POP, (function)domain_pop);
    put(core2, count2, DOMAIN_START_EX, (function)domain_start_ex);
    put(core2, count2, DOMAIN_END, (function)domain_end);
    put(core2, count2, DOMAIN_REGISTER_A, (function)register_name);
    return 1;
}
