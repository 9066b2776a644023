// SPDX-License-Identifier: Apache-2.0
#include "bench/rounding.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/folder.h"
#include "bench/tolerance.h"
#include "io/safetensors.h"

bool plb_rounding_shows(const plb_case *c, const plb_facts *facts) {
    return !facts->file[0] && (strcmp(c->math, "tf32") == 0 || strcmp(c->autocast, "none") != 0);
}

// ---------------------------------------------------------------------------- distances
static bool same_entry(const plb_reference_entry *a, const plb_reference_entry *b) {
    return strcmp(a->name, b->name) == 0 && a->batch == b->batch &&
           plb_shape_count(&a->shape) == plb_shape_count(&b->shape);
}

// Over the rows that both know: a cached reference was made with another budget, maybe.
static double output_distance(const plb_reference *a, const plb_reference *b) {
    const int64_t rows = a->known < b->known ? a->known : b->known, n = a->classes;
    double most = 0;
    for (int64_t i = 0; i < a->n_sources; i++) {
        double d = plb_result_distance(PLB_RESULT_OUTPUT, a->output + i * a->known * n,
                                       b->output + i * b->known * n, rows * n);
        most = fmax(most, d);
    }
    return most;
}

// moved[count], or of inference moved[1].
static plb_status compare(const plb_reference *right, const plb_reference *other, double *moved) {
    if (right->output) {
        if (other->n_sources != right->n_sources || other->classes != right->classes)
            return plb_fail(PLB_EBROKEN, "reference: rounding changed the shape of outputs");
        moved[0] = output_distance(right, other);
        return PLB_OK;
    }
    for (int i = 0; i < right->count; i++) {
        const plb_reference_entry *a = &right->entry[i], *b = &other->entry[i];
        if (i >= other->count || !same_entry(a, b))
            return plb_fail(PLB_EBROKEN, "reference: with rounding there is another %s", a->name);
        moved[i] = plb_result_distance(plb_result_kind_of(a->name), a->value, b->value,
                                       plb_shape_count(&a->shape));
    }
    return PLB_OK;
}

static plb_status compute(plb_client *client, const plb_load *load, double budget_s,
                          const plb_reference *right, double *moved) {
    plb_reference other = {0};
    plb_status status = plb_reference_compute(client, load, budget_s, &other);
    if (!status) status = compare(right, &other, moved);
    plb_reference_free(&other);
    return status;
}

// ---------------------------------------------------------------------------- the file
static bool read_moved(const char *path, int count, double *moved) {
    plb_safetensors *file = NULL;
    if (!plb_file_exists(path) || plb_safetensors_open(path, &file)) return false;
    const plb_named_tensor *t = plb_safetensors_find(file, "moved");
    const bool fits = t && t->tensor.dtype == PLB_F64 && plb_shape_count(&t->tensor.shape) == count;
    if (fits) memcpy(moved, t->tensor.data, (size_t)count * sizeof *moved);
    plb_safetensors_free(file);
    return fits;
}

static plb_status write_moved(const char *path, int count, double *moved) {
    const plb_named_tensor one = {
        "moved", plb_tensor_dense(moved, PLB_F64, &plb_shape_of(count), (plb_layout){0})};
    return plb_safetensors_write(path, &one, 1, NULL, 0);
}

plb_status plb_reference_round(plb_client *client, const plb_load *load, const char *cache,
                               double budget_s, plb_reference *r) {
    const int count = r->output ? 1 : r->count;
    char path[4096];
    plb_status status = PLB_OK;
    plb_load own = *load;
    own.rate = r->rate;
    PLB_TRY(plb_reference_path(&own, cache, path, sizeof path));
    double *moved = plb_alloc_array((size_t)count + 1, sizeof *moved);
    if (!moved) return plb_fail(PLB_ENOMEM, "out of memory for a reference");
    if (!read_moved(path, count, moved)) {
        status = compute(client, &own, budget_s, r, moved);
        if (!status) status = write_moved(path, count, moved);
    }
    if (!status && r->output) r->output_moved = moved[0];
    for (int i = 0; i < r->count && !status; i++) r->entry[i].moved = moved[i];
    plb_free(moved);
    return status;
}
