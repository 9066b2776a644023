// SPDX-License-Identifier: Apache-2.0
#include "stacks/install.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/core/arena.h"
#include "base/core/status.h"
#include "base/folder.h"
#include "stacks/family.h"
#include "stacks/manifest.h"
#include "stacks/place.h"
#include "stacks/python.h"

enum { MAX_WORDS = 24, LINE_BYTES = 400 };

// One `add` under way.
typedef struct job {
    const plb_stack_add *add;
    plb_stack_family family;
    plb_arena *arena;
    const char *home, *sources, *log;
    const char *part;           // where the new environment is made
    const char *python;         // that the stacks will run in
    char last_line[LINE_BYTES]; // the last one that a program printed; an error before all else
} job;

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory");
}

static plb_status lock(plb_arena *arena, const char *home, int *out) {
    PLB_TRY(plb_folder_make(home));
    const char *path = plb_arena_printf(arena, "%s/.lock", home);
    if (!path) return no_memory();
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return plb_fail_errno("%s", path);
    if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
        *out = fd;
        return PLB_OK;
    }
    close(fd);
    return plb_fail(PLB_EIO, "%s: another plumb is changing the stacks", home);
}

static bool told(void *context, const char *line) {
    job *j = context;
    bool was_error = strncmp(j->last_line, "ERROR", 5) == 0;
    if (line && *line && (!was_error || strncmp(line, "ERROR", 5) == 0)) {
        snprintf(j->last_line, sizeof j->last_line, "%s", line);
    }
    return !j->add->line || j->add->line(j->add->context, line);
}

// Runs a program as one step; anything but success is PLB_EMISSING with its last words.
static plb_status step(job *j, const char *title, const char *const *argv) {
    if (j->add->step) j->add->step(j->add->context, title);
    j->last_line[0] = '\0';
    int code;
    const plb_child child = {.argv = argv, .log = j->log, .callback = told, .context = j};
    PLB_TRY(plb_child_run(&child, &code));
    if (code == 0) return PLB_OK;
    return plb_fail(PLB_EMISSING, "%s: %s ended with %d: %s (all of it: %s)", title, argv[0], code,
                    j->last_line[0] ? j->last_line : "it said nothing", j->log);
}

static plb_status pip(job *j, const char *file, const char *index) {
    const char *requirements =
        plb_arena_printf(j->arena, "%s/%s/%s", j->sources, j->family.name, file);
    if (!requirements) return no_memory();
    const char *argv[MAX_WORDS] = {j->python,    "-u",
                                   "-m",         "pip",
                                   "install",    "--disable-pip-version-check",
                                   "--no-input", "--progress-bar",
                                   "off",        "-r",
                                   requirements, index ? "--index-url" : NULL,
                                   index};
    return step(j, "installing packages", argv);
}

static plb_status make_environment(job *j) {
    const char *venv = plb_arena_printf(j->arena, "%s/venv", j->part);
    j->python = plb_arena_printf(j->arena, "%s/bin/python", venv);
    const char *base = plb_file_exists("/usr/bin/python3") ? "/usr/bin/python3" : "python3";
    if (!venv || !j->python) return no_memory();
    const char *const argv[] = {base, "-m", "venv", venv, NULL};
    PLB_TRY(step(j, "making a Python environment", argv));
    PLB_TRY(pip(j, "requirements.txt", j->add->torch_index));
    const char *more =
        plb_arena_printf(j->arena, "%s/%s/requirements-more.txt", j->sources, j->family.name);
    if (!more) return no_memory();
    return plb_file_exists(more) ? pip(j, "requirements-more.txt", NULL) : PLB_OK;
}

typedef struct first_line {
    const plb_stack_add *add;
    char text[LINE_BYTES];
} first_line;

static bool keep_first(void *context, const char *line) {
    first_line *first = context;
    if (line && !first->text[0]) snprintf(first->text, sizeof first->text, "%s", line);
    return !first->add->line || first->add->line(first->add->context, NULL);
}

// The path of a Python as it knows itself: a link in an environment is not followed, since it is
// what makes it that environment.
static plb_status find_python(job *j, const char *name) {
    first_line path = {.add = j->add};
    const char *const argv[] = {name, "-c", "import sys; print(sys.executable)", NULL};
    const plb_child child = {.argv = argv, .callback = keep_first, .context = &path};
    int code;
    PLB_TRY(plb_child_run(&child, &code));
    if (code || path.text[0] != '/') {
        return plb_fail(PLB_EINVAL, "--python %s: this is no Python", name);
    }
    j->python = plb_arena_strdup(j->arena, path.text);
    return j->python ? PLB_OK : no_memory();
}

static plb_status check_packages(job *j) {
    plb_python_package package[PLB_FAMILY_NAMES] = {0};
    size_t count = 0;
    for (; count < PLB_FAMILY_NAMES && j->family.packages[count][0]; count++) {
        package[count].name = j->family.packages[count];
    }
    if (!plb_python_versions(j->python, package, count)) {
        return plb_fail(PLB_EMISSING, "%s cannot be run", j->python);
    }
    for (size_t i = 0; i < count; i++) {
        if (!package[i].version[0]) {
            return plb_fail(PLB_EMISSING, "%s has no %s, which %s needs", j->python,
                            package[i].name, j->family.name);
        }
    }
    return PLB_OK;
}

static plb_status check_imports(job *j) {
    const char *argv[MAX_WORDS] = {
        j->python, "-c",
        "import importlib, sys\nfor n in sys.argv[1:]: importlib.import_module(n)"};
    for (int i = 0; i < PLB_FAMILY_NAMES && j->family.packages[i][0]; i++) {
        argv[3 + i] = j->family.packages[i];
    }
    return step(j, "checking that it can be imported", argv);
}

// Moves `name` from the part to its place; what was there goes to the part, to be removed with it.
static plb_status put_in_place(job *j, const char *name) {
    const char *folder = plb_arena_printf(j->arena, "%s/%s", j->home, j->family.name);
    const char *from = plb_arena_printf(j->arena, "%s/%s", j->part, name);
    const char *to = plb_arena_printf(j->arena, "%s/%s", folder, name);
    const char *old = plb_arena_printf(j->arena, "%s/old", j->part);
    if (!folder || !from || !to || !old) return no_memory();
    PLB_TRY(plb_folder_make(folder));
    if (rename(to, old) != 0 && errno != ENOENT) return plb_fail_errno("%s", to);
    // Nothing new where --python is used: then the old environment only goes.
    if (rename(from, to) != 0 && errno != ENOENT) return plb_fail_errno("%s", to);
    return PLB_OK;
}

static plb_status write_manifests(job *j) {
    const char *worker = plb_arena_printf(j->arena, "%s/%s", j->sources, j->family.worker);
    if (!worker) return no_memory();
    for (int i = 0; i < PLB_FAMILY_NAMES && j->family.stacks[i][0]; i++) {
        const char *name = j->family.stacks[i];
        const plb_manifest manifest = {
            .name = name,
            .family = &j->family,
            .python = j->python,
            .command = {j->python, "-u", worker, name},
        };
        PLB_TRY(plb_manifest_write(j->home, &manifest));
    }
    return PLB_OK;
}

static plb_status add_python(job *j) {
    if (j->add->python) {
        PLB_TRY(find_python(j, j->add->python));
        PLB_TRY(check_packages(j));
    } else {
        PLB_TRY(make_environment(j));
    }
    PLB_TRY(check_imports(j));
    PLB_TRY(put_in_place(j, "venv"));
    if (!j->add->python) {
        j->python = plb_arena_printf(j->arena, "%s/%s/venv/bin/python", j->home, j->family.name);
        if (!j->python) return no_memory();
    }
    return write_manifests(j);
}

// The C++ worker is built by a script that knows where a torch keeps its headers.
static plb_status add_libtorch(job *j) {
    if (j->add->python) {
        PLB_TRY(find_python(j, j->add->python));
    } else {
        PLB_TRY(plb_manifest_python(j->home, "torch-eager", j->arena, &j->python));
        if (!j->python) {
            return plb_fail(PLB_EMISSING, "libtorch is built against the torch of another stack: "
                                          "plumb stacks add torch comes first, or --python PATH");
        }
    }
    PLB_TRY(check_packages(j));
    const char *build = plb_arena_printf(j->arena, "%s/%s", j->sources, j->family.worker);
    const char *built = plb_arena_printf(j->arena, "%s/worker", j->part);
    const char *worker = plb_arena_printf(j->arena, "%s/libtorch/worker", j->home);
    if (!build || !built || !worker) return no_memory();
    const char *const argv[] = {j->python, "-u", build, built, NULL};
    PLB_TRY(step(j, "compiling the worker", argv));
    PLB_TRY(put_in_place(j, "worker"));
    const plb_manifest manifest = {
        .name = "libtorch", .family = &j->family, .python = j->python, .command = {worker}};
    return plb_manifest_write(j->home, &manifest);
}

static plb_status run_job(job *j) {
    j->log = plb_arena_printf(j->arena, "%s/%s.log", j->home, j->family.name);
    j->part = plb_arena_printf(j->arena, "%s/.%s.part", j->home, j->family.name);
    if (!j->log || !j->part) return no_memory();
    unlink(j->log);
    PLB_TRY(plb_folder_remove(j->part)); // of an add that was killed
    PLB_TRY(plb_folder_make(j->part));
    plb_status status = strcmp(j->family.name, "libtorch") == 0 ? add_libtorch(j) : add_python(j);
    char text[LINE_BYTES * 2];
    if (status) snprintf(text, sizeof text, "%s", plb_error_text());
    plb_status removed = plb_folder_remove(j->part);
    return status ? plb_fail(status, "%s", text) : removed;
}

plb_status plb_stacks_add(const plb_stack_add *add) {
    int locked = -1;
    plb_status status;
    job j = {.add = add, .arena = plb_arena_new()};
    if (!j.arena) return no_memory();
    PLB_TRY_OUT(plb_stack_family_get(add->name, &j.family));
    if (add->torch_index && strcmp(j.family.name, "torch") != 0) {
        PLB_TRY_OUT(plb_fail(PLB_EINVAL, "--torch-index is for torch, not for %s", j.family.name));
    }
    if (add->torch_index && add->python) {
        PLB_TRY_OUT(plb_fail(PLB_EINVAL, "--torch-index and --python exclude each other"));
    }
    PLB_TRY_OUT(plb_stacks_sources(j.arena, &j.sources));
    PLB_TRY_OUT(plb_stacks_home(j.arena, &j.home));
    PLB_TRY_OUT(lock(j.arena, j.home, &locked));
    status = run_job(&j);
out:
    if (locked >= 0) close(locked);
    plb_arena_free(j.arena);
    return status;
}

static plb_status remove_one(plb_arena *arena, const char *home, const char *name, bool *found) {
    const char *folder = plb_arena_printf(arena, "%s/%s", home, name);
    const char *manifest = plb_arena_printf(arena, "%s/stack.json", folder);
    if (!folder || !manifest) return no_memory();
    if (!plb_folder_exists(folder)) return PLB_OK;
    *found = true;
    // First what makes it a stack: half an environment must not look like one.
    if (unlink(manifest) != 0 && errno != ENOENT) return plb_fail_errno("%s", manifest);
    return plb_folder_remove(folder);
}

static plb_status remove_named(plb_arena *arena, const char *home, const char *name) {
    bool found = false;
    if (strchr(name, '/') || name[0] == '.' || !name[0]) {
        return plb_fail(PLB_EINVAL, "\"%s\" is no name of a stack", name);
    }
    for (size_t i = 0; i < plb_stack_family_count(); i++) {
        const plb_stack_family family = plb_stack_family_at(i);
        if (strcmp(family.name, name) != 0) continue;
        for (int s = 0; s < PLB_FAMILY_NAMES && family.stacks[s][0]; s++) {
            PLB_TRY(remove_one(arena, home, family.stacks[s], &found));
        }
        const char *log = plb_arena_printf(arena, "%s/%s.log", home, name);
        if (log) unlink(log);
    }
    PLB_TRY(remove_one(arena, home, name, &found));
    return found ? PLB_OK : plb_fail(PLB_EINVAL, "no stack \"%s\" in %s", name, home);
}

plb_status plb_stacks_remove(const char *name) {
    const char *home;
    int locked = -1;
    plb_status status;
    plb_arena *arena = plb_arena_new();
    if (!arena) return no_memory();
    PLB_TRY_OUT(plb_stacks_home(arena, &home));
    PLB_TRY_OUT(lock(arena, home, &locked));
    status = remove_named(arena, home, name);
out:
    if (locked >= 0) close(locked);
    plb_arena_free(arena);
    return status;
}
