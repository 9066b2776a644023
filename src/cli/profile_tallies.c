// SPDX-License-Identifier: Apache-2.0
// What a profile has by stream and by thread, and the device's memory over time.
#include <inttypes.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/profile_numbers.h"
#include "cli/profile_tallies.h"
#include "cli/units.h"
#include "probe/tallied.h"

void plb_profile_print_streams(const plb_profile_report *r) {
    plb_arena *arena = plb_arena_new();
    plb_tallied_stream *row = NULL;
    int count = 0;
    if (!arena || plb_tallied_streams(r->profile, arena, &row, &count)) count = 0;
    if (count)
        plb_print("\n%9s%12s%9s%10s%12s%9s%9s  %s\n", "kernels", "total ms", "copies", "total ms",
                  "bytes", "sets", "total ms",
                  r->profile->in_part ? "stream; of what was recorded" : "stream");
    for (int i = 0; i < plb_profile_rows(r, count); i++) {
        const plb_spool_stream *s = &row[i].sums;
        plb_print("%9" PRId64 "%12.3f%9" PRId64 "%10.3f%12s%9" PRId64 "%9.3f  %" PRIu32
                  " of device %" PRIu32 " in %s (%d)%s\n",
                  s->kernels, plb_profile_ms(s->kernel_ns), s->copies, plb_profile_ms(s->copy_ns),
                  plb_show_bytes((double)s->copy_bytes).text, s->sets, plb_profile_ms(s->set_ns),
                  s->stream, s->device, row[i].program, row[i].pid,
                  s->shared ? ", and further ones" : "");
    }
    if (plb_profile_rows(r, count) < count)
        plb_print("%9s %d more streams: --top 0 shows all\n", "",
                  count - plb_profile_rows(r, count));
    plb_arena_free(arena);
}

// The system's name of a thread, if it was seen while the program ran.
static const char *name_of(const plb_profile_report *r, uint32_t thread) {
    for (int i = 0; r->run && i < r->run->threads; i++)
        if ((uint32_t)r->run->thread[i].tid == thread) return r->run->thread[i].name;
    return "";
}

void plb_profile_print_threads(const plb_profile_report *r) {
    plb_arena *arena = plb_arena_new();
    plb_tallied_thread *row = NULL;
    int count = 0;
    if (!arena || plb_tallied_threads(r->profile, arena, &row, &count)) count = 0;
    if (count)
        plb_print("\n%9s%12s%12s%12s%10s%12s  %s\n", "calls", "host ms", "waiting ms", "copying ms",
                  "launches", "device ms", "thread (launches: under --api or --ranges)");
    for (int i = 0; i < plb_profile_rows(r, count); i++) {
        const plb_spool_thread *t = &row[i].sums;
        plb_print("%9" PRId64 "%12.3f%12.3f%12.3f%10" PRId64 "%12.3f  %" PRIu32
                  " %s of %s (%d)%s\n",
                  t->calls, plb_profile_ms(t->call_ns), plb_profile_ms(t->waiting_ns),
                  plb_profile_ms(t->copying_ns), t->launched, plb_profile_ms(t->device_ns),
                  t->thread, name_of(r, t->thread), row[i].program, row[i].pid,
                  t->shared ? ", and further ones" : "");
    }
    if (plb_profile_rows(r, count) < count)
        plb_print("%9s %d more threads: --top 0 shows all\n", "",
                  count - plb_profile_rows(r, count));
    plb_arena_free(arena);
}

// A mark each stretch of time, by how much of the most was taken.
void plb_profile_print_memory(const plb_spool_memory *m) {
    static const char marks[] = " .:-=+*#%@";
    char line[PLB_SPOOL_POINTS + 1];
    int64_t most = 0;
    for (int64_t i = 0; i < m->points; i++)
        if (m->most_bytes[i] > most) most = m->most_bytes[i];
    if (m->points < 2 || !most) return;
    for (int64_t i = 0; i < m->points; i++) {
        const double share = (double)m->most_bytes[i] / (double)most;
        const int mark = share <= 0 ? 0 : (int)(share * (sizeof marks - 2) + .999999);
        line[i] = marks[mark < (int)sizeof marks - 1 ? mark : (int)sizeof marks - 2];
    }
    line[m->points] = '\0';
    plb_print("  memory over time, %.3g ms a mark, @ is %s: [%s]\n", plb_profile_ms(m->each_ns),
              plb_show_bytes((double)most).text, line);
}

void plb_profile_print_takers(const plb_spool *s, int device) {
    const plb_spool_pool *pool = &s->pool[device];
    if (pool->peak_bytes > 0)
        plb_print("  pool of stream-ordered memory at most %s, of it in use at most %s\n",
                  plb_show_bytes((double)pool->peak_bytes).text,
                  plb_show_bytes((double)pool->used_peak_bytes).text);
    for (int i = 0; i < PLB_SPOOL_SOURCES; i++) {
        const plb_spool_source *t = &s->source[i];
        if (!t->used || t->device != (uint32_t)device) continue;
        plb_print("  memory for %s: taken %" PRId64 " times, %s, at most %s at once, %s left\n",
                  s->names + t->name, t->allocations, plb_show_bytes((double)t->bytes).text,
                  plb_show_bytes((double)t->peak_bytes).text,
                  plb_show_bytes((double)t->now_bytes).text);
    }
}

// ---------------------------------------------------------------------------- JSON
void plb_profile_json_takers(const plb_spool *s, int device, plb_json *json) {
    plb_json_int(json, "pool_peak_bytes", s->pool[device].peak_bytes);
    plb_json_int(json, "pool_used_peak_bytes", s->pool[device].used_peak_bytes);
    plb_json_begin_array(json, "takers");
    for (int i = 0; i < PLB_SPOOL_SOURCES; i++) {
        const plb_spool_source *t = &s->source[i];
        if (!t->used || t->device != (uint32_t)device) continue;
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "library", s->names + t->name);
        plb_json_int(json, "allocations", t->allocations);
        plb_json_int(json, "bytes", t->bytes);
        plb_json_int(json, "peak_bytes", t->peak_bytes);
        plb_json_int(json, "left_bytes", t->now_bytes);
        plb_json_end(json);
    }
    plb_json_end(json);
}

static void json_stream(const plb_tallied_stream *row, plb_json *json) {
    const plb_spool_stream *s = &row->sums;
    plb_json_begin_object(json, NULL);
    plb_json_int(json, "pid", row->pid);
    plb_json_int(json, "device", s->device);
    plb_json_int(json, "stream", s->stream);
    plb_json_bool(json, "and_further_ones", s->shared);
    plb_json_int(json, "kernels", s->kernels);
    plb_json_double(json, "kernels_ms", plb_profile_ms(s->kernel_ns));
    plb_json_int(json, "copies", s->copies);
    plb_json_double(json, "copies_ms", plb_profile_ms(s->copy_ns));
    plb_json_int(json, "copied_bytes", s->copy_bytes);
    plb_json_int(json, "memsets", s->sets);
    plb_json_double(json, "memsets_ms", plb_profile_ms(s->set_ns));
    plb_json_end(json);
}

static void json_thread(const plb_tallied_thread *row, plb_json *json) {
    const plb_spool_thread *t = &row->sums;
    plb_json_begin_object(json, NULL);
    plb_json_int(json, "pid", row->pid);
    plb_json_int(json, "tid", t->thread);
    plb_json_bool(json, "and_further_ones", t->shared);
    plb_json_int(json, "calls", t->calls);
    plb_json_double(json, "calls_ms", plb_profile_ms(t->call_ns));
    plb_json_double(json, "waiting_ms", plb_profile_ms(t->waiting_ns));
    plb_json_double(json, "copying_ms", plb_profile_ms(t->copying_ns));
    plb_json_int(json, "launches", t->launched);
    plb_json_double(json, "device_ms", plb_profile_ms(t->device_ns));
    plb_json_end(json);
}

void plb_profile_json_tallies(const plb_profile *p, plb_json *json) {
    plb_arena *arena = plb_arena_new();
    plb_tallied_stream *stream = NULL;
    plb_tallied_thread *thread = NULL;
    int streams = 0, threads = 0;
    if (!arena || plb_tallied_streams(p, arena, &stream, &streams)) streams = 0;
    if (!arena || plb_tallied_threads(p, arena, &thread, &threads)) threads = 0;
    plb_json_begin_array(json, "streams");
    for (int i = 0; i < streams; i++) json_stream(&stream[i], json);
    plb_json_end(json);
    plb_json_begin_array(json, "calling_threads");
    for (int i = 0; i < threads; i++) json_thread(&thread[i], json);
    plb_json_end(json);
    plb_arena_free(arena);
}

void plb_profile_json_memory(const plb_spool_memory *m, plb_json *json) {
    plb_json_begin_object(json, "timeline");
    plb_json_double(json, "each_ms", plb_profile_ms(m->each_ns));
    plb_json_begin_array(json, "most_bytes");
    for (int64_t i = 0; i < m->points; i++) plb_json_int(json, NULL, m->most_bytes[i]);
    plb_json_end(json);
    plb_json_end(json);
}
