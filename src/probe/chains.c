// SPDX-License-Identifier: Apache-2.0
// Chains are noted as places, since to look for functions takes time, and a program has many more
// places than functions: whenever many were noted, they become chains of functions, which are kept.
#include "probe/chains.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/arena.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "probe/multiset.h"

enum {
    NOTED = 1 << 15, // chains of places before they become ones of functions
    DEPTH = PLB_CHAIN_DEPTH + 2,
};

// What functions and programs are called, each once: chains hold the numbers.
typedef struct words {
    plb_arena *arena;
    plb_map *index;
    const char **text;
    uint32_t count, room;
} words;

struct plb_chains {
    const plb_places *places;
    plb_multiset *noted; // of plb_place
    plb_multiset *named; // of words' numbers, uint32_t
    words words;
    bool failed; // there was no memory for some
};

plb_chains *plb_chains_new(const plb_places *places) {
    plb_chains *c = plb_alloc(sizeof *c);
    if (!c) return NULL;
    *c = (plb_chains){.places = places,
                      .noted = plb_multiset_new(NOTED),
                      .named = plb_multiset_new(PLB_CHAINS),
                      .words = {.arena = plb_arena_new(), .index = plb_map_new()}};
    if (c->noted && c->named && c->words.arena && c->words.index) return c;
    plb_chains_free(c);
    return NULL;
}

void plb_chains_free(plb_chains *c) {
    if (!c) return;
    plb_multiset_free(c->noted);
    plb_multiset_free(c->named);
    plb_arena_free(c->words.arena);
    plb_map_free(c->words.index);
    plb_free(c->words.text);
    plb_free(c);
}

// ---------------------------------------------------------------------------- names
static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "no memory for chains of calls");
}

static plb_status number_of(words *w, const char *text, uint32_t *out) {
    const int64_t known = plb_map_get(w->index, text, -1);
    if (known >= 0) {
        *out = (uint32_t)known;
        return PLB_OK;
    }
    if (w->count == w->room) {
        const uint32_t room = 2 * w->room + 256;
        const char **more = plb_realloc_array(w->text, room, sizeof *more);
        if (!more) return no_memory();
        w->text = more, w->room = room;
    }
    w->text[w->count] = plb_arena_strdup(w->arena, text);
    if (!w->text[w->count]) return no_memory();
    PLB_TRY(plb_map_set(w->index, text, w->count));
    *out = w->count++;
    return PLB_OK;
}

// What parts a line's words is no part of them.
static plb_status word_of(words *w, const plb_sampled_function *f, bool is_program, uint32_t *out) {
    char text[sizeof f->name + sizeof f->module];
    const bool plain = is_program || f->module[0] == '[';
    if (f->name[0])
        snprintf(text, sizeof text, "%s", f->name);
    else
        snprintf(text, sizeof text, plain ? "%s" : "[%s]", f->module);
    for (char *c = text; *c; c++)
        if (*c == ';' || *c == '\n') *c = ':';
    return number_of(w, text, out);
}

// Places in their order, each once, and their words.
typedef struct names {
    plb_place *place;
    uint32_t *word;
    size_t count;
} names;

static int by_place(const void *left, const void *right) {
    const plb_place *a = left, *b = right;
    if (a->file != b->file) return a->file < b->file ? -1 : 1;
    return (a->offset > b->offset) - (a->offset < b->offset);
}

static plb_status gather(const plb_chains *c, names *n) {
    size_t all = 0, kept = 0;
    for (uint32_t i = 0; i < plb_multiset_count(c->noted); i++)
        all += plb_multiset_at(c->noted, i).size_bytes / sizeof *n->place;
    n->place = plb_alloc_array(all, sizeof *n->place);
    if (!n->place) return no_memory();
    for (uint32_t i = 0, at = 0; i < plb_multiset_count(c->noted); i++) {
        const plb_multiset_element e = plb_multiset_at(c->noted, i);
        memcpy(n->place + at, e.bytes, e.size_bytes);
        at += (uint32_t)(e.size_bytes / sizeof *n->place);
    }
    qsort(n->place, all, sizeof *n->place, by_place);
    for (size_t i = 0; i < all; i++)
        if (!kept || by_place(&n->place[kept - 1], &n->place[i]) != 0)
            n->place[kept++] = n->place[i];
    n->count = kept;
    n->word = plb_alloc_array(kept, sizeof *n->word);
    return n->word ? PLB_OK : no_memory();
}

static plb_status name_places(plb_chains *c, names *n) {
    plb_place_namer namer = {.places = c->places};
    plb_status status = PLB_OK;
    for (size_t i = 0; i < n->count && !status; i++) {
        plb_sampled_function f;
        plb_place_name(&namer, n->place[i], &f);
        const bool is_program = n->place[i].offset == PLB_PLACE_PROGRAM;
        status = namer.failed ? no_memory() : word_of(&c->words, &f, is_program, &n->word[i]);
    }
    plb_place_namer_end(&namer);
    return status;
}

static plb_status name_chain(plb_chains *c, const names *n, const plb_multiset_element *e) {
    uint32_t word[DEPTH];
    const plb_place *place = e->bytes;
    const size_t depth = e->size_bytes / sizeof *place;
    for (size_t i = 0; i < depth; i++) {
        const plb_place *found = bsearch(&place[i], n->place, n->count, sizeof *place, by_place);
        word[i] = n->word[found - n->place];
    }
    return plb_multiset_add(c->named, word, depth * sizeof *word, e->times);
}

// Chains of places become chains of functions.
static plb_status name_all(plb_chains *c) {
    names n = {0};
    plb_status status = gather(c, &n);
    if (!status) status = name_places(c, &n);
    for (uint32_t i = 0; !status && i < plb_multiset_count(c->noted); i++) {
        const plb_multiset_element e = plb_multiset_at(c->noted, i);
        status = name_chain(c, &n, &e);
    }
    plb_multiset_clear(c->noted);
    plb_free(n.place);
    plb_free(n.word);
    return status;
}

void plb_chains_note(plb_chains *c, const plb_place *place, int depth) {
    if (!c->failed && plb_multiset_is_full(c->noted)) c->failed = name_all(c) != PLB_OK;
    if (!c->failed)
        c->failed = plb_multiset_add(c->noted, place, (size_t)depth * sizeof *place, 1) != PLB_OK;
}

// ---------------------------------------------------------------------------- text
typedef struct line {
    const words *words;
    const uint32_t *word; // the innermost first
    size_t depth;
    int64_t samples;
} line;

// As their texts would be ordered, which end where others have the ';' that is in no word.
static int by_text(const void *left, const void *right) {
    const line *a = left, *b = right;
    size_t i = a->depth, j = b->depth;
    for (;;) {
        const char *u = a->words->text[a->word[--i]], *v = b->words->text[b->word[--j]];
        while (*u && *u == *v) u++, v++;
        const unsigned char x = (unsigned char)(*u || !i ? *u : ';');
        const unsigned char y = (unsigned char)(*v || !j ? *v : ';');
        if (x != y || !x) return x - y;
    }
}

static line *sorted(const plb_chains *c) {
    const uint32_t count = plb_multiset_count(c->named);
    line *lines = plb_alloc_array(count, sizeof *lines);
    for (uint32_t i = 0; lines && i < count; i++) {
        const plb_multiset_element e = plb_multiset_at(c->named, i);
        lines[i] = (line){&c->words, e.bytes, e.size_bytes / sizeof *lines->word, e.times};
    }
    if (lines && count) qsort(lines, count, sizeof *lines, by_text);
    return lines;
}

static void put_line(const line *l, plb_strbuf *out) {
    for (size_t i = l->depth; i-- > 0;)
        plb_strbuf_printf(out, "%s%s", l->words->text[l->word[i]], i ? ";" : "");
    plb_strbuf_printf(out, " %" PRId64 "\n", l->samples);
}

plb_status plb_chains_fold(plb_chains *c, plb_strbuf *out) {
    if (!c->failed) c->failed = name_all(c) != PLB_OK;
    if (c->failed) return no_memory();
    line *lines = sorted(c);
    if (!lines) return no_memory();
    for (uint32_t i = 0; i < plb_multiset_count(c->named); i++) put_line(&lines[i], out);
    plb_free(lines);
    const int64_t beyond = plb_chains_beyond(c);
    if (beyond) plb_strbuf_printf(out, "[other chains] %" PRId64 "\n", beyond);
    return out->failed ? no_memory() : PLB_OK;
}

int64_t plb_chains_beyond(const plb_chains *c) {
    return plb_multiset_beyond(c->named);
}
