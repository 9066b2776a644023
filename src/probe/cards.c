// SPDX-License-Identifier: Apache-2.0
#include "probe/cards.h"

#include <dlfcn.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/symbol.h"

typedef struct nvml_memory {
    unsigned long long total, free, used; // bytes
} nvml_memory;

typedef struct nvml_utilization {
    unsigned gpu, memory; // per cent
} nvml_utilization;

// Declared here, since some toolkits come without nvml.h. Beyond the first four each may be NULL.
typedef struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*count)(unsigned *count);
    int (*handle)(unsigned index, void **device);
    int (*name)(void *device, char *text, unsigned size);
    int (*energy)(void *device, unsigned long long *millijoules);
    int (*power)(void *device, unsigned *milliwatts);
    int (*utilization)(void *device, nvml_utilization *utilization);
    int (*memory)(void *device, nvml_memory *memory);
    int (*clock)(void *device, int kind, unsigned *mhz);
    int (*temperature)(void *device, int sensor, unsigned *celsius);
    int (*throttle)(void *device, unsigned long long *reasons);
} nvml;

struct plb_cards {
    void *library;
    nvml nvml;
    int count;
    void *device[PLB_COMMAND_CARDS];
    unsigned long long first_mj[PLB_COMMAND_CARDS], last_mj[PLB_COMMAND_CARDS];
    bool counts_energy[PLB_COMMAND_CARDS];
    double utilisation_sum[PLB_COMMAND_CARDS];
    plb_command_card card[PLB_COMMAND_CARDS];
    int64_t begin_ns, last_ns;
    plb_command_sample sample[PLB_COMMAND_SAMPLES];
    int samples, looks, every; // each `every`-th look is kept, of all cards
    double since_kept_s, since_kept_j[PLB_COMMAND_CARDS]; // since the last look that was kept
};

static bool find_all(void *library, nvml *n) {
    plb_find_symbol(library, "nvmlDeviceGetName", &n->name);
    plb_find_symbol(library, "nvmlDeviceGetTotalEnergyConsumption", &n->energy);
    plb_find_symbol(library, "nvmlDeviceGetPowerUsage", &n->power);
    plb_find_symbol(library, "nvmlDeviceGetUtilizationRates", &n->utilization);
    plb_find_symbol(library, "nvmlDeviceGetMemoryInfo", &n->memory);
    plb_find_symbol(library, "nvmlDeviceGetClockInfo", &n->clock);
    plb_find_symbol(library, "nvmlDeviceGetTemperature", &n->temperature);
    plb_find_symbol(library, "nvmlDeviceGetCurrentClocksThrottleReasons", &n->throttle);
    return plb_find_symbol(library, "nvmlInit_v2", &n->init) &&
           plb_find_symbol(library, "nvmlShutdown", &n->shutdown) &&
           plb_find_symbol(library, "nvmlDeviceGetCount_v2", &n->count) &&
           plb_find_symbol(library, "nvmlDeviceGetHandleByIndex_v2", &n->handle);
}

static bool open_cards(plb_cards *c) {
    unsigned count = 0;
    if (!find_all(c->library, &c->nvml) || c->nvml.init()) return false;
    if (c->nvml.count(&count)) count = 0;
    for (unsigned i = 0; i < count && c->count < PLB_COMMAND_CARDS; i++) {
        void *device;
        if (c->nvml.handle(i, &device)) continue;
        plb_command_card *card = &c->card[c->count];
        if (c->nvml.name) c->nvml.name(device, card->name, sizeof card->name);
        card->name[sizeof card->name - 1] = '\0';
        c->device[c->count] = device;
        c->counts_energy[c->count] =
            c->nvml.energy && c->nvml.energy(device, &c->first_mj[c->count]) == 0;
        c->last_mj[c->count] = c->first_mj[c->count];
        c->count++;
    }
    return c->count > 0;
}

plb_cards *plb_cards_open(void) {
    plb_cards *c = plb_alloc(sizeof *c);
    if (!c) return NULL;
    c->library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    c->every = 1;
    if (c->library && open_cards(c)) {
        c->begin_ns = c->last_ns = plb_now_ns();
        return c;
    }
    if (c->library) dlclose(c->library);
    plb_free(c);
    return NULL;
}

static void sample_clocks(const nvml *n, void *device, plb_command_card *card) {
    enum { SM_CLOCK = 1, GPU_SENSOR = 0 };
    unsigned mhz, celsius;
    unsigned long long reasons;
    if (n->clock && n->clock(device, SM_CLOCK, &mhz) == 0) {
        if (!card->sm_mhz_min || (int)mhz < card->sm_mhz_min) card->sm_mhz_min = (int)mhz;
        if ((int)mhz > card->sm_mhz_max) card->sm_mhz_max = (int)mhz;
    }
    if (n->temperature && n->temperature(device, GPU_SENSOR, &celsius) == 0 &&
        (int)celsius > card->celsius_max)
        card->celsius_max = (int)celsius;
    if (n->throttle && n->throttle(device, &reasons) == 0) card->throttle |= reasons;
}

// One look of two, at the later moment; its power is the mean over both, which took as long.
static void halve(plb_cards *c) {
    int kept = 0;
    for (int i = 0; i < c->samples; i++) {
        if (i / c->count % 2 == 0) continue;
        const float before = c->sample[i - c->count].watts;
        c->sample[kept] = c->sample[i];
        c->sample[kept].watts = (before + c->sample[kept].watts) / 2;
        kept++;
    }
    c->samples = kept;
}

// Whether this look is kept. When an even number of looks at all cards fills the room, they are
// halved, and so are those to come.
static bool keep_look(plb_cards *c) {
    const int room = PLB_COMMAND_SAMPLES / c->count / 2 * 2;
    if (c->samples == room * c->count) {
        halve(c);
        c->every *= 2;
    }
    return ++c->looks % c->every == 0;
}

static void sample_one(plb_cards *c, int i, double seconds, bool keep) {
    plb_command_sample kept = {.at_ns = c->last_ns + (int64_t)(seconds * 1e9), .card = i};
    const nvml *n = &c->nvml;
    plb_command_card *card = &c->card[i];
    nvml_memory memory;
    nvml_utilization utilization;
    unsigned milliwatts;
    const unsigned long long before_mj = c->last_mj[i];
    if (c->counts_energy[i]) n->energy(c->device[i], &c->last_mj[i]);
    if (n->power && n->power(c->device[i], &milliwatts) == 0) {
        double watts = milliwatts / 1e3;
        kept.watts = (float)watts;
        if (watts > card->watts_max) card->watts_max = watts;
        if (!c->counts_energy[i]) card->joules += watts * seconds;
    }
    c->since_kept_j[i] += c->counts_energy[i] ? (double)(c->last_mj[i] - before_mj) / 1e3
                                              : (double)kept.watts * seconds;
    if (c->since_kept_s > 0) kept.watts = (float)(c->since_kept_j[i] / c->since_kept_s);
    if (keep) c->since_kept_j[i] = 0;
    if (n->memory && n->memory(c->device[i], &memory) == 0) {
        kept.memory_bytes = (int64_t)memory.used;
        if (kept.memory_bytes > card->memory_max_bytes) card->memory_max_bytes = kept.memory_bytes;
    }
    if (n->utilization && n->utilization(c->device[i], &utilization) == 0) {
        kept.utilisation = (float)utilization.gpu / 100;
        c->utilisation_sum[i] += utilization.gpu / 100.0;
    }
    if (keep) c->sample[c->samples++] = kept;
    sample_clocks(n, c->device[i], card);
    card->samples++;
}

void plb_cards_sample(plb_cards *c) {
    if (!c) return;
    int64_t now_ns = plb_now_ns();
    double seconds = (double)(now_ns - c->last_ns) / 1e9;
    const bool keep = keep_look(c);
    c->since_kept_s += seconds;
    for (int i = 0; i < c->count; i++) sample_one(c, i, seconds, keep);
    if (keep) c->since_kept_s = 0;
    c->last_ns = now_ns;
}

void plb_cards_close(plb_cards *c, plb_command_result *out) {
    if (!c) return;
    plb_cards_sample(c);
    for (int i = 0; i < c->count; i++) {
        plb_command_card *card = &c->card[i];
        if (c->counts_energy[i]) card->joules = (double)(c->last_mj[i] - c->first_mj[i]) / 1e3;
        card->seconds = (double)(c->last_ns - c->begin_ns) / 1e9;
        if (card->samples) card->utilisation = c->utilisation_sum[i] / card->samples;
        out->card[i] = *card;
    }
    out->cards = c->count;
    out->samples = c->samples;
    memcpy(out->sample, c->sample, sizeof out->sample);
    c->nvml.shutdown();
    dlclose(c->library);
    plb_free(c);
}
