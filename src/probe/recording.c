// SPDX-License-Identifier: Apache-2.0
#include "probe/recording.h"

#include <string.h>

#include "base/core/clock.h"
#include "base/core/status.h"

enum { CALL_IDS = 2048 }; // more than either of CUDA's interfaces has calls

static plb_status cupti_failed(const plb_cupti *c, const char *what, int code) {
    const char *text = NULL;
    if (c->result_string(code, &text) || !text) text = "no text";
    return plb_fail(PLB_EMISSING, "%s: %s (%d)", what, text, code);
}

static void set_listed(const plb_recording *r, int domain, int (*set)(uint32_t id, uint8_t on),
                       bool on) {
    const char *name;
    if (!set) return;
    for (uint32_t id = 1; id < CALL_IDS; id++) {
        if (r->cupti->callback_name(domain, id, &name) || !name) continue;
        if (plb_cupti_call_is_listed(name) ||
            (r->launch_calls && plb_cupti_call_class(name) == PLB_BUSY_LAUNCH))
            set(id, on);
    }
}

// What is wanted beside kernels and copies may be refused by an old CUPTI: less is seen then.
static void set_rest(const plb_recording *r, bool on) {
    const plb_cupti *c = r->cupti;
    int (*set)(int kind) = on ? c->enable : c->disable;
    set(PLB_CUPTI_PEER_COPY);
    if (atomic_load(&r->whole_graphs)) set(PLB_CUPTI_GRAPH);
    if (r->all_calls) {
        set(PLB_CUPTI_RUNTIME);
        set(PLB_CUPTI_DRIVER);
    } else {
        set_listed(r, PLB_CUPTI_DOMAIN_RUNTIME, c->enable_runtime_call, on);
        set_listed(r, PLB_CUPTI_DOMAIN_DRIVER, c->enable_driver_call, on);
    }
}

static int set_needed(const plb_recording *r, bool on) {
    static const int needed[] = {PLB_CUPTI_KERNEL, PLB_CUPTI_MEMCPY, PLB_CUPTI_MEMSET};
    int failed = 0;
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        int code = on ? r->cupti->enable(needed[i]) : r->cupti->disable(needed[i]);
        if (code && !failed) failed = code;
    }
    return failed;
}

plb_status plb_recording_begin(plb_recording *r, bool on) {
    int code = set_needed(r, true);
    if (code) {
        set_needed(r, false);
        return cupti_failed(r->cupti, "cuptiActivityEnable", code);
    }
    r->cupti->enable(PLB_CUPTI_OVERHEAD);
    r->cupti->enable(PLB_CUPTI_MEMORY);
    atomic_store(&r->since_ns, plb_now_ns());
    atomic_store(&r->on, on);
    if (on)
        set_rest(r, true);
    else
        set_needed(r, false);
    return PLB_OK;
}

bool plb_recording_switch(plb_recording *r, bool on) {
    const int64_t now_ns = plb_now_ns();
    if (atomic_exchange(&r->on, on) == on) return false;
    if (on)
        atomic_store(&r->since_ns, now_ns);
    else
        atomic_fetch_add(&r->recorded_ns, now_ns - atomic_load(&r->since_ns));
    set_needed(r, on);
    set_rest(r, on);
    return true;
}

void plb_recording_end(plb_recording *r) {
    plb_recording_unfollow(r);
    plb_recording_switch(r, false);
    r->cupti->disable(PLB_CUPTI_OVERHEAD);
    r->cupti->disable(PLB_CUPTI_MEMORY);
}

int64_t plb_recording_time_ns(plb_recording *r) {
    int64_t total_ns = atomic_load(&r->recorded_ns);
    if (atomic_load(&r->on)) total_ns += plb_now_ns() - atomic_load(&r->since_ns);
    return total_ns;
}

bool plb_recording_take_whole_graphs(plb_recording *r) {
    if (atomic_load(&r->on) && r->cupti->enable(PLB_CUPTI_GRAPH)) return false;
    atomic_store(&r->whole_graphs, true);
    return true;
}

// The first word of what CUPTI hands over says whether the call begins (0) or has ended (1).
static void on_call(void *user, int domain, uint32_t id, const void *data) {
    int site;
    const char *name = NULL;
    plb_recording *r = user;
    memcpy(&site, data, sizeof site);
    if (r->cupti->callback_name(domain, id, &name) || !name) return;
    if (strstr(name, "ProfilerStart") && site == 1) plb_recording_switch(r, true);
    if (strstr(name, "ProfilerStop") && site == 0) plb_recording_switch(r, false);
}

static int listen(const plb_recording *r, int domain) {
    const char *name;
    int heard = 0;
    for (uint32_t id = 1; id < CALL_IDS; id++) {
        if (r->cupti->callback_name(domain, id, &name) || !name) continue;
        if (!strstr(name, "ProfilerStart") && !strstr(name, "ProfilerStop")) continue;
        if (r->cupti->enable_callback(1, r->subscriber, domain, id) == 0) heard++;
    }
    return heard;
}

plb_status plb_recording_follow_program(plb_recording *r) {
    if (!r->cupti->subscribe || !r->cupti->enable_callback || !r->cupti->unsubscribe)
        return plb_fail(PLB_EMISSING, "this CUPTI has no callbacks");
    int code = r->cupti->subscribe(&r->subscriber, on_call, r);
    if (code) {
        r->subscriber = NULL;
        return cupti_failed(r->cupti, "cuptiSubscribe", code);
    }
    if (listen(r, PLB_CUPTI_DOMAIN_DRIVER) + listen(r, PLB_CUPTI_DOMAIN_RUNTIME) > 0) return PLB_OK;
    plb_recording_unfollow(r);
    return plb_fail(PLB_EMISSING, "this CUPTI does not know cudaProfilerStart");
}

void plb_recording_unfollow(plb_recording *r) {
    if (r->subscriber) r->cupti->unsubscribe(r->subscriber);
    r->subscriber = NULL;
}
