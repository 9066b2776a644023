// SPDX-License-Identifier: Apache-2.0
#include "probe/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/arena.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "base/file.h"
#include "base/folder.h"

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "no memory for a profile");
}

static bool ends_with(const char *name, const char *ending) {
    const size_t length = strlen(name), tail = strlen(ending);
    return length > tail && strcmp(name + length - tail, ending) == 0;
}

// The folder's files of one ending by name, so that processes have an order.
static plb_status list_files(const plb_profile *p, const char *folder, const char *ending,
                             char ***out, int *out_count, int *out_beyond) {
    const char *const *all = NULL;
    size_t count = 0;
    *out_count = *out_beyond = 0;
    *out = plb_arena_alloc(p->arena, PLB_PROFILE_PROCESSES * sizeof **out);
    if (!*out) return no_memory();
    PLB_TRY(plb_folder_list(folder, p->arena, &all, &count));
    for (size_t i = 0; i < count; i++) {
        if (!ends_with(all[i], ending)) continue;
        if (*out_count == PLB_PROFILE_PROCESSES) {
            ++*out_beyond;
            continue;
        }
        char *path = plb_arena_printf(p->arena, "%s/%s", folder, all[i]);
        if (!path) return no_memory();
        (*out)[(*out_count)++] = path;
    }
    return PLB_OK;
}

static plb_status read_files(plb_profile *p, const char *folder) {
    char **names = NULL;
    int count = 0;
    PLB_TRY(list_files(p, folder, ".spool", &names, &count, &p->processes_unread));
    p->process = plb_arena_alloc(p->arena, (size_t)count * sizeof *p->process + 1);
    p->problem =
        plb_arena_alloc(p->arena, (size_t)(count + PLB_PROFILE_PROCESSES) * sizeof *p->problem);
    if (!p->process || !p->problem) return no_memory();
    p->file = names;
    for (int i = 0; i < count; i++) {
        if (plb_spool_read(names[i], &p->process[p->processes]) == PLB_OK)
            p->file[p->processes++] = names[i];
        else
            snprintf(p->problem[p->problems++], sizeof *p->problem, "%s", plb_error_text());
    }
    return PLB_OK;
}

static plb_status read_counted_file(plb_profile *p, const char *path) {
    plb_file_map map = {0};
    PLB_TRY(plb_file_map_open(path, &map));
    plb_counted *into = &p->counted[p->counteds];
    plb_status status = PLB_OK;
    if (map.size_bytes == sizeof *into) memcpy(into, map.bytes, sizeof *into);
    status = plb_counted_check(into, map.size_bytes, path);
    plb_file_map_close(&map);
    if (!status) p->counteds++;
    return status;
}

static plb_status read_counted(plb_profile *p, const char *folder) {
    char **names = NULL;
    int count = 0, beyond; // the spools of those are beyond, too
    PLB_TRY(list_files(p, folder, ".counted", &names, &count, &beyond));
    p->counted = plb_arena_alloc(p->arena, (size_t)count * sizeof *p->counted + 1);
    if (!p->counted) return no_memory();
    for (int i = 0; i < count; i++)
        if (read_counted_file(p, names[i]))
            snprintf(p->problem[p->problems++], sizeof *p->problem, "%s", plb_error_text());
    return PLB_OK;
}

static void add_times(int64_t *calls, int64_t *total_ns, int64_t *min_ns, int64_t *max_ns,
                      const plb_spool_times *t) {
    if (t->calls && (!*calls || t->min_ns < *min_ns)) *min_ns = t->min_ns;
    if (t->max_ns > *max_ns) *max_ns = t->max_ns;
    *calls += t->calls, *total_ns += t->total_ns;
}

// Errors of parts of one run go the same way at worst: they add up.
static void add_whole(plb_estimated *sum, const plb_estimated *e) {
    sum->calls += e->calls, sum->ns += e->ns;
    sum->calls_half += e->calls_half, sum->ns_half += e->ns_half;
}

static plb_estimated as_recorded(const plb_spool_times *t) {
    return (plb_estimated){(double)t->calls, 0, (double)t->total_ns, 0};
}

typedef struct merge {
    plb_profile *profile;
    const plb_kernel_classes *classes;
    plb_map *index;   // of a key: a row
    int64_t *most_ns; // of a kernel's row: time of the variant that it shows
    char text[8192];
} merge;

// 0 where a file has what no launch can have.
static int64_t threads_of(const int32_t block[3]) {
    enum { MOST = 1024 };
    for (int i = 0; i < 3; i++)
        if (block[i] < 1 || block[i] > MOST) return 0;
    return (int64_t)block[0] * block[1] * block[2];
}

static plb_status add_kernel(merge *m, const plb_spool *s, const plb_spool_kernel *from,
                             const plb_estimated *whole) {
    plb_profile *p = m->profile;
    char key[8224];
    plb_kernel_demangle(s->names + from->name, m->text, sizeof m->text);
    snprintf(key, sizeof key, "%d %s", (int)from->device, m->text);
    int64_t at = plb_map_get(m->index, key, -1);
    if (at < 0) {
        at = p->kernels++;
        plb_profile_kernel *row = &p->kernel[at];
        row->name = plb_arena_strdup(p->arena, m->text[0] ? m->text : "(no name)");
        row->class = plb_kernel_class(m->classes, m->text);
        row->device = from->device;
        if (!row->name) return no_memory();
        PLB_TRY(plb_map_set(m->index, key, at));
    }
    plb_profile_kernel *row = &p->kernel[at];
    row->variants++;
    row->graph_calls += from->graph_calls;
    add_times(&row->calls, &row->total_ns, &row->min_ns, &row->max_ns, &from->times);
    add_whole(&row->whole, whole);
    if (row->variants > 1 && from->times.total_ns <= m->most_ns[at]) return PLB_OK;
    m->most_ns[at] = from->times.total_ns;
    memcpy(row->grid, from->grid, sizeof row->grid);
    memcpy(row->block, from->block, sizeof row->block);
    row->registers = from->registers, row->shared_bytes = from->shared_bytes;
    row->occupancy = plb_occupancy_of(s->device[from->device].capability, threads_of(from->block),
                                      from->registers, from->shared_bytes);
    return PLB_OK;
}

// The row of a name, made when it is new.
static plb_status named_row(merge *m, plb_profile_named *rows, int *count, const char *name,
                            plb_profile_named **out) {
    int64_t at = plb_map_get(m->index, name, -1);
    if (at < 0) {
        at = (*count)++;
        rows[at].name = plb_arena_strdup(m->profile->arena, name[0] ? name : "(no name)");
        if (!rows[at].name) return no_memory();
        PLB_TRY(plb_map_set(m->index, name, at));
    }
    *out = &rows[at];
    return PLB_OK;
}

static plb_status add_named(merge *m, const plb_spool *s, const plb_spool_named *from, int n,
                            plb_profile_named *rows, int *count) {
    for (int i = 0; i < n; i++) {
        plb_profile_named *row = NULL;
        if (!from[i].hash) continue;
        PLB_TRY(named_row(m, rows, count, s->names + from[i].name, &row));
        row->busy = (plb_busy)from[i].busy;
        add_times(&row->calls, &row->total_ns, &row->min_ns, &row->max_ns, &from[i].times);
        const plb_estimated all = as_recorded(&from[i].times);
        add_whole(&row->whole, &all);
    }
    return PLB_OK;
}

static plb_status fresh_index(merge *m) {
    plb_map_free(m->index);
    m->index = plb_map_new();
    return m->index ? PLB_OK : no_memory();
}

static plb_status merge_calls(merge *m) {
    plb_profile *p = m->profile;
    size_t most = 1;
    for (int i = 0; i < p->processes; i++)
        for (int k = 0; k < PLB_SPOOL_CALLS; k++) most += p->process[i]->call[k].hash != 0;
    PLB_TRY(fresh_index(m));
    p->call = plb_arena_alloc(p->arena, most * sizeof *p->call);
    if (!p->call) return no_memory();
    for (int i = 0; i < p->processes; i++)
        PLB_TRY(
            add_named(m, p->process[i], p->process[i]->call, PLB_SPOOL_CALLS, p->call, &p->calls));
    return PLB_OK;
}

// Ranges of all processes as one tree, in which a parent comes before its children.
typedef struct range_tree {
    plb_profile_range *row;
    int *parent; // -1: none
    int count;
    int *place; // of a process: its row's place in `row`, or -1
} range_tree;

static plb_status place_range(merge *m, range_tree *t, const plb_spool *s, int at, int *out) {
    const plb_spool_range *from = &s->range[at];
    char key[4096];
    int parent = -1;
    *out = t->place[at];
    if (*out >= 0) return PLB_OK;
    if (from->parent >= 0) PLB_TRY(place_range(m, t, s, from->parent, &parent));
    snprintf(key, sizeof key, "%d %s", parent, s->names + from->name);
    int64_t found = plb_map_get(m->index, key, -1);
    if (found < 0) {
        found = t->count++;
        const char *name = s->names + from->name;
        t->row[found].name = plb_arena_strdup(m->profile->arena, name[0] ? name : "(no name)");
        t->row[found].depth = parent < 0 ? 0 : t->row[parent].depth + 1;
        t->parent[found] = parent;
        if (!t->row[found].name) return no_memory();
        PLB_TRY(plb_map_set(m->index, key, found));
    }
    t->place[at] = *out = (int)found;
    return PLB_OK;
}

static plb_status add_ranges(merge *m, range_tree *t, const plb_spool *s) {
    for (int i = 0; i < PLB_SPOOL_RANGES; i++) t->place[i] = -1;
    for (int i = 0; i < PLB_SPOOL_RANGES; i++) {
        const plb_spool_range *from = &s->range[i];
        int at = -1;
        if (!from->hash) continue;
        PLB_TRY(place_range(m, t, s, i, &at));
        plb_profile_range *row = &t->row[at];
        add_times(&row->calls, &row->total_ns, &row->min_ns, &row->max_ns, &from->times);
        row->self_device_ns += from->device_ns;
        row->device_work += from->device_work;
    }
    return PLB_OK;
}

// The children of `parent`, the most device time first, then host time; each with its own.
static void put_in_order(const range_tree *t, int parent, plb_profile_range *out, int *count,
                         bool *done) {
    for (;;) {
        int most = -1;
        for (int i = 0; i < t->count; i++) {
            if (done[i] || t->parent[i] != parent) continue;
            const plb_profile_range *a = &t->row[i], *b = most < 0 ? NULL : &t->row[most];
            if (!b || a->device_ns > b->device_ns ||
                (a->device_ns == b->device_ns && a->total_ns > b->total_ns))
                most = i;
        }
        if (most < 0) return;
        done[most] = true;
        out[(*count)++] = t->row[most];
        put_in_order(t, most, out, count, done);
    }
}

static plb_status merge_ranges(merge *m) {
    plb_profile *p = m->profile;
    range_tree t = {0};
    size_t most = 1;
    for (int i = 0; i < p->processes; i++)
        for (int k = 0; k < PLB_SPOOL_RANGES; k++) most += p->process[i]->range[k].hash != 0;
    PLB_TRY(fresh_index(m));
    t.row = plb_arena_alloc(p->arena, most * sizeof *t.row);
    t.parent = plb_arena_alloc(p->arena, most * sizeof *t.parent);
    t.place = plb_arena_alloc(p->arena, PLB_SPOOL_RANGES * sizeof *t.place);
    bool *done = plb_arena_alloc(p->arena, most * sizeof *done);
    p->range = plb_arena_alloc(p->arena, most * sizeof *p->range);
    if (!t.row || !t.parent || !t.place || !done || !p->range) return no_memory();
    for (int i = 0; i < p->processes; i++) PLB_TRY(add_ranges(m, &t, p->process[i]));
    for (int i = t.count - 1; i >= 0; i--) {
        t.row[i].device_ns += t.row[i].self_device_ns;
        if (t.parent[i] < 0) continue;
        t.row[t.parent[i]].device_ns += t.row[i].device_ns;
        t.row[t.parent[i]].device_work += t.row[i].device_work;
    }
    put_in_order(&t, -1, p->range, &p->ranges, done);
    return PLB_OK;
}

static plb_status merge_kernels_of(merge *m, const plb_spool *s) {
    plb_estimate e;
    const bool in_part = plb_estimate_of(s, &e);
    if (s->alternates) m->profile->in_part = true;
    if (s->alternates == 2) m->profile->calls_in_part = true;
    for (int k = 0; k < PLB_SPOOL_KERNELS; k++) {
        if (!s->kernel[k].hash) continue;
        const plb_estimated whole =
            in_part ? plb_estimate_kernel(s, &e, k) : as_recorded(&s->kernel[k].times);
        PLB_TRY(add_kernel(m, s, &s->kernel[k], &whole));
    }
    return PLB_OK;
}

static plb_status merge_kernels(merge *m) {
    plb_profile *p = m->profile;
    size_t most = 1;
    for (int i = 0; i < p->processes; i++)
        for (int k = 0; k < PLB_SPOOL_KERNELS; k++) most += p->process[i]->kernel[k].hash != 0;
    PLB_TRY(fresh_index(m));
    p->kernel = plb_arena_alloc(p->arena, most * sizeof *p->kernel);
    m->most_ns = plb_arena_alloc(p->arena, most * sizeof *m->most_ns);
    if (!p->kernel || !m->most_ns) return no_memory();
    for (int i = 0; i < p->processes; i++) PLB_TRY(merge_kernels_of(m, p->process[i]));
    return PLB_OK;
}

static plb_status merge_classes(merge *m) {
    plb_profile *p = m->profile;
    PLB_TRY(fresh_index(m));
    p->class = plb_arena_alloc(p->arena, (size_t)(p->kernels + 1) * sizeof *p->class);
    if (!p->class) return no_memory();
    for (int i = 0; i < p->kernels; i++) {
        const plb_profile_kernel *k = &p->kernel[i];
        plb_profile_named *row = NULL;
        PLB_TRY(named_row(m, p->class, &p->classes, k->class, &row));
        const plb_spool_times t = {k->calls, k->total_ns, k->min_ns, k->max_ns};
        add_times(&row->calls, &row->total_ns, &row->min_ns, &row->max_ns, &t);
        add_whole(&row->whole, &k->whole);
    }
    return PLB_OK;
}

static double flops_of(const plb_profile_counted *k) {
    return k->total[PLB_COUNTED_CORES] + k->total[PLB_COUNTED_TENSOR];
}

static int by_counts(const void *left, const void *right) {
    const plb_profile_counted *a = left, *b = right;
    const double flops_a = flops_of(a), flops_b = flops_of(b);
    const double bytes_a = a->total[PLB_COUNTED_DRAM] + a->total[PLB_COUNTED_L2];
    const double bytes_b = b->total[PLB_COUNTED_DRAM] + b->total[PLB_COUNTED_L2];
    if (flops_a != flops_b) return flops_a < flops_b ? 1 : -1;
    if (bytes_a != bytes_b) return bytes_a < bytes_b ? 1 : -1;
    return strcmp(a->name, b->name);
}

static plb_status add_counted(merge *m, const plb_counted_kernel *from) {
    plb_profile *p = m->profile;
    plb_kernel_demangle(from->name, m->text, sizeof m->text);
    int64_t at = plb_map_get(m->index, m->text, -1);
    if (at < 0) {
        at = p->counted_kernels++;
        p->counted_kernel[at].name = plb_arena_strdup(p->arena, m->text[0] ? m->text : "(no name)");
        if (!p->counted_kernel[at].name) return no_memory();
        PLB_TRY(plb_map_set(m->index, m->text, at));
    }
    plb_profile_counted *row = &p->counted_kernel[at];
    row->launches += from->launches;
    for (int i = 0; i < PLB_COUNTED_TOTALS; i++) row->total[i] += from->total[i];
    return PLB_OK;
}

static plb_status merge_counted(merge *m) {
    plb_profile *p = m->profile;
    PLB_TRY(fresh_index(m));
    p->counted_kernel = plb_arena_alloc(p->arena, ((size_t)p->counteds * PLB_COUNTED_KERNELS + 1) *
                                                      sizeof *p->counted_kernel);
    if (!p->counted_kernel) return no_memory();
    for (int i = 0; i < p->counteds; i++)
        for (int k = 0; k < PLB_COUNTED_KERNELS; k++)
            if (p->counted[i].kernel[k].hash) PLB_TRY(add_counted(m, &p->counted[i].kernel[k]));
    qsort(p->counted_kernel, (size_t)p->counted_kernels, sizeof *p->counted_kernel, by_counts);
    return PLB_OK;
}

static plb_status read_all(plb_profile *p, const char *folder, const plb_kernel_classes *classes) {
    merge *m = plb_arena_alloc(p->arena, sizeof *m);
    plb_status status;
    if (!m) return no_memory();
    *m = (merge){.profile = p, .classes = classes};
    PLB_TRY_OUT(read_files(p, folder));
    PLB_TRY_OUT(read_counted(p, folder));
    PLB_TRY_OUT(merge_kernels(m));
    PLB_TRY_OUT(merge_calls(m));
    PLB_TRY_OUT(merge_ranges(m));
    PLB_TRY_OUT(merge_classes(m));
    PLB_TRY_OUT(merge_counted(m));
    plb_profile_sort(p, PLB_BY_TOTAL);
out:
    plb_map_free(m->index);
    return status;
}

plb_status plb_profile_read(const char *folder, const plb_kernel_classes *classes,
                            plb_profile **out) {
    *out = NULL;
    plb_profile *p = plb_alloc(sizeof *p);
    if (!p) return no_memory();
    *p = (plb_profile){.arena = plb_arena_new()};
    plb_status status = p->arena ? read_all(p, folder, classes) : no_memory();
    if (status)
        plb_profile_free(p);
    else
        *out = p;
    return status;
}

void plb_profile_free(plb_profile *p) {
    if (!p) return;
    for (int i = 0; i < p->processes; i++) plb_spool_unmap(p->process[i]);
    plb_arena_free(p->arena);
    plb_free(p);
}

static int larger_first(int64_t a, int64_t b) {
    return (a < b) - (a > b);
}

static int compare(const char *name_a, const char *name_b, const int64_t a[3], const int64_t b[3],
                   plb_profile_order order) { // a, b: calls, total, max
    int found = 0;
    if (order == PLB_BY_CALLS) found = larger_first(a[0], b[0]);
    if (order == PLB_BY_AVERAGE)
        found = larger_first(a[0] ? a[1] / a[0] : 0, b[0] ? b[1] / b[0] : 0);
    if (order == PLB_BY_MAX) found = larger_first(a[2], b[2]);
    if (order == PLB_BY_NAME) found = strcmp(name_a, name_b);
    if (!found) found = larger_first(a[1], b[1]);
    return found ? found : strcmp(name_a, name_b);
}

static int compare_kernels(const void *left, const void *right, void *order) {
    const plb_profile_kernel *a = left, *b = right;
    return compare(a->name, b->name, (int64_t[]){a->calls, a->total_ns, a->max_ns},
                   (int64_t[]){b->calls, b->total_ns, b->max_ns}, *(plb_profile_order *)order);
}

static int compare_named(const void *left, const void *right, void *order) {
    const plb_profile_named *a = left, *b = right;
    return compare(a->name, b->name, (int64_t[]){a->calls, a->total_ns, a->max_ns},
                   (int64_t[]){b->calls, b->total_ns, b->max_ns}, *(plb_profile_order *)order);
}

void plb_profile_sort(plb_profile *p, plb_profile_order order) {
    qsort_r(p->kernel, (size_t)p->kernels, sizeof *p->kernel, compare_kernels, &order);
    qsort_r(p->call, (size_t)p->calls, sizeof *p->call, compare_named, &order);
    qsort_r(p->class, (size_t)p->classes, sizeof *p->class, compare_named, &order);
}
