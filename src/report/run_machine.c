// SPDX-License-Identifier: Apache-2.0
// What a run says of its machine and of its commands: when it began, and each time that it was
// taken up again, which its fingerprint lists as "resumed".
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "report/run.h"

static json_t *fingerprint_of(const plb_run_row *run) {
    return json_loads(run->fingerprint ? run->fingerprint : "{}", 0, NULL);
}

// The largest of a number of the machine's state.
static double most(const json_t *fingerprint, const char *key) {
    const json_t *resumed = json_object_get(fingerprint, "resumed"), *at = fingerprint;
    double found = 0;
    for (size_t i = 0;; i++) {
        const json_t *state = json_object_get(at, "state");
        found = fmax(found, json_number_value(json_object_get(state, key)));
        if (i == json_array_size(resumed)) return found;
        at = json_object_get(json_array_get(resumed, i), "fingerprint");
    }
}

double plb_report_others_cpus(const plb_run_row *run) {
    json_t *fingerprint = fingerprint_of(run);
    const double cpus = most(fingerprint, "others_cpus");
    json_decref(fingerprint);
    return cpus;
}

// Periods so far in which the quota stopped whoever is in the control group; NaN: unknown.
static double counted(const json_t *fingerprint) {
    const json_t *count = json_object_get(json_object_get(fingerprint, "state"), "quota_throttled");
    return json_is_number(count) ? json_number_value(count) : (double)NAN;
}

// In how many of its periods the quota stopped the run. The counter goes on before it, after it and
// between its parts, whoever runs then, so it is read at both ends of each part; of a part that was
// killed nothing is known.
static double throttled(const json_t *fingerprint, const json_t *end) {
    const json_t *resumed = json_object_get(fingerprint, "resumed"), *begin = fingerprint;
    double periods = 0;
    for (size_t i = 0;; i++) {
        const json_t *next = json_array_get(resumed, i);
        const double more =
            counted(next ? json_object_get(next, "end_before") : end) - counted(begin);
        if (more > 0) periods += more;
        if (!next) return periods;
        begin = json_object_get(next, "fingerprint");
    }
}

static void say_throttled(const plb_run_row *run, const json_t *fingerprint, plb_document *d) {
    json_t *end = run->fingerprint_end ? json_loads(run->fingerprint_end, 0, NULL) : NULL;
    const double periods = throttled(fingerprint, end);
    if (periods > 0) {
        plb_document_verdict(d, PLB_TONE_UNSURE, "THROTTLED",
                             "The quota of the control group stopped this run in %.0f of the "
                             "quota's periods.",
                             periods);
    }
    json_decref(end);
}

void plb_report_say_machine(const plb_run_row *run, plb_document *d) {
    json_t *fingerprint = fingerprint_of(run);
    const double others = most(fingerprint, "others_cpus");
    const bool again = json_array_size(json_object_get(fingerprint, "resumed"));
    if (others > 0.2) {
        plb_document_verdict(d, PLB_TONE_UNSURE, "BUSY",
                             "Other processes kept %.1f processors busy when the run began%s: "
                             "intervals are wider than this machine can do.",
                             others, again ? " or was taken up again" : "");
    }
    say_throttled(run, fingerprint, d);
    json_decref(fingerprint);
    if (strcmp(run->state, "done") != 0) {
        plb_document_verdict(d, PLB_TONE_UNSURE, run->state,
                             "This run did not end; what it measured until then is shown.");
    }
}

void plb_report_add_commands(const plb_run_row *run, plb_strbuf *out) {
    json_t *fingerprint = fingerprint_of(run);
    const json_t *resumed = json_object_get(fingerprint, "resumed");
    plb_strbuf_printf(out, "%s", run->command ? run->command : "");
    for (size_t i = 0; i < json_array_size(resumed); i++) {
        const char *command =
            json_string_value(json_object_get(json_array_get(resumed, i), "command"));
        if (command && *command) plb_strbuf_printf(out, "%s%s", out->length ? "\n" : "", command);
    }
    json_decref(fingerprint);
}
