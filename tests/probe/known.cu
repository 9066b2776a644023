// SPDX-License-Identifier: Apache-2.0
// A CUDA program of which everything is known in advance, for tools/probe-check: kernels that last
// as long as they are told, on streams that overlap or do not, gaps, tiny copies, pinned and
// pageable ones, memsets, memory that is never given back, a graph, a fork, an end by signal.
//   nvcc -O2 -arch=sm_90 -o known tests/probe/known.cu;   known SCENARIO
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(call) check((call), #call)

static void check(cudaError_t code, const char *what) {
    if (code == cudaSuccess) return;
    fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(code));
    exit(70);
}

// By the device's clock, in ns.
struct Span {
    long long begin, end;
};

// One thread that watches the clock of the device until `ns` have gone by; `seen` may be NULL.
__global__ void spin(long long ns, Span *seen) {
    long long begin, now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
    do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - begin < ns);
    if (seen) *seen = {begin, now};
}

__global__ void touch(float *data, int n) {
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) data[i] += 1;
}

enum { MS = 1000000, MIB = 1 << 20 };

static void start_device(void) {
    CHECK(cudaFree(NULL));
    touch<<<1, 32>>>((float *)NULL, 0); // loads the module before anything is measured
    spin<<<1, 1>>>(0, NULL);
    CHECK(cudaDeviceSynchronize());
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

// What a host that sleeps too long does not change: when each kernel saw itself, and how long the
// host took for the copies.
static void tell(const Span *seen, int kernels, double copies_ms) {
    printf("{\"copies_ms\": %.3f, \"kernels\": [", copies_ms);
    for (int i = 0; i < kernels; i++)
        printf("%s[%lld, %lld]", i ? ", " : "", seen[i].begin, seen[i].end);
    printf("]}\n");
}

// Two streams of 10 x 4 ms, the second 20 ms later: 60 ms of work of which 20 overlap; then the
// host sleeps for 40 ms; then 20 ms of work. 100 copies of 12 bytes out, 8 of 16 MiB in from pinned
// and 4 of 16 MiB from pageable memory, 5 memsets of 1 MiB, 3 MiB never given back.
static void all(void) {
    cudaStream_t a, b;
    Span *seen;
    void *kept, *device, *pinned, *pageable = malloc(16 * MIB);
    float tiny[3];
    start_device();
    CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CHECK(cudaMalloc(&kept, 3 * MIB));
    CHECK(cudaMalloc(&device, 16 * MIB));
    CHECK(cudaMallocHost(&pinned, 16 * MIB));
    CHECK(cudaMallocHost(&seen, 21 * sizeof *seen));
    memset(pageable, 1, 16 * MIB);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaProfilerStart());
    for (int i = 0; i < 10; i++) spin<<<1, 1, 0, a>>>(4 * MS, seen + i);
    usleep(20000);
    for (int i = 0; i < 10; i++) spin<<<1, 1, 0, b>>>(4 * MS, seen + 10 + i);
    CHECK(cudaDeviceSynchronize());
    usleep(40000);
    spin<<<1, 1>>>(20 * MS, seen + 20);
    CHECK(cudaDeviceSynchronize());
    const double begin_ms = now_ms();
    for (int i = 0; i < 100; i++) CHECK(cudaMemcpy(tiny, device, 12, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 8; i++)
        CHECK(cudaMemcpyAsync(device, pinned, 16 * MIB, cudaMemcpyHostToDevice, a));
    for (int i = 0; i < 4; i++)
        CHECK(cudaMemcpy(device, pageable, 16 * MIB, cudaMemcpyHostToDevice));
    for (int i = 0; i < 5; i++) CHECK(cudaMemsetAsync(device, 0, MIB, a));
    CHECK(cudaDeviceSynchronize());
    const double copies_ms = now_ms() - begin_ms;
    CHECK(cudaProfilerStop());
    tell(seen, 21, copies_ms);
    CHECK(cudaFree(device));
    CHECK(cudaFreeHost(seen));
    CHECK(cudaFreeHost(pinned));
    free(pageable);
}

// A graph of 7 kernels, replayed 50 times.
static void graph(void) {
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    start_device();
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < 7; i++) spin<<<1, 1, 0, stream>>>(10000, NULL);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < 50; i++) CHECK(cudaGraphLaunch(executable, stream));
    CHECK(cudaStreamSynchronize(stream));
    CHECK(cudaGraphExecDestroy(executable));
    CHECK(cudaGraphDestroy(graph));
}

// Small kernels by the graph, for `seconds`: more a second than are worth a record each.
static void fast_graph(double seconds) {
    enum { NODES = 200 };
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    start_device();
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < NODES; i++) spin<<<1, 1, 0, stream>>>(0, NULL);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&executable, graph, 0));
    long launches = 0;
    const double begin_ms = now_ms();
    do {
        for (int i = 0; i < 10; i++, launches++) CHECK(cudaGraphLaunch(executable, stream));
        CHECK(cudaStreamSynchronize(stream));
    } while (now_ms() - begin_ms < 1e3 * seconds);
    printf("%ld launches of %d nodes\n", launches, NODES);
}

// 20 kernels; a forked child does nothing with the device; 5 more.
static void forking(void) {
    int status = 0;
    start_device();
    for (int i = 0; i < 20; i++) spin<<<1, 1>>>(10000, NULL);
    CHECK(cudaDeviceSynchronize());
    pid_t pid = fork();
    if (pid == 0) exit(3); // runs what atexit knows
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 3) exit(71);
    for (int i = 0; i < 5; i++) spin<<<1, 1>>>(10000, NULL);
    CHECK(cudaDeviceSynchronize());
}

// 30 kernels, then long enough for the probe to have looked, then no chance to say anything.
static void killed(void) {
    start_device();
    for (int i = 0; i < 30; i++) spin<<<1, 1>>>(10000, NULL);
    CHECK(cudaDeviceSynchronize());
    usleep(1500000);
    raise(SIGKILL);
}

// As many launches as the host can make for `seconds`.
static void launches(double seconds) {
    long count = 0;
    start_device();
    const double begin_ms = now_ms();
    do {
        for (int i = 0; i < 1000; i++, count++) spin<<<1, 1>>>(0, NULL);
        CHECK(cudaDeviceSynchronize());
    } while (now_ms() - begin_ms < 1e3 * seconds);
    printf("%ld launches\n", count);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "all";
    const double seconds = argc > 2 ? atof(argv[2]) : 3;
    if (strcmp(what, "graph") == 0) graph();
    else if (strcmp(what, "fast_graph") == 0) fast_graph(seconds);
    else if (strcmp(what, "fork") == 0) forking();
    else if (strcmp(what, "kill") == 0) killed();
    else if (strcmp(what, "launches") == 0) launches(seconds);
    else all();
    return 0;
}
