// SPDX-License-Identifier: Apache-2.0
// A process of the trace is a device of a process of the program, or the program's host side; a
// thread of it is a stream or a thread.
#include "cli/profile_trace.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/atomic_file.h"
#include "base/core/status.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/json.h"
#include "cli/trace_lanes.h"

enum { RESTS_TRACK = 1 << 30 }; // no stream has that number

typedef struct writer {
    plb_atomic_file *file;
    const plb_spool *spool;
    int64_t zero_ns; // of the whole trace, on CUPTI's clock
    bool comma;
} writer;

static const char *const copy_names[PLB_COPY_COUNT] = {"copy in",   "copy out",  "copy inside",
                                                       "copy peer", "copy host", "copy"};

static plb_status put(writer *w, plb_json *json) {
    plb_status status = plb_json_status(json);
    if (!status && w->comma) status = plb_atomic_write(w->file, ",\n", 2);
    if (!status) status = plb_atomic_write(w->file, json->text.text, json->text.length);
    w->comma = true;
    plb_json_free(json);
    return status;
}

// Wraps round where a damaged file has moments that are further apart than an int64_t reaches.
static double apart_us(int64_t from_ns, int64_t to_ns) {
    return (double)(int64_t)((uint64_t)to_ns - (uint64_t)from_ns) / 1e3;
}

// The host side has number 16 pid + 15, a device 16 pid + its number.
static int64_t process_of(const writer *w, bool host, uint32_t device) {
    return 16 * (int64_t)w->spool->pid + (host ? 15 : device % 15);
}

static const char *name_of(const writer *w, const plb_trace_record *r, char *text, size_t bytes) {
    if (r->kind == PLB_RECORD_COPY) return copy_names[r->copy < PLB_COPY_COUNT ? r->copy : 5];
    if (r->kind == PLB_RECORD_SET) return "memset";
    if (r->kind == PLB_RECORD_GRAPH) return "graph";
    plb_kernel_demangle(r->name < w->spool->name_bytes ? w->spool->names + r->name : "", text,
                        bytes);
    return text[0] ? text : "(no name)";
}

// The categories that torch.profiler uses, which other tools know.
static const char *category_of(const plb_trace_record *r) {
    switch (r->kind) {
    case PLB_RECORD_KERNEL: return "kernel";
    case PLB_RECORD_COPY: return "gpu_memcpy";
    case PLB_RECORD_SET: return "gpu_memset";
    case PLB_RECORD_GRAPH: return "graph";
    case PLB_RECORD_CALL: return "cuda_call";
    default: return "user_annotation";
    }
}

static plb_status put_record(writer *w, const plb_trace_record *r, uint32_t tid) {
    const bool host = plb_trace_is_host(r);
    char name[2048];
    plb_json json = {.compact = true};
    plb_json_begin_object(&json, NULL);
    plb_json_string(&json, "ph", "X");
    plb_json_string(&json, "name", name_of(w, r, name, sizeof name));
    plb_json_string(&json, "cat", category_of(r));
    plb_json_double(&json, "ts", apart_us(w->zero_ns, r->start_ns));
    plb_json_double(&json, "dur", apart_us(r->start_ns, r->end_ns));
    plb_json_int(&json, "pid", process_of(w, host, r->device));
    plb_json_int(&json, "tid", tid);
    plb_json_begin_object(&json, "args");
    plb_json_int(&json, "correlation", r->correlation);
    if (!host) plb_json_int(&json, "device", r->device);
    if (!host) plb_json_int(&json, "stream", r->track);
    if (r->bytes) plb_json_int(&json, "bytes", r->bytes);
    if (r->kind == PLB_RECORD_KERNEL) {
        snprintf(name, sizeof name, "%d,%d,%d x %d,%d,%d", r->grid[0], r->grid[1], r->grid[2],
                 r->block[0], r->block[1], r->block[2]);
        plb_json_string(&json, "grid_block", name);
    }
    plb_json_end(&json);
    plb_json_end(&json);
    return put(w, &json);
}

// Of a process, or of a track of one: "process_name" or "thread_name".
static plb_status put_name(writer *w, const char *what, int64_t process, int64_t track,
                           const char *name) {
    plb_json json = {.compact = true};
    plb_json_begin_object(&json, NULL);
    plb_json_string(&json, "ph", "M");
    plb_json_string(&json, "name", what);
    plb_json_int(&json, "pid", process);
    plb_json_int(&json, "tid", track);
    plb_json_begin_object(&json, "args");
    plb_json_string(&json, "name", name);
    plb_json_end(&json);
    plb_json_end(&json);
    return put(w, &json);
}

static plb_status put_names(writer *w) {
    const plb_spool *s = w->spool;
    char name[256];
    snprintf(name, sizeof name, "%s (%d): host", s->program, s->pid);
    PLB_TRY(put_name(w, "process_name", 16 * (int64_t)s->pid + 15, 0, name));
    for (int i = 0; i < 15; i++) {
        if (!s->device[i].records) continue;
        snprintf(name, sizeof name, "%s (%d): device %d %s", s->program, s->pid, i,
                 s->names + s->device[i].name);
        PLB_TRY(put_name(w, "process_name", 16 * (int64_t)s->pid + i, 0, name));
    }
    return PLB_OK;
}

static plb_status put_rest(writer *w, int64_t process, int64_t from_ns, int64_t to_ns) {
    plb_json json = {.compact = true};
    if (to_ns <= from_ns) return PLB_OK;
    plb_json_begin_object(&json, NULL);
    plb_json_string(&json, "ph", "X");
    plb_json_string(&json, "name",
                    w->spool->alternates == 2 ? "not recorded" : "kernels not recorded");
    plb_json_string(&json, "cat", "not_recorded");
    plb_json_double(&json, "ts", apart_us(w->zero_ns, from_ns));
    plb_json_double(&json, "dur", apart_us(from_ns, to_ns));
    plb_json_int(&json, "pid", process);
    plb_json_int(&json, "tid", RESTS_TRACK);
    plb_json_end(&json);
    return put(w, &json);
}

// Where only part of the time was recorded an empty track is no idle device: a track of each tells
// when nothing was looked at.
static plb_status put_rests(writer *w) {
    const plb_spool *s = w->spool;
    if (!s->alternates || !s->blocks) return PLB_OK;
    const int64_t settled_ns =
        (int64_t)((uint64_t)s->settled_ns - (uint64_t)s->begin_ns + (uint64_t)s->begin_cupti_ns);
    for (int i = 0; i < 15; i++) {
        const int64_t process = 16 * (int64_t)s->pid + i;
        int64_t end_ns = s->window[0].end_ns;
        if (!s->device[i].records) continue;
        PLB_TRY(put_name(w, "thread_name", process, RESTS_TRACK, "recording"));
        for (int64_t k = 1; k < s->blocks; k++) {
            PLB_TRY(put_rest(w, process, end_ns, s->window[k].start_ns));
            end_ns = s->window[k].end_ns;
        }
        // Up to a block that never ended; what came after the last that was kept nobody knows.
        if (s->blocks < PLB_SPOOL_BLOCKS)
            PLB_TRY(put_rest(w, process, end_ns, s->open_ns ? s->open_ns : settled_ns));
    }
    return PLB_OK;
}

// Half a record at the end is cut off.
static size_t records_in(const plb_file_map *map) {
    return map->size_bytes / sizeof(plb_trace_record);
}

static plb_status put_lane_name(writer *w, const plb_trace_lane *lane) {
    char name[64];
    snprintf(name, sizeof name, "beside %s %u", lane->host ? "thread" : "stream", lane->track);
    return put_name(w, "thread_name", process_of(w, lane->host, lane->device), lane->tid, name);
}

static plb_status put_records(writer *w, const plb_file_map *map) {
    const size_t count = records_in(map);
    plb_trace_lanes lanes;
    plb_status status = plb_trace_lanes_of(map->bytes, count, &lanes);
    for (int i = 0; i < lanes.lanes && !status; i++) status = put_lane_name(w, &lanes.lane[i]);
    for (size_t i = 0; i < count && !status; i++) {
        const plb_trace_record record = plb_trace_record_at(map->bytes, i);
        status = put_record(w, &record, lanes.tid[i]);
    }
    plb_trace_lanes_free(&lanes);
    return status;
}

static plb_status put_file(writer *w, const char *path) {
    plb_file_map map = {0};
    PLB_TRY(plb_file_map_open(path, &map));
    plb_status status = put_names(w);
    if (!status) status = put_rests(w);
    if (!status) status = put_records(w, &map);
    plb_file_map_close(&map);
    return status;
}

// A trace lies beside the spool of its process: one that became another program has two of each.
// False where there is none.
static bool find_trace(const char *spool, char path[PATH_MAX]) {
    const int stem = (int)(strlen(spool) - strlen(".spool"));
    const int n = snprintf(path, PATH_MAX, "%.*s.trace", stem, spool);
    return n > 0 && n < PATH_MAX && plb_file_exists(path);
}

static plb_status put_processes(writer *w, const plb_profile *profile) {
    for (int p = 0; p < profile->processes; p++) {
        char path[PATH_MAX];
        if (!find_trace(profile->file[p], path)) continue;
        w->spool = profile->process[p];
        PLB_TRY(put_file(w, path));
    }
    return PLB_OK;
}

// When a look at the cards was, on the clock of a process's records.
static int64_t look_ns(const plb_spool *s, const plb_command_sample *look) {
    return (int64_t)((uint64_t)look->at_ns - (uint64_t)s->begin_ns + (uint64_t)s->begin_cupti_ns);
}

static plb_status note_begins(writer *w, const char *path) {
    plb_file_map map = {0};
    PLB_TRY(plb_file_map_open(path, &map));
    for (size_t i = 0; i < records_in(&map); i++) {
        const plb_trace_record record = plb_trace_record_at(map.bytes, i);
        if (record.start_ns < w->zero_ns) w->zero_ns = record.start_ns;
    }
    plb_file_map_close(&map);
    return PLB_OK;
}

// To the earliest moment that is told of: what is negative, Perfetto drops. Cards are looked at
// before a program uses any.
static plb_status set_zero(writer *w, const plb_profile *profile, const plb_command_result *run) {
    const plb_spool *s = profile->processes ? profile->process[0] : NULL;
    w->zero_ns = s ? s->begin_cupti_ns : 0;
    for (int p = 0; p < profile->processes; p++) {
        const int64_t begin_ns = profile->process[p]->begin_cupti_ns;
        char path[PATH_MAX];
        if (begin_ns < w->zero_ns) w->zero_ns = begin_ns;
        if (find_trace(profile->file[p], path)) PLB_TRY(note_begins(w, path));
    }
    for (int i = 0; s && run && i < run->samples; i++) {
        const int64_t look = look_ns(s, &run->sample[i]);
        if (look < w->zero_ns) w->zero_ns = look;
    }
    return PLB_OK;
}

// Power, memory and use of the cards, under a process of their own.
static plb_status put_counters(writer *w, const plb_command_result *run, const plb_spool *s) {
    if (!run || !run->samples) return PLB_OK;
    PLB_TRY(put_name(w, "process_name", 1, 0, "cards, as NVML saw them"));
    for (int i = 0; i < run->samples; i++) {
        const plb_command_sample *a = &run->sample[i];
        const double us = apart_us(w->zero_ns, look_ns(s, a));
        const double values[] = {a->watts, (double)a->memory_bytes / (1 << 20),
                                 100 * (double)a->utilisation};
        static const char *const names[] = {"W", "MiB in use", "% of time with a kernel"};
        for (int k = 0; k < 3; k++) {
            char name[64];
            plb_json json = {.compact = true};
            snprintf(name, sizeof name, "card %d: %s", (int)a->card, names[k]);
            plb_json_begin_object(&json, NULL);
            plb_json_string(&json, "ph", "C");
            plb_json_string(&json, "name", name);
            plb_json_double(&json, "ts", us);
            plb_json_int(&json, "pid", 1);
            plb_json_begin_object(&json, "args");
            plb_json_double(&json, "value", values[k]);
            plb_json_end(&json);
            plb_json_end(&json);
            PLB_TRY(put(w, &json));
        }
    }
    return PLB_OK;
}

plb_status plb_profile_write_trace(const plb_profile_report *report, const char *path) {
    static const char head[] = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n", tail[] = "\n]}\n";
    const plb_profile *profile = report->profile;
    writer w = {0};
    PLB_TRY(set_zero(&w, profile, report->run));
    PLB_TRY(plb_atomic_open(path, &w.file));
    plb_status status = plb_atomic_write(w.file, head, sizeof head - 1);
    if (!status) status = put_processes(&w, profile);
    if (!status && w.spool) status = put_counters(&w, report->run, profile->process[0]);
    if (!status) status = plb_atomic_write(w.file, tail, sizeof tail - 1);
    if (!status) return plb_atomic_commit(w.file);
    plb_atomic_abort(w.file);
    return status;
}
