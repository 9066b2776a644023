// SPDX-License-Identifier: Apache-2.0
#include "base/thread.h"

#include <signal.h>
#include <stdatomic.h>

#include "base/core/status.h"
#include "base/folder.h"
#include "base/progress.h"
#include "check.h"
#include "faults.h"

static atomic_int calls[1000];

static plb_status count_call(void *context, int64_t i, int thread) {
    (void)context;
    atomic_fetch_add(&calls[i], 1);
    return thread >= 0 && thread < 4 ? PLB_OK : PLB_EBROKEN;
}

static void for_calls_each_index_once(void) {
    for (int threads = 0; threads <= 4; threads++) {
        memset(calls, 0, sizeof calls);
        CHECK_OK(plb_thread_for(1000, threads, count_call, NULL));
        for (int i = 0; i < 1000; i++) CHECK(atomic_load(&calls[i]) == 1);
    }
    CHECK_OK(plb_thread_for(0, 4, count_call, NULL));
}

static plb_status fail_from_500(void *context, int64_t i, int thread) {
    (void)context, (void)thread;
    return i >= 500 ? plb_fail(PLB_EIO, "index %lld", (long long)i) : PLB_OK;
}

static void for_gives_the_first_failure(void) {
    CHECK_FAILS(PLB_EIO, "index 500", plb_thread_for(1000, 1, fail_from_500, NULL));
    CHECK_FAILS(PLB_EIO, "index 5", plb_thread_for(1000, 3, fail_from_500, NULL));
}

static void *see_mask(void *context) {
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    *(int *)context = sigismember(&mask, SIGINT);
    return NULL;
}

static void threads_block_signals_and_the_caller_does_not(void) {
    plb_thread thread;
    int blocked = -1, ours = -1;
    CHECK_OK(plb_thread_start(&thread, "a name longer than fifteen", see_mask, &blocked));
    plb_thread_join(&thread);
    see_mask(&ours);
    CHECK(blocked == 1 && ours == 0);
}

static bool count_events(void *context, const plb_progress_event *event) {
    int *left = context;
    return --*left > 0 || event->last;
}

static void progress_is_told_now_and_then_and_may_cancel(void) {
    int left = 100;
    plb_progress progress = {count_events, &left, INT64_C(3600000000000), 0};
    plb_progress_event event = {.what = "work", .unit = "bytes", .total = 9};
    for (event.done = 0; event.done < 9; event.done++)
        CHECK_OK(plb_progress_tell(&progress, &event));
    CHECK(left == 99);
    event.last = true;
    CHECK_OK(plb_progress_tell(&progress, &event));
    CHECK(left == 98);
    progress.interval_ns = 0, event.last = false, left = 1;
    CHECK_FAILS(PLB_ECANCELLED, "work: stopped", plb_progress_tell(&progress, &event));
    CHECK_OK(plb_progress_tell(NULL, &event));
}

static void folders_are_made_and_listed(void) {
    const char *root = fault_folder();
    char path[128];
    plb_arena *arena = plb_arena_new();
    const char *const *names;
    size_t count;
    snprintf(path, sizeof path, "%s/a/b/c", root);
    CHECK_OK(plb_folder_make(path));
    CHECK_OK(plb_folder_make(path));
    CHECK(plb_folder_exists(path) && !plb_file_exists(path));
    for (int i = 0; i < 100; i++) {
        snprintf(path, sizeof path, "%s/a/b/%d", root, i);
        FILE *file = fopen(path, "wb");
        if (file) fclose(file);
        CHECK(plb_file_exists(path));
    }
    snprintf(path, sizeof path, "%s/a/b", root);
    CHECK_OK(plb_folder_list(path, arena, &names, &count));
    CHECK(count == 101 && !strcmp(names[0], "0") && !strcmp(names[1], "1"));
    CHECK(!strcmp(names[2], "10") && !strcmp(names[100], "c"));
    snprintf(path, sizeof path, "%s/a/b/7/d", root);
    CHECK_FAILS(PLB_EIO, "a/b/7", plb_folder_make(path));
    CHECK_FAILS(PLB_EIO, "a/b/7", plb_folder_list(path, arena, &names, &count));
    plb_arena_free(arena);
    snprintf(path, sizeof path, "rm -r '%s'", root);
    CHECK(system(path) == 0);
}

static const check_test tests[] = {
    {"for calls each index once", for_calls_each_index_once},
    {"for gives the first failure", for_gives_the_first_failure},
    {"threads block signals and the caller does not",
     threads_block_signals_and_the_caller_does_not},
    {"progress is told now and then and may cancel", progress_is_told_now_and_then_and_may_cancel},
    {"folders are made and listed", folders_are_made_and_listed},
};
CHECK_MAIN(tests)
