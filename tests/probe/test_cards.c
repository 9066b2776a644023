// SPDX-License-Identifier: Apache-2.0
// What is kept of many looks at cards, which a fake NVML describes.
#include "probe/cards.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/core/alloc.h"
#include "base/machine_gpu.h"
#include "check.h"

// Looks at so many cards so often; what was kept must be whole looks, evenly far apart, from the
// first on.
static void check_looks(int cards, int looks) {
    char count[8];
    snprintf(count, sizeof count, "%d", cards);
    setenv("FAKE_CARDS", count, 1);
    plb_command_result *result = plb_alloc(sizeof *result);
    plb_cards *c = plb_cards_open();
    CHECK(result && c);
    if (!result || !c) return;
    for (int i = 0; i < looks; i++) plb_cards_sample(c);
    plb_cards_close(c, result);
    int kept = result->samples / cards;
    CHECK_SAY(result->cards == cards && result->samples % cards == 0 && kept > 0,
              "%d cards: %d samples", cards, result->samples);
    if (looks * cards > PLB_COMMAND_SAMPLES) // at least a third of the room is used
        CHECK_SAY(result->samples > PLB_COMMAND_SAMPLES / 3, "%d samples", result->samples);
    for (int i = 0; i < result->samples && !check_failures; i++) {
        const plb_command_sample *s = &result->sample[i], *first = s - i % cards;
        CHECK_SAY(s->card == i % cards && fabsf(s->watts - (float)(100 + s->card)) < 1e-3F &&
                      s->at_ns == first->at_ns && s->memory_bytes == 1000 + s->card,
                  "%d cards, %d looks: sample %d of card %d", cards, looks, i, s->card);
        if (i >= cards) CHECK(first->at_ns >= first[-1].at_ns); // clocks may be coarse
    }
    CHECK(result->sample[result->samples - 1].at_ns > result->sample[0].at_ns);
    for (int i = 0; i < cards; i++) CHECK(result->card[i].samples == looks + 1);
    plb_free(result);
}

static void whole_looks_are_kept(void) {
    static const int cards[] = {1, 2, 3, 5, 7, 8, 15, 16};
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        check_looks(cards[i], 10);
        check_looks(cards[i], 3000);
    }
}

static void one_look_says_how_busy_a_card_is(void) {
    setenv("FAKE_CARDS", "3", 1);
    CHECK(fabs(plb_machine_gpu_busy(0) - 0.20) < 1e-9 &&
          fabs(plb_machine_gpu_busy(2) - 0.22) < 1e-9);
    CHECK(plb_machine_gpu_busy(3) < 0); // there is no such card
    setenv("CUDA_VISIBLE_DEVICES", "2,0", 1);
    CHECK(fabs(plb_machine_gpu_busy(0) - 0.22) < 1e-9 &&
          fabs(plb_machine_gpu_busy(1) - 0.20) < 1e-9);
    CHECK(plb_machine_gpu_busy(2) < 0); // CUDA does not see it
    setenv("CUDA_VISIBLE_DEVICES", "GPU-0", 1);
    CHECK(plb_machine_gpu_busy(0) < 0); // a name that nobody has
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static const check_test tests[] = {
    {"whole_looks_are_kept", whole_looks_are_kept},
    {"one_look_says_how_busy_a_card_is", one_look_says_how_busy_a_card_is}};

int main(void) {
    // The loader gives the one that is loaded already to whoever asks for NVML by its name.
    if (!dlopen(FAKE_NVML, RTLD_NOW | RTLD_LOCAL)) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return check_main(tests, sizeof tests / sizeof *tests);
}
