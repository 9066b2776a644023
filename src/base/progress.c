// SPDX-License-Identifier: Apache-2.0
#include "base/progress.h"

#include "base/core/clock.h"
#include "base/core/status.h"

plb_status plb_progress_tell(plb_progress *progress, const plb_progress_event *event) {
    if (!progress || !progress->callback) return PLB_OK;
    int64_t now_ns = plb_now_ns();
    bool early = progress->told_ns && now_ns - progress->told_ns < progress->interval_ns;
    if (early && !event->last) return PLB_OK;
    progress->told_ns = now_ns;
    if (progress->callback(progress->context, event)) return PLB_OK;
    return plb_fail(PLB_ECANCELLED, "%s: stopped on request", event->what);
}
