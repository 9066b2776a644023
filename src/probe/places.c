// SPDX-License-Identifier: Apache-2.0
#include "probe/places.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "probe/elf_symbols.h"
#include "probe/kernel_name.h"

enum {
    PROCESSES = 4096, // at once
    FILES = 4096,
    NAME_BYTES = 16, // of a program, as the kernel keeps it
    SPOTS = 1 << 16, // places that were met, a power of two: a hash table
    TRIES = 64,
};

typedef struct mapping {
    uint64_t begin, length, file_offset;
    uint32_t file;
} mapping;

// A child has its parent's until one of the two changes its own.
typedef struct mappings {
    int users;
    size_t count, room;
    mapping *of;
} mappings;

typedef struct process {
    uint32_t pid;
    char name[NAME_BYTES]; // "": not known
    mappings *maps;        // NULL: none known
} process;

// Of programs that are in chains of calls: those that were only renamed take no room.
typedef struct names {
    plb_map *index;
    char (*text)[NAME_BYTES];
    uint32_t count, room;
} names;

typedef struct spot {
    plb_place place;
    int64_t samples; // 0: free
    uint32_t at;     // its own number
} spot;

// A sample, by the number of its spot.
typedef struct moment {
    int64_t at_ns;
    uint32_t pid, spot;
} moment;

enum { FILE_UNKNOWN, FILE_KERNEL, FILE_FIRST };
enum { NAME_UNKNOWN, NAME_FIRST };

struct plb_places {
    process process[PROCESSES];
    int processes;
    char *path[FILES];
    uint32_t files;
    plb_map *index; // of paths
    names names;
    int64_t unplaced; // samples for which there was no spot left
    spot spot[SPOTS];
    int moments; // of the first samples
    moment moment[PLB_SAMPLED_MOMENTS];
};

plb_places *plb_places_new(void) {
    plb_places *p = plb_alloc(sizeof *p);
    if (!p) return NULL;
    p->files = FILE_FIRST;
    p->names.count = NAME_FIRST;
    p->index = plb_map_new();
    p->names.index = plb_map_new();
    if (p->index && p->names.index) return p;
    plb_places_free(p);
    return NULL;
}

static void drop(mappings *m) {
    if (!m || --m->users) return;
    plb_free(m->of);
    plb_free(m);
}

void plb_places_free(plb_places *p) {
    if (!p) return;
    for (int i = 0; i < p->processes; i++) drop(p->process[i].maps);
    for (uint32_t i = FILE_FIRST; i < p->files; i++) plb_free(p->path[i]);
    plb_map_free(p->index);
    plb_map_free(p->names.index);
    plb_free(p->names.text);
    plb_free(p);
}

// The newest first: processes come and go at that end.
static const process *find(const plb_places *p, uint32_t pid) {
    for (int i = p->processes; i-- > 0;)
        if (p->process[i].pid == pid) return &p->process[i];
    return NULL;
}

static process *find_own(plb_places *p, uint32_t pid) {
    const process *found = find(p, pid);
    return found ? &p->process[found - p->process] : NULL;
}

static process *find_or_add(plb_places *p, uint32_t pid) {
    process *found = find_own(p, pid);
    if (found || p->processes == PROCESSES) return found;
    p->process[p->processes] = (process){.pid = pid};
    return &p->process[p->processes++];
}

static uint32_t file_of(plb_places *p, const char *path) {
    const int64_t known = plb_map_get(p->index, path, -1);
    if (known >= 0) return (uint32_t)known;
    if (p->files == FILES || !(p->path[p->files] = plb_strdup(path))) return FILE_UNKNOWN;
    if (plb_map_set(p->index, path, p->files)) {
        plb_free(p->path[p->files]);
        return FILE_UNKNOWN;
    }
    return p->files++;
}

// Mappings that are the process's alone, with room for one more.
static mappings *own(process *one) {
    const mappings *old = one->maps;
    if (!old || old->users > 1) {
        mappings *m = plb_alloc(sizeof *m);
        if (!m) return NULL;
        *m = (mappings){.users = 1, .count = old ? old->count : 0};
        m->room = m->count + 64;
        m->of = plb_alloc_array(m->room, sizeof *m->of);
        if (!m->of) {
            plb_free(m);
            return NULL;
        }
        if (old) memcpy(m->of, old->of, old->count * sizeof *m->of);
        drop(one->maps);
        one->maps = m;
    } else if (old->count == old->room) {
        mapping *more = plb_realloc_array(old->of, 2 * old->room, sizeof *more);
        if (!more) return NULL;
        one->maps->of = more, one->maps->room *= 2;
    }
    return one->maps;
}

void plb_places_map(plb_places *p, uint32_t pid, uint64_t begin, uint64_t length,
                    uint64_t file_offset, const char *path) {
    process *one = find_or_add(p, pid);
    mappings *m = one ? own(one) : NULL;
    if (!m) return;
    // What it covers whole is gone: a program that maps and unmaps for days does not add up.
    size_t kept = 0;
    for (size_t i = 0; i < m->count; i++) {
        const mapping *old = &m->of[i];
        if (old->begin < begin || old->begin - begin >= length ||
            old->length > length - (old->begin - begin))
            m->of[kept++] = *old;
    }
    m->of[kept] = (mapping){begin, length, file_offset, file_of(p, path)};
    m->count = kept + 1;
}

void plb_places_fork(plb_places *p, uint32_t pid, uint32_t parent) {
    const process *old = find(p, parent);
    process *one = find_or_add(p, pid);
    if (!one || one == old) return;
    drop(one->maps);
    one->maps = old ? old->maps : NULL;
    snprintf(one->name, sizeof one->name, "%s", old ? old->name : "");
    if (one->maps) one->maps->users++;
}

void plb_places_exec(plb_places *p, uint32_t pid) {
    process *one = find_own(p, pid);
    if (!one) return;
    drop(one->maps);
    one->maps = NULL;
}

void plb_places_rename(plb_places *p, uint32_t pid, const char *name) {
    process *one = find_or_add(p, pid);
    if (one) snprintf(one->name, sizeof one->name, "%s", name);
}

void plb_places_exit(plb_places *p, uint32_t pid) {
    process *one = find_own(p, pid);
    if (!one) return;
    drop(one->maps);
    *one = p->process[--p->processes];
}

static void note_moment(plb_places *p, uint32_t pid, int64_t at_ns, uint32_t number) {
    if (p->moments < PLB_SAMPLED_MOMENTS) p->moment[p->moments++] = (moment){at_ns, pid, number};
}

// Returns the spot's number, SPOTS for none.
static uint32_t count_at(plb_places *p, plb_place at) {
    const uint64_t hash = plb_hash_bytes(PLB_HASH_SEED, &at, sizeof at);
    for (uint32_t n = 0; n < TRIES; n++) {
        spot *s = &p->spot[(hash + n) & (SPOTS - 1)];
        if (s->samples && (s->place.file != at.file || s->place.offset != at.offset)) continue;
        s->place = at, s->samples++;
        return (uint32_t)(s - p->spot);
    }
    p->unplaced++;
    return SPOTS;
}

plb_place plb_places_at(const plb_places *p, uint32_t pid, uint64_t address) {
    const process *one = find(p, pid);
    const mappings *m = one ? one->maps : NULL;
    for (size_t i = m ? m->count : 0; i-- > 0;) { // the newest counts
        const mapping *at = &m->of[i];
        if (address < at->begin || address - at->begin >= at->length) continue;
        const char *path = at->file >= FILE_FIRST ? p->path[at->file] : "";
        const bool is_file = path[0] == '/' && path[1] != '/';
        return (plb_place){at->file, is_file ? address - at->begin + at->file_offset : 0};
    }
    return (plb_place){FILE_UNKNOWN, 0};
}

plb_place plb_places_in_kernel(void) {
    return (plb_place){FILE_KERNEL, 0};
}

static uint32_t number_of(names *n, const char *name) {
    const int64_t known = plb_map_get(n->index, name, -1);
    if (known >= 0) return (uint32_t)known;
    if (n->count >= n->room) {
        const uint32_t room = 2 * n->room + 64;
        void *more = plb_realloc_array(n->text, room, sizeof *n->text);
        if (!more) return NAME_UNKNOWN;
        n->text = more, n->room = room;
    }
    if (plb_map_set(n->index, name, n->count)) return NAME_UNKNOWN;
    memcpy(n->text[n->count], name, strlen(name) + 1);
    return n->count++;
}

plb_place plb_places_program(plb_places *p, uint32_t pid) {
    const process *one = find(p, pid);
    const uint32_t name = one && one->name[0] ? number_of(&p->names, one->name) : NAME_UNKNOWN;
    return (plb_place){name, PLB_PLACE_PROGRAM};
}

void plb_places_sample(plb_places *p, uint32_t pid, uint64_t address, int64_t at_ns) {
    note_moment(p, pid, at_ns, count_at(p, plb_places_at(p, pid, address)));
}

void plb_places_sample_kernel(plb_places *p, uint32_t pid, int64_t at_ns) {
    note_moment(p, pid, at_ns, count_at(p, plb_places_in_kernel()));
}

// ---------------------------------------------------------------------------- functions
static const char *module_of(const plb_places *p, plb_place at) {
    const bool is_program = at.offset == PLB_PLACE_PROGRAM;
    if (at.file == (is_program ? (uint64_t)NAME_UNKNOWN : FILE_UNKNOWN)) return "[unknown]";
    if (is_program) return p->names.text[at.file];
    if (at.file == FILE_KERNEL) return "[kernel]";
    const char *path = p->path[at.file], *slash = strrchr(path, '/');
    if (strncmp(path, "//anon", 6) == 0) return "[made at run time]";
    return slash && slash[1] ? slash + 1 : path;
}

static int by_file(const void *left, const void *right) {
    const plb_place *a = &((const spot *)left)->place, *b = &((const spot *)right)->place;
    if (a->file != b->file) return a->file < b->file ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static int by_samples(const void *left, const void *right) {
    const plb_sampled_function *a = left, *b = right;
    if (a->samples != b->samples) return a->samples < b->samples ? 1 : -1;
    const int order = strcmp(a->name, b->name);
    return order ? order : strcmp(a->module, b->module);
}

// Only of plain files: to open a device may set it going.
static void open_symbols(plb_place_namer *n, uint64_t file) {
    const char *path = file < FILE_FIRST ? "" : n->places->path[file];
    struct stat about;
    plb_elf_symbols_free(n->symbols);
    n->symbols = NULL, n->file = file;
    if (path[0] != '/' || stat(path, &about) || !S_ISREG(about.st_mode)) return;
    if (plb_elf_symbols_open(path, &n->symbols) == PLB_ENOMEM) n->failed = true;
}

void plb_place_name(plb_place_namer *n, plb_place at, plb_sampled_function *out) {
    const char *mangled = NULL;
    const bool is_program = at.offset == PLB_PLACE_PROGRAM; // its number is no file's
    if (n->file != at.file && !is_program) open_symbols(n, at.file);
    if (n->symbols && !is_program) mangled = plb_elf_symbols_at(n->symbols, at.offset);
    out->name[0] = '\0';
    if (mangled) plb_kernel_demangle(mangled, out->name, sizeof out->name);
    snprintf(out->module, sizeof out->module, "%s", module_of(n->places, at));
}

void plb_place_namer_end(plb_place_namer *n) {
    plb_elf_symbols_free(n->symbols);
    *n = (plb_place_namer){0};
}

// Spots in the order of files and offsets, those of one function after each other; row_of[i] is the
// row of spots[i].
static int gather(const plb_places *p, const spot *spots, size_t count, plb_sampled_function *rows,
                  int *row_of) {
    plb_place_namer namer = {.places = p};
    int n = 0;
    for (size_t i = 0; i < count; i++) {
        plb_sampled_function row = {.samples = spots[i].samples};
        plb_place_name(&namer, spots[i].place, &row);
        if (n && strcmp(rows[n - 1].name, row.name) == 0 &&
            strcmp(rows[n - 1].module, row.module) == 0)
            rows[n - 1].samples += row.samples;
        else
            rows[n++] = row;
        row_of[i] = n - 1;
    }
    plb_place_namer_end(&namer);
    return n;
}

static int by_name(const void *left, const void *right) {
    const plb_sampled_function *a = left, *b = right;
    const int order = strcmp(a->module, b->module);
    return order ? order : strcmp(a->name, b->name);
}

// A function in several parts, or of several files with one name, has one row.
static int merge(plb_sampled_function *rows, int count) {
    int n = 0;
    qsort(rows, (size_t)count, sizeof *rows, by_name);
    for (int i = 0; i < count; i++) {
        if (n && by_name(&rows[n - 1], &rows[i]) == 0)
            rows[n - 1].samples += rows[i].samples;
        else
            rows[n++] = rows[i];
    }
    return n;
}

static int row_named(const plb_sampled *s, const plb_sampled_function *f) {
    for (int i = 0; i < s->functions; i++)
        if (by_name(&s->function[i], f) == 0) return i;
    return -1;
}

typedef struct work {
    spot *spots;                // those with samples
    plb_sampled_function *rows; // gathered from them, before they were merged
    plb_sampled_function *merged;
    int *row_of;     // of spots[i] its row
    int32_t *answer; // of a spot's number its row of the result
    size_t count;
} work;

// Rows are looked up by name once each, spots then by row.
static void tell_moments(const plb_places *p, const work *w, int rows, plb_sampled *out) {
    int32_t *final = plb_alloc_array((size_t)rows + 1, sizeof *final);
    if (!final) return;
    for (int i = 0; i < rows; i++) final[i] = row_named(out, &w->rows[i]);
    for (uint32_t i = 0; i <= SPOTS; i++) w->answer[i] = -1;
    for (size_t i = 0; i < w->count; i++) w->answer[w->spots[i].at] = final[w->row_of[i]];
    plb_free(final);
    out->moments = p->moments;
    for (int i = 0; i < p->moments; i++)
        out->moment[i] = (plb_sampled_moment){p->moment[i].at_ns, w->answer[p->moment[i].spot],
                                              p->moment[i].pid};
}

static void tell_functions(const plb_places *p, work *w, plb_sampled *out) {
    w->count = 0;
    for (uint32_t i = 0; i < SPOTS; i++) {
        if (!p->spot[i].samples) continue;
        w->spots[w->count] = p->spot[i];
        w->spots[w->count++].at = i;
    }
    qsort(w->spots, w->count, sizeof *w->spots, by_file);
    const int rows = gather(p, w->spots, w->count, w->rows, w->row_of);
    memcpy(w->merged, w->rows, (size_t)rows * sizeof *w->rows);
    const int n = merge(w->merged, rows);
    qsort(w->merged, (size_t)n, sizeof *w->merged, by_samples);
    out->functions = n < PLB_SAMPLED_FUNCTIONS ? n : PLB_SAMPLED_FUNCTIONS;
    memcpy(out->function, w->merged, (size_t)out->functions * sizeof *w->merged);
    for (int i = 0; i < out->functions; i++) out->others -= w->merged[i].samples;
    tell_moments(p, w, rows, out);
}

void plb_places_functions(const plb_places *p, plb_sampled *out) {
    size_t count = 1;
    out->samples = p->unplaced;
    for (size_t i = 0; i < SPOTS; i++) {
        out->samples += p->spot[i].samples;
        if (p->spot[i].samples) count++;
    }
    out->others = out->samples;
    work w = {.spots = plb_alloc_array(count, sizeof *w.spots),
              .rows = plb_alloc_array(count, sizeof *w.rows),
              .merged = plb_alloc_array(count, sizeof *w.merged),
              .row_of = plb_alloc_array(count, sizeof *w.row_of),
              .answer = plb_alloc_array(SPOTS + 1, sizeof *w.answer)};
    if (w.spots && w.rows && w.merged && w.row_of && w.answer) tell_functions(p, &w, out);
    plb_free(w.spots);
    plb_free(w.rows);
    plb_free(w.merged);
    plb_free(w.row_of);
    plb_free(w.answer);
}
