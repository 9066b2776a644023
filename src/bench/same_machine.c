// SPDX-License-Identifier: Apache-2.0
#include "bench/same_machine.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/arena.h"
#include "base/core/status.h"
#include "store/read.h"

static plb_status fail_fact(int64_t run_id, const char *key, const json_t *was, const json_t *is) {
    char *before = was ? json_dumps(was, JSON_ENCODE_ANY) : NULL;
    char *now = is ? json_dumps(is, JSON_ENCODE_ANY) : NULL;
    plb_status status = plb_fail(
        PLB_EINVAL, "run %" PRId64 " was measured elsewhere: %s was %s there and is %s here",
        run_id, key, before ? before : "not set", now ? now : "not set");
    free(before);
    free(now);
    return status;
}

// Variables one by one; a machine without any has no member of that name.
static plb_status compare(int64_t run_id, const json_t *was, const json_t *is) {
    static const char *const nested = "environment";
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)was, key, value) {
        const json_t *other = json_object_get(is, key);
        if (strcmp(key, nested) != 0 && !json_equal(value, other))
            return fail_fact(run_id, key, value, other);
    }
    json_object_foreach((json_t *)is, key, value) {
        if (strcmp(key, nested) != 0 && !json_object_get(was, key))
            return fail_fact(run_id, key, NULL, value);
    }
    was = json_object_get(was, nested), is = json_object_get(is, nested);
    return was || is ? compare(run_id, was, is) : PLB_OK;
}

static plb_status compare_texts(int64_t run_id, const char *was, const char *is) {
    json_t *before = json_loads(was, 0, NULL), *now = json_loads(is, 0, NULL);
    plb_status status = compare(run_id, before, now);
    json_decref(before);
    json_decref(now);
    return status;
}

plb_status plb_check_same_machine(plb_store *store, int64_t run_id, const char *machine) {
    plb_run_row *row;
    size_t count;
    const plb_run_filter filter = {.id = run_id};
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    plb_status status = plb_store_runs(store, &filter, arena, &row, &count);
    if (!status && !count)
        status =
            plb_fail(PLB_EINVAL, "%s: there is no run %" PRId64, plb_store_path(store), run_id);
    if (!status) status = compare_texts(run_id, row->machine, machine);
    plb_arena_free(arena);
    return status;
}
