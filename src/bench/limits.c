// SPDX-License-Identifier: Apache-2.0
#include "bench/limits.h"

#include <math.h>
#include <string.h>

#include "base/core/status.h"

static const double read_over_copy = 2; // a copy also writes, and reads what it writes over

bool plb_limits_apply(const plb_case *c, const plb_facts *facts) {
    return !facts->file[0] && facts->least_flops > 0 && strcmp(c->device, "cpu") == 0 &&
           strcmp(c->dtype, "f32") == 0 && strcmp(c->math, "f32") == 0 &&
           strcmp(c->autocast, "none") == 0 &&
           strcmp(c->region, "return") != 0; // it may come back before the work is done
}

static double larger(double known, const json_t *answer, const char *key) {
    return fmax(known, json_number_value(json_object_get(answer, key)));
}

plb_status plb_limits_measure(plb_client *reference, int threads, plb_limits *l) {
    json_t *answer = NULL;
    PLB_TRY(plb_client_ask(reference, json_pack("{s:s,s:i}", "type", "roof", "threads", threads),
                           120, "roof", &answer));
    l->threads = threads;
    l->flops_per_s = larger(l->flops_per_s, answer, "flops_per_s");
    l->cache_bytes_per_s = larger(l->cache_bytes_per_s, answer, "cache_bytes_per_s");
    l->memory_bytes_per_s = larger(l->memory_bytes_per_s, answer, "memory_bytes_per_s");
    l->cache_bytes = larger(l->cache_bytes, answer, "largest_cache_bytes");
    json_decref(answer);
    return PLB_OK;
}

// At least the weights and one batch have to be read, and the logits written.
static double least_bytes(const plb_facts *f) {
    double bytes = (double)f->parameters * sizeof(float);
    for (int i = 0; i < f->n_inputs; i++) {
        bytes +=
            (double)plb_shape_count(&f->input[i].shape) * (double)plb_dtype_size(f->input[i].dtype);
    }
    return bytes + (double)f->batch * (double)f->classes * sizeof(float);
}

double plb_limits_least_ns(const plb_limits *l, const plb_facts *facts) {
    double bytes = least_bytes(facts);
    if (!(l->flops_per_s > 0 && l->cache_bytes_per_s > 0 && l->memory_bytes_per_s > 0)) return 0;
    // Each thread may have such a cache to itself; what is beyond all of them comes from memory.
    double beyond = fmax(0, bytes - l->cache_bytes * l->threads);
    double moved_s = fmax(bytes / l->cache_bytes_per_s, beyond / l->memory_bytes_per_s);
    return 1e9 * fmax(facts->least_flops / l->flops_per_s, moved_s / read_over_copy);
}
