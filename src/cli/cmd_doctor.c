// SPDX-License-Identifier: Apache-2.0
// What this machine offers to Plumb: processor, memory, cards, libraries, data sets, other stacks;
// and for whatever is missing, what it would enable and the command that adds it.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/arena.h"
#include "base/core/status.h"
#include "base/folder.h"
#include "base/libraries.h"
#include "base/machine.h"
#include "base/machine_gpu.h"
#include "cli/cli.h"
#include "engine/device/inventory.h"
#include "stacks/inventory.h"

enum { PATH_BYTES = 4096, MAX_MISSING = 32, FOLDERS = 3 };

typedef struct data_set {
    const char *name;
    const char *file; // that is there if the data set is, with or without ".gz"
    const char *enables;
    char path[PATH_BYTES]; // "" if it was not found
} data_set;

typedef struct missing_row {
    const char *what, *enables;
    char command[160];
} missing_row;

typedef struct doctor {
    plb_machine machine;
    plb_gpu_state gpu[PLB_MACHINE_MAX_GPUS];
    int gpu_states; // known to NVML
    plb_inventory cuda;
    char no_cuda[400]; // why there is no --device cuda; "" where there is
    int threads;
    plb_library library[PLB_LIBRARIES_MAX];
    size_t library_count;
    char folder[FOLDERS][PATH_BYTES]; // where data sets are looked for; "" if unset
    data_set data[2];
    plb_arena *arena;
    plb_stack_entry *stack;
    size_t stack_count;
    missing_row missing[MAX_MISSING];
    size_t missing_count;
} doctor;

enum { DATA_SETS = sizeof((doctor){0}.data) / sizeof(data_set) };

static void find_folders(doctor *d) {
    const char *data = getenv("PLUMB_DATA"), *test = getenv("PLUMB_TEST_DATA");
    const char *xdg = plb_folder_of_xdg("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data) snprintf(d->folder[0], PATH_BYTES, "%s", data);
    if (xdg)
        snprintf(d->folder[1], PATH_BYTES, "%s/plumb/data", xdg);
    else if (home)
        snprintf(d->folder[1], PATH_BYTES, "%s/.local/share/plumb/data", home);
    if (test) snprintf(d->folder[2], PATH_BYTES, "%s", test);
}

static bool readable(const char *folder, const char *name, const char *file, const char *ending) {
    char path[2 * PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s/%s%s", folder, name, file, ending);
    return access(path, R_OK) == 0;
}

static void find_data(doctor *d, data_set *set) {
    for (int i = 0; i < FOLDERS; i++) {
        if (!d->folder[i][0]) continue;
        if (!readable(d->folder[i], set->name, set->file, "") &&
            !readable(d->folder[i], set->name, set->file, ".gz")) {
            continue;
        }
        snprintf(set->path, sizeof set->path, "%.4000s/%s", d->folder[i], set->name);
        return;
    }
}

static void add_missing(doctor *d, const char *what, const char *enables, const char *command,
                        const char *word) {
    if (d->missing_count == MAX_MISSING) return;
    missing_row *row = &d->missing[d->missing_count++];
    row->what = what;
    row->enables = enables;
    snprintf(row->command, sizeof row->command, "%s%s", command, word);
}

static void list_missing(doctor *d) {
    for (size_t i = 0; i < d->library_count; i++) {
        const plb_library *l = &d->library[i];
        if (!l->found)
            add_missing(d, l->name, l->purpose, "build again after: apt install ", l->package);
    }
    for (size_t i = 0; i < DATA_SETS; i++) {
        if (!d->data[i].path[0])
            add_missing(d, d->data[i].name, d->data[i].enables, "plumb data get ", d->data[i].name);
    }
    const char *family = "";
    for (size_t i = 0; i < d->stack_count; i++) {
        const plb_stack_entry *e = &d->stack[i];
        if (e->state == PLB_STACK_READY || !e->family || strcmp(e->family, family) == 0) continue;
        family = e->family; // one row for all stacks that one command adds
        add_missing(d, family, e->summary, "plumb stacks add ", family);
    }
}

static plb_status look(doctor *d) {
    plb_machine_read("", &d->machine);
    if (d->machine.gpu_count) d->gpu_states = plb_machine_gpu_states(d->gpu);
    if (plb_backend_inventory("cuda", &d->cuda)) {
        snprintf(d->no_cuda, sizeof d->no_cuda, "%s", plb_error_text());
    }
    d->threads = plb_machine_threads_of(&d->machine);
    d->library_count = plb_libraries(d->library);
    find_folders(d);
    d->data[0] = (data_set){.name = "mnist",
                            .file = "train-images-idx3-ubyte",
                            .enables = "training on handwritten digits"};
    d->data[1] = (data_set){.name = "fashion-mnist",
                            .file = "train-images-idx3-ubyte",
                            .enables = "training on pictures of clothes"};
    for (size_t i = 0; i < DATA_SETS; i++) find_data(d, &d->data[i]);
    PLB_TRY(plb_stacks_inventory(d->arena, &d->stack, &d->stack_count));
    list_missing(d);
    return PLB_OK;
}

static double gib(int64_t bytes) {
    return (double)bytes / (1 << 30);
}

static const char *or_unknown(const char *text) {
    return *text ? text : "unknown";
}

static void print_cpu(const doctor *d) {
    const plb_machine *m = &d->machine;
    plb_print("System\n  %s, kernel %s\n\n", or_unknown(m->system), or_unknown(m->kernel));
    plb_print("Processor\n  %-12s%s (%s)\n", "model", or_unknown(m->cpu_model), m->architecture);
    plb_print("  %-12s%d", "cores", m->physical_cores ? m->physical_cores : m->logical_cpus);
    if (m->logical_cpus > m->physical_cores && m->physical_cores)
        plb_print(", %d with their second threads", m->logical_cpus);
    plb_print("; this process may use %d", m->affinity_cpus);
    if (m->quota_cpus > 0)
        plb_print("; quota of %.2f", m->quota_cpus);
    else
        plb_print("; no quota");
    plb_print("\n  %-12s%d by default\n", "threads", d->threads);
    plb_print("  %-12s%s\n", "SIMD", *m->simd ? m->simd : "none of those that matter");
    plb_print("  %-12s", "caches");
    static const char *const level[3] = {"L1 data", "L2", "L3"};
    for (int i = 0; i < 3; i++) {
        if (m->cache_bytes[i])
            plb_print("%s%s %" PRId64 " KiB", i ? ", " : "", level[i], m->cache_bytes[i] / 1024);
    }
    plb_print("\n  %-12s%s\n", "governor", or_unknown(m->governor));
    plb_print("  %-12s", "load");
    if (m->load_1min < 0)
        plb_print("unknown\n\n");
    else
        plb_print("%.2f over the last minute\n\n", m->load_1min);
}

// What slows a card down, bit by bit; -1: not known.
static void print_throttling(int64_t reasons, const char *lead) {
    const char *between = "slowed down by: ";
    if (reasons >= 0) plb_print("%s%s", lead, reasons ? "" : "nothing slows it down");
    for (int bit = 0; bit < 63 && reasons > 0; bit++) {
        if (!(reasons >> bit & 1)) continue;
        const char *reason = plb_machine_throttle_reason(bit);
        plb_print("%s%s", between, reason ? reason : "a reason of no name");
        between = ", ";
    }
    plb_print("\n");
}

static void print_gpu_state(const plb_gpu_state *g) {
    const char *lead = "     ";
    if (g->clock_mhz >= 0 && g->clock_max_mhz > 0) {
        plb_print("%sclock %d of %d MHz", lead, g->clock_mhz, g->clock_max_mhz);
        lead = ", ";
    }
    if (g->memory_clock_mhz >= 0 && g->memory_clock_max_mhz > 0) {
        plb_print("%smemory %d of %d MHz", lead, g->memory_clock_mhz, g->memory_clock_max_mhz);
        lead = "; ";
    }
    if (g->power_w >= 0 && g->power_limit_w >= 0) {
        plb_print("%s%.0f of %.0f W", lead, g->power_w, g->power_limit_w);
        lead = "; ";
    }
    if (g->temperature_c >= 0) {
        plb_print("%s%d C", lead, g->temperature_c);
        lead = "; ";
    }
    print_throttling(g->throttle_reasons, lead);
}

static void print_cuda(const doctor *d) {
    const plb_inventory *c = &d->cuda;
    if (d->no_cuda[0]) {
        plb_print("  %s\n", d->no_cuda);
        return;
    }
    plb_print("  for --device cuda:");
    for (int i = 0; i < c->n; i++) {
        plb_print("%s %s %s", i ? "," : "", c->name[i], c->version[i] ? c->version[i] : "missing");
    }
    plb_print("\n");
}

static void print_memory(const doctor *d) {
    const plb_machine *m = &d->machine;
    plb_print("Memory\n  %.1f GiB, %.1f GiB available", gib(m->memory_bytes),
              gib(m->memory_available_bytes));
    if (m->memory_limit_bytes) plb_print(", limited to %.1f GiB", gib(m->memory_limit_bytes));
    plb_print("\n\nGPUs\n");
    for (int i = 0; i < m->gpu_count; i++) {
        const plb_gpu *g = &m->gpu[i];
        plb_print("  %d  %s", i, or_unknown(g->name));
        if (g->memory_bytes) plb_print(", %.1f GiB", gib(g->memory_bytes));
        if (g->capability_major)
            plb_print(", compute capability %d.%d", g->capability_major, g->capability_minor);
        plb_print("\n");
        if (i < d->gpu_states) print_gpu_state(&d->gpu[i]);
    }
    if (!m->gpu_count) plb_print("  none found\n");
    if (m->gpu_driver[0]) plb_print("  driver %s\n", m->gpu_driver);
    print_cuda(d);
    plb_print("\n");
}

static void print_found(const doctor *d) {
    plb_print("Libraries\n");
    for (size_t i = 0; i < d->library_count; i++) {
        const plb_library *l = &d->library[i];
        plb_print("  %-16s%-24s%s\n", l->name, l->found ? l->version : "missing", l->purpose);
    }
    plb_print("\nData sets\n");
    for (size_t i = 0; i < DATA_SETS; i++) {
        const data_set *set = &d->data[i];
        plb_print("  %-16s%s\n", set->name, set->path[0] ? set->path : "missing");
    }
    plb_print("\nStacks to compare with\n");
    for (size_t i = 0; i < d->stack_count; i++) {
        const plb_stack_entry *e = &d->stack[i];
        const char *known = e->versions ? e->versions : e->folder;
        plb_print("  %-16s%s\n", e->name,
                  e->wrong                        ? e->wrong
                  : e->state == PLB_STACK_MISSING ? "missing"
                                                  : known);
    }
}

static void print_missing(const doctor *d) {
    plb_print("\nMissing\n");
    if (!d->missing_count) plb_print("  nothing\n");
    for (size_t i = 0; i < d->missing_count; i++) {
        const missing_row *row = &d->missing[i];
        plb_print("  %-16s%s\n  %-16s%s\n", row->what, row->enables, "", row->command);
    }
}

// Unknown is null, never 0 or "".
static void json_text(plb_json *json, const char *key, const char *text) {
    plb_json_string(json, key, text[0] ? text : NULL);
}

static void json_known(plb_json *json, const char *key, int64_t value) {
    if (value)
        plb_json_int(json, key, value);
    else
        plb_json_null(json, key);
}

static void json_cpu(plb_json *json, const doctor *d) {
    const plb_machine *m = &d->machine;
    plb_json_begin_object(json, "cpu");
    json_text(json, "model", m->cpu_model);
    json_text(json, "architecture", m->architecture);
    json_known(json, "logical_cpus", m->logical_cpus);
    json_known(json, "physical_cores", m->physical_cores);
    plb_json_int(json, "affinity_cpus", m->affinity_cpus);
    plb_json_double(json, "quota_cpus", m->quota_cpus > 0 ? m->quota_cpus : NAN);
    plb_json_int(json, "default_threads", d->threads);
    json_text(json, "simd", m->simd);
    json_known(json, "l1_data_bytes", m->cache_bytes[0]);
    json_known(json, "l2_bytes", m->cache_bytes[1]);
    json_known(json, "l3_bytes", m->cache_bytes[2]);
    json_text(json, "governor", m->governor);
    plb_json_double(json, "load_1min", m->load_1min < 0 ? NAN : m->load_1min);
    plb_json_end(json);
    plb_json_begin_object(json, "memory");
    json_known(json, "total_bytes", m->memory_bytes);
    json_known(json, "available_bytes", m->memory_available_bytes);
    json_known(json, "limit_bytes", m->memory_limit_bytes);
    plb_json_end(json);
}

static void json_number(plb_json *json, const char *key, double value) {
    plb_json_double(json, key, value < 0 ? NAN : value);
}

static void json_gpu_state(plb_json *json, const plb_gpu_state *g) {
    json_number(json, "clock_mhz", g->clock_mhz);
    json_number(json, "clock_max_mhz", g->clock_max_mhz);
    json_number(json, "memory_clock_mhz", g->memory_clock_mhz);
    json_number(json, "memory_clock_max_mhz", g->memory_clock_max_mhz);
    json_number(json, "power_w", g->power_w);
    json_number(json, "power_limit_w", g->power_limit_w);
    json_number(json, "temperature_c", g->temperature_c);
    json_number(json, "throttle_reasons", (double)g->throttle_reasons);
}

// Of the CUDA backend: each library's version, null where it is missing.
static void json_cuda(plb_json *json, const doctor *d) {
    const plb_inventory *c = &d->cuda;
    plb_json_begin_object(json, "cuda");
    json_text(json, "missing", d->no_cuda);
    for (int i = 0; i < c->n; i++) plb_json_string(json, c->name[i], c->version[i]);
    plb_json_end(json);
}

static void json_gpus(plb_json *json, const doctor *d) {
    const plb_machine *m = &d->machine;
    json_text(json, "gpu_driver", m->gpu_driver);
    plb_json_begin_array(json, "gpus");
    for (int i = 0; i < m->gpu_count; i++) {
        const plb_gpu *g = &m->gpu[i];
        char capability[24] = "";
        if (g->capability_major)
            snprintf(capability, sizeof capability, "%d.%d", g->capability_major,
                     g->capability_minor);
        plb_json_begin_object(json, NULL);
        json_text(json, "name", g->name);
        json_known(json, "memory_bytes", g->memory_bytes);
        json_text(json, "compute_capability", capability);
        if (i < d->gpu_states) json_gpu_state(json, &d->gpu[i]);
        plb_json_end(json);
    }
    plb_json_end(json);
    json_cuda(json, d);
}

static void json_found(plb_json *json, const doctor *d) {
    plb_json_begin_object(json, "libraries");
    for (size_t i = 0; i < d->library_count; i++)
        json_text(json, d->library[i].name, d->library[i].version);
    plb_json_end(json);
    plb_json_begin_object(json, "data_sets");
    for (size_t i = 0; i < DATA_SETS; i++) json_text(json, d->data[i].name, d->data[i].path);
    plb_json_end(json);
    plb_json_begin_object(json, "stacks");
    for (size_t i = 0; i < d->stack_count; i++) {
        const plb_stack_entry *e = &d->stack[i];
        plb_json_begin_object(json, e->name);
        plb_json_string(json, "state", plb_stack_state_name(e->state));
        plb_json_string(json, "versions", e->versions);
        plb_json_string(json, "reason", e->wrong);
        plb_json_end(json);
    }
    plb_json_end(json);
    plb_json_begin_array(json, "missing");
    for (size_t i = 0; i < d->missing_count; i++) {
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "what", d->missing[i].what);
        plb_json_string(json, "enables", d->missing[i].enables);
        plb_json_string(json, "command", d->missing[i].command);
        plb_json_end(json);
    }
    plb_json_end(json);
}

static plb_status print_json(const doctor *d) {
    plb_json json;
    plb_cli_json_begin(&json, "doctor", 1);
    json_text(&json, "system", d->machine.system);
    json_text(&json, "kernel", d->machine.kernel);
    json_cpu(&json, d);
    json_gpus(&json, d);
    json_found(&json, d);
    return plb_cli_json_print(&json);
}

static plb_status run_doctor(plb_call *call) {
    doctor d = {.arena = plb_arena_new()};
    if (!d.arena) return plb_fail(PLB_ENOMEM, "out of memory");
    plb_status status = look(&d);
    if (!status && call->json) {
        status = print_json(&d);
    } else if (!status) {
        print_cpu(&d);
        print_memory(&d);
        print_found(&d);
        print_missing(&d);
    }
    plb_arena_free(d.arena);
    return status;
}

const plb_command plb_cmd_doctor = {
    .name = "doctor",
    .summary = "tell what this machine offers and what is missing",
    .description = "Tells what this machine offers: processor, memory, GPUs, libraries with their\n"
                   "versions, data sets and other stacks. For whatever is missing it says what\n"
                   "that would enable and the command that adds it.\n\n"
                   "Data sets are looked for in PLUMB_DATA, then in $XDG_DATA_HOME/plumb/data,\n"
                   "then in PLUMB_TEST_DATA; other stacks where `plumb stacks` puts them.",
    .run = run_doctor,
};
