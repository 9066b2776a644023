// SPDX-License-Identifier: Apache-2.0
#include "train/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"
#include "base/core/strbuf.h"

static const char *const levels[] = {
    [PLB_LEVEL_PLAN] = "plan", [PLB_LEVEL_INTERP] = "interp", [PLB_LEVEL_REPLAY] = "replay"};

plb_status plb_level_from_name(const char *name, plb_level *out) {
    for (int i = 0; i < 3; i++) {
        *out = (plb_level)i;
        if (strcmp(levels[i], name) == 0) return PLB_OK;
    }
    return plb_fail(PLB_EINVAL, "expected a level plan, interp or replay, found \"%s\"", name);
}

const char *plb_level_name(plb_level level) {
    return levels[level];
}

static const char *const maths[] = {[PLB_MATH_F32] = "f32", [PLB_MATH_TF32] = "tf32"};

plb_status plb_math_from_name(const char *name, plb_math *out) {
    *out = PLB_MATH_F32;
    for (int i = 0; name && i < (int)(sizeof maths / sizeof *maths); i++) {
        if (strcmp(name, maths[i]) != 0) continue;
        *out = (plb_math)i;
        return PLB_OK;
    }
    return name ? plb_fail(PLB_EINVAL, "expected math f32 or tf32, found \"%s\"", name) : PLB_OK;
}

const char *plb_math_name(plb_math math) {
    return maths[math];
}

static const char *const autocasts[] = {
    [PLB_AUTOCAST_NONE] = "none", [PLB_AUTOCAST_BF16] = "bf16", [PLB_AUTOCAST_F16] = "f16"};

plb_status plb_autocast_from_name(const char *name, plb_autocast *out) {
    *out = PLB_AUTOCAST_NONE;
    for (int i = 0; name && i < (int)(sizeof autocasts / sizeof *autocasts); i++) {
        if (strcmp(name, autocasts[i]) != 0) continue;
        *out = (plb_autocast)i;
        return PLB_OK;
    }
    return name ? plb_fail(PLB_EINVAL, "expected none, bf16 or f16, found \"%s\"", name) : PLB_OK;
}

const char *plb_autocast_name(plb_autocast autocast) {
    return autocasts[autocast];
}

typedef enum form { TEXT, WORD, COUNT, WHOLE, NUMBER, SEED, LEVEL, SWITCH, MATH, AUTOCAST } form;

typedef struct kept {
    const char *name;
    form form;
    size_t offset;
    const char *before; // what older files have; NULL: all files say it
} kept;

#define KEPT(name, form, field) \
    { name, form, offsetof(plb_train_options, field), NULL }
static const kept all[] = {
    KEPT("model", TEXT, model),
    KEPT("data", TEXT, data),
    KEPT("epochs", WHOLE, epochs),
    KEPT("batch", WHOLE, batch),
    KEPT("limit", WHOLE, limit),
    KEPT("size", WHOLE, size),
    KEPT("optimizer", TEXT, optimizer),
    KEPT("schedule", TEXT, schedule),
    KEPT("lr", NUMBER, lr),
    KEPT("momentum", NUMBER, momentum),
    KEPT("weight-decay", NUMBER, weight_decay),
    KEPT("seed", SEED, seed),
    KEPT("level", LEVEL, level),
    KEPT("threads", COUNT, threads),
    KEPT("no-winograd", SWITCH, no_winograd),
    {"math", MATH, offsetof(plb_train_options, math), "f32"},
    {"autocast", AUTOCAST, offsetof(plb_train_options, autocast), "none"},
    {"loss", WORD, offsetof(plb_train_options, loss), ""},
    {"output", WORD, offsetof(plb_train_options, output), ""},
    {"only", WORD, offsetof(plb_train_options, only), ""},
    {"freeze", WORD, offsetof(plb_train_options, freeze), ""},
};
_Static_assert(sizeof all / sizeof *all == PLB_TRAIN_KEPT, "the header counts them");

const char *plb_train_kept_name(int i) {
    return all[i].name;
}

const char *plb_train_kept_before(int i) {
    return all[i].before;
}

bool plb_train_kept_free(const plb_train_options *options, int i) {
    // More epochs change nothing of those before, unless the schedule looks at their number.
    if (strcmp(all[i].name, "epochs") == 0) return strcmp(options->schedule, "constant") == 0;
    // The numbers differ then; the loop warns.
    return all[i].form == MATH || strcmp(all[i].name, "threads") == 0;
}

const char *plb_train_kept_text(const plb_train_options *options, int i, plb_arena *arena) {
    const void *field = (const char *)options + all[i].offset;
    switch (all[i].form) {
    case TEXT: return *(const char *const *)field;
    case WORD: return *(const char *const *)field ? *(const char *const *)field : "";
    case COUNT: return plb_arena_printf(arena, "%d", *(const int *)field);
    case WHOLE: return plb_arena_printf(arena, "%" PRId64, *(const int64_t *)field);
    case NUMBER: return plb_arena_printf(arena, "%.17g", *(const double *)field);
    case SEED: return plb_arena_printf(arena, "%" PRIu64, *(const uint64_t *)field);
    case LEVEL: return plb_level_name(*(const plb_level *)field);
    case SWITCH: return *(const bool *)field ? "yes" : "no";
    case MATH: return plb_math_name(*(const plb_math *)field);
    case AUTOCAST: return plb_autocast_name(*(const plb_autocast *)field);
    }
    return NULL;
}

// Sets a number; false when `text` is none or out of range: a stranger's file is held to what the
// command line's flags are, for OpenMP dies of a team of tens of thousands.
static bool set_number(form what, void *field, const char *text) {
    enum { MOST_THREADS = 1024 };
    char *end = NULL;
    errno = 0;
    if (what == NUMBER) {
        *(double *)field = strtod(text, &end);
        return end != text && !*end && isfinite(*(double *)field) && *(double *)field >= 0;
    }
    if (what == SEED) {
        *(uint64_t *)field = strtoull(text, &end, 10);
        return end != text && !*end && !errno && *text != '-';
    }
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < 0 || value > INT64_C(1) << 48) return false;
    if (what == COUNT && (value < 1 || value > MOST_THREADS)) return false;
    if (what == COUNT)
        *(int *)field = (int)value;
    else
        *(int64_t *)field = value;
    return true;
}

plb_status plb_train_kept_set(plb_train_options *options, int i, const char *text) {
    void *field = (char *)options + all[i].offset;
    if (all[i].form == TEXT) {
        *(const char **)field = text;
        return PLB_OK;
    }
    if (all[i].form == WORD) {
        *(const char **)field = *text ? text : NULL;
        return PLB_OK;
    }
    if (all[i].form == LEVEL) return plb_level_from_name(text, field);
    if (all[i].form == MATH) return plb_math_from_name(text, field);
    if (all[i].form == AUTOCAST) return plb_autocast_from_name(text, field);
    if (all[i].form == SWITCH) {
        *(bool *)field = strcmp(text, "yes") == 0;
        if (*(bool *)field || strcmp(text, "no") == 0) return PLB_OK;
    } else if (set_number(all[i].form, field, text)) {
        return PLB_OK;
    }
    return plb_fail(PLB_EINVAL, "option %s: \"%.40s\" makes no sense", all[i].name, text);
}
