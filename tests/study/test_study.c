// SPDX-License-Identifier: Apache-2.0
// Studies without workers: how a file is read and what is wrong with it, the store's rows, and the
// report, whose findings must follow the numbers.
#include "store/study.h"
#include "study/document.h"
#include "study/spec.h"

#include <jansson.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"

static const char text[] =
    "name: tiny\n"
    "title: A tiny study\n"
    "findings: [c_accuracy, order_of_magnitude, cpu_threads, table1, initialisation]\n"
    "parts:\n"
    "  - name: train\n"
    "    kind: train\n"
    "    models: mnist_cnn\n"
    "    data: digits\n"
    "    stand_in: shapes\n"
    "    stacks: [torch-eager, plumb-plan]\n"
    "    devices: cpu\n"
    "    threads: [1..4, all]\n"
    "    seeds: [1, 2]\n"
    "    batch: 64\n"
    "    lr: 0.05\n"
    "  - name: sizes\n"
    "    kind: sweep\n"
    "    models: resnet18\n"
    "    stacks: [torch-eager, plumb-plan]\n"
    "    devices: cpu\n"
    "    batch: 2\n"
    "    size: 8..32\n"
    "  - name: again\n"
    "    kind: sweep\n"
    "    models: resnet18\n"
    "    stacks: [torch-eager, plumb-plan]\n"
    "    devices: cpu\n"
    "    batch: 2\n"
    "    size: 8\n"
    "quick:\n"
    "  parts:\n"
    "    - name: train\n"
    "      seeds: 7\n"
    "      epochs: 3\n";

static plb_status parse(const char *yaml, const plb_spec_options *options, plb_study_spec *out) {
    static plb_arena *arena;
    plb_arena_free(arena);
    arena = plb_arena_new();
    return plb_study_spec_parse(yaml, strlen(yaml), "tiny.yaml", options, arena, out);
}

static void a_file_becomes_parts(void) {
    plb_study_spec spec;
    plb_spec_options options = {0};
    CHECK_OK(parse(text, &options, &spec));
    CHECK(!strcmp(spec.name, "tiny") && spec.part_count == 3 && spec.findings.count == 5);
    const plb_study_part *train = &spec.parts[0], *sizes = &spec.parts[1];
    CHECK(train->kind == PLB_PART_TRAIN && !strcmp(train->data, "digits") && train->epochs == 1);
    CHECK(train->threads.count == 4 && train->threads.value[2] == 4 &&
          train->threads.value[3] == 0);
    CHECK(train->seeds.count == 2 && train->stacks.count == 2 && train->lr == 0.05);
    CHECK(train->batch.count == 1 && train->batch.value[0] == 64 && train->line == 5);
    CHECK(sizes->kind == PLB_PART_SWEEP && sizes->size.count == 3 && sizes->size.value[2] == 32);
    CHECK(!strcmp(sizes->tasks.word[0], "infer") && !strcmp(sizes->regions.word[0], "latency"));
}

static void quick_and_set_change_values(void) {
    plb_study_spec spec;
    plb_spec_options options = {.quick = true,
                                .set = "parts.train.stacks=[plumb-plan];parts.sizes.size=16..32;"
                                       "parts.train.crop=2",
                                .devices = "cpu,cuda"};
    CHECK_OK(parse(text, &options, &spec));
    CHECK(spec.parts[0].seeds.count == 1 && spec.parts[0].seeds.value[0] == 7);
    CHECK(spec.parts[0].epochs == 3 && spec.parts[0].stacks.count == 1 && spec.parts[0].crop == 2);
    CHECK(spec.parts[1].size.count == 2 && spec.parts[1].devices.count == 2);
    CHECK(!strcmp(spec.parts[1].devices.word[1], "cuda"));
}

static void parts_are_chosen_by_name(void) {
    plb_study_spec spec;
    plb_spec_options options = {.only = "sizes,train"};
    CHECK_OK(parse(text, &options, &spec));
    CHECK(spec.part_count == 2 && !strcmp(spec.parts[0].name, "train") &&
          !strcmp(spec.parts[1].name, "sizes"));
    CHECK(!strcmp(spec.text, text)); // the file is the same, whatever of it is wanted
    options.only = "train,sices";
    CHECK_FAILS(PLB_EINVAL, "--only: tiny has no part sices; did you mean sizes?",
                parse(text, &options, &spec));
    options.only = ",";
    CHECK_FAILS(PLB_EINVAL, "expected names of parts", parse(text, &options, &spec));
}

// `from` of the file replaced by `to`.
static const char *with(const char *from, const char *to) {
    static char changed[2 * sizeof text];
    const char *at = strstr(text, from);
    CHECK_SAY(at != NULL, "%s", from);
    if (!at) return text;
    snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return changed;
}

static void mistakes_are_named_with_line_and_key(void) {
    static const struct {
        const char *from, *to, *words;
    } cases[] = {
        {"seeds: [1", "seedz: [1", "tiny.yaml, line 13: no key seedz; did you mean seeds?"},
        {"title:", "titel:", "tiny.yaml, line 2: no key titel; did you mean title?"},
        {"lr: 0.05", "lr: fast", "tiny.yaml, line 15: lr: expected a number, found fast"},
        {"batch: 64", "batch: 0", "tiny.yaml, line 14: batch: expected batches from 1, found 0"},
        {"batch: 64", "batch: -3", "line 14: batch: expected a whole number from 0, found -3"},
        {"kind: sweep", "kind: swoop", "line 17: kind: expected train or sweep, found swoop"},
        {"    data: digits\n", "", "line 5: the part train has no data"},
        {"    size: 8..32\n", "", "line 16: the part sizes has no size"},
        {"stacks: [torch-eager, plumb-plan]", "stacks: {a: b}", "line 10: stacks: expected a list"},
        {"name: tiny", "name: [tiny", "tiny.yaml, line 2: YAML: "},
        {"[c_accuracy,", "[c_acuracy,",
         "tiny.yaml: findings: there is no c_acuracy; did you mean c_accuracy?"},
        {"- name: again", "- name: sizes",
         "line 23: name: expected a name that no other part has, found sizes"},
        {"seeds: 7", "seeds: 7\n      seeds: 8", "line 34: the key seeds is there twice"},
        {"    - name: train\n      seeds: 7", "    - name: trian\n      seeds: 7",
         "line 32: there is no trian to change"},
    };
    plb_study_spec spec;
    plb_spec_options options = {.quick = true};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK_FAILS(PLB_EINVAL, cases[i].words,
                    parse(with(cases[i].from, cases[i].to), &options, &spec));
    static const char *const inputs[][2] = {
        {"[3, size]", "line 16: input: expected a list that begins with batch"},
        {"[batch, width]", "line 16: input: expected size or numbers from 1 behind batch"},
        {"[batch, 0]", "line 16: input: expected size or numbers from 1 behind batch"}};
    for (int i = 0; i < 3; i++) {
        char line[80];
        snprintf(line, sizeof line, "    kind: sweep\n    input: %s\n", inputs[i][0]);
        CHECK_FAILS(PLB_EINVAL, strchr(inputs[i][1], ':') + 2,
                    parse(with("    kind: sweep\n", line), &options, &spec));
    }
    plb_spec_options wrong = {.set = "parts.train.lr=1;parts.trian.lr=1"};
    CHECK_FAILS(PLB_EINVAL, "--set parts.trian.lr: no key trian; did you mean train?",
                parse(text, &wrong, &spec));
    wrong.set = "parts.train.lrr=1";
    CHECK_FAILS(PLB_EINVAL, "no key lrr; did you mean lr?", parse(text, &wrong, &spec));
    wrong.set = "parts";
    CHECK_FAILS(PLB_EINVAL, "expected key=value", parse(text, &wrong, &spec));
    CHECK_FAILS(PLB_EINVAL, "expected a document, found none", parse("", &options, &spec));
}

static void the_studies_that_come_along_are_right(void) {
    static const char *const names[] = {"studies/levels.yaml", "studies/threads.yaml"};
    for (int i = 0; i < 4; i++) {
        plb_arena *arena = plb_arena_new();
        plb_spec_options options = {.quick = i % 2};
        plb_study_spec spec;
        CHECK_OK(plb_study_spec_open(names[i / 2], "", &options, arena, &spec));
        CHECK(spec.part_count >= 3 && spec.findings.count && spec.deviations.count && spec.origin);
        plb_arena_free(arena);
    }
}

static void allocation_failures_are_told(void) {
    plb_arena *arena = plb_arena_new();
    plb_study_spec spec;
    plb_spec_options options = {.quick = true};
    int failed = 0;
    for (int n = 1; n < 100; n++) {
        int left = n;
        plb_arena *small = plb_arena_new();
        plb_alloc_set_hook(fault_count_down, &left);
        plb_status status =
            plb_study_spec_parse(text, strlen(text), "tiny.yaml", &options, small, &spec);
        plb_alloc_set_hook(NULL, NULL);
        plb_arena_free(small);
        CHECK(status == PLB_OK || status == PLB_ENOMEM);
        if (status == PLB_OK) break;
        failed++;
    }
    CHECK(failed > 0);
    plb_arena_free(arena);
}

// ---------------------------------------------------------------------------- the store, the page
static plb_store *store;
static int64_t run;

static const char *fingerprint = "{}";

static void open_store_with(const char *options) {
    char path[128];
    snprintf(path, sizeof path, "%s/plumb.db", fault_folder());
    const plb_store_new_run new = {.label = "study tiny",
                                   .command = "plumb study tiny",
                                   .machine = "{\"cpu\":\"a\"}",
                                   .fingerprint = fingerprint};
    CHECK_OK(plb_store_open(path, &store));
    CHECK_OK(plb_store_begin_run(store, &new, &run));
    CHECK_OK(plb_store_begin_study(store, run, "tiny", text, options));
}

static void open_store(void) {
    open_store_with("{\"quick\":false,\"set\":null}");
}

static void close_store(void) {
    char folder[128];
    snprintf(folder, sizeof folder, "%s", plb_store_path(store));
    *strrchr(folder, '/') = '\0';
    plb_store_close(store);
    fault_folder_remove(folder);
}

// A training that took `seconds` an epoch and ended at an accuracy.
static int tested = 100; // samples of each training
static int beside = 1;   // trainings at a time

static void put_training(const char *stack, int threads, int seed, double seconds, double accuracy,
                         double first_step) {
    char keys[400], results[1200];
    snprintf(keys, sizeof keys,
             "{\"kind\":\"train\",\"model\":\"mnist_cnn\",\"stack\":\"%s\",\"device\":\"cpu\","
             "\"threads\":%d,\"batch\":64,\"data\":\"digits\",\"seed\":%d}",
             stack, threads, seed);
    snprintf(
        results, sizeof results,
        "{\"train_samples\":640,\"test_samples\":%d,\"size\":28,\"majority\":0.11,"
        "\"beside\":%d,\"epochs\":[{\"test_loss\":2.3,\"test_accuracy\":0.1},{\"train_loss\":0.5,"
        "\"train_accuracy\":0.8,\"test_loss\":0.4,\"test_accuracy\":%g,\"train_s\":%g,"
        "\"handover_s\":0.1}],\"steps\":[%g,2.0,1.5]}",
        tested, beside, accuracy, seconds, first_step);
    const plb_study_item_row row = {"train", keys, "ok", NULL, results};
    CHECK_OK(plb_store_put_item(store, run, &row));
}

static void put_cell_of(const char *part, const char *stack, int size, double median_ns,
                        const char *outcome) {
    char keys[400], results[400];
    snprintf(keys, sizeof keys,
             "{\"kind\":\"sweep\",\"model\":\"resnet18\",\"stack\":\"%s\",\"device\":\"cpu\","
             "\"threads\":2,\"batch\":2,\"task\":\"infer\",\"size\":%d,\"region\":\"latency\"}",
             stack, size);
    snprintf(results, sizeof results,
             "{\"median_ns\":%g,\"low_ns\":%g,\"high_ns\":%g,\"samples\":9,\"memory\":{"
             "\"planned_bytes\":1000,\"devices\":[]}}",
             median_ns, median_ns, median_ns);
    bool ok = !strcmp(outcome, "ok");
    const plb_study_item_row row = {part, keys, outcome, ok ? NULL : "why", ok ? results : NULL};
    CHECK_OK(plb_store_put_item(store, run, &row));
}

static void put_cell(const char *stack, int size, double median_ns, const char *outcome) {
    put_cell_of("sizes", stack, size, median_ns, outcome);
}

static void rows_come_back_in_order(void) {
    plb_arena *arena = plb_arena_new();
    plb_study_row study;
    plb_study_item_row *items;
    size_t count = 0;
    open_store();
    put_cell("b", 8, 1, "left-out");
    put_cell("a", 8, 2, "ok");
    put_cell("b", 8, 3, "ok"); // tried again
    CHECK_OK(plb_store_items(store, run, arena, &items, &count));
    CHECK(count == 2 && strstr(items[0].keys, "\"b\"") && !strcmp(items[0].outcome, "ok"));
    CHECK(!items[0].reason && strstr(items[0].results, "\"median_ns\":3"));
    CHECK_OK(plb_store_find_study(store, 0, "tiny", arena, &study));
    CHECK(study.run == run && !strcmp(study.spec, text));
    CHECK_FAILS(PLB_EMISSING, "no study huge",
                plb_store_find_study(store, 0, "huge", arena, &study));
    CHECK_FAILS(PLB_EMISSING, "run 99 is no study",
                plb_store_find_study(store, 99, NULL, arena, &study));
    plb_arena_free(arena);
    close_store();
}

// Of several processes that run one run, only one does an item.
static void an_item_is_taken_once(void) {
    const char keys[] = "{\"stack\":\"a\"}";
    plb_study_item_row row = {"train", keys, "running", "- 1 1", NULL}; // a process that is gone
    bool taken = false;
    open_store();
    CHECK_OK(plb_store_put_item(store, run, &row));
    CHECK_OK(plb_store_take_item(store, run, "train", keys, &taken));
    CHECK(taken);
    CHECK_OK(plb_store_take_item(store, run, "train", keys, &taken));
    CHECK(!taken); // we have it, and live
    CHECK_OK(plb_store_take_item(store, run, "again", keys, &taken));
    CHECK(taken); // another part's
    row.outcome = "ok", row.reason = NULL;
    CHECK_OK(plb_store_put_item(store, run, &row));
    CHECK_OK(plb_store_take_item(store, run, "train", keys, &taken));
    CHECK(!taken);
    row.outcome = "left-out", row.reason = "interrupted after 1 of 2 epochs";
    CHECK_OK(plb_store_put_item(store, run, &row));
    CHECK_OK(plb_store_take_item(store, run, "train", keys, &taken));
    CHECK(taken);
    close_store();
}

// The document as Markdown.
static char *page(void) {
    plb_document *document = NULL;
    plb_strbuf out = {0};
    CHECK_OK(plb_study_document(store, run, &document));
    if (!document) return plb_strdup("");
    CHECK_OK(plb_document_markdown(document, &out));
    plb_document_free(document);
    return out.text ? out.text : plb_strdup("");
}

#define CHECK_PAGE(words) CHECK_SAY(strstr(said, words), "no \"%s\" in:\n%s", words, said)

static void findings_follow_the_numbers(void) {
    open_store();
    put_training("torch-eager", 1, 1, 8, 0.90, 2.3),
        put_training("torch-eager", 1, 2, 8, 0.92, 2.3);
    put_training("torch-eager", 4, 1, 2.5, 0.91, 2.3);
    put_training("plumb-plan", 1, 1, 4, 0.89, 2.3), put_training("plumb-plan", 1, 2, 4, 0.92, 2.3);
    put_cell("torch-eager", 8, 9e6, "ok"), put_cell("plumb-plan", 8, 1e6, "ok");
    put_cell("torch-eager", 32, 12e6, "ok"), put_cell("plumb-plan", 32, 10e6, "ok");
    put_cell("torch-eager", 16, 0, "oom");
    char *said = page();
    CHECK_PAGE("**REFUTED**: The C level trains to a poorer accuracy.");
    CHECK_PAGE("torch-eager 91.0 % (90.0 to 92.0), plumb-plan 90.5 % (89.0 to 92.0)");
    CHECK_PAGE("**REPRODUCED**: PyTorch is almost an order of magnitude slower");
    CHECK_PAGE("in the middle one of 2 cells of equal batch and size (1.20 to 9.00)");
    CHECK_PAGE("**REPRODUCED**: The gap narrows");
    CHECK_PAGE("9.00 times at the smallest cell, 1.20 times at the largest");
    CHECK_PAGE("**REPRODUCED**: All threads beat one on the CPU");
    CHECK_PAGE("4 threads are 3.20 times as fast as 1");
    CHECK_PAGE("oom");
    CHECK_PAGE("9 of 10 items have numbers");
    plb_free(said);
    close_store();
}

static void other_numbers_give_other_findings(void) {
    open_store();
    put_training("torch-eager", 1, 1, 8, 0.90, 2.3), put_training("plumb-plan", 1, 1, 4, 0.50, 2.4);
    put_cell("torch-eager", 8, 2e6, "ok"), put_cell("plumb-plan", 8, 1e6, "ok");
    put_cell("torch-eager", 32, 24e6, "ok"), put_cell("plumb-plan", 32, 10e6, "ok");
    char *said = page();
    CHECK_PAGE("**REPRODUCED**: The C level trains to a poorer accuracy.");
    CHECK_PAGE("**REFUTED**: PyTorch is almost an order of magnitude slower");
    CHECK_PAGE("**REFUTED**: The gap narrows");
    CHECK_PAGE("**OPEN**: All threads beat one on the CPU");
    CHECK_PAGE("| plumb-plan | torch-eager | 3 | 1 |"); // parted at the first of three steps
    CHECK_SAY(!strstr(said, "has a mistake"), "%s", said);
    plb_free(said);
    close_store();
}

// A few points between one seed and one seed are no finding; between two and two they are.
static void few_seeds_leave_a_small_difference_open(void) {
    open_store();
    tested = 10000;
    put_training("torch-eager", 1, 1, 8, 0.90, 2.3), put_training("plumb-plan", 1, 1, 4, 0.87, 2.4);
    char *said = page();
    CHECK_PAGE("**OPEN**: The C level trains to a poorer accuracy.");
    CHECK_PAGE("More seeds would have to say");
    CHECK_SAY(!strstr(said, "the other stacks"), "%s", said);
    plb_free(said);
    put_training("torch-eager", 1, 2, 8, 0.90, 2.3), put_training("plumb-plan", 1, 2, 4, 0.87, 2.4);
    put_training("libtorch", 1, 1, 8, 0.905, 2.3), put_training("plumb-interp", 1, 1, 8, 0.86, 2.3);
    said = page();
    CHECK_PAGE("**REPRODUCED**: The C level trains to a poorer accuracy.");
    CHECK_PAGE("libtorch 90.5 % (90.5 to 90.5, 1 seed), plumb-interp 86.0 % (86.0 to 86.0, 1 seed) "
               "(!). The marked ones lie outside what");
    plb_free(said);
    tested = 100;
    close_store();
}

// 14 % where the commonest class has 11 %, and chance in 100 samples twice 3.1 %, is not learnt.
static void what_has_not_learnt_shows_nothing(void) {
    open_store();
    put_training("torch-eager", 1, 1, 8, 0.14, 2.3), put_training("plumb-plan", 1, 1, 4, 0.12, 2.4);
    char *said = page();
    CHECK_PAGE("**OPEN**: The C level trains to a poorer accuracy.");
    CHECK_PAGE("Neither does better than that yet: longer training would have to say.");
    CHECK_SAY(!strstr(said, "has a mistake"), "%s", said);
    plb_free(said);
    close_store();
    open_store(); // one that has not and one that has
    put_training("torch-eager", 1, 1, 8, 0.60, 2.3), put_training("plumb-plan", 1, 1, 4, 0.12, 2.4);
    said = page();
    CHECK_PAGE("**REPRODUCED**: The C level trains to a poorer accuracy.");
    plb_free(said);
    close_store();
}

// Student's test with the spread of all stacks: 0.5 % over three seeds of three stacks, 6 degrees
// of freedom, allows 2.447 x 0.005 x sqrt(2 / 3) = 1.0 %.
static void noise_is_what_seeds_differ_by(void) {
    open_store();
    tested = 1000000; // chance in the samples stays below what seeds differ by
    static const double off[3] = {-0.005, 0, 0.005};
    for (int seed = 1; seed <= 3; seed++) {
        put_training("torch-eager", 1, seed, 8, 0.900 + off[seed - 1], 2.3);
        put_training("plumb-plan", 1, seed, 4, 0.891 + off[seed - 1], 2.3);
        put_training("libtorch", 1, seed, 8, 0.889 + off[seed - 1], 2.3);
    }
    char *said = page();
    CHECK_PAGE("| plumb-plan | torch-eager | 3 | 89.1 % | -0.900 % | 0.999 % | **within noise** |");
    CHECK_PAGE("| libtorch | torch-eager | 3 | 88.9 % | -1.10 % | 0.999 % | **apart** |");
    CHECK_PAGE("(standard deviation 0.50 %, 6 degrees of freedom)");
    CHECK_PAGE("**REFUTED**: The C level trains to a poorer accuracy.");
    CHECK_PAGE("libtorch 88.9 % (88.4 to 89.4, 3 seeds) (!)");
    plb_free(said);
    tested = 100;
    close_store();
}

// That our stacks begin alike says nothing of PyTorch's weights.
static void first_losses_are_of_other_stacks_too(void) {
    open_store();
    put_training("plumb-interp", 1, 1, 8, 0.9, 2.3), put_training("plumb-plan", 1, 1, 4, 0.9, 2.4);
    char *said = page();
    CHECK_PAGE("**OPEN**: PyTorch initialises silently");
    plb_free(said);
    put_training("torch-eager", 1, 1, 8, 0.9, 2.3);
    said = page();
    CHECK_PAGE("test losses of 3 trainings (train) lie between 2.300000 and 2.300000");
    plb_free(said);
    close_store();
}

static void threads_are_refuted_on_an_idle_machine_alone(void) {
    for (int busy = 0; busy < 2; busy++) {
        fingerprint = busy ? "{\"state\":{\"others_cpus\":1.5}}" : "{}";
        open_store();
        put_training("torch-eager", 1, 1, 4, 0.9, 2.3),
            put_training("torch-eager", 2, 1, 9, 0.9, 2.3);
        char *said = page();
        if (busy)
            CHECK_PAGE("**OPEN**: All threads beat one on the CPU (stated: 1.63 times, threads");
        else
            CHECK_PAGE("**REFUTED**: All threads beat one on the CPU");
        CHECK(busy == !!strstr(said, "others kept processors busy"));
        plb_free(said);
        close_store();
    }
    fingerprint = "{}";
}

// Of four epochs.
static void put_epochs(const char *stack, const char *outcome, int epochs) {
    char keys[300], results[800];
    snprintf(keys, sizeof keys,
             "{\"kind\":\"train\",\"model\":\"mnist_cnn\",\"stack\":\"%s\",\"device\":\"cpu\","
             "\"threads\":1,\"batch\":64,\"data\":\"digits\",\"seed\":1}",
             stack);
    int n =
        snprintf(results, sizeof results,
                 "{\"train_samples\":640,\"test_samples\":100,\"majority\":0.11,\"epochs\":[{}");
    for (int e = 1; e <= epochs; e++)
        n += snprintf(results + n, sizeof results - (size_t)n,
                      ",{\"test_accuracy\":%g,\"train_s\":1}", 0.5 + 0.1 * e);
    snprintf(results + n, sizeof results - (size_t)n, "]}");
    const char *reason = strcmp(outcome, "ok") ? "interrupted" : NULL;
    const plb_study_item_row row = {"train", keys, outcome, reason, results};
    CHECK_OK(plb_store_put_item(store, run, &row));
}

// What was cut off is compared where all have come to; what had hardly begun is not.
static void trainings_that_were_cut_off_are_compared_where_all_are(void) {
    open_store_with("{\"quick\":false,\"set\":\"parts.train.epochs=4\"}");
    put_epochs("torch-eager", "left-out", 3), put_epochs("plumb-plan", "ok", 4);
    put_epochs("libtorch", "left-out", 1);
    char *said = page();
    CHECK_PAGE("ends are those after epoch 3, the last one that all have");
    CHECK_PAGE("after 3 epochs: torch-eager 80.0 % (80.0 to 80.0), plumb-plan 80.0 %");
    CHECK_PAGE("1 of 3 items have numbers");
    CHECK_SAY(!strstr(said, "libtorch, torch"), "%s", said);
    plb_free(said);
    close_store();
}

static int epochs_kept(const char *stack) {
    plb_study_item_row *rows;
    size_t count = 0;
    int epochs = -1;
    plb_arena *arena = plb_arena_new();
    CHECK_OK(plb_store_items(store, run, arena, &rows, &count));
    for (size_t i = 0; i < count; i++) {
        if (!strstr(rows[i].keys, stack)) continue;
        json_t *results = json_loads(rows[i].results ? rows[i].results : "{}", 0, NULL);
        epochs = (int)json_array_size(json_object_get(results, "epochs")) - 1;
        json_decref(results);
    }
    plb_arena_free(arena);
    return epochs;
}

// What does not end takes nothing from an attempt that came further; what ends is what counts.
static void attempts_keep_the_longer_training(void) {
    open_store_with("{\"quick\":false,\"set\":\"parts.train.epochs=4\"}");
    put_epochs("libtorch", "left-out", 2);
    plb_arena *arena = plb_arena_new();
    plb_study_item_row *rows, row;
    size_t count = 0;
    bool taken = false;
    CHECK_OK(plb_store_items(store, run, arena, &rows, &count));
    CHECK_OK(plb_store_take_item(store, run, rows[0].part, rows[0].keys, &taken));
    CHECK(taken && epochs_kept("libtorch") == 2); // under way once more
    row = rows[0], row.outcome = "left-out", row.reason = "no time", row.results = NULL;
    CHECK_OK(plb_store_put_item(store, run, &row));
    CHECK(epochs_kept("libtorch") == 2);
    char *said = page();
    CHECK_PAGE("no time; epochs that are kept: 2");
    plb_free(said);
    put_epochs("libtorch", "left-out", 1);
    CHECK(epochs_kept("libtorch") == 2);
    put_epochs("libtorch", "left-out", 3);
    CHECK(epochs_kept("libtorch") == 3);
    put_epochs("libtorch", "ok", 2);
    CHECK(epochs_kept("libtorch") == 2);
    plb_arena_free(arena);
    close_store();
}

// A machine may be busier when a run is taken up again than it was when the run began.
static void a_run_in_pieces_is_judged_by_its_busiest(void) {
    const plb_store_new_run again = {.command = "plumb study tiny --resume --only sizes",
                                     .machine = "{\"cpu\":\"a\"}",
                                     .fingerprint = "{\"state\":{\"others_cpus\":1.5}}"};
    open_store();
    put_training("torch-eager", 1, 1, 4, 0.9, 2.3), put_training("torch-eager", 2, 1, 9, 0.9, 2.3);
    CHECK_OK(plb_store_end_run(store, run, "interrupted", NULL));
    CHECK_OK(plb_store_resume_run(store, run, &again));
    CHECK_OK(plb_store_end_run(store, run, "done", NULL));
    char *said = page();
    CHECK_PAGE("**OPEN**: All threads beat one on the CPU (stated: 1.63 times, threads");
    CHECK_PAGE("kept 1.5 processors busy when the run began or was taken up again");
    CHECK_PAGE("\nplumb study tiny\nplumb study tiny --resume --only sizes\n");
    CHECK_PAGE("| sizes |  |  |  | **not run** | no item of this part was begun |");
    CHECK_SAY(!strstr(said, "| train |  |"), "%s", said);
    plb_free(said);
    close_store();
}

static void times_of_trainings_side_by_side_are_left_out(void) {
    open_store();
    beside = 3;
    for (int threads = 1; threads <= 4; threads += 3) {
        put_training("torch-eager", threads, 1, 8.25 / threads, 0.90, 2.3);
        put_training("plumb-plan", threads, 1, 8.25 / threads, 0.90, 2.3);
    }
    beside = 1;
    char *said = page();
    CHECK_PAGE("Up to 3 trainings went on side by side");
    CHECK_PAGE("**OPEN**: All threads beat one on the CPU");
    CHECK_PAGE("torch-eager: it trained side by side, in times that do not count.");
    CHECK_PAGE("90.0 %");
    CHECK_SAY(!strstr(said, "8.25") && !strstr(said, "Time of one epoch"), "%s", said);
    plb_free(said);
    close_store();
}

// The machine may have been another one when a part came to the same cell again.
static void cells_are_compared_within_their_part(void) {
    open_store();
    put_cell("torch-eager", 8, 9e6, "ok"), put_cell("plumb-plan", 8, 1e6, "ok");
    put_cell_of("again", "torch-eager", 8, 80e6, "ok");
    put_cell_of("again", "plumb-plan", 8, 10e6, "ok");
    char *said = page();
    CHECK_PAGE("in the middle one of 2 cells of equal batch and size (8.00 to 9.00)");
    plb_free(said);
    close_store();
}

static void put_throughput(const char *stack, int batch, double median_ns) {
    char keys[400], results[100];
    snprintf(keys, sizeof keys,
             "{\"kind\":\"sweep\",\"model\":\"resnet18\",\"stack\":\"%s\",\"device\":\"cpu\","
             "\"threads\":2,\"batch\":%d,\"task\":\"train\",\"size\":8,\"region\":\"latency\"}",
             stack, batch);
    snprintf(results, sizeof results, "{\"median_ns\":%g}", median_ns);
    const plb_study_item_row row = {"again", keys, "ok", NULL, results};
    CHECK_OK(plb_store_put_item(store, run, &row));
}

static void throughputs_are_of_equal_work(void) {
    open_store();
    put_throughput("torch-eager", 2, 1e9), put_throughput("plumb-plan", 64, 1e9);
    char *said = page();
    CHECK_SAY(!strstr(said, "Table 1's throughputs"), "%s", said); // nothing to set beside it
    plb_free(said);
    put_throughput("plumb-plan", 2, 5e8);
    said = page();
    CHECK_PAGE("batch 2 at 8: torch-eager 2 samples/s, plumb-plan 4.");
    plb_free(said);
    close_store();
}

static void put_trainings(const char *note) {
    char results[400];
    snprintf(results, sizeof results,
             "{\"train_samples\":640,\"test_samples\":100,\"size\":28,\"majority\":0.11,"
             "\"data_note\":\"%s\",\"epochs\":[{},{\"test_accuracy\":0.5,\"train_s\":1}],"
             "\"steps\":[]}",
             note);
    for (int k = 0; k < 2; k++) {
        char keys[300];
        snprintf(keys, sizeof keys,
                 "{\"kind\":\"train\",\"model\":\"mnist_cnn\",\"stack\":\"%s\",\"device\":"
                 "\"cpu\",\"threads\":1,\"batch\":64,\"data\":\"digits\",\"seed\":1}",
                 k ? "plumb-plan" : "torch-eager");
        const plb_study_item_row row = {"train", keys, "ok", NULL, results};
        CHECK_OK(plb_store_put_item(store, run, &row));
    }
}

static void a_stand_in_is_named_with_its_part(void) {
    open_store();
    put_trainings("no parts"); // another note: the data itself
    char *said = page();
    CHECK_PAGE("Data: digits (no parts);");
    CHECK_SAY(!strstr(said, "stand-in"), "%s", said);
    plb_free(said);
    close_store();
    open_store();
    put_trainings("stand-in: shapes, digits being missing");
    said = page();
    CHECK_PAGE("## train (stand-in: shapes)");
    CHECK_PAGE("to a poorer accuracy. train (stand-in: shapes) (mnist");
    plb_free(said);
    close_store();
}

static void an_empty_study_has_a_page(void) {
    open_store();
    char *said = page();
    CHECK_PAGE("0 of 0 items have numbers");
    CHECK_PAGE("Nothing of this part was measured.");
    CHECK_PAGE("**OPEN**: The C level");
    plb_free(said);
    close_store();
}

static const check_test tests[] = {
    {"a_file_becomes_parts", a_file_becomes_parts},
    {"quick_and_set_change_values", quick_and_set_change_values},
    {"parts_are_chosen_by_name", parts_are_chosen_by_name},
    {"mistakes_are_named_with_line_and_key", mistakes_are_named_with_line_and_key},
    {"the_studies_that_come_along_are_right", the_studies_that_come_along_are_right},
    {"allocation_failures_are_told", allocation_failures_are_told},
    {"rows_come_back_in_order", rows_come_back_in_order},
    {"an_item_is_taken_once", an_item_is_taken_once},
    {"noise_is_what_seeds_differ_by", noise_is_what_seeds_differ_by},
    {"first_losses_are_of_other_stacks_too", first_losses_are_of_other_stacks_too},
    {"threads_are_refuted_on_an_idle_machine_alone", threads_are_refuted_on_an_idle_machine_alone},
    {"trainings_that_were_cut_off_are_compared_where_all_are",
     trainings_that_were_cut_off_are_compared_where_all_are},
    {"attempts_keep_the_longer_training", attempts_keep_the_longer_training},
    {"a_run_in_pieces_is_judged_by_its_busiest", a_run_in_pieces_is_judged_by_its_busiest},
    {"times_of_trainings_side_by_side_are_left_out", times_of_trainings_side_by_side_are_left_out},
    {"findings_follow_the_numbers", findings_follow_the_numbers},
    {"other_numbers_give_other_findings", other_numbers_give_other_findings},
    {"few_seeds_leave_a_small_difference_open", few_seeds_leave_a_small_difference_open},
    {"what_has_not_learnt_shows_nothing", what_has_not_learnt_shows_nothing},
    {"cells_are_compared_within_their_part", cells_are_compared_within_their_part},
    {"throughputs_are_of_equal_work", throughputs_are_of_equal_work},
    {"a_stand_in_is_named_with_its_part", a_stand_in_is_named_with_its_part},
    {"an_empty_study_has_a_page", an_empty_study_has_a_page},
};
CHECK_MAIN(tests)
