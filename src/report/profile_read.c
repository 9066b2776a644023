// SPDX-License-Identifier: Apache-2.0
#include "report/profile_read.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/core/status.h"

enum { MOST_DEVICES = 64, MOST_KERNELS = 15, MOST_CAUSES = 12 };

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory for a report");
}

static double number_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static const char *text_of(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static const char *const *name_devices(plb_arena *arena, const json_t *devices, size_t count) {
    const char **names = plb_arena_alloc(arena, (count + 1) * sizeof *names);
    for (size_t i = 0; names && i < count; i++) {
        const json_t *d = json_array_get(devices, i);
        names[i] =
            plb_arena_printf(arena, "%.60s, device %.0f (%s %.0f)", text_of(d, "name"),
                             number_of(d, "device"), text_of(d, "program"), number_of(d, "pid"));
        if (!names[i]) return NULL;
    }
    return names;
}

// ---------------------------------------------------------------------------- shares
static plb_status add_shares(plb_arena *arena, const json_t *devices, const char *const *names,
                             size_t count, plb_section *s) {
    static const char *const keys[] = {"active", "move", "idle"};
    static const char *const titles[] = {"active", "moving data", "idle"};
    plb_figure_series series[3];
    for (int k = 0; k < 3; k++) {
        double *y = plb_arena_alloc(arena, (count + 1) * sizeof *y);
        if (!y) return no_memory();
        for (size_t i = 0; i < count; i++) y[i] = number_of(json_array_get(devices, i), keys[k]);
        series[k] = (plb_figure_series){
            .name = titles[k], .count = count, .y = y, .colour = k == 2 ? 11 : k + 1};
    }
    const plb_figure figure = {
        .kind = PLB_FIGURE_STACK,
        .name = "breakdown",
        .title = "Where the time of each device goes",
        .caption = "From its first work to its last. Active: something computes or copies within "
                   "the device; moving data: only copies to or from the host run.",
        .y = {.title = "share of the time", .unit = PLB_UNIT_SHARE},
        .category = names,
        .categories = count,
        .series = series,
        .series_count = 3,
    };
    plb_section_figure(s, &figure);
    return PLB_OK;
}

// Causes of idleness, of all devices, in the order in which they are met.
static size_t list_causes(const json_t *devices, const char *causes[MOST_CAUSES]) {
    size_t count = 0, i;
    json_t *device, *value;
    const char *key;
    json_array_foreach(devices, i, device) {
        json_object_foreach(json_object_get(device, "idle_ms"), key, value) {
            size_t k = 0;
            while (k < count && strcmp(causes[k], key) != 0) k++;
            if (k == count && count < MOST_CAUSES) causes[count++] = key;
        }
    }
    return count;
}

static plb_status add_idle(plb_arena *arena, const json_t *devices, const char *const *names,
                           size_t count, plb_section *s) {
    const char *causes[MOST_CAUSES];
    plb_figure_series series[MOST_CAUSES];
    const size_t found = list_causes(devices, causes);
    for (size_t k = 0; k < found; k++) {
        double *y = plb_arena_alloc(arena, (count + 1) * sizeof *y);
        if (!y) return no_memory();
        for (size_t i = 0; i < count; i++) {
            const json_t *idle = json_object_get(json_array_get(devices, i), "idle_ms");
            y[i] = number_of(idle, causes[k]) * 1e6;
        }
        const bool unknown = strcmp(causes[k], "unknown") == 0;
        series[k] =
            (plb_figure_series){.name = unknown ? "in no call" : causes[k], .count = count, .y = y};
    }
    const plb_figure figure = {
        .kind = PLB_FIGURE_STACK,
        .name = "idle",
        .title = "What the host did while devices idled",
        .caption = "\"In no call\" is the program's own code, or calls that were not recorded.",
        .y = {.title = "time", .unit = PLB_UNIT_NS},
        .category = names,
        .categories = count,
        .series = series,
        .series_count = found,
    };
    if (found) plb_section_figure(s, &figure);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- kernels
static plb_status add_kernel_bars(plb_arena *arena, const json_t *kernels, plb_section *s) {
    const size_t all = json_array_size(kernels), n = all < MOST_KERNELS ? all : MOST_KERNELS;
    const char **names = plb_arena_alloc(arena, (n + 1) * sizeof *names);
    double *y = plb_arena_alloc(arena, (n + 1) * sizeof *y);
    if (!names || !y) return no_memory();
    for (size_t i = 0; i < n; i++) {
        const json_t *k = json_array_get(kernels, i);
        names[i] = text_of(k, "name");
        y[i] = number_of(k, "total_ms") * 1e6;
    }
    const plb_figure_series series = {.name = "", .count = n, .y = y};
    const plb_figure figure = {
        .kind = PLB_FIGURE_BARS,
        .name = "kernels",
        .title = "Kernels with most time",
        .y = {.title = "time in all calls", .unit = PLB_UNIT_NS},
        .category = names,
        .categories = n,
        .series = &series,
        .series_count = 1,
    };
    if (n) plb_section_figure(s, &figure);
    return PLB_OK;
}

static void add_rows(const json_t *rows, const char *name, const char *caption, bool kernels,
                     plb_section *s) {
    size_t i;
    json_t *row;
    if (!json_array_size(rows)) return;
    plb_table *t = plb_section_table(s, name, caption);
    plb_table_column(t, "name", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    if (kernels) plb_table_column(t, "class", PLB_COLUMN_TEXT, PLB_UNIT_NONE);
    plb_table_column(t, "calls", PLB_COLUMN_NUMBER, PLB_UNIT_COUNT);
    plb_table_column(t, "total", PLB_COLUMN_NUMBER, PLB_UNIT_NS);
    plb_table_column(t, "least", PLB_COLUMN_NUMBER, PLB_UNIT_NS);
    plb_table_column(t, "most", PLB_COLUMN_NUMBER, PLB_UNIT_NS);
    json_array_foreach(rows, i, row) {
        plb_table_text(t, "%s", text_of(row, "name"));
        if (kernels) plb_table_text(t, "%s", text_of(row, "class"));
        plb_table_number(t, number_of(row, "calls"));
        plb_table_number(t, number_of(row, "total_ms") * 1e6);
        plb_table_number(t, number_of(row, "min_ms") * 1e6);
        plb_table_number(t, number_of(row, "max_ms") * 1e6);
    }
}

static void say_devices(const json_t *devices, const char *const *names, size_t count,
                        plb_document *d) {
    for (size_t i = 0; i < count && i < 8; i++) {
        const json_t *device = json_array_get(devices, i);
        char span[PLB_UNIT_BYTES_SHOWN];
        plb_unit_show(PLB_UNIT_NS, number_of(device, "span_ms") * 1e6, span);
        plb_document_verdict(
            d, PLB_TONE_PLAIN, NULL, "%s: %.1f %% active, %.1f %% moving data, %.1f %% idle in %s.",
            names[i], 100 * number_of(device, "active"), 100 * number_of(device, "move"),
            100 * number_of(device, "idle"), span);
    }
}

static plb_status fill(const json_t *root, const json_t *devices, size_t count, plb_document *d) {
    plb_arena *arena = plb_document_arena(d);
    const char *const *names = name_devices(arena, devices, count);
    if (!names) return no_memory();
    say_devices(devices, names, count, d);
    plb_section *s = plb_document_section(d, "Time of the devices");
    PLB_TRY(add_shares(arena, devices, names, count, s));
    PLB_TRY(add_idle(arena, devices, names, count, s));
    // Kernels are those of all processes on a device: shown once for each device.
    for (size_t i = 0; i < count; i++) {
        const json_t *device = json_array_get(devices, i);
        size_t k = 0;
        while (k < i &&
               number_of(json_array_get(devices, k), "device") != number_of(device, "device"))
            k++;
        if (k < i) continue;
        const char *title = plb_arena_printf(arena, "Kernels, %s", names[i]);
        if (!title) return no_memory();
        s = plb_document_section(d, title);
        PLB_TRY(add_kernel_bars(arena, json_object_get(device, "kernels"), s));
        add_rows(json_object_get(device, "kernels"), "kernel-table", "Kernels", true, s);
    }
    s = plb_document_section(d, "Classes, calls, ranges");
    add_rows(json_object_get(root, "classes"), "classes", "Classes of kernels", false, s);
    add_rows(json_object_get(root, "api"), "calls", "Calls of CUDA", false, s);
    add_rows(json_object_get(root, "ranges"), "ranges", "Ranges", false, s);
    return plb_document_status(d);
}

plb_status plb_profile_document(const json_t *root, const char *label, plb_document **out) {
    const json_t *devices = json_object_get(root, "devices");
    size_t count = json_array_size(devices);
    *out = NULL;
    if (!count) {
        return plb_fail(PLB_EINVAL,
                        "%s: the profile has no device that did anything: there is "
                        "nothing to draw",
                        label);
    }
    if (count > MOST_DEVICES) count = MOST_DEVICES;
    *out = plb_document_new("Profile");
    if (!*out) return no_memory();
    return fill(root, devices, count, *out);
}
