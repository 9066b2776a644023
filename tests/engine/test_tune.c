// SPDX-License-Identifier: Apache-2.0
// Kernel choices on disk, as one process leaves them to the next.
#include "engine/graph/tune.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/folder.h"
#include "check.h"

static char home[] = "/tmp/plumb-tune-XXXXXX";

static void file_name(char *path, size_t size_bytes) {
    snprintf(path, size_bytes, "%s/plumb/kernels", home);
}

static void put_file(const char *text) {
    char path[128];
    snprintf(path, sizeof path, "%s/plumb", home);
    CHECK_OK(plb_folder_make(path));
    file_name(path, sizeof path);
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

// In a process of its own, since what was read stays in memory.
static bool in_child(bool (*body)(int), int argument) {
    int status = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) _exit(body(argument) ? 0 : 1);
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

static bool remembers(int first) {
    plb_choice choice = {.kernel = "winograd", .choice = "4x4"};
    for (int i = first; i < first + 50; i++) {
        char key[32];
        snprintf(key, sizeof key, "key %d", i);
        plb_tune_remember(key, &choice);
    }
    return true;
}

static bool knows(int first) {
    plb_choice found;
    for (int i = first; i < first + 50; i++) {
        char key[32];
        snprintf(key, sizeof key, "key %d", i);
        if (!plb_tune_find(key, &found)) return false;
        if (strcmp(found.kernel, "winograd") || strcmp(found.choice, "4x4")) return false;
    }
    return true;
}

static void one_process_leaves_them_to_the_next(void) {
    CHECK(!in_child(knows, 0));
    CHECK(in_child(remembers, 0) && in_child(knows, 0));
    CHECK(in_child(remembers, 50) && in_child(knows, 0) && in_child(knows, 50));
}

// What a process that is just making the file, a full disk, or another version left there.
static void a_file_that_begins_otherwise_is_made_anew(void) {
    static const char *const begins[] = {"", "plumb kernel", "plumb kernel choices 0\nold\n"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        put_file(begins[i]);
        CHECK(in_child(remembers, 0));
        CHECK_SAY(in_child(knows, 0), "after a file that begins with \"%s\"", begins[i]);
    }
}

static void a_place_that_cannot_be_written_is_no_error(void) {
    char path[128];
    file_name(path, sizeof path);
    CHECK(remove(path) == 0 && mkdir(path, 0700) == 0);
    CHECK(in_child(remembers, 0) && !in_child(knows, 0));
    CHECK(rmdir(path) == 0);
}

static void several_may_write_at_once(void) {
    enum { WRITERS = 4 };
    pid_t child[WRITERS];
    put_file("plumb kernel choices 1\n");
    for (int w = 0; w < WRITERS; w++) {
        fflush(NULL);
        child[w] = fork();
        if (child[w] == 0) _exit(remembers(50 * w) ? 0 : 1);
    }
    for (int w = 0; w < WRITERS; w++) {
        int status = -1;
        CHECK(waitpid(child[w], &status, 0) == child[w] && status == 0);
    }
    for (int w = 0; w < WRITERS; w++) CHECK(in_child(knows, 50 * w));
}

static const check_test tests[] = {
    {"one_process_leaves_them_to_the_next", one_process_leaves_them_to_the_next},
    {"a_file_that_begins_otherwise_is_made_anew", a_file_that_begins_otherwise_is_made_anew},
    {"a_place_that_cannot_be_written_is_no_error", a_place_that_cannot_be_written_is_no_error},
    {"several_may_write_at_once", several_may_write_at_once},
};

int main(void) {
    if (!mkdtemp(home) || setenv("XDG_CACHE_HOME", home, 1)) return 1;
    int code = check_main(tests, sizeof tests / sizeof *tests);
    plb_status status = plb_folder_remove(home);
    return code ? code : (int)status;
}
