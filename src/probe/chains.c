// SPDX-License-Identifier: Apache-2.0
#include "probe/chains.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/arena.h"
#include "base/core/hash.h"
#include "base/core/status.h"

enum {
    CHAINS = 1 << 14, // a power of two: a hash table
    TRIES = 64,
};

typedef struct chain {
    size_t first; // of its places
    int depth;
    int64_t samples; // 0: free
} chain;

struct plb_chains {
    plb_place *place;
    size_t places, room;
    int64_t beyond; // samples for which there was no room
    chain chain[CHAINS];
};

plb_chains *plb_chains_new(void) {
    return plb_alloc(sizeof(plb_chains));
}

void plb_chains_free(plb_chains *c) {
    if (c) plb_free(c->place);
    plb_free(c);
}

static bool add(plb_chains *c, chain *to, const plb_place *place, int depth) {
    const size_t count = (size_t)depth;
    if (c->room - c->places < count) {
        const size_t room = 2 * c->room + 4096;
        plb_place *more = plb_realloc_array(c->place, room, sizeof *more);
        if (!more) return false;
        c->place = more, c->room = room;
    }
    memcpy(c->place + c->places, place, count * sizeof *place);
    *to = (chain){.first = c->places, .depth = depth};
    c->places += count;
    return true;
}

static bool is_of(const plb_chains *c, const chain *one, const plb_place *place, int depth) {
    return one->depth == depth &&
           memcmp(c->place + one->first, place, (size_t)depth * sizeof *place) == 0;
}

void plb_chains_note(plb_chains *c, const plb_place *place, int depth) {
    const uint64_t hash = plb_hash_bytes(PLB_HASH_SEED, place, (size_t)depth * sizeof *place);
    for (uint64_t n = 0; n < TRIES; n++) {
        chain *one = &c->chain[(hash + n) & (CHAINS - 1)];
        if (one->samples && !is_of(c, one, place, depth)) continue;
        if (!one->samples && !add(c, one, place, depth)) break;
        one->samples++;
        return;
    }
    c->beyond++;
}

// ---------------------------------------------------------------------------- text
// What every place is called, in the order of places.
typedef struct names {
    plb_arena *arena;
    plb_place *place;
    const char **name;
    size_t count;
} names;

static int by_place(const void *left, const void *right) {
    const plb_place *a = left, *b = right;
    if (a->file != b->file) return a->file < b->file ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

// What parts a line's words is no part of them.
static char *word_of(plb_arena *arena, const plb_sampled_function *f, bool is_program) {
    const bool plain = is_program || f->module[0] == '[';
    char *word = f->name[0] ? plb_arena_strdup(arena, f->name)
                            : plb_arena_printf(arena, plain ? "%s" : "[%s]", f->module);
    for (char *c = word; c && *c; c++)
        if (*c == ';' || *c == '\n') *c = ':';
    return word;
}

static plb_status name_all(const plb_chains *c, const plb_places *places, names *n) {
    n->place = plb_alloc_array(c->places + 1, sizeof *n->place);
    n->name = plb_alloc_array(c->places + 1, sizeof *n->name);
    if (!n->place || !n->name) return plb_fail(PLB_ENOMEM, "no memory for names of functions");
    if (c->places) memcpy(n->place, c->place, c->places * sizeof *n->place);
    qsort(n->place, c->places, sizeof *n->place, by_place);
    plb_place_namer namer = {.places = places};
    for (size_t i = 0; i < c->places; i++) {
        plb_sampled_function f;
        if (n->count && by_place(&n->place[n->count - 1], &n->place[i]) == 0) continue;
        plb_place_name(&namer, n->place[i], &f);
        n->place[n->count] = n->place[i];
        const char *word = word_of(n->arena, &f, n->place[i].offset == PLB_PLACE_PROGRAM);
        if (word)
            n->name[n->count++] = word;
        else
            namer.failed = true;
    }
    const bool failed = namer.failed;
    plb_place_namer_end(&namer);
    return failed ? plb_fail(PLB_ENOMEM, "no memory for names of functions") : PLB_OK;
}

static const char *name_of(const names *n, const plb_place *place) {
    const plb_place *found = bsearch(place, n->place, n->count, sizeof *place, by_place);
    return n->name[found - n->place];
}

static int by_text(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

// Chains of different places in the same functions are one line.
typedef struct lines {
    plb_map *samples; // of a line's text
    const char **text;
    size_t count;
} lines;

static plb_status add_line(const plb_chains *c, const chain *one, const names *n, lines *to) {
    plb_strbuf line = {0};
    for (int i = one->depth; i-- > 0;)
        plb_strbuf_printf(&line, "%s%s", name_of(n, &c->place[one->first + (size_t)i]),
                          i ? ";" : "");
    plb_status status =
        line.failed ? plb_fail(PLB_ENOMEM, "no memory for a chain of calls") : PLB_OK;
    if (!status) {
        const int64_t before = plb_map_get(to->samples, line.text, 0);
        status = plb_map_set(to->samples, line.text, before + one->samples);
        if (!status && !before) {
            const char *kept = plb_arena_strdup(n->arena, line.text);
            if (kept)
                to->text[to->count++] = kept;
            else
                status = plb_fail(PLB_ENOMEM, "no memory for a chain of calls");
        }
    }
    plb_strbuf_free(&line);
    return status;
}

static plb_status fold(const plb_chains *c, const names *n, lines *l, plb_strbuf *out) {
    if (!l->samples || !l->text) return plb_fail(PLB_ENOMEM, "no memory for chains of calls");
    for (size_t i = 0; i < CHAINS; i++)
        if (c->chain[i].samples) PLB_TRY(add_line(c, &c->chain[i], n, l));
    qsort(l->text, l->count, sizeof *l->text, by_text);
    for (size_t i = 0; i < l->count; i++)
        plb_strbuf_printf(out, "%s %" PRId64 "\n", l->text[i],
                          plb_map_get(l->samples, l->text[i], 0));
    if (c->beyond) plb_strbuf_printf(out, "[other chains] %" PRId64 "\n", c->beyond);
    return out->failed ? plb_fail(PLB_ENOMEM, "no memory for chains of calls") : PLB_OK;
}

plb_status plb_chains_fold(const plb_chains *c, const plb_places *places, plb_strbuf *out) {
    names n = {.arena = plb_arena_new()};
    lines l = {.samples = plb_map_new(), .text = plb_alloc_array(CHAINS, sizeof *l.text)};
    plb_status status =
        n.arena ? name_all(c, places, &n) : plb_fail(PLB_ENOMEM, "no memory for chains of calls");
    if (!status) status = fold(c, &n, &l, out);
    plb_map_free(l.samples);
    plb_free(l.text);
    plb_free(n.place);
    plb_free(n.name);
    plb_arena_free(n.arena);
    return status;
}
