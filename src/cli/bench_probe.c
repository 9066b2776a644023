// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_probe.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/arena.h"
#include "base/core/status.h"
#include "base/folder.h"
#include "base/json.h"
#include "cli/probe_library.h"
#include "cli/profile_report.h"
#include "cli/stack_operators.h"
#include "probe/breakdown.h"
#include "probe/profile.h"

enum { VARIABLES = 3, KERNELS = 10, PATIENCE_MS = 5000 };

struct plb_bench_probing {
    plb_bench_probe probe;
    const plb_profile_flags *show;
    const plb_call *call;
    bool shown;            // a whole profile was printed
    char lacks[320];       // what that one lacks
    char folder[PATH_MAX]; // "" between starts
    char library[PATH_MAX];
    char text[VARIABLES][PATH_MAX + 64];
    const char *environment[VARIABLES + 1];
};

static void drop(void *context) {
    plb_bench_probing *p = context;
    if (p->folder[0]) plb_profile_remove_folder(p->folder);
    p->folder[0] = '\0';
}

static plb_status begin(void *context, const char *const **out_environment) {
    plb_bench_probing *p = context;
    drop(p);
    PLB_TRY(plb_profile_folder(p->folder));
    snprintf(p->text[0], sizeof p->text[0], "CUDA_INJECTION64_PATH=%s", p->library);
    snprintf(p->text[1], sizeof p->text[1], "PLUMB_PROBE_DIR=%s", p->folder);
    snprintf(p->text[2], sizeof p->text[2], "PLUMB_PROBE_OPTIONS=file");
    for (int i = 0; i < VARIABLES; i++) p->environment[i] = p->text[i];
    *out_environment = p->environment;
    return PLB_OK;
}

static bool has_probe(const char *folder) {
    plb_arena *arena = plb_arena_new();
    const char *const *names;
    size_t count = 0;
    bool has = false;
    if (arena && plb_folder_list(folder, arena, &names, &count) == PLB_OK)
        for (size_t i = 0; i < count; i++) has |= strstr(names[i], ".spool") != NULL;
    plb_arena_free(arena);
    return has;
}

// The probe looks for the file every 10 ms, and answers with one of its own. A worker that loaded
// no CUDA has no probe that could.
static void await(const plb_bench_probing *p, bool on) {
    const struct timespec pause = {.tv_nsec = 2000000};
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/recording", p->folder);
    if (!has_probe(p->folder)) return;
    for (int i = 0; i < PATIENCE_MS / 2 && (access(path, F_OK) == 0) != on; i++)
        nanosleep(&pause, NULL);
}

static plb_status record(void *context, bool on) {
    const plb_bench_probing *p = context;
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/record", p->folder);
    if (on) {
        int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0) return plb_fail_errno("%s", path);
        close(fd);
    } else {
        unlink(path);
    }
    await(p, on);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- the summary
typedef struct sums {
    plb_breakdown busy; // of all devices
    int64_t launches, device_ns;
    int devices;
} sums;

static void add_up(const plb_profile *p, sums *out) {
    for (int i = 0; i < p->processes; i++)
        for (int d = 0; d < PLB_SPOOL_DEVICES; d++) {
            const plb_spool_device *device = &p->process[i]->device[d];
            plb_breakdown b;
            if (!device->records) continue;
            plb_breakdown_of(&device->sums, &b);
            out->busy.span_ns += b.span_ns, out->busy.active_ns += b.active_ns;
            out->busy.copying_ns += b.copying_ns, out->busy.idle_ns += b.idle_ns;
            out->launches += device->kernels, out->devices++;
        }
    for (int i = 0; i < p->kernels; i++) out->device_ns += p->kernel[i].total_ns;
}

static void write_named(plb_json *json, const char *key, const plb_profile_named *row, int count,
                        int64_t iterations) {
    plb_json_begin_array(json, key);
    for (int i = 0; i < count && i < KERNELS; i++) {
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", row[i].name);
        plb_json_double(json, "calls", (double)row[i].calls / (double)iterations);
        plb_json_double(json, "ms", (double)row[i].total_ns / 1e6 / (double)iterations);
        plb_json_end(json);
    }
    plb_json_end(json);
}

static void write_kernels(plb_json *json, const plb_profile *p, int64_t iterations) {
    plb_json_begin_array(json, "kernels");
    for (int i = 0; i < p->kernels && i < KERNELS; i++) {
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", p->kernel[i].name);
        plb_json_string(json, "class", p->kernel[i].class);
        plb_json_double(json, "calls", (double)p->kernel[i].calls / (double)iterations);
        plb_json_double(json, "ms", (double)p->kernel[i].total_ns / 1e6 / (double)iterations);
        plb_json_end(json);
    }
    plb_json_end(json);
}

// Shares are of the time from the devices' first work to their last; the rest is of an iteration.
static void write_devices(plb_json *json, const plb_profile *p, int64_t iterations) {
    sums s = {0};
    add_up(p, &s);
    plb_json_int(json, "devices", s.devices);
    if (!s.devices) return;
    const double span_ns = s.busy.span_ns ? (double)s.busy.span_ns : 1;
    plb_json_double(json, "active", (double)s.busy.active_ns / span_ns);
    plb_json_double(json, "move", (double)s.busy.copying_ns / span_ns);
    plb_json_double(json, "idle", (double)s.busy.idle_ns / span_ns);
    plb_json_double(json, "launches", (double)s.launches / (double)iterations);
    plb_json_double(json, "device_ms", (double)s.device_ns / 1e6 / (double)iterations);
    write_named(json, "classes", p->class, p->classes, iterations);
    write_kernels(json, p, iterations);
    write_named(json, "api", p->call, p->calls, iterations);
}

static plb_status summarize(const plb_profile *profile, const plb_probed_window *w, char **out) {
    const plb_profile_report report = {.profile = profile, .group = "kernel", .words = "file"};
    char why[320] = "";
    plb_json json = {.compact = true};
    plb_json_begin_object(&json, NULL);
    plb_json_string(&json, "device", w->device);
    plb_json_int(&json, "iterations", w->iterations);
    plb_json_double(&json, "wall_ms", (double)w->wall_ns / 1e6 / (double)w->iterations);
    if (w->cpu_ns < 0)
        plb_json_null(&json, "cpu_ms");
    else
        plb_json_double(&json, "cpu_ms", (double)w->cpu_ns / 1e6 / (double)w->iterations);
    write_devices(&json, profile, w->iterations);
    plb_stack_operators_json(w->operators, w->operator_iterations, KERNELS, &json);
    const bool incomplete = plb_profile_incomplete(&report, why, sizeof why);
    plb_json_bool(&json, "complete", !incomplete);
    plb_json_string(&json, "incomplete_reason", incomplete ? why : NULL);
    plb_json_end(&json);
    plb_status status = plb_json_status(&json);
    if (!status) {
        *out = strdup(json.text.text); // bench frees it
        if (!*out) status = plb_fail(PLB_ENOMEM, "out of memory for a profile");
    }
    plb_json_free(&json);
    return status;
}

static plb_status print_whole(plb_bench_probing *p, const plb_probed_window *w) {
    plb_profile_flags flags = *p->show;
    flags.steps = w->iterations;
    const plb_profile_view view = {.flags = &flags,
                                   .folder = p->folder,
                                   .operators = w->operators,
                                   .operator_iterations = w->operator_iterations,
                                   .about.words = strcmp(w->device, "cpu") == 0 ? "host" : "file",
                                   .output = -1};
    p->shown = true;
    return plb_profile_show(&view, p->call, p->lacks, sizeof p->lacks);
}

const char *plb_bench_probing_lacks(const plb_bench_probing *p) {
    return p->shown ? p->lacks : NULL;
}

static plb_status take(void *context, const plb_probed_window *window, char **out_json) {
    plb_bench_probing *p = context;
    plb_kernel_classes *classes = NULL;
    plb_profile *profile = NULL;
    *out_json = NULL;
    plb_status status = plb_kernel_classes_new(p->show ? p->show->classes : NULL, &classes);
    if (!status) status = plb_profile_read(p->folder, classes, &profile);
    if (!status) status = summarize(profile, window, out_json);
    if (!status && p->show) status = print_whole(p, window);
    plb_profile_free(profile);
    plb_kernel_classes_free(classes);
    drop(p);
    return status;
}

plb_status plb_bench_probing_new(const plb_profile_flags *show, const plb_call *call,
                                 plb_bench_probing **out) {
    *out = NULL;
    plb_bench_probing *p = plb_alloc(sizeof *p);
    if (!p) return plb_fail(PLB_ENOMEM, "out of memory for a profile");
    p->probe = (plb_bench_probe){p, begin, record, take, drop};
    p->show = show, p->call = call;
    plb_status status = plb_probe_library(p->library, sizeof p->library);
    if (status)
        plb_free(p);
    else
        *out = p;
    return status;
}

void plb_bench_probing_free(plb_bench_probing *p) {
    if (p) drop(p);
    plb_free(p);
}

const plb_bench_probe *plb_bench_probing_probe(plb_bench_probing *p) {
    return &p->probe;
}

// ---------------------------------------------------------------------------- one line
static double number(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static void say_classes(const json_t *classes, double device_ms, plb_strbuf *out) {
    for (size_t i = 0; i < json_array_size(classes) && i < 3; i++) {
        const json_t *row = json_array_get(classes, i);
        plb_strbuf_printf(out, "%s %s %.0f %%", i ? "," : "; of the device's work",
                          json_string_value(json_object_get(row, "name")),
                          device_ms > 0 ? 100 * number(row, "ms") / device_ms : 0);
    }
}

static bool is_cpu(const json_t *profile) {
    const char *device = json_string_value(json_object_get(profile, "device"));
    return device && strcmp(device, "cpu") == 0;
}

void plb_bench_profile_line(const char *profile, plb_strbuf *out) {
    json_t *p = profile ? json_loads(profile, 0, NULL) : NULL;
    const char *failure = json_string_value(json_object_get(p, "failure"));
    if (failure) {
        plb_strbuf_printf(out, "no profile: %s", failure);
    } else if (number(p, "devices") > 0) {
        plb_strbuf_printf(out,
                          "profile: active %.1f %%, copying %.1f %%, idle %.1f %%; %.0f kernels "
                          "of %.3f ms an iteration",
                          100 * number(p, "active"), 100 * number(p, "move"),
                          100 * number(p, "idle"), number(p, "launches"), number(p, "device_ms"));
        say_classes(json_object_get(p, "classes"), number(p, "device_ms"), out);
    } else {
        plb_strbuf_printf(out, "profile: %s",
                          is_cpu(p) ? "on the processor" : "no work of a device");
    }
    if (!failure && number(p, "wall_ms") > 0 && json_is_number(json_object_get(p, "cpu_ms")))
        plb_strbuf_printf(out, "; %.2f processors busy",
                          number(p, "cpu_ms") / number(p, "wall_ms"));
    if (!failure && !json_is_true(json_object_get(p, "complete")))
        plb_strbuf_printf(out, " (incomplete: %s)",
                          json_string_value(json_object_get(p, "incomplete_reason")));
    json_decref(p);
}
