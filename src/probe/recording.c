// SPDX-License-Identifier: Apache-2.0
#include "probe/recording.h"

#include <string.h>
#include <time.h>

#include "base/core/clock.h"
#include "base/core/status.h"

enum {
    CALL_IDS = 2048,   // more than either of CUDA's interfaces has calls
    LEAVE_TRIES = 200, // a tenth of a second
    LEAVE_TRY_US = 500,
};

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
static void set_calls(const plb_recording *r, bool on) {
    const plb_cupti *c = r->cupti;
    int (*set)(int kind) = on ? c->enable : c->disable;
    if (r->all_calls) {
        set(PLB_CUPTI_RUNTIME);
        set(PLB_CUPTI_DRIVER);
    } else {
        set_listed(r, PLB_CUPTI_DOMAIN_RUNTIME, c->enable_runtime_call, on);
        set_listed(r, PLB_CUPTI_DOMAIN_DRIVER, c->enable_driver_call, on);
    }
}

static int set_copies(const plb_recording *r, bool on) {
    int (*set)(int kind) = on ? r->cupti->enable : r->cupti->disable;
    const int copies = set(PLB_CUPTI_MEMCPY), sets = set(PLB_CUPTI_MEMSET);
    set(PLB_CUPTI_PEER_COPY);
    return copies ? copies : sets;
}

static int set_kernels(const plb_recording *r, bool on) {
    return on ? r->cupti->enable(PLB_CUPTI_KERNEL) : r->cupti->disable(PLB_CUPTI_KERNEL);
}

static void note_edge(plb_recording *r) {
    uint64_t now_ns = 0;
    r->cupti->timestamp(&now_ns);
    const unsigned n = atomic_load(&r->edges);
    atomic_store(&r->edge_ns[n % (2 * PLB_RECORDING_WINDOWS)], (long long)now_ns);
    atomic_store(&r->edges, n + 1);
}

plb_status plb_recording_begin(plb_recording *r, bool on) {
    int code = set_kernels(r, true);
    if (!code) code = set_copies(r, true);
    if (code) {
        plb_recording_turn(r, 0);
        return cupti_failed(r->cupti, "cuptiActivityEnable", code);
    }
    if (r->whole_graphs) r->cupti->enable(PLB_CUPTI_GRAPH);
    r->cupti->enable(PLB_CUPTI_OVERHEAD);
    if (r->sources && r->cupti->allocation_source) r->cupti->allocation_source(1);
    r->cupti->enable(PLB_CUPTI_MEMORY);
    set_calls(r, true);
    if (on)
        plb_recording_switch(r, true);
    else
        set_kernels(r, false);
    return PLB_OK;
}

bool plb_recording_switch(plb_recording *r, bool on) {
    const int64_t now_ns = plb_now_ns();
    if (atomic_exchange(&r->on, on) == on) return false;
    if (on)
        atomic_store(&r->since_ns, now_ns);
    else
        atomic_fetch_add(&r->recorded_ns, now_ns - atomic_load(&r->since_ns));
    note_edge(r);
    set_kernels(r, on);
    return true;
}

// How many edges were before it, as far back as they are kept; 0: none.
static unsigned edges_before(plb_recording *r, int64_t at_ns) {
    const unsigned edges = atomic_load(&r->edges);
    for (unsigned n = edges; n > 0 && edges - n < 2 * PLB_RECORDING_WINDOWS; n--)
        if (atomic_load(&r->edge_ns[(n - 1) % (2 * PLB_RECORDING_WINDOWS)]) <= at_ns) return n;
    return 0;
}

bool plb_recording_has(plb_recording *r, int64_t at_ns) {
    return edges_before(r, at_ns) % 2 == 1;
}

bool plb_recording_rests(plb_recording *r, int64_t at_ns) {
    const unsigned edges = edges_before(r, at_ns);
    return edges && edges % 2 == 0;
}

void plb_recording_turn(plb_recording *r, int recorded) {
    set_kernels(r, recorded & PLB_RECORD_KERNELS);
    set_copies(r, recorded & PLB_RECORD_COPIES);
    set_calls(r, recorded & PLB_RECORD_CALLS);
}

void plb_recording_end(plb_recording *r) {
    plb_recording_unfollow(r);
    plb_recording_switch(r, false);
    plb_recording_turn(r, 0);
    r->cupti->disable(PLB_CUPTI_OVERHEAD);
    r->cupti->disable(PLB_CUPTI_MEMORY);
}

int64_t plb_recording_time_ns(plb_recording *r) {
    int64_t total_ns = atomic_load(&r->recorded_ns);
    if (atomic_load(&r->on)) total_ns += plb_now_ns() - atomic_load(&r->since_ns);
    return total_ns;
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

// To calls of a domain of which the name has the word; returns how many can be heard.
static int listen(const plb_recording *r, int domain, const char *word) {
    const char *name;
    int heard = 0;
    for (uint32_t id = 1; id < CALL_IDS; id++) {
        if (r->cupti->callback_name(domain, id, &name) || !name) continue;
        if (strstr(name, word) && r->cupti->enable_callback(1, r->subscriber, domain, id) == 0)
            heard++;
    }
    return heard;
}

static int listen_to_window(const plb_recording *r, int domain) {
    return listen(r, domain, "ProfilerStart") + listen(r, domain, "ProfilerStop");
}

plb_status plb_recording_follow_program(plb_recording *r) {
    if (!r->cupti->subscribe || !r->cupti->enable_callback || !r->cupti->unsubscribe)
        return plb_fail(PLB_EMISSING, "this CUPTI has no callbacks");
    int code = r->cupti->subscribe(&r->subscriber, on_call, r);
    if (code) {
        r->subscriber = NULL;
        return cupti_failed(r->cupti, "cuptiSubscribe", code);
    }
    if (listen_to_window(r, PLB_CUPTI_DOMAIN_DRIVER) +
            listen_to_window(r, PLB_CUPTI_DOMAIN_RUNTIME) >
        0)
        return PLB_OK;
    plb_recording_unfollow(r);
    return plb_fail(PLB_EMISSING, "this CUPTI does not know cudaProfilerStart");
}

// ---------------------------------------------------------------------------- leaving
static void on_launch(void *user, int domain, uint32_t id, const void *data) {
    int site, wanted = PLB_LEAVING_WANTED;
    plb_recording *r = user;
    (void)domain, (void)id;
    memcpy(&site, data, sizeof site);
    if (site != 1 || !atomic_compare_exchange_strong(&r->leaving, &wanted, PLB_LEAVING_NOW)) return;
    const int code = r->cupti->finalize();
    atomic_store(&r->leaving, code ? PLB_LEAVING_FAILED : PLB_LEAVING_DONE);
}

static void sleep_us(long us) {
    const struct timespec time = {.tv_nsec = us * 1000};
    nanosleep(&time, NULL);
}

// By the next launch of that domain's calls, if there is one soon: then CUPTI is gone, and its
// subscriber with it. All is asked for beforehand: from the moment that leaving is wanted on, CUPTI
// must not be called from here.
static bool leave_by(plb_recording *r, int domain) {
    int wanted = PLB_LEAVING_WANTED;
    if (listen(r, domain, "LaunchKernel") + listen(r, domain, "GraphLaunch") == 0) return false;
    atomic_store(&r->leaving, PLB_LEAVING_WANTED);
    for (int i = 0; i < LEAVE_TRIES && !atomic_load(&r->unwanted) &&
                    atomic_load(&r->leaving) < PLB_LEAVING_DONE;
         i++)
        sleep_us(LEAVE_TRY_US);
    if (atomic_compare_exchange_strong(&r->leaving, &wanted, PLB_LEAVING_NOT)) return false;
    while (atomic_load(&r->leaving) < PLB_LEAVING_DONE) sleep_us(LEAVE_TRY_US);
    return atomic_load(&r->leaving) == PLB_LEAVING_DONE;
}

// By a call of the runtime if the program uses that: those of the driver lie inside of them.
plb_left plb_recording_leave(plb_recording *r) {
    void *subscriber = NULL;
    if (r->subscriber || r->cupti->subscribe(&subscriber, on_launch, r)) return PLB_LEFT_REFUSED;
    r->subscriber = subscriber;
    const bool left = leave_by(r, PLB_CUPTI_DOMAIN_RUNTIME) || leave_by(r, PLB_CUPTI_DOMAIN_DRIVER);
    if (left)
        r->subscriber = NULL;
    else
        plb_recording_unfollow(r);
    return left ? PLB_LEFT : PLB_LEFT_NO_LAUNCH;
}

bool plb_recording_may_return(plb_recording *r) {
    void *subscriber = NULL;
    if (r->cupti->subscribe(&subscriber, on_launch, r)) return false;
    r->cupti->unsubscribe(subscriber);
    return true;
}

void plb_recording_unfollow(plb_recording *r) {
    if (r->subscriber) r->cupti->unsubscribe(r->subscriber);
    r->subscriber = NULL;
}
