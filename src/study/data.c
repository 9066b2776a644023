// SPDX-License-Identifier: Apache-2.0
// The data of a part that trains: both splits in memory or in the cache's map, cut to the numbers
// that the part asks for. Where the set itself is missing, its stand-in is taken, and said.
#include <string.h>

#include "base/core/log.h"
#include "base/core/status.h"
#include "base/machine.h"
#include "data/cache.h"
#include "data/inspect.h"
#include "data/registry.h"
#include "data/subset.h"
#include "study/work.h"

static const uint64_t subset_seed = 1; // the same part for every seed of a training

static bool show_loading(void *context, const plb_progress_event *event) {
    plb_study *s = context;
    (void)event;
    return !(s->options.interrupted && s->options.interrupted(s->options.context));
}

// What is not in memory is decoded once into the cache, or, where there is none for it, drawn.
static plb_status take_in(plb_study *s, plb_dataset **set) {
    plb_progress progress = {.callback = show_loading, .context = s, .interval_ns = 100000000};
    plb_dataset *kept = NULL;
    const char *folder = plb_arena_printf(s->arena, "%s/data", s->cache);
    if (!folder) return plb_fail(PLB_ENOMEM, "out of memory for a study");
    PLB_TRY(plb_dataset_cache(set, folder, plb_machine_threads(), &progress));
    if ((*set)->ops->peek) return PLB_OK;
    PLB_TRY(plb_dataset_materialise(*set, plb_machine_threads(), &progress, &kept));
    plb_dataset_free(*set);
    *set = kept;
    return PLB_OK;
}

static void close_data(plb_study *s) {
    for (int split = 0; split < 2; split++) {
        plb_dataset_free(s->sets[split]);
        s->sets[split] = NULL;
    }
    s->data_of = NULL, s->data_note = NULL;
}

// A folder or tar file without parts is both of them.
static plb_status note_one_part(plb_study *s, const char *name) {
    static const char text[] = "no parts train and test: samples to test are among those to train";
    plb_log_line(PLB_LOG_WARN, "%s: has %s", name, text);
    s->data_note = s->data_note ? plb_arena_printf(s->arena, "%s; %s", s->data_note, text) : text;
    return s->data_note ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a study");
}

static plb_status open_both(plb_study *s, const plb_study_part *part, const char *name,
                            int64_t size) {
    const int64_t count[2] = {[PLB_TRAIN] = part->train_samples, [PLB_TEST] = part->test_samples};
    bool same;
    for (int split = 0; split < 2; split++) {
        plb_dataset_options options = {.size = size, .count = count[split]};
        PLB_TRY(plb_dataset_open(name, (plb_data_split)split, &options, &s->sets[split]));
    }
    PLB_TRY(plb_dataset_same_classes(s->sets[PLB_TRAIN], s->sets[PLB_TEST]));
    PLB_TRY(plb_dataset_same_source(s->sets[PLB_TRAIN], s->sets[PLB_TEST], &same));
    if (same) PLB_TRY(note_one_part(s, name));
    for (int split = 0; split < 2; split++) {
        PLB_TRY(take_in(s, &s->sets[split]));
        PLB_TRY(plb_dataset_subset(&s->sets[split], count[split], subset_seed));
    }
    return PLB_OK;
}

plb_status plb_study_open_data(plb_study *s, const plb_study_part *part) {
    if (s->data_of == part) return PLB_OK;
    close_data(s);
    plb_study_tell(s, NULL, "reading data");
    plb_status status = open_both(s, part, part->data, 0);
    if (status == PLB_EMISSING && part->stand_in) {
        close_data(s);
        s->data_note = plb_arena_printf(s->arena, "stand-in: %s, %s being missing", part->stand_in,
                                        part->data);
        status = open_both(s, part, part->stand_in, part->stand_in_size);
    }
    if (status) return status;
    if (s->sets[0]->info.height != s->sets[0]->info.width)
        return plb_fail(PLB_EUNSUPPORTED, "%s: expected square samples", part->data);
    s->data_of = part;
    return PLB_OK;
}
