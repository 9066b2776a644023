// SPDX-License-Identifier: Apache-2.0
// How many threads of another process work at once, on one processor that they have to share: what
// turns out is known by construction, however busy the machine is.
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "bench/watch.h"

enum { STRETCH_NS = 1000000, WATCH_MS = 100 };

static void spin(int64_t length_ns) {
    const int64_t end = plb_now_ns() + length_ns;
    while (plb_now_ns() < end) continue;
}

static void *spin_for_ever(void *unused) {
    (void)unused;
    for (;;) spin(STRETCH_NS);
    return NULL;
}

static sem_t turns[2];
static int numbers[] = {0, 1};

static void *take_turns(void *number) {
    const int mine = *(const int *)number;
    for (;;) {
        while (sem_wait(&turns[mine])) continue;
        spin(STRETCH_NS);
        sem_post(&turns[1 - mine]);
    }
    return NULL;
}

// On the first processor that this process may use, with everything that the child makes.
static void stay_on_one(void) {
    cpu_set_t all, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof all, &all)) _exit(1);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &all)) continue;
        CPU_SET(i, &one);
        break;
    }
    if (sched_setaffinity(0, sizeof one, &one)) _exit(1);
}

typedef struct thread_work {
    void *(*work)(void *);
    int *number, said_fd; // where a byte says that the thread is there
} thread_work;

static void *begin_thread(void *context) {
    const thread_work *t = context;
    if (write(t->said_fd, "", 1) != 1) _exit(1);
    return t->work(t->number);
}

static _Noreturn void be_child(void *(*work)(void *), int said_fd) {
    thread_work second = {work, &numbers[1], said_fd};
    pthread_t other;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    stay_on_one();
    if (sem_init(&turns[0], 0, 1) || sem_init(&turns[1], 0, 0)) _exit(1);
    if (pthread_create(&other, NULL, begin_thread, &second)) _exit(1);
    work(&numbers[0]);
    _exit(1);
}

static plb_watched watched(void *(*work)(void *)) {
    const struct timespec nap = {.tv_nsec = WATCH_MS * 1000000};
    int said[2];
    char byte;
    CHECK(pipe(said) == 0);
    const pid_t child = fork();
    plb_watch *watch = NULL;
    plb_watched seen = {0};
    if (child == 0) be_child(work, said[1]);
    close(said[1]);
    CHECK(read(said[0], &byte, 1) == 1); // both threads are there
    close(said[0]);
    CHECK_OK(plb_watch_begin(child, WATCH_MS * 1e6, &watch));
    nanosleep(&nap, NULL);
    plb_watch_end(watch, &seen);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK_SAY(seen.looks > 15, "%d looks", (int)seen.looks);
    return seen;
}

// Where other programs do not have to wait (the test may not ask for that, or none may), a thread
// that has handed over may still wait for its last moment.
static void take_turns_watched(void) {
    const plb_watched seen = watched(take_turns);
    CHECK_NEAR(seen.at_once, 1, seen.exact ? 0.09 : 0.4);
}

static void work_at_once_watched(void) {
    const plb_watched seen = watched(spin_for_ever);
    CHECK_NEAR(seen.at_once, 2, seen.exact ? 0.09 : 0.4);
}

static void test_turns(void) {
    check_again(take_turns_watched);
}
static void test_at_once(void) {
    check_again(work_at_once_watched);
}

static const check_test tests[] = {
    {"threads that take turns are one", test_turns},
    {"threads that work at once on one processor are two", test_at_once},
};
CHECK_MAIN(tests)
