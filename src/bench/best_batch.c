// SPDX-License-Identifier: Apache-2.0
#include "bench/best_batch.h"

static const double gain = 1.02;

double plb_batch_throughput(const plb_batch_trial *t) {
    return (double)t->batch * 1e9 / t->iteration_ns;
}

const char *plb_batch_stop_name(plb_batch_stop stop) {
    static const char *const names[] = {"", "no-gain", "memory", "time", "most", "failed"};
    return names[stop];
}

void plb_batch_search_begin(plb_batch_search *s, int64_t first, double longest_ns) {
    *s = (plb_batch_search){.longest_ns = longest_ns, .next = first};
}

int64_t plb_batch_search_next(const plb_batch_search *s) {
    return s->next;
}

static void choose(plb_batch_search *s) {
    for (int i = 0; i < s->count; i++) {
        const plb_batch_trial *t = &s->trial[i];
        if (t->outcome != PLB_OUTCOME_OK || plb_batch_throughput(t) * gain < s->best) continue;
        if (!s->found || t->batch < s->found) s->found = t->batch;
    }
}

static void end(plb_batch_search *s, plb_batch_stop stop) {
    s->next = 0;
    if (!s->stop) s->stop = stop;
    choose(s);
}

// The batch below one that failed; where it was the best so far, half-way up is worth a trial.
static void end_at_failure(plb_batch_search *s, const plb_batch_trial *t) {
    const plb_batch_trial *last = s->count > 1 ? &s->trial[s->count - 2] : NULL;
    s->stop = t->outcome == PLB_OUTCOME_OOM ? PLB_BATCH_MEMORY : PLB_BATCH_FAILED;
    int64_t middle = last ? last->batch + last->batch / 2 : 0;
    if (s->stop == PLB_BATCH_MEMORY && last && middle > last->batch && !s->stale) {
        s->next = middle;
    } else {
        end(s, s->stop);
    }
}

void plb_batch_search_add(plb_batch_search *s, const plb_batch_trial *trial) {
    bool refining = s->stop != PLB_BATCH_SEARCHING;
    s->trial[s->count++] = *trial;
    if (trial->outcome == PLB_OUTCOME_OK) {
        double throughput = plb_batch_throughput(trial);
        s->stale = throughput > gain * s->best ? 0 : s->stale + 1;
        if (throughput > s->best) s->best = throughput;
    }
    if (refining) {
        end(s, s->stop);
    } else if (trial->outcome != PLB_OUTCOME_OK) {
        end_at_failure(s, trial);
    } else if (s->stale == 2) {
        end(s, PLB_BATCH_NO_GAIN);
    } else if (trial->iteration_ns > s->longest_ns) {
        end(s, PLB_BATCH_TIME);
    } else if (2 * trial->batch > PLB_BATCH_MOST_SAMPLES || s->count >= PLB_BATCH_MAX_TRIALS - 1) {
        end(s, PLB_BATCH_MOST);
    } else {
        s->next = 2 * trial->batch;
    }
}

static json_t *trial_json(const plb_batch_trial *t) {
    json_t *out = json_pack("{s:I,s:s}", "batch", (json_int_t)t->batch, "outcome",
                            plb_outcome_name(t->outcome));
    bool ok = t->outcome == PLB_OUTCOME_OK;
    json_object_set_new(out, "throughput", ok ? json_real(plb_batch_throughput(t)) : json_null());
    json_object_set_new(out, "bytes", t->bytes >= 0 ? json_integer(t->bytes) : json_null());
    json_object_set_new(out, "reason", t->reason[0] ? json_string(t->reason) : json_null());
    return out;
}

json_t *plb_batch_search_json(const plb_batch_search *s) {
    json_t *trials = json_array();
    for (int i = 0; i < s->count; i++) json_array_append_new(trials, trial_json(&s->trial[i]));
    return json_pack("{s:s,s:o}", "stop", plb_batch_stop_name(s->stop), "trials", trials);
}
