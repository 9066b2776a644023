// SPDX-License-Identifier: Apache-2.0
#include "bench/batches.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/philox.h"
#include "base/core/status.h"

enum { ALIGN = 64, SMALL_BYTES = 1 << 20, FEW_ROWS = 8 };
#define DEAR_FLOPS 2e10                              // of all slots of an arrangement
static const uint64_t seed = UINT64_C(0x706c756d62); // of all batches

static void draw_normal(float *to, int64_t count) {
    const double turn = 6.283185307179586;
    for (int64_t i = 0; i < count; i += 2) { // Box and Muller 1958
        plb_philox_block b = plb_philox(seed, (uint64_t)i, 0);
        double r = sqrt(-2 * log(plb_uniform_open(b.word[0])));
        double angle = turn * plb_uniform_open(b.word[1]);
        to[i] = (float)(r * cos(angle));
        if (i + 1 < count) to[i + 1] = (float)(r * sin(angle));
    }
}

static void draw_classes(int64_t *to, int64_t count, int64_t classes) {
    for (int64_t i = 0; i < count; i++) {
        to[i] = (int64_t)(plb_philox(seed, (uint64_t)i, 1).word[0] % (uint64_t)classes);
    }
}

// Numbers of a file's input: floats normal, integers uniform in their range.
static void draw_any(uint8_t *to, const plb_facts *facts, int input, int64_t count) {
    const double turn = 6.283185307179586;
    plb_dtype dtype = facts->input[input].dtype;
    int64_t low = facts->input[input].low;
    uint64_t span = (uint64_t)(facts->input[input].high - low) + 1;
    for (int64_t i = 0; i < count; i++) {
        plb_philox_block b = plb_philox(seed, (uint64_t)i, 2 + (uint64_t)input);
        if (!plb_dtype_is_float(dtype)) {
            plb_store_i64(to, dtype, i, low + (int64_t)(b.word[0] % (span ? span : 1)));
            continue;
        }
        double r = sqrt(-2 * log(plb_uniform_open(b.word[0])));
        plb_store_f64(to, dtype, i, r * cos(turn * plb_uniform_open(b.word[1])));
    }
}

static size_t row_bytes(const plb_facts *facts, int input) {
    int64_t count = plb_shape_count(&facts->input[input].shape) / facts->batch;
    return (size_t)count * plb_dtype_size(facts->input[input].dtype);
}

// Enough batches that every slot of every arrangement is another one. Large batches have enough
// orders of their rows: see plb_batches_row.
static int64_t pool_sources(const plb_batches *b) {
    if (b->batch < FEW_ROWS) return (int64_t)b->arrangements * b->n_slots;
    return b->batch < 2 * FEW_ROWS ? 4 : 2;
}

plb_status plb_batches_new(const plb_facts *facts, plb_batches *out) {
    plb_batches *b = out;
    *b = (plb_batches){
        .batch = facts->batch, .training = facts->training, .n_inputs = facts->n_inputs};
    for (int i = 0; i < b->n_inputs; i++) b->row_bytes[i] = row_bytes(facts, i);
    size_t fit = SMALL_BYTES / (plb_batches_bytes(b) + 1);
    b->n_slots = fit < 2 ? 2 : fit > PLB_BATCHES_MAX_SLOTS ? PLB_BATCHES_MAX_SLOTS : (int)fit;
    while (facts->file[0] && b->n_slots > 2 && facts->flops * b->n_slots > DEAR_FLOPS) {
        b->n_slots /= 2; // the reference computes every one of them
    }
    // Two slots are large batches: new ones cost the reference time.
    b->arrangements = b->n_slots == 2 ? 2 : PLB_BATCHES_MAX_ARRANGEMENTS;
    b->rows = pool_sources(b) * b->batch;
    uint64_t hash = PLB_HASH_SEED;
    for (int i = 0; i < b->n_inputs; i++) {
        size_t bytes = (size_t)b->rows * b->row_bytes[i];
        b->pool[i] = plb_alloc_slab(bytes + 1);
        if (!b->pool[i]) {
            plb_batches_free(b);
            return plb_fail(PLB_ENOMEM, "out of memory for batches");
        }
        if (facts->file[0]) {
            draw_any(b->pool[i], facts, i,
                     (int64_t)(bytes / plb_dtype_size(facts->input[i].dtype)));
        } else if (facts->input[i].dtype == PLB_F32) {
            draw_normal((float *)(void *)b->pool[i], (int64_t)(bytes / sizeof(float)));
        } else {
            draw_classes((int64_t *)(void *)b->pool[i], b->rows, facts->classes);
        }
        hash = plb_hash_bytes(hash, b->pool[i], bytes);
    }
    snprintf(b->digest, sizeof b->digest, "%016" PRIx64, hash);
    return PLB_OK;
}

void plb_batches_free(plb_batches *b) {
    for (int i = 0; i < PLB_FACTS_MAX_INPUTS; i++) plb_free(b->pool[i]);
    *b = (plb_batches){0};
}

// ---------------------------------------------------------------------------- arrangements
// Small batches: other batches of the pool. Others: the pool's few batches with their rows turned,
// first forwards, then backwards; number `order` of a batch is unlike all before it.
int64_t plb_batches_source(const plb_batches *b, int slot, int arrangement) {
    int64_t shift = b->batch < FEW_ROWS ? (int64_t)arrangement * b->n_slots : 0;
    return (slot + shift) % (b->rows / b->batch);
}

int64_t plb_batches_row(const plb_batches *b, int slot, int arrangement, int64_t row) {
    int64_t sources = b->rows / b->batch;
    int64_t first = plb_batches_source(b, slot, arrangement) * b->batch;
    if (b->batch < FEW_ROWS) return first + row;
    int64_t slots_each = (b->n_slots + sources - 1) / sources;
    int64_t order = arrangement * slots_each + slot / sources;
    if (order / b->batch % 2) row = b->batch - 1 - row;
    return first + (row + order) % b->batch;
}

// ---------------------------------------------------------------------------- shared memory
static size_t input_bytes(const plb_batches *b, int input) {
    size_t bytes = (size_t)b->batch * b->row_bytes[input];
    return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

size_t plb_batches_bytes(const plb_batches *b) {
    size_t bytes = 0;
    for (int i = 0; i < b->n_inputs; i++) bytes += input_bytes(b, i);
    return bytes;
}

size_t plb_batches_offset(const plb_batches *b, int slot, int input) {
    size_t offset = (size_t)slot * plb_batches_bytes(b);
    for (int i = 0; i < input; i++) offset += input_bytes(b, i);
    return offset;
}

plb_status plb_batches_fill(const plb_batches *b, plb_client *client, int slot, int arrangement) {
    PLB_TRY(plb_segment_reserve(&client->in, (size_t)b->n_slots * plb_batches_bytes(b)));
    for (int i = 0; i < b->n_inputs; i++) {
        uint8_t *to = client->in.bytes + plb_batches_offset(b, slot, i);
        for (int64_t row = 0; row < b->batch; row++) {
            size_t from = (size_t)plb_batches_row(b, slot, arrangement, row) * b->row_bytes[i];
            memcpy(to + (size_t)row * b->row_bytes[i], b->pool[i] + from, b->row_bytes[i]);
        }
    }
    return PLB_OK;
}

static json_t *describe_input(const plb_batches *b, const plb_facts *facts, int i) {
    json_t *shape = json_array(), *offsets = json_array();
    for (int k = 0; k < facts->input[i].shape.rank; k++) {
        json_array_append_new(shape, json_integer(facts->input[i].shape.dim[k]));
    }
    for (int slot = 0; slot < b->n_slots; slot++) {
        json_array_append_new(offsets, json_integer((json_int_t)plb_batches_offset(b, slot, i)));
    }
    return json_pack("{s:s,s:s,s:o,s:o}", "name", facts->input[i].name, "dtype",
                     plb_dtype_name(facts->input[i].dtype), "shape", shape, "offsets", offsets);
}

json_t *plb_batches_describe(const plb_batches *b, const plb_facts *facts) {
    json_t *list = json_array();
    for (int i = 0; i < b->n_inputs; i++) {
        if (json_array_append_new(list, describe_input(b, facts, i))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}
