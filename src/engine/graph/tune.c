// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/tune.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/log.h"
#include "base/core/status.h"
#include "base/folder.h"
#include "engine/graph/graph.h"

static const char first_line[] = "plumb kernel choices 1\n";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static plb_map *index_of; // key -> index into choices
static plb_choice *choices;
static int n_choices, capacity;
static bool loaded;

static void append_tensor(plb_strbuf *key, const plb_tensor *t) {
    if (t->dtype == PLB_DTYPE_COUNT) {
        plb_strbuf_printf(key, " -");
        return;
    }
    char shape[160];
    plb_strbuf_printf(key, " %s%s%s", plb_dtype_name(t->dtype),
                      plb_shape_format(&t->shape, shape, sizeof shape), plb_layout_name(t->layout));
}

void plb_tune_key(const plb_backend *backend, const plb_query *q, plb_strbuf *key) {
    const plb_op *op = plb_op_of(q->op);
    plb_strbuf_printf(key, "%s threads=%d constant=%u winograd=%d %s", backend->fingerprint(q),
                      q->threads, q->constant, !q->no_winograd, op->name);
    if (q->math == PLB_MATH_TF32) plb_strbuf_printf(key, " math=tf32");
    if (q->unaligned) plb_strbuf_printf(key, " unaligned");
    if (op->describe) {
        plb_strbuf_printf(key, " ");
        op->describe(q->attrs, key);
    }
    for (int i = 0; i < q->n_in; i++) append_tensor(key, &q->in[i]);
    for (int i = 0; i < q->n_out; i++) append_tensor(key, &q->out[i]);
}

// The file of choices, with its folder made if asked for; false: there is no place for one.
static bool file_path(char *path, size_t size_bytes, bool make) {
    const char *folder = NULL;
    plb_arena *arena = plb_arena_new();
    bool fine = arena && plb_folder_of_cache(arena, &folder) == PLB_OK;
    if (fine && make) fine = plb_folder_make(folder) == PLB_OK;
    int n = fine ? snprintf(path, size_bytes, "%s/kernels", folder) : -1;
    plb_arena_free(arena);
    return n >= 0 && (size_t)n < size_bytes;
}

static void keep(const char *key, const plb_choice *choice) { // locked
    if (!index_of) index_of = plb_map_new();
    if (!index_of) return;
    if (plb_reserve(&choices, &capacity, n_choices + 1, sizeof *choices) != PLB_OK) return;
    if (plb_map_set(index_of, key, n_choices) != PLB_OK) return;
    choices[n_choices++] = *choice;
}

// "kernel \t choice \t key"
static void parse_line(char *line) {
    plb_choice choice = {0};
    char *tab = strchr(line, '\t'), *second = tab ? strchr(tab + 1, '\t') : NULL;
    if (!second) return;
    *tab = *second = '\0';
    if (strlen(line) >= sizeof choice.kernel || strlen(tab + 1) >= sizeof choice.choice) return;
    strcpy(choice.kernel, line);
    strcpy(choice.choice, tab + 1);
    keep(second + 1, &choice);
}

// NULL, too, for what is no regular file: a pipe would wait for a writer for ever.
static FILE *open_choices(const char *path) {
    struct stat info;
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    FILE *file = fd >= 0 && !fstat(fd, &info) && S_ISREG(info.st_mode) ? fdopen(fd, "r") : NULL;
    if (!file && fd >= 0) close(fd);
    return file;
}

static void load(void) { // locked
    char path[1024], line[4096];
    loaded = true;
    FILE *file = file_path(path, sizeof path, false) ? open_choices(path) : NULL;
    if (!file) return;
    bool known = fgets(line, sizeof line, file) && strcmp(line, first_line) == 0;
    while (known && fgets(line, sizeof line, file)) {
        size_t n = strlen(line);
        if (n && line[n - 1] == '\n') { // a line cut short was being written
            line[n - 1] = '\0';
            parse_line(line);
        }
    }
    fclose(file);
}

bool plb_tune_find(const char *key, plb_choice *out) {
    pthread_mutex_lock(&lock);
    if (!loaded) load();
    int64_t i = index_of ? plb_map_get(index_of, key, -1) : -1;
    if (i >= 0) *out = choices[i];
    pthread_mutex_unlock(&lock);
    return i >= 0;
}

bool plb_choices_find(const char *lines, const char *key, plb_choice *out) {
    size_t length = strlen(key);
    for (const char *line = lines; line && *line; line += *line == '\n') {
        const char *end = line + strcspn(line, "\n"), *kernel = line + length + 1;
        bool here =
            (size_t)(end - line) > length && !memcmp(line, key, length) && line[length] == '\t';
        line = end;
        if (!here) continue;
        const char *tab = memchr(kernel, '\t', (size_t)(end - kernel));
        if (!tab) continue;
        size_t n = (size_t)(tab - kernel), m = (size_t)(end - tab - 1);
        if (n >= sizeof out->kernel || m >= sizeof out->choice) continue;
        *out = (plb_choice){0};
        memcpy(out->kernel, kernel, n);
        memcpy(out->choice, tab + 1, m);
        return true;
    }
    return false;
}

static bool begins_as_ours(const char *path) {
    char line[sizeof first_line + 1];
    FILE *file = open_choices(path);
    if (!file) return false;
    bool ours = fgets(line, sizeof line, file) && strcmp(line, first_line) == 0;
    fclose(file);
    return ours;
}

// A file of another version, or one that a full disk cut short, would take lines that nobody reads.
static plb_status begin_anew(const char *path) {
    struct stat info;
    if (!stat(path, &info) && !S_ISREG(info.st_mode))
        return plb_fail(PLB_EIO, "%s: no regular file", path);
    return plb_atomic_write_all(path, first_line, strlen(first_line));
}

static void append_to_file(const char *key, const plb_choice *choice) {
    char path[1024], line[4096];
    int n = snprintf(line, sizeof line, "%s\t%s\t%s\n", choice->kernel, choice->choice, key);
    if (n < 0 || (size_t)n >= sizeof line || !file_path(path, sizeof path, true)) return;
    bool fine = begins_as_ours(path) || begin_anew(path) == PLB_OK;
    int fd = fine ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    if (fd < 0 || write(fd, line, (size_t)n) != n)
        plb_log_line(PLB_LOG_DEBUG, "%s: could not be written", path);
    if (fd >= 0) close(fd);
}

void plb_tune_remember(const char *key, const plb_choice *choice) {
    pthread_mutex_lock(&lock);
    keep(key, choice);
    append_to_file(key, choice);
    pthread_mutex_unlock(&lock);
}
