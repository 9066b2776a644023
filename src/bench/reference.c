// SPDX-License-Identifier: Apache-2.0
#include "bench/reference.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "base/file.h"
#include "base/folder.h"
#include "io/safetensors.h"

enum { MAX_ENTRIES = 8192, MOST_SLOTS = 64, LIMIT_S = 3600 };
static const double assumed_flops = 5e9; // a second, in f64, on a slow processor

bool plb_reference_affords(const plb_facts *facts, double budget_s) {
    // Up to two proofs to find the rate, with gradients; one of all steps; and a first step on each
    // of a few batches.
    double steps = facts->training ? 2 * (2 + 1) + PLB_REFERENCE_STEPS + 1 + 4 : 1;
    return facts->flops * steps <= assumed_flops * budget_s;
}

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory for a reference");
}

// ---------------------------------------------------------------------------- computing
// A tensor of an answer as doubles in the arena.
static plb_status take(plb_client *client, plb_reference *r, const json_t *described,
                       plb_reference_entry *out) {
    const char *name = json_string_value(json_object_get(described, "name"));
    plb_tensor tensor;
    PLB_TRY(plb_client_tensor(client, described, &tensor));
    int64_t n = plb_shape_count(&tensor.shape);
    double *value = plb_arena_alloc(r->arena, (size_t)n * sizeof *value + 1);
    out->name = plb_arena_strdup(r->arena, name ? name : "");
    if (!value || !out->name) return no_memory();
    for (int64_t i = 0; i < n; i++) value[i] = plb_load_f64(tensor.data, tensor.dtype, i);
    out->batch = json_integer_value(json_object_get(described, "batch"));
    out->shape = tensor.shape, out->value = value, out->moved = NAN;
    return PLB_OK;
}

static plb_status ask_proof(plb_client *client, const int *slots, int n, json_t **answer) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) json_array_append_new(list, json_integer(slots[i]));
    return plb_client_ask(client, json_pack("{s:s,s:o}", "type", "prove", "batches", list), LIMIT_S,
                          "proof", answer);
}

// Inference knows no neighbours, so the reference takes rows in small batches of its own: the first
// rows of every batch of the pool, as many as the budget and the worker's slots allow.
typedef struct chunks {
    int64_t rows, sources, known, per_source; // of a chunk; batches of the pool; rows; chunks
    plb_facts facts;
    plb_batches batches;
} chunks;

static void plan_chunks(const plb_load *load, double budget_s, chunks *out) {
    enum { CHUNK = 8 };
    const plb_batches *b = load->batches;
    chunks *c = out;
    *c = (chunks){.rows = b->batch < CHUNK ? b->batch : CHUNK,
                  .sources = b->rows / b->batch,
                  .facts = *load->facts,
                  .batches = *b};
    double chunk_s = load->facts->flops / (double)b->batch * (double)c->rows / assumed_flops;
    int64_t affordable = (int64_t)(budget_s / (chunk_s + 1e-9)) / c->sources;
    int64_t all = (b->batch + c->rows - 1) / c->rows, most = MOST_SLOTS / c->sources;
    if (most > affordable) most = affordable;
    c->per_source = all < most ? all : most < 1 ? 1 : most;
    c->known = c->per_source * c->rows < b->batch ? c->per_source * c->rows : b->batch;
    c->facts.batch = c->batches.batch = c->rows;
    if (!c->facts.file[0]) c->facts.input[0].shape.dim[0] = c->rows;
    c->batches.n_slots = (int)(c->sources * c->per_source);
}

// First row, within its batch, of a chunk; the last one reaches back where rows do not divide.
static int64_t chunk_row(const chunks *c, const plb_batches *pool, int64_t k) {
    int64_t row = k * c->rows;
    return row + c->rows <= pool->batch ? row : pool->batch - c->rows;
}

static void fill_chunks(const chunks *c, const plb_batches *pool, plb_client *client) {
    for (int slot = 0; slot < c->batches.n_slots; slot++) {
        int64_t source = slot / c->per_source;
        int64_t row = source * pool->batch + chunk_row(c, pool, slot % c->per_source);
        for (int i = 0; i < pool->n_inputs; i++) {
            memcpy(client->in.bytes + plb_batches_offset(&c->batches, slot, i),
                   pool->pool[i] + (size_t)row * pool->row_bytes[i],
                   (size_t)c->rows * pool->row_bytes[i]);
        }
    }
}

static plb_status take_chunks(plb_client *client, const chunks *c, const plb_batches *pool,
                              const json_t *tensors, plb_reference *r) {
    r->classes = 0;
    for (int k = 0; k < c->facts.n_outputs; k++) r->classes += c->facts.output[k].count;
    size_t count = (size_t)(c->sources * c->known * r->classes);
    double *output = plb_arena_alloc(r->arena, count * sizeof *output + 1);
    if (!output) return no_memory();
    for (int i = 0; i < c->batches.n_slots * c->facts.n_outputs; i++) {
        plb_reference_entry e;
        int slot = i / c->facts.n_outputs, k = i % c->facts.n_outputs;
        int64_t first = chunk_row(c, pool, slot % c->per_source), part = c->facts.output[k].count;
        int64_t at = (slot / c->per_source * c->known + first) * r->classes;
        PLB_TRY(take(client, r, json_array_get(tensors, (size_t)i), &e));
        if (plb_shape_count(&e.shape) != c->rows * part) {
            return plb_fail(PLB_EBROKEN, "reference: shapes");
        }
        for (int j = 0; j < k; j++) at += c->facts.output[j].count; // a file's row is one
        memcpy(output + at, e.value, (size_t)(c->rows * part) * sizeof *output);
    }
    r->output = output, r->known = c->known, r->n_sources = c->sources;
    return PLB_OK;
}

static plb_status compute_infer(plb_client *client, const plb_load *load, double budget_s,
                                plb_reference *r) {
    chunks c;
    plb_load own = *load;
    plb_loaded loaded;
    int slots[MOST_SLOTS];
    json_t *answer = NULL;
    plan_chunks(load, budget_s, &c);
    if (c.batches.n_slots > MOST_SLOTS) return plb_fail(PLB_EBROKEN, "reference: too many batches");
    own.facts = &c.facts, own.batches = &c.batches;
    // Loaded with whatever its slots hold by the common rule; then with the rows that are wanted.
    PLB_TRY(plb_load_send(client, &own, &loaded));
    fill_chunks(&c, load->batches, client);
    PLB_TRY(plb_load_batches(client, 0, c.batches.n_slots, LIMIT_S));
    for (int i = 0; i < c.batches.n_slots; i++) slots[i] = i;
    PLB_TRY(ask_proof(client, slots, c.batches.n_slots, &answer));
    plb_status status =
        take_chunks(client, &c, load->batches, json_object_get(answer, "tensors"), r);
    json_decref(answer);
    return status;
}

const double *plb_reference_row(const plb_reference *r, int64_t batch, int64_t row) {
    int64_t source = row / batch, inside = row % batch;
    if (!r->output || source >= r->n_sources || inside >= r->known) return NULL;
    return r->output + (source * r->known + inside) * r->classes;
}

static plb_status take_entries(plb_client *client, const json_t *answer, plb_reference *r) {
    const json_t *tensors = json_object_get(answer, "tensors");
    size_t n = json_array_size(tensors);
    r->entry = plb_arena_alloc(r->arena, (n + 1) * sizeof *r->entry);
    if (!r->entry) return no_memory();
    for (size_t i = 0; i < n; i++) {
        PLB_TRY(take(client, r, json_array_get(tensors, i), &r->entry[i]));
        r->count++;
    }
    return PLB_OK;
}

// The loss at iteration `check` of a block that begins from the file's weights.
static plb_status loss_at(plb_client *client, int first_slot, int n_slots, int64_t check,
                          double *out) {
    const plb_block_request request = {.n = check + 1,
                                       .check = check,
                                       .region = "latency",
                                       .first_slot = first_slot,
                                       .n_slots = n_slots,
                                       .restart = true,
                                       .limit_s = LIMIT_S};
    plb_block block;
    PLB_TRY(plb_block_take(client, &request, &block));
    if (!block.has_loss) return plb_fail(PLB_EBROKEN, "reference: no loss");
    *out = plb_load_f64(block.loss.data, block.loss.dtype, 0);
    return PLB_OK;
}

static plb_status compute_losses(plb_client *client, const plb_load *load, plb_reference *r) {
    const plb_batches *b = load->batches;
    double *first, *sequence;
    json_t *answer = NULL;
    int slots[PLB_REFERENCE_STEPS];
    r->n_sources = b->rows / b->batch;
    first = plb_arena_alloc(r->arena, (size_t)r->n_sources * sizeof *first);
    sequence = plb_arena_alloc(r->arena, PLB_REFERENCE_STEPS * sizeof *sequence);
    if (!first || !sequence) return no_memory();
    r->first_loss = first, r->sequence_loss = sequence;
    for (int64_t i = 0; i < r->n_sources; i++) {
        // Sources beyond the slots are found in slot 0 of a later arrangement.
        int slot = (int)(i % b->n_slots), arrangement = (int)(i / b->n_slots);
        PLB_TRY(plb_batches_fill(b, client, slot, arrangement));
        if (arrangement) PLB_TRY(plb_load_batches(client, slot, 1, LIMIT_S));
        PLB_TRY(loss_at(client, slot, 1, 0, &first[i]));
    }
    for (int slot = 0; slot < 2; slot++) PLB_TRY(plb_batches_fill(b, client, slot, 0));
    PLB_TRY(plb_load_batches(client, 0, 2, LIMIT_S));
    for (int i = 0; i < PLB_REFERENCE_STEPS; i++) slots[i] = i % 2;
    PLB_TRY(ask_proof(client, slots, PLB_REFERENCE_STEPS, &answer));
    const json_t *tensors = json_object_get(answer, "tensors");
    plb_status status = PLB_OK;
    for (size_t i = 0; i < json_array_size(tensors) && !status; i++) {
        plb_reference_entry e = {.name = ""};
        const json_t *described = json_array_get(tensors, i);
        const char *name = json_string_value(json_object_get(described, "name"));
        if (!name || strcmp(name, "loss") != 0) continue;
        status = take(client, r, described, &e);
        if (!status && e.batch >= 0 && e.batch < PLB_REFERENCE_STEPS) sequence[e.batch] = *e.value;
    }
    json_decref(answer);
    return status;
}

double plb_reference_rate(const plb_reference *r) {
    double loss = 0, squares = 0, rate = PLB_BENCH_LR;
    for (int i = 0; i < r->count; i++) {
        const plb_reference_entry *e = &r->entry[i];
        if (strcmp(e->name, "loss") == 0 && e->batch == 0) loss = fabs(*e->value);
        if (strncmp(e->name, "grad.", 5) != 0) continue;
        int64_t n = plb_shape_count(&e->shape);
        for (int64_t k = 0; k < n; k++) squares += e->value[k] * e->value[k];
    }
    while (rate * squares > PLB_REFERENCE_SHARE * loss && rate > 1e-9) rate /= 2;
    return rate;
}

// One proof over batches 0 and 1, with the rate of the load.
static plb_status compute_steps(plb_client *client, const plb_load *load, plb_reference *r) {
    static const int both[] = {0, 1};
    json_t *answer = NULL;
    plb_loaded loaded;
    PLB_TRY(plb_load_send(client, load, &loaded));
    PLB_TRY(ask_proof(client, both, 2, &answer));
    r->count = 0;
    plb_status status = take_entries(client, answer, r);
    json_decref(answer);
    return status;
}

static plb_status compute_train(plb_client *client, const plb_load *load, plb_reference *r) {
    plb_load own = *load;
    own.rate = PLB_BENCH_LR;
    PLB_TRY(compute_steps(client, &own, r));
    r->rate = plb_reference_rate(r);
    if (r->rate < own.rate) {
        own.rate = r->rate;
        PLB_TRY(compute_steps(client, &own, r));
    }
    return compute_losses(client, &own, r);
}

// ---------------------------------------------------------------------------- the file
plb_status plb_reference_path(const plb_load *load, const char *cache, char *path, size_t size) {
    const plb_facts *f = load->facts;
    const bool mixed = strcmp(load->c->autocast, "none") != 0;
    const char *precision = mixed ? load->c->autocast : load->c->math;
    uint64_t hash = plb_hash_string(PLB_HASH_SEED, f->graph);
    plb_file_map map = {0};
    char folder[4096];
    PLB_TRY(plb_file_map_open(load->weights, &map));
    hash = plb_hash_bytes(hash, map.bytes, map.size_bytes);
    plb_file_map_close(&map);
    const double layout = 2; // of the file: with the output and the rate of every step
    const double numbers[] = {layout,
                              PLB_BENCH_LR,
                              PLB_REFERENCE_SHARE,
                              PLB_BENCH_MOMENTUM,
                              PLB_REFERENCE_STEPS,
                              (double)load->batches->n_slots,
                              (double)load->batches->rows,
                              (double)f->batch};
    hash = plb_hash_string(hash, load->batches->digest);
    hash = plb_hash_bytes(hash, numbers, sizeof numbers);
    snprintf(folder, sizeof folder, "%s/references", cache);
    PLB_TRY(plb_folder_make(folder));
    int n = snprintf(path, size, "%s/%s-%s-%s-%016" PRIx64 ".safetensors", folder, f->model,
                     f->training ? "train" : "infer", precision, hash);
    return n >= 0 && (size_t)n < size ? PLB_OK : plb_fail(PLB_EINVAL, "%s: too long", cache);
}

static plb_named_tensor as_tensor(const char *name, const double *value, const plb_shape *shape) {
    return (plb_named_tensor){name,
                              plb_tensor_dense((void *)value, PLB_F64, shape, (plb_layout){0})};
}

static plb_status write_cache(const char *path, const plb_load *load, plb_reference *r) {
    plb_named_tensor *list = plb_alloc_array((size_t)r->count + 3, sizeof *list);
    size_t n = 0;
    if (!list) return no_memory();
    if (load->facts->training) {
        list[n++] = as_tensor("rate", &r->rate, &plb_shape_of(1));
        list[n++] = as_tensor("first_loss", r->first_loss, &plb_shape_of(r->n_sources));
        list[n++] =
            as_tensor("sequence_loss", r->sequence_loss, &plb_shape_of(PLB_REFERENCE_STEPS));
    } else {
        list[n++] =
            as_tensor("output", r->output, &plb_shape_of(r->n_sources, r->known, r->classes));
    }
    for (int i = 0; i < r->count; i++) {
        const plb_reference_entry *e = &r->entry[i];
        // The order of entries is that of the proof; a file has its own.
        const char *name = plb_arena_printf(r->arena, "%05d/%d/%s", i, (int)e->batch, e->name);
        if (name) list[n++] = as_tensor(name, e->value, &e->shape);
    }
    plb_status status = plb_safetensors_write(path, list, n, NULL, 0);
    plb_free(list);
    return status;
}

static plb_status copy_values(plb_reference *r, const plb_named_tensor *t, const double **out) {
    size_t bytes = (size_t)plb_shape_count(&t->tensor.shape) * sizeof(double);
    *out = plb_arena_copy(r->arena, t->tensor.data, bytes);
    return *out ? PLB_OK : no_memory();
}

static plb_status read_entry(const plb_named_tensor *t, plb_reference *r) {
    int index = -1, batch = 0, at = 0;
    if (sscanf(t->name, "%5d/%d/%n", &index, &batch, &at) != 2 || !at || index < 0 ||
        index >= MAX_ENTRIES) {
        return plb_fail(PLB_EINVAL, "%s: not an entry of a reference", t->name);
    }
    plb_reference_entry *e = &r->entry[index];
    e->name = plb_arena_strdup(r->arena, t->name + at);
    e->batch = batch, e->shape = t->tensor.shape, e->moved = NAN;
    if (index >= r->count) r->count = index + 1;
    return e->name ? copy_values(r, t, &e->value) : no_memory();
}

static plb_status read_cache(const char *path, plb_reference *r) {
    plb_safetensors *file = NULL;
    plb_status status;
    r->entry = plb_arena_alloc(r->arena, MAX_ENTRIES * sizeof *r->entry);
    if (!r->entry) return no_memory();
    PLB_TRY_OUT(plb_safetensors_open(path, &file));
    for (size_t i = 0; i < plb_safetensors_count(file); i++) {
        const plb_named_tensor *t = plb_safetensors_at(file, i);
        const plb_shape *s = &t->tensor.shape;
        if (t->tensor.dtype != PLB_F64) PLB_TRY_OUT(plb_fail(PLB_EINVAL, "%s: not f64", path));
        if (strcmp(t->name, "rate") == 0) {
            r->rate = *(const double *)t->tensor.data;
        } else if (strcmp(t->name, "first_loss") == 0) {
            r->n_sources = s->dim[0];
            PLB_TRY_OUT(copy_values(r, t, &r->first_loss));
        } else if (strcmp(t->name, "sequence_loss") == 0) {
            PLB_TRY_OUT(copy_values(r, t, &r->sequence_loss));
        } else if (strcmp(t->name, "output") == 0 && s->rank == 3) {
            r->n_sources = s->dim[0], r->known = s->dim[1], r->classes = s->dim[2];
            PLB_TRY_OUT(copy_values(r, t, &r->output));
        } else {
            PLB_TRY_OUT(read_entry(t, r));
        }
    }
    for (int i = 0; i < r->count; i++) {
        if (!r->entry[i].name) PLB_TRY_OUT(plb_fail(PLB_EINVAL, "%s: entry %d lacks", path, i));
    }
out:
    plb_safetensors_free(file);
    return status;
}

static plb_status renew(plb_reference *r) {
    plb_reference_free(r);
    r->output_moved = NAN;
    r->arena = plb_arena_new();
    return r->arena ? PLB_OK : no_memory();
}

plb_status plb_reference_compute(plb_client *client, const plb_load *load, double budget_s,
                                 plb_reference *out) {
    *out = (plb_reference){0};
    PLB_TRY(renew(out));
    return load->facts->training ? compute_steps(client, load, out)
                                 : compute_infer(client, load, budget_s, out);
}

plb_status plb_reference_get(plb_client *client, const plb_load *load, const char *cache,
                             double budget_s, plb_reference *out) {
    char path[4096];
    *out = (plb_reference){0};
    PLB_TRY(renew(out));
    PLB_TRY(plb_reference_path(load, cache, path, sizeof path));
    if (plb_file_exists(path)) {
        plb_status status = read_cache(path, out);
        if (status == PLB_OK || status == PLB_ENOMEM) return status;
        unlink(path); // damaged: made anew
        PLB_TRY(renew(out));
    }
    plb_status status = load->facts->training ? compute_train(client, load, out)
                                              : compute_infer(client, load, budget_s, out);
    return status ? status : write_cache(path, load, out);
}

void plb_reference_free(plb_reference *r) {
    plb_arena_free(r->arena);
    *r = (plb_reference){0};
}
