// SPDX-License-Identifier: Apache-2.0
// A program whose functions take known shares of the processor's time: heavy() 300 ms, light() 100.
// As its one word says, both in turn, light() in a child, in a thread, or after becoming another
// program; or light() alone, or heavy() below a hundred calls.
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t state;

static int64_t used_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// The same work under two names; the clock is looked at too seldom to show.
#define BUSY(name, ms)                                                                 \
    __attribute__((noinline)) static void name(void) {                                 \
        const int64_t end = used_ms() + (ms);                                          \
        while (used_ms() < end)                                                        \
            for (int i = 0; i < 100000; i++) state = state * 6364136223846793005u + 1; \
    }
BUSY(heavy, 300)
BUSY(light, 100)

static void deep(int calls);
static void (*volatile deeper)(int) = deep; // or the compiler would make several calls one

static void deep(int calls) {
    if (calls > 0)
        deeper(calls - 1);
    else
        heavy();
}

static void *in_thread(void *unused) {
    light();
    return unused;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "both";
    pthread_t thread;
    if (strcmp(what, "light") == 0) return light(), 0;
    if (strcmp(what, "deep") == 0) return deeper(100), deeper(100), 0;
    if (strcmp(what, "thread") == 0 && pthread_create(&thread, NULL, in_thread, NULL)) return 1;
    if (strcmp(what, "fork") == 0 && fork() == 0) return light(), 0;
    heavy();
    if (strcmp(what, "both") == 0) light();
    if (strcmp(what, "thread") == 0) pthread_join(thread, NULL);
    if (strcmp(what, "exec") == 0) execl(argv[0], argv[0], "light", (char *)NULL);
    while (wait(NULL) > 0) continue;
    return 0;
}
