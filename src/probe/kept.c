// SPDX-License-Identifier: Apache-2.0
#include "probe/kept.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/core/alloc.h"
#include "base/core/arena.h"
#include "base/core/status.h"
#include "base/file.h"
#include "base/folder.h"
#include "probe/counters.h"

typedef struct head {
    uint64_t magic;
    uint32_t version, spool_bytes; // a spool of another size is another version's
} head;

// ---------------------------------------------------------------------------- packing
// Pairs of counts, words of zeros and words that follow as they are, to the end of the spool.
typedef struct run_of_words {
    uint32_t zeros, words;
} run_of_words;

enum {
    SPOOL_WORDS = sizeof(plb_spool) / sizeof(uint64_t),
    WORDS_2 = PLB_SPOOL_BYTES_2 / sizeof(uint64_t),
    WORDS_3 = PLB_SPOOL_BYTES_3 / sizeof(uint64_t),
};
_Static_assert(sizeof(plb_spool) % sizeof(uint64_t) == 0, "whole words");

// The next run from `at`, short stretches of zeros taken as words.
static run_of_words next_run(const uint64_t *word, size_t at) {
    size_t begin = at, end, zeros = 0;
    while (begin < SPOOL_WORDS && !word[begin]) begin++;
    for (end = begin; end < SPOOL_WORDS && zeros < 4; end++) zeros = word[end] ? 0 : zeros + 1;
    return (run_of_words){(uint32_t)(begin - at), (uint32_t)(end - zeros - begin)};
}

// Into `out`, which has room for the worst case; returns its length.
static size_t pack(const uint64_t *word, uint8_t *out) {
    size_t n = 0;
    for (size_t at = 0; at < SPOOL_WORDS;) {
        const run_of_words run = next_run(word, at);
        memcpy(out + n, &run, sizeof run);
        n += sizeof run, at += run.zeros;
        memcpy(out + n, word + at, run.words * sizeof *word);
        n += run.words * sizeof *word, at += run.words;
    }
    return n;
}

plb_status plb_kept_unpack(const uint8_t *bytes, size_t size_bytes, const char *place,
                           plb_spool *out) {
    uint8_t *to = (uint8_t *)out;
    size_t at = 0, n = 0; // in words of `out`, in bytes of `bytes`
    while (at < SPOOL_WORDS) {
        run_of_words run;
        if ((at == WORDS_2 || at == WORDS_3) && n == size_bytes) break; // an older version's end
        if (size_bytes - n < sizeof run)
            return plb_fail(PLB_EINVAL, "%s: damaged: a packed table ends at word %zu of %d", place,
                            at, (int)SPOOL_WORDS);
        memcpy(&run, bytes + n, sizeof run);
        n += sizeof run;
        const size_t length = run.words * sizeof(uint64_t);
        if (run.zeros > SPOOL_WORDS - at || run.words > SPOOL_WORDS - at - run.zeros ||
            length > size_bytes - n || (!run.zeros && !run.words))
            return plb_fail(PLB_EINVAL,
                            "%s: damaged: a packed table has %" PRIu32 " zeros and "
                            "%" PRIu32 " words at word %zu of %d",
                            place, run.zeros, run.words, at, (int)SPOOL_WORDS);
        at += run.zeros;
        memcpy(to + at * sizeof(uint64_t), bytes + n, length);
        at += run.words, n += length;
    }
    if ((out->version == 2 && out->size_bytes == PLB_SPOOL_BYTES_2) ||
        (out->version == 3 && out->size_bytes == PLB_SPOOL_BYTES_3))
        out->version = PLB_SPOOL_VERSION, out->size_bytes = sizeof *out;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- writing
static plb_status put(plb_atomic_file *file, plb_kept_kind kind, const char *name,
                      const void *bytes, size_t size_bytes) {
    plb_kept_section section = {.kind = kind, .size_bytes = size_bytes};
    snprintf(section.name, sizeof section.name, "%s", name);
    PLB_TRY(plb_atomic_write(file, &section, sizeof section));
    return size_bytes ? plb_atomic_write(file, bytes, size_bytes) : PLB_OK;
}

static plb_status put_command(plb_atomic_file *file, char *const *command) {
    size_t size_bytes = 0, n = 0;
    for (char *const *word = command; *word; word++) size_bytes += strlen(*word) + 1;
    if (size_bytes > PLB_KEPT_COMMAND_BYTES)
        return plb_fail(PLB_EINVAL, "the command has %zu bytes, at most %d can be kept", size_bytes,
                        PLB_KEPT_COMMAND_BYTES);
    char *text = plb_alloc(size_bytes + 1);
    if (!text) return plb_fail(PLB_ENOMEM, "no memory for a command");
    for (char *const *word = command; *word; word++) {
        memcpy(text + n, *word, strlen(*word) + 1);
        n += strlen(*word) + 1;
    }
    plb_status status = put(file, PLB_KEPT_COMMAND, "", text, size_bytes);
    plb_free(text);
    return status;
}

static plb_status put_file(plb_atomic_file *file, plb_kept_kind kind, const char *path,
                           const char *name) {
    plb_file_map map = {0};
    PLB_TRY(plb_file_map_open(path, &map));
    plb_status status = put(file, kind, name, map.bytes, map.size_bytes);
    plb_file_map_close(&map);
    return status;
}

static plb_status put_spool(plb_atomic_file *file, const char *path, const char *name) {
    plb_spool *spool = NULL;
    if (plb_spool_read(path, &spool)) return put_file(file, PLB_KEPT_DAMAGED, path, name);
    uint8_t *packed = plb_alloc_slab(2 * sizeof *spool);
    plb_status status = packed ? PLB_OK : plb_fail(PLB_ENOMEM, "no memory to pack %s", path);
    if (!status) {
        const size_t length = pack((const uint64_t *)(const void *)spool, packed);
        status = put(file, PLB_KEPT_SPOOL, name, packed, length);
    }
    plb_free(packed);
    plb_spool_unmap(spool);
    return status;
}

static plb_status put_folder(plb_atomic_file *file, const char *folder, plb_arena *arena) {
    const char *const *names = NULL;
    size_t count = 0;
    char path[PATH_MAX], name[PLB_KEPT_NAME_BYTES];
    PLB_TRY(plb_folder_list(folder, arena, &names, &count));
    for (size_t i = 0; i < count; i++) {
        const char *dot = strrchr(names[i], '.');
        if (!dot || (size_t)(dot - names[i]) >= sizeof name) continue;
        snprintf(name, sizeof name, "%.*s", (int)(dot - names[i]), names[i]);
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (strcmp(dot, ".spool") == 0) PLB_TRY(put_spool(file, path, name));
        if (strcmp(dot, ".trace") == 0) PLB_TRY(put_file(file, PLB_KEPT_TRACE, path, name));
        if (strcmp(dot, ".counted") == 0) PLB_TRY(put_file(file, PLB_KEPT_COUNTED, path, name));
    }
    return PLB_OK;
}

plb_status plb_kept_write(const char *path, const plb_kept_about *about, const char *folder) {
    const head h = {PLB_KEPT_MAGIC, PLB_KEPT_VERSION, sizeof(plb_spool)};
    plb_atomic_file *file = NULL;
    plb_arena *arena = plb_arena_new();
    plb_status status = arena ? PLB_OK : plb_fail(PLB_ENOMEM, "no memory for %s", path);
    if (!status) status = plb_atomic_open(path, &file);
    if (!status) status = plb_atomic_write(file, &h, sizeof h);
    if (!status) status = put_command(file, about->command);
    if (!status && about->words)
        status = put(file, PLB_KEPT_WORDS, "", about->words, strlen(about->words) + 1);
    if (!status && about->run) status = put(file, PLB_KEPT_RUN, "", about->run, sizeof *about->run);
    if (!status && about->sampled)
        status = put(file, PLB_KEPT_SAMPLED, "", about->sampled, plb_sampled_bytes(about->sampled));
    if (!status) status = put_folder(file, folder, arena);
    if (status)
        plb_atomic_abort(file);
    else
        status = plb_atomic_commit(file);
    plb_arena_free(arena);
    return status;
}

// ---------------------------------------------------------------------------- reading
bool plb_kept_is(const char *path) {
    uint64_t magic = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    const bool whole = read(fd, &magic, sizeof magic) == (ssize_t)sizeof magic;
    close(fd);
    return whole && magic == PLB_KEPT_MAGIC;
}

// Names become files' names: digits and dashes, as the probe makes them.
static bool is_name(const char name[PLB_KEPT_NAME_BYTES]) {
    if (!memchr(name, 0, PLB_KEPT_NAME_BYTES)) return false;
    return strspn(name, "0123456789-") == strlen(name);
}

plb_status plb_kept_walk(const uint8_t *bytes, size_t size_bytes, const char *place,
                         plb_kept_visit each, void *user) {
    head h = {0};
    size_t at = sizeof h;
    if (size_bytes >= sizeof h) memcpy(&h, bytes, sizeof h);
    if (h.magic != PLB_KEPT_MAGIC) return plb_fail(PLB_EINVAL, "%s: not a profile", place);
    if (h.version != PLB_KEPT_VERSION ||
        (h.spool_bytes != sizeof(plb_spool) && h.spool_bytes != PLB_SPOOL_BYTES_2 &&
         h.spool_bytes != PLB_SPOOL_BYTES_3))
        return plb_fail(PLB_EINVAL,
                        "%s: expected version %d of a profile with tables of %zu bytes, found "
                        "version %" PRIu32 " with %" PRIu32,
                        place, PLB_KEPT_VERSION, sizeof(plb_spool), h.version, h.spool_bytes);
    for (size_t n = 0; at < size_bytes; n++) {
        plb_kept_section section;
        if (size_bytes - at < sizeof section)
            return plb_fail(PLB_EINVAL, "%s: damaged at byte %zu: expected a section", place, at);
        memcpy(&section, bytes + at, sizeof section);
        at += sizeof section;
        if (section.size_bytes > size_bytes - at || !is_name(section.name))
            return plb_fail(PLB_EINVAL,
                            "%s: section %zu says it has %" PRIu64 " bytes, of which %zu are there",
                            place, n, section.size_bytes, size_bytes - at);
        PLB_TRY(each(user, &section, bytes + at));
        at += (size_t)section.size_bytes;
    }
    return PLB_OK;
}

static int within(int value, int most) {
    return value < 0 ? 0 : value > most ? most : value;
}

// Sums of all rows of a table, and 1,024 times a number, are then in range.
static bool is_amount(int64_t value) {
    return value >= 0 && value < INT64_C(1) << 52;
}

static bool use_is_sane(const struct rusage *u) {
    return is_amount(u->ru_utime.tv_sec) && is_amount(u->ru_utime.tv_usec) &&
           is_amount(u->ru_stime.tv_sec) && is_amount(u->ru_stime.tv_usec) &&
           is_amount(u->ru_maxrss) && is_amount(u->ru_majflt) && is_amount(u->ru_minflt) &&
           is_amount(u->ru_nvcsw) && is_amount(u->ru_nivcsw);
}

// Numbers that no run has, which arithmetic on them would not bear.
static plb_status check_run(const plb_command_result *run, const char *place) {
    if (!is_amount(run->wall_ns) || run->begin_ns < 0 || run->threads_unseen < 0 ||
        !use_is_sane(&run->use))
        return plb_fail(PLB_EINVAL, "%s: damaged: times or memory of the run", place);
    for (int i = 0; i < run->threads; i++)
        if (!is_amount(run->thread[i].on_cpu_ns) || !is_amount(run->thread[i].waiting_ns))
            return plb_fail(PLB_EINVAL, "%s: damaged: times of thread %d", place, i);
    for (int i = 0; i < run->samples; i++)
        if (run->sample[i].at_ns < 0 || run->sample[i].memory_bytes < 0)
            return plb_fail(PLB_EINVAL, "%s: damaged: look %d at a card", place, i);
    return PLB_OK;
}

plb_status plb_kept_run(const uint8_t *bytes, size_t size_bytes, const char *place,
                        plb_command_result *out) {
    if (size_bytes != sizeof *out && size_bytes != PLB_COMMAND_BYTES_1)
        return plb_fail(PLB_EINVAL, "%s: expected %zu bytes about the run, found %zu", place,
                        sizeof *out, size_bytes);
    *out = (plb_command_result){0};
    memcpy(out, bytes, size_bytes);
    bool ok[PLB_COMMAND_COUNTERS];
    // Read as bytes, since a flag that is neither 0 nor 1 must not be looked at as a flag.
    for (int i = 0; i < PLB_COMMAND_COUNTERS; i++) {
        unsigned char known;
        memcpy(&known, &out->counter[i].known, 1);
        ok[i] = known == 1;
        out->counter[i].known = ok[i];
        out->counter[i].name = plb_counter_name(i);
    }
    out->started = true;
    out->threads = within(out->threads, PLB_COMMAND_THREADS);
    out->cards = within(out->cards, PLB_COMMAND_CARDS);
    out->samples = within(out->samples, PLB_COMMAND_SAMPLES);
    out->zones = out->zones < 0 || out->zones > PLB_COMMAND_ZONES ? 0 : out->zones;
    for (int i = 0; i < PLB_COMMAND_ZONES; i++)
        out->zone[i].name[sizeof out->zone[i].name - 1] = '\0';
    out->zone_reason[sizeof out->zone_reason - 1] = '\0';
    for (int i = 0; i < out->threads; i++)
        out->thread[i].name[sizeof out->thread[i].name - 1] = '\0';
    for (int i = 0; i < out->cards; i++) out->card[i].name[sizeof out->card[i].name - 1] = '\0';
    out->counter_reason[sizeof out->counter_reason - 1] = '\0';
    out->error_text[sizeof out->error_text - 1] = '\0';
    return check_run(out, place);
}

typedef struct extraction {
    const char *place, *folder;
    plb_arena *arena;
    char **command;
    const char *words;
    plb_command_result *run;
    plb_sampled *sampled;
} extraction;

static plb_status take_command(extraction *x, const uint8_t *bytes, size_t size_bytes) {
    size_t words = 0, n = 0;
    if (size_bytes > PLB_KEPT_COMMAND_BYTES || (size_bytes && bytes[size_bytes - 1]))
        return plb_fail(PLB_EINVAL, "%s: damaged: the command's %zu bytes", x->place, size_bytes);
    for (size_t i = 0; i < size_bytes; i++) words += !bytes[i];
    char *text = plb_arena_alloc(x->arena, size_bytes + 1);
    x->command = plb_arena_alloc(x->arena, (words + 1) * sizeof *x->command);
    if (!text || !x->command) return plb_fail(PLB_ENOMEM, "%s: no memory", x->place);
    if (size_bytes) memcpy(text, bytes, size_bytes);
    for (size_t at = 0; at < size_bytes; at += strlen(text + at) + 1) x->command[n++] = text + at;
    x->command[n] = NULL;
    return PLB_OK;
}

static plb_status take_words(extraction *x, const uint8_t *bytes, size_t size_bytes) {
    if (!size_bytes || size_bytes > PLB_KEPT_WORDS_BYTES || bytes[size_bytes - 1])
        return plb_fail(PLB_EINVAL, "%s: damaged: the %zu bytes of what was asked for", x->place,
                        size_bytes);
    x->words = plb_arena_strdup(x->arena, (const char *)bytes);
    return x->words ? PLB_OK : plb_fail(PLB_ENOMEM, "%s: no memory", x->place);
}

static plb_status take_run(extraction *x, const uint8_t *bytes, size_t size_bytes) {
    x->run = plb_arena_alloc(x->arena, sizeof *x->run);
    if (!x->run) return plb_fail(PLB_ENOMEM, "%s: no memory", x->place);
    return plb_kept_run(bytes, size_bytes, x->place, x->run);
}

static plb_status take_sampled(extraction *x, const uint8_t *bytes, size_t size_bytes) {
    x->sampled = plb_arena_alloc(x->arena, sizeof *x->sampled);
    if (!x->sampled) return plb_fail(PLB_ENOMEM, "%s: no memory", x->place);
    if (size_bytes < PLB_SAMPLED_BYTES_1 || size_bytes > sizeof *x->sampled)
        return plb_fail(PLB_EINVAL, "%s: expected %zu bytes about functions, found %zu", x->place,
                        sizeof *x->sampled, size_bytes);
    memcpy(x->sampled, bytes, size_bytes);
    if (size_bytes != PLB_SAMPLED_BYTES_1 &&
        (x->sampled->moments < 0 || x->sampled->moments > PLB_SAMPLED_MOMENTS ||
         size_bytes != plb_sampled_bytes(x->sampled)))
        return plb_fail(PLB_EINVAL, "%s: damaged: %zu bytes about functions", x->place, size_bytes);
    plb_sampled_mend(x->sampled);
    return PLB_OK;
}

static plb_status write_file(const extraction *x, const char *name, const char *ending,
                             const void *bytes, size_t size_bytes) {
    char path[PATH_MAX];
    if (!*name)
        return plb_fail(PLB_EINVAL, "%s: damaged: a file of the probe has no name", x->place);
    snprintf(path, sizeof path, "%s/%s.%s", x->folder, name, ending);
    return plb_atomic_write_all(path, bytes, size_bytes);
}

static plb_status take_spool(const extraction *x, const char *name, const uint8_t *bytes,
                             size_t size_bytes) {
    plb_spool *spool = plb_alloc(sizeof *spool);
    if (!spool) return plb_fail(PLB_ENOMEM, "%s: no memory", x->place);
    plb_status status = plb_kept_unpack(bytes, size_bytes, x->place, spool);
    if (!status) status = plb_spool_check(spool, sizeof *spool, x->place);
    if (!status) status = write_file(x, name, "spool", spool, sizeof *spool);
    plb_free(spool);
    return status;
}

static plb_status take(void *user, const plb_kept_section *section, const uint8_t *bytes) {
    extraction *x = user;
    const size_t size_bytes = (size_t)section->size_bytes;
    switch (section->kind) {
    case PLB_KEPT_COMMAND: return take_command(x, bytes, size_bytes);
    case PLB_KEPT_WORDS: return take_words(x, bytes, size_bytes);
    case PLB_KEPT_RUN: return take_run(x, bytes, size_bytes);
    case PLB_KEPT_SAMPLED: return take_sampled(x, bytes, size_bytes);
    case PLB_KEPT_SPOOL: return take_spool(x, section->name, bytes, size_bytes);
    case PLB_KEPT_TRACE: return write_file(x, section->name, "trace", bytes, size_bytes);
    case PLB_KEPT_COUNTED: return write_file(x, section->name, "counted", bytes, size_bytes);
    case PLB_KEPT_DAMAGED: return write_file(x, section->name, "spool", bytes, size_bytes);
    default: return PLB_OK; // of a later version
    }
}

plb_status plb_kept_extract(const char *path, const char *folder, plb_arena *arena,
                            plb_kept_about *out) {
    plb_file_map map = {0};
    extraction x = {.place = path, .folder = folder, .arena = arena};
    *out = (plb_kept_about){0};
    PLB_TRY(plb_file_map_open(path, &map));
    plb_status status = plb_kept_walk(map.bytes, map.size_bytes, path, take, &x);
    plb_file_map_close(&map);
    *out = (plb_kept_about){
        .command = x.command, .words = x.words, .run = x.run, .sampled = x.sampled};
    return status;
}
