// SPDX-License-Identifier: Apache-2.0
// Level replay's forms (replay.c) on a device made up here, whose captured work runs in any order
// that its dependencies allow: every order must compute what the steps compute one after the other,
// lanes must not be wider than a few, and the form that the device says is fastest must stay.
#include "base/core/alloc.h"
#include "check.h"
#include "engine/graph/plan.h"

enum { STEPS = 80, CELLS = 24, READS = 2, LANES_MOST = 4, CAPTURES = 3 };

static double cells[CELLS];

// ---------------------------------------------------------------------------- the device
struct plb_stream {
    int unused;
};
struct plb_event {
    const plb_capture *after; // what was replayed before it
};
struct plb_capture {
    int n, step[STEPS];
    bool behind[STEPS][STEPS]; // [i][j]: i waits for j, directly
};

static plb_capture *made[CAPTURES]; // in the order in which they were recorded
static int n_made;
static int64_t takes_ns[CAPTURES];
static const plb_capture *last_replayed;

static plb_capture *recording;
static int current[STEPS], n_current; // what the next step waits for

static plb_status begin(plb_stream *stream) {
    (void)stream;
    recording = plb_alloc(sizeof *recording);
    if (recording) *recording = (plb_capture){0};
    n_current = 0;
    return recording ? PLB_OK : PLB_ENOMEM;
}

static plb_status wait_after(plb_stream *stream, const plb_mark *marks, int n) {
    (void)stream;
    n_current = 0;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < marks[i].n; k++) current[n_current++] = (int)(intptr_t)marks[i].node[k];
    }
    return PLB_OK;
}

static plb_status mark(plb_stream *stream, plb_mark *out) {
    (void)stream;
    *out = (plb_mark){.n = n_current};
    for (int i = 0; i < n_current; i++) out->node[i] = (void *)(intptr_t)current[i];
    return PLB_OK;
}

static plb_status end(plb_stream *stream, plb_capture **out) {
    (void)stream;
    *out = recording;
    if (n_made < CAPTURES) made[n_made++] = recording;
    return PLB_OK;
}

static plb_status replay(plb_stream *stream, plb_capture *capture) {
    (void)stream;
    last_replayed = capture;
    return PLB_OK;
}

static int n_events, events_most = 1000; // alive; how many there may be

static plb_status event_new(plb_device *device, plb_event **out) {
    (void)device;
    *out = n_events < events_most ? plb_alloc(sizeof **out) : NULL;
    n_events += *out != NULL;
    return *out ? PLB_OK : PLB_ENOMEM;
}

static void event_free(plb_event *event) {
    n_events -= event != NULL;
    plb_free(event);
}

static plb_status note_event(plb_stream *stream, plb_event *event) {
    (void)stream;
    event->after = last_replayed;
    return PLB_OK;
}

static plb_status elapsed(const plb_event *from, const plb_event *to, int64_t *out_ns) {
    (void)from;
    for (int i = 0; i < n_made; i++) {
        if (to->after == made[i]) *out_ns = takes_ns[i];
    }
    return PLB_OK;
}

static void keep(plb_capture *capture) { // freed with the others, when a test has looked at it
    (void)capture;
}

static const plb_backend device = {.name = "made up",
                                   .capture_begin = begin,
                                   .capture_after = wait_after,
                                   .capture_mark = mark,
                                   .capture_end = end,
                                   .capture_free = keep,
                                   .replay = replay,
                                   .event_new = event_new,
                                   .event_free = event_free,
                                   .record = note_event,
                                   .elapsed_ns = elapsed};

// ---------------------------------------------------------------------------- the program
typedef struct work {
    int number, to, from[READS];
} work;

static work works[STEPS];
static plb_tensor tensors[STEPS][READS + 1];
static plb_step steps[STEPS];

static plb_status record_step(void *state, const plb_call *call, plb_stream *stream) {
    const int i = recording->n++;
    (void)call, (void)stream;
    recording->step[i] = ((const work *)state)->number;
    for (int k = 0; k < n_current; k++) recording->behind[i][current[k]] = true;
    current[0] = i, n_current = 1;
    return PLB_OK;
}

static void compute(const work *w) {
    double sum = 1 + 0.5 * w->number;
    for (int k = 0; k < READS; k++) sum += (0.3 + 0.1 * k) * cells[w->from[k]];
    cells[w->to] = sum;
}

static uint32_t random_state;
static int draw(int below) {
    random_state = random_state * 1664525u + 1013904223u;
    return (int)((random_state >> 8) % (uint32_t)below);
}

static void make_program(uint32_t seed) {
    const plb_shape one = plb_shape_of(1);
    random_state = seed;
    for (int i = 0; i < STEPS; i++) {
        works[i] = (work){.number = i, .to = draw(CELLS)};
        for (int k = 0; k < READS; k++) works[i].from[k] = draw(CELLS);
        for (int k = 0; k <= READS; k++) {
            const int cell = k < READS ? works[i].from[k] : works[i].to;
            tensors[i][k] = plb_tensor_dense(&cells[cell], PLB_F64, &one, (plb_layout){0});
        }
        steps[i] = (plb_step){
            .kind = PLB_STEP_LAUNCH,
            .launch = {.state = &works[i], .run = record_step},
            .call = {.n_in = READS, .n_out = 1, .in = tensors[i], .out = &tensors[i][READS]},
            .refused = ""};
    }
}

static void first_cells(void) {
    for (int i = 0; i < CELLS; i++) cells[i] = i;
}

// In an order drawn anew, but after what each waits for.
static void run_capture(const plb_capture *c) {
    bool done[STEPS] = {false};
    first_cells();
    for (int left = c->n; left > 0; left--) {
        int ready[STEPS], n = 0;
        for (int i = 0; i < c->n; i++) {
            bool waits = done[i];
            for (int j = 0; j < c->n; j++) waits = waits || (c->behind[i][j] && !done[j]);
            if (!waits) ready[n++] = i;
        }
        CHECK(n > 0);
        if (!n) return;
        const int next = ready[draw(n)];
        done[next] = true;
        compute(&works[c->step[next]]);
    }
}

// ---------------------------------------------------------------------------- width
// How many may run at once: as many as chains are needed to cover all (Dilworth), which is all less
// the largest matching of each with one behind it.
static bool reaches[STEPS][STEPS], seen[STEPS];
static int match[STEPS];

static bool find_match(int i, int n) {
    for (int j = 0; j < n; j++) {
        if (!reaches[j][i] || seen[j]) continue;
        seen[j] = true;
        if (match[j] >= 0 && !find_match(match[j], n)) continue;
        match[j] = i;
        return true;
    }
    return false;
}

static int width_of(const plb_capture *c) {
    int width = c->n;
    memcpy(reaches, c->behind, sizeof reaches);
    for (int k = 0; k < c->n; k++) {
        for (int i = 0; i < c->n; i++) {
            for (int j = 0; j < c->n && reaches[i][k]; j++) reaches[i][j] |= reaches[k][j];
        }
    }
    for (int i = 0; i < c->n; i++) match[i] = -1;
    for (int i = 0; i < c->n; i++) {
        memset(seen, 0, sizeof seen);
        width -= find_match(i, c->n);
    }
    return width;
}

// ---------------------------------------------------------------------------- tests
static plb_stream stream;

// The forms' times are given; the one that stays, or -1.
static int settle(const int64_t *times) {
    plb_plan plan = {.backend = &device, .stream = &stream, .steps = steps, .n_steps = STEPS};
    int best = -1;
    memcpy(takes_ns, times, sizeof takes_ns);
    n_made = 0;
    CHECK_OK(plb_replay_new(&plan));
    for (int i = 0; i < 100 && !plb_replay_settled(&plan); i++) CHECK_OK(plb_replay_run(&plan));
    CHECK(plb_replay_settled(&plan));
    for (int i = 0; i < n_made; i++) best = last_replayed == made[i] ? i : best;
    plb_replay_free(&plan);
    plb_strbuf_free(&plan.report);
    return best;
}

static void free_captures(void) {
    for (int i = 0; i < n_made; i++) plb_free(made[i]);
    n_made = 0;
}

static void forms_compute_the_same(void) {
    int widest = 0;
    for (uint32_t seed = 1; seed <= 6; seed++) {
        double want[CELLS];
        make_program(seed);
        first_cells();
        for (int i = 0; i < STEPS; i++) compute(&works[i]);
        memcpy(want, cells, sizeof want);
        settle((const int64_t[]){3, 2, 1});
        CHECK(n_made == CAPTURES);
        for (int f = 0; f < n_made; f++) {
            CHECK(made[f]->n == STEPS);
            for (int round = 0; round < 20; round++) {
                run_capture(made[f]);
                CHECK(memcmp(cells, want, sizeof want) == 0);
            }
        }
        CHECK(width_of(made[0]) == 1);
        CHECK_SAY(width_of(made[1]) <= LANES_MOST, "%d lanes", width_of(made[1]));
        if (width_of(made[2]) > widest) widest = width_of(made[2]);
        free_captures();
    }
    CHECK_SAY(widest > LANES_MOST, "no program is wider than lanes");
}

static void the_fastest_stays(void) {
    make_program(1);
    const struct {
        int64_t times[CAPTURES];
        int best;
    } cases[] = {{{1000, 2000, 3000}, 0},
                 {{2000, 1000, 3000}, 1},
                 {{2000, 1000, 999}, 1}, // branches so little faster are not worth their launch
                 {{2000, 1000, 900}, 2},
                 {{1000, 2000, 900}, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int best = settle(cases[i].times);
        CHECK_SAY(best == cases[i].best, "case %zu: form %d", i, best);
        free_captures();
    }
}

// Two chains: as lanes they are as branches, which are not recorded again.
static void narrow_programs_have_two_forms(void) {
    make_program(1);
    for (int i = 0; i < STEPS; i++) {
        works[i].to = i % 2;
        for (int k = 0; k <= READS; k++) tensors[i][k].data = &cells[i % 2];
        for (int k = 0; k < READS; k++) works[i].from[k] = i % 2;
    }
    const int best = settle((const int64_t[]){2000, 1000, 0});
    CHECK(n_made == 2 && best == 1);
    if (n_made == 2) CHECK(width_of(made[1]) == 2);
    free_captures();
}

// The first step reads cells 0 to 3, the last of them first; the second writes cell 0, and has to
// wait in every form.
static void flipped_views_are_read_whole(void) {
    make_program(1);
    const plb_shape four = plb_shape_of(4);
    plb_plan plan = {.backend = &device, .stream = &stream, .steps = steps, .n_steps = 2};
    for (int k = 0; k <= READS; k++) {
        tensors[0][k].data = &cells[5], tensors[1][k].data = &cells[k < READS ? 7 : 0];
    }
    tensors[0][0] = plb_tensor_dense(&cells[3], PLB_F64, &four, (plb_layout){0});
    tensors[0][0].stride[0] = -1;
    n_made = 0;
    CHECK_OK(plb_replay_new(&plan));
    for (int i = 0; i < 100 && !plb_replay_settled(&plan); i++) CHECK_OK(plb_replay_run(&plan));
    CHECK(n_made > 0);
    for (int i = 0; i < n_made; i++) CHECK_SAY(made[i]->behind[1][0], "form %d", i);
    plb_replay_free(&plan);
    plb_strbuf_free(&plan.report);
    free_captures();
}

static void a_device_short_of_events_gets_all_back(void) {
    make_program(1);
    for (events_most = 0; events_most < 4; events_most++) {
        plb_plan plan = {.backend = &device, .stream = &stream, .steps = steps, .n_steps = STEPS};
        n_made = 0;
        CHECK(plb_replay_new(&plan) == PLB_ENOMEM);
        CHECK_SAY(n_events == events_most, "%d of %d", n_events, events_most);
        plb_replay_free(&plan);
        CHECK_SAY(n_events == 0, "%d of %d events stayed", n_events, events_most);
        plb_strbuf_free(&plan.report);
        free_captures();
    }
    events_most = 1000;
}

static const check_test tests[] = {
    {"forms compute the same", forms_compute_the_same},
    {"the fastest stays", the_fastest_stays},
    {"narrow programs have two forms", narrow_programs_have_two_forms},
    {"flipped views are read whole", flipped_views_are_read_whole},
    {"a device short of events gets all back", a_device_short_of_events_gets_all_back},
};

CHECK_MAIN(tests)
