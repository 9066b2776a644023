// SPDX-License-Identifier: Apache-2.0
// A program that seems to use a device: it loads what CUDA_INJECTION64_PATH names, as CUDA's driver
// does, and lets the fake CUPTI report a scenario.   guest SCENARIO
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "fake_cupti.h"

enum { MS = 1000000 };
static const int64_t zero = 1700000000000000000;

static void inject(void) {
    const char *driver = getenv("GUEST_CUDA");
    if (driver && !dlopen(driver, RTLD_NOW)) exit(98);
    const char *path = getenv("CUDA_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    int (*begin)(void) = NULL;
    void *symbol = library ? dlsym(library, "InitializeInjection") : NULL;
    memcpy(&begin, &symbol, sizeof symbol);
    if (begin && begin() != 1) exit(99);
}

static void kernel(int64_t start_ns, int64_t end_ns, uint32_t device, uint32_t stream,
                   const char *name) {
    const fake_kernel k = {.start_ns = zero + start_ns,
                           .end_ns = zero + end_ns,
                           .device = device,
                           .stream = stream,
                           .name = name,
                           .grid = {4, 2, 1},
                           .block = {128, 1, 1},
                           .registers = 32,
                           .shared_bytes = 1024};
    fake_add_kernel(&k);
}

static void copy(int64_t start_ns, int64_t end_ns, int kind, int pinned, uint64_t bytes) {
    fake_add_copy(zero + start_ns, zero + end_ns, 0, kind, pinned, bytes);
}

static void call(int64_t start_ns, int64_t end_ns, const char *name) {
    fake_add_call(zero + start_ns, zero + end_ns, name, 77, 0);
}

// 100 ms: kernels 0-10, 20-40 with 30-50 on another stream, a copy 45-60, a memset 60-65, a copy
// out 90-100; in between the host synchronises 65-80, allocates 80-85, then is in its own code.
static void known(void) {
    kernel(20 * MS, 40 * MS, 0, 7, "_Z4gemmPf");
    kernel(0, 10 * MS, 0, 7, "_Z4gemmPf");
    kernel(30 * MS, 50 * MS, 0, 9, "relu");
    copy(45 * MS, 60 * MS, 1, 1, 1 << 20);
    fake_add_set(zero + 60 * MS, zero + 65 * MS, 0, 4096);
    copy(90 * MS, 100 * MS, 2, 0, 12);
    call(65 * MS, 80 * MS, "cudaDeviceSynchronize_v3020");
    call(80 * MS, 85 * MS, "cudaMalloc_v3020");
    call(10 * MS, 11 * MS, "cudaLaunchKernel_v7000"); // only under --api
    fake_add_memory(zero, 0, 1 << 20, 0);
    fake_add_memory(zero + 5, 0, 3 << 20, 0);
    fake_add_memory(zero + 9, 0, 1 << 20, 1);
}

// ---------------------------------------------------------------------------- NVTX
typedef void (*function)(void);
static int (*push)(const char *name);
static int (*pop)(void);
static uint64_t (*start)(const char *name);
static void (*finish)(uint64_t id);
static function *core[16] = {[5] = (function *)&start,
                             [7] = (function *)&finish,
                             [9] = (function *)&push,
                             [11] = (function *)&pop};

static int module_table(int module, function ***table, unsigned *count) {
    *table = core, *count = 16;
    return module == 1;
}

static const void *get_table(uint32_t id) {
    static const struct {
        size_t bytes;
        int (*module_table)(int module, function ***table, unsigned *count);
    } exported = {sizeof exported, module_table};
    return id == 1 ? &exported : NULL;
}

static void begin_marks(void) {
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_NOW) : NULL;
    int (*begin)(const void *(*)(uint32_t)) = NULL;
    void *symbol = library ? dlsym(library, "InitializeInjectionNvtx2") : NULL;
    memcpy(&begin, &symbol, sizeof symbol);
    if (!begin || begin(get_table) != 1 || !push || !pop || !start || !finish) exit(97);
}

static void at(int64_t ns) {
    fake_clock(zero + ns);
}

static void launch(int64_t at_ns, uint32_t thread, uint32_t number) {
    fake_add_call(zero + at_ns, zero + at_ns + 1000, "cudaLaunchKernel_v7000", thread, number);
}

static void launched(int64_t start_ns, int64_t end_ns, uint32_t number) {
    const fake_kernel k = {.start_ns = zero + start_ns,
                           .end_ns = zero + end_ns,
                           .name = "work",
                           .grid = {1, 1, 1},
                           .block = {1, 1, 1},
                           .correlation = number};
    fake_add_kernel(&k);
}

// step 0-50 { forward 10-20, backward 20-40 }; work of 10 ms launched in forward, of 20 ms by
// another thread during backward, 3 + 4 ms by one call of step itself, 1 ms after it.
static void ranges(void) {
    uint32_t self = (uint32_t)gettid();
    begin_marks();
    at(0), push("step");
    at(10 * MS), push("forward");
    at(20 * MS), pop();
    push("backward");
    at(40 * MS), pop();
    uint64_t id = start("epoch");
    at(50 * MS), pop();
    at(55 * MS), finish(id);
    pop(); // one too many
    launched(12 * MS, 22 * MS, 5);
    launch(11 * MS, self, 5);
    launch(25 * MS, 999, 6);
    launched(25 * MS, 45 * MS, 6);
    launch(45 * MS, self, 7);
    launched(45 * MS, 48 * MS, 7);
    launched(48 * MS, 52 * MS, 7);
    launch(60 * MS, self, 8);
    launched(60 * MS, 61 * MS, 8);
}

// While nothing is recorded ranges begin and end, also around and inside of recorded ones:
// 0-99 epoch { 10-30 unseen { 20-30 unseen }, 50-60 step, 70-96 unseen { 80-95 inside } }; recorded
// are 0-5, 40-65 and 75-99, and work of 2 ms launched inside.
static void interrupted(void) {
    begin_marks();
    push("before"), pop();
    push("around"); // its end is one too many
    at(0), fake_hear("cudaProfilerStart_v4000"), push("epoch");
    at(5 * MS), fake_hear("cudaProfilerStop_v4000");
    at(10 * MS), push("unseen");
    at(20 * MS), push("unseen");
    at(30 * MS), pop(), pop();
    at(40 * MS), fake_hear("cudaProfilerStart_v4000");
    at(50 * MS), push("step");
    at(60 * MS), pop();
    at(65 * MS), fake_hear("cudaProfilerStop_v4000");
    at(70 * MS), push("unseen");
    at(75 * MS), fake_hear("cudaProfilerStart_v4000");
    at(80 * MS), push("inside");
    launch(85 * MS, (uint32_t)gettid(), 5);
    launched(86 * MS, 88 * MS, 5);
    at(95 * MS), pop();
    at(96 * MS), pop();
    at(99 * MS), pop(), pop();
    fake_hear("cudaProfilerStop_v4000");
}

// Marks as PyTorch's emit_nvtx makes them: 6,000 calls of one operator with numbers of their own,
// each around another, and one that tells shapes; more names than there are rows.
static void operators(void) {
    char name[128];
    begin_marks();
    for (int i = 0; i < 6000; i++) {
        const uint32_t number = 5 + (uint32_t)i;
        snprintf(name, sizeof name, "aten::linear, seq = %d, op_id = %d", 7 * i, 2 * i + 1);
        at(10000 * i), push(name);
        snprintf(name, sizeof name, "aten::addmm, op_id = %d, sizes = [[%d, 2], []]%s", 2 * i + 2,
                 1 + i % 2, i % 3 ? ", input_op_ids = [(4,0), (-1,-1)]" : "");
        at(10000 * i + 1000), push(name);
        launch(10000 * i + 2000, (uint32_t)gettid(), number);
        launched(10000 * i + 4000, 10000 * i + 9000, number);
        at(10000 * i + 8000), pop();
        at(10000 * i + 9000), pop();
    }
}

// Other work than "known" has.
static void mixed(void) {
    const fake_kernel k = {.start_ns = zero,
                           .end_ns = zero + 20 * MS,
                           .name = "_Z4gemmPf",
                           .grid = {8, 2, 1},
                           .block = {128, 1, 1}};
    fake_add_kernel(&k);
    kernel(30 * MS, 40 * MS, 0, 7, "tanh");
}

// Only what lies between the program's own marks is recorded.
static void window(void) {
    kernel(0, 10 * MS, 0, 7, "before");
    call(5 * MS, 6 * MS, "cudaMalloc_v3020");
    copy(12 * MS, 14 * MS, 1, 1, 4096);
    at(15 * MS);
    fake_hear("cudaProfilerStart_v4000");
    copy(32 * MS, 36 * MS, 1, 1, 1 << 20);
    call(30 * MS, 36 * MS, "cudaMalloc_v3020");
    kernel(20 * MS, 30 * MS, 0, 7, "inside");
    kernel(40 * MS, 50 * MS, 0, 7, "inside");
    at(55 * MS);
    fake_hear("cudaProfilerStop_v4000");
    call(56 * MS, 58 * MS, "cudaMalloc_v3020");
    copy(56 * MS, 58 * MS, 2, 1, 4096);
    kernel(60 * MS, 70 * MS, 0, 7, "after");
}

static int64_t since_ns(const struct timespec *begin) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - begin->tv_sec) * INT64_C(1000000000) + now.tv_nsec - begin->tv_nsec;
}

// For 3 s a kernel each millisecond or, while it is recorded, each 1.25.
static void blocks(void) {
    struct timespec begin;
    int64_t now_ns = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (; now_ns < 3000 * (int64_t)MS; now_ns = since_ns(&begin)) {
        at(now_ns + 1);
        kernel(now_ns, now_ns + 1000, 0, 7, "step");
        usleep(fake_is_enabled() ? 1250 : 1000);
    }
}

// Two libraries take memory; one gives half of its own back.
static void memory(void) {
    kernel(0, MS, 0, 7, "work");
    for (uint64_t i = 1; i <= 10; i++)
        fake_add_memory_of(zero + (int64_t)i, 0, 1 << 20, 0, i << 21, "/opt/lib/libframework.so");
    fake_add_memory_of(zero + 20, 0, 3 << 20, 0, 1 << 30, "libblas.so.12");
    for (uint64_t i = 1; i <= 5; i++)
        fake_add_memory_of(zero + 20 + (int64_t)i, 0, 1 << 20, 1, i << 21, NULL);
}

// The device waits 400 ms for what the host does in one function.
static volatile uint64_t prepared;
__attribute__((noinline)) static void prepare_input(void) {
    struct timespec begin;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    while (since_ns(&begin) < 400 * (int64_t)MS)
        for (int i = 0; i < 100000; i++) prepared = prepared * 6364136223846793005u + 1;
}

static void work_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t now_ns = now.tv_sec * INT64_C(1000000000) + now.tv_nsec - zero;
    kernel(now_ns - MS, now_ns, 0, 7, "work");
}

static void prepares(void) {
    work_now();
    prepare_input();
    work_now();
}

// Another profiler's subscriber.
static void nobody_hears(void *user, int domain, uint32_t id, const void *data) {
    (void)user, (void)domain, (void)id, (void)data;
}

static void subscribe(void) {
    int (*take)(void **subscriber, void (*)(void *, int, uint32_t, const void *), void *) = NULL;
    void *subscriber = NULL, *symbol = dlsym(dlopen(NULL, RTLD_NOW), "cuptiSubscribe");
    memcpy(&take, &symbol, sizeof symbol);
    if (!take || take(&subscriber, nobody_hears, NULL)) exit(96);
}

// For some seconds 60,000 kernels each, of 4 us and, every third, 10; after each 6,000 of them the
// host copies for 2 ms. In the middle nothing for a second. Prints how many of each there were.
static void rapid(int64_t seconds) {
    enum { EACH = 60, EACH_NS = MS / EACH };
    struct timespec begin;
    int64_t count[2] = {0}, copies = 0, pause_ns = 0;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (int64_t ms = 0; ms < 1000 * seconds; ms++) {
        if (ms == 500 * seconds) usleep(1000000), pause_ns = 1000 * (int64_t)MS;
        while (since_ns(&begin) < ms * MS + pause_ns) usleep(100);
        at(ms * MS + pause_ns);
        if (ms % 100 == 0) {
            copy(ms * MS + pause_ns, (ms + 2) * MS + pause_ns, 1, 1, 1 << 20), copies++;
            continue;
        }
        if (ms % 100 == 1) continue;
        for (int64_t i = 0, from_ns = ms * MS + pause_ns; i < EACH; i++, from_ns += EACH_NS) {
            const bool third = i % 3 == 0;
            kernel(from_ns, from_ns + (third ? 10000 : 4000), 0, 7, third ? "third" : "others");
            count[third]++;
        }
    }
    printf("{\"third\": %lld, \"others\": %lld, \"copies\": %lld}\n", (long long)count[1],
           (long long)count[0], (long long)copies);
}

static uint64_t other_clock(void) {
    return 1;
}

// Another profiler comes by the same door as we did, with a clock of its own if it has one.
static void take_over(bool has_clock) {
    void *library = dlopen(NULL, RTLD_NOW);
    int (*take)(fake_request request, fake_complete complete) = NULL;
    int (*take_clock)(uint64_t(*now_ns)(void)) = NULL;
    void *symbol = dlsym(library, "cuptiActivityRegisterCallbacks");
    memcpy(&take, &symbol, sizeof symbol);
    symbol = dlsym(library, "cuptiActivityRegisterTimestampCallback");
    memcpy(&take_clock, &symbol, sizeof symbol);
    if (has_clock && (!take_clock || take_clock(other_clock))) exit(96);
    if (!take || take(fake_nobody_requests, fake_nobody_completes)) exit(96);
}

static void later(bool has_clock) {
    kernel(0, 10 * MS, 0, 7, "ours");
    take_over(has_clock);
    kernel(20 * MS, 30 * MS, 0, 7, "theirs");
}

// No launch is left for the probe to leave by when another profiler comes. Prints how long that one
// waited, and whether kernels are recorded once it has come.
static void stops(void) {
    struct timespec begin;
    for (int64_t ms = 0; ms < 3000 && fake_is_enabled(); ms++) {
        at(ms * MS + 1);
        for (int64_t i = 0; i < 100; i++)
            kernel(ms * MS + i * 10000, ms * MS + i * 10000 + 4000, 0, 7, "step");
        usleep(1000);
    }
    usleep(60000);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    take_over(true);
    const int64_t waited_ns = since_ns(&begin);
    usleep(500000);
    printf("{\"waited_ms\": %.1f, \"recorded\": %d}\n", (double)waited_ns / 1e6, fake_is_enabled());
}

static void *many_of(void *stream) {
    for (int64_t i = 0; i < 250000; i++)
        kernel(i * 10000, i * 10000 + 4000, 0, (uint32_t)(size_t)stream, "step");
    return NULL;
}

// A million kernels from four threads, of which each quarter covers the same time.
static void threads(void) {
    pthread_t thread[4];
    for (size_t i = 0; i < 4; i++) pthread_create(&thread[i], NULL, many_of, (void *)i);
    for (size_t i = 0; i < 4; i++) pthread_join(thread[i], NULL);
}

// For hours of a launch-bound program: a hundred kernels in turn, one each 10 us.
static void flood(int64_t count) {
    static char name[100][16];
    for (int i = 0; i < 100; i++) snprintf(name[i], sizeof name[i], "layer_%d", i);
    for (int64_t i = 0; i < count; i++)
        kernel(i * 10000, i * 10000 + 4000, 0, (uint32_t)(i % 4), name[i % 100]);
}

// 200 launches of two kernels in one context, one in another, a graph's; marked: from the 101st on.
static void counted(bool marked) {
    static int context, other;
    for (int i = 0; i < 200; i++) {
        if (marked && i == 100) fake_hear("cudaProfilerStart_v4000");
        fake_launch(i % 4 ? "_Z4gemmPf" : "relu", &context);
    }
    if (marked) fake_hear("cudaProfilerStop_v4000");
    fake_launch("relu", &other);
    fake_graph_launch(&context);
}

// More names than the probe's table has rows.
static void names(void) {
    enum { COUNT = 20000, BYTES = 32 };
    char *text = malloc((size_t)COUNT * BYTES);
    for (int64_t i = 0; i < COUNT; i++) {
        snprintf(text + i * BYTES, BYTES, "kernel_%d", (int)i);
        kernel(i * MS, i * MS + 1000, 0, 7, text + i * BYTES);
    }
}

// Asked by LeakSanitizer when a process ends. In the child it would wait for the allocator's lock
// for ever: a thread that was not forked may have held it.
static bool is_child;
FAKE int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) {
    return is_child;
}

static void forking(void) {
    kernel(0, MS, 0, 7, "before");
    pid_t pid = fork();
    if (pid == 0) {
        is_child = true;
        kernel(0, 50 * MS, 0, 7, "in_child");
        exit(3); // runs what atexit knows
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 3) exit(98);
    kernel(2 * MS, 3 * MS, 0, 7, "after");
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "known";
    if (strncmp(what, "fail=", 5) == 0) fake_fail(what + 5);
    if (strncmp(what, "rapid=", 6) == 0 || strncmp(what, "away=", 5) == 0)
        at(1); // a clock of its own from the start
    inject();
    if (strcmp(what, "threads") == 0) {
        threads();
    } else if (strncmp(what, "away=", 5) == 0) {
        rapid(atoll(what + 5));
        for (int i = 0; fake_is_enabled() && i < 1000; i++) {
            kernel(i, i + 1, 0, 7, "last");
            usleep(1000);
        }
        later(false);
    } else if (strncmp(what, "rapid=", 6) == 0) {
        if (getenv("GUEST_SUBSCRIBES")) subscribe();
        rapid(atoll(what + 6));
    } else if (strncmp(what, "flood=", 6) == 0) {
        flood(atoll(what + 6));
    } else if (strcmp(what, "counted") == 0 || strcmp(what, "fail=counters") == 0) {
        counted(false);
    } else if (strcmp(what, "counted_window") == 0) {
        counted(true);
    } else if (strcmp(what, "names") == 0) {
        names();
    } else if (strcmp(what, "fork") == 0) {
        forking();
    } else if (strcmp(what, "operators") == 0) {
        operators();
    } else if (strcmp(what, "ranges") == 0) {
        ranges();
    } else if (strcmp(what, "interrupted") == 0) {
        interrupted();
    } else if (strcmp(what, "mixed") == 0) {
        mixed();
    } else if (strcmp(what, "window") == 0) {
        window();
    } else if (strcmp(what, "memory") == 0) {
        memory();
    } else if (strcmp(what, "prepares") == 0) {
        prepares();
    } else if (strcmp(what, "blocks") == 0) {
        blocks();
    } else if (strcmp(what, "stops") == 0) {
        stops();
    } else if (strcmp(what, "later") == 0 || strcmp(what, "clocked") == 0) {
        later(strcmp(what, "clocked") == 0);
    } else if (strcmp(what, "nothing") != 0) {
        known();
    }
    if (strcmp(what, "dropped") == 0) fake_drop(5);
    if (strcmp(what, "kill") == 0) {
        usleep(1200000); // longer than the probe leaves between two looks
        raise(SIGKILL);
    }
    if (strcmp(what, "_exit") == 0) usleep(1200000), _exit(4);
    if (strcmp(what, "abort") == 0) abort();
    if (strcmp(what, "exec") == 0) {
        kernel(110 * MS, 111 * MS, 0, 7, "first_program");
        usleep(1200000);
        execl(argv[0], argv[0], "known", (char *)NULL);
    }
    return strcmp(what, "code") == 0 ? 42 : 0;
}
