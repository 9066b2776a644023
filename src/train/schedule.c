// SPDX-License-Identifier: Apache-2.0
#include "train/schedule.h"

#include <math.h>
#include <string.h>

#include "base/core/status.h"
#include "base/core/strbuf.h"

plb_status plb_schedule_for(const char *name, double lr, int64_t epochs, plb_schedule *out) {
    static const char *const names[] = {"constant", "step", "cosine"};
    for (int kind = 0; kind < 3; kind++) {
        if (strcmp(name, names[kind]) != 0) continue;
        int64_t third = (epochs + 2) / 3;
        *out = (plb_schedule){.kind = (plb_schedule_kind)kind,
                              .lr = lr,
                              .epochs = epochs > 0 ? epochs : 1,
                              .every = third > 0 ? third : 1,
                              .factor = 0.1};
        return PLB_OK;
    }
    const char *nearest = plb_nearest_name(name, names, 3);
    return plb_fail(PLB_EINVAL, "no schedule %s; did you mean %s?", name,
                    nearest ? nearest : "constant, step or cosine");
}

double plb_schedule_lr(const plb_schedule *s, int64_t epoch) {
    switch (s->kind) {
    case PLB_SCHEDULE_CONSTANT: break;
    case PLB_SCHEDULE_STEP: return s->lr * pow(s->factor, (double)(epoch / s->every));
    case PLB_SCHEDULE_COSINE:
        return s->lr * (1 + cos(3.14159265358979323846 * (double)epoch / (double)s->epochs)) / 2;
    }
    return s->lr;
}
