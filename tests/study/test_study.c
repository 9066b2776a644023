// SPDX-License-Identifier: Apache-2.0
// Studies without workers: the rows of the store, and the report, whose findings must follow the
// numbers.
#include "store/study.h"
#include "study/document.h"

#include <jansson.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "faults.h"
#include "tiny.h"

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

// What this version refuses was measured by one that did not: its numbers are still to be had.
static void a_run_of_values_that_are_refused_now_is_read(void) {
    plb_document *document = NULL;
    open_store_with("{\"quick\":false,\"set\":\"name=a b;parts.sizes.batch=[2, 2];"
                    "parts.sizes.tasks=Train;parts.train.lr=-1;parts.sizes.size=0..8\"}");
    CHECK_OK(plb_study_document(store, run, &document));
    plb_document_free(document);
    close_store();
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

// What the child took it has as long as it lives.
static void held_is_what_others_have_that_live(void) {
    plb_study_item_row row = {"train", "{\"stack\":\"gone\"}", "running", "- 1 1", NULL};
    bool taken = false;
    int held = -1;
    char ready = 0;
    int ends[2];
    open_store();
    CHECK_OK(plb_store_put_item(store, run, &row));
    CHECK_OK(plb_store_take_item(store, run, "train", "{\"stack\":\"ours\"}", &taken));
    CHECK(taken && pipe(ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
        plb_store *own;
        if (!plb_store_open_existing(plb_store_path(store), &own) &&
            !plb_store_take_item(own, run, "train", "{\"stack\":\"theirs\"}", &taken))
            (void)!write(ends[1], "r", 1);
        for (;;) pause();
    }
    CHECK(read(ends[0], &ready, 1) == 1);
    CHECK_OK(plb_store_count_held(store, run, &held));
    CHECK(held == 1);
    siginfo_t how;
    CHECK(kill(child, SIGKILL) == 0 && waitid(P_PID, (id_t)child, &how, WEXITED | WNOWAIT) == 0);
    CHECK_OK(plb_store_count_held(store, run, &held));
    CHECK(held == 0); // though it is listed until it is waited for
    CHECK(waitpid(child, NULL, 0) == child);
    CHECK_OK(plb_store_count_held(store, run, &held));
    CHECK(held == 0);
    close(ends[0]), close(ends[1]);
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

static void put_throughput_on(const char *device, const char *stack, int batch, double median_ns) {
    char keys[400], results[100];
    snprintf(keys, sizeof keys,
             "{\"kind\":\"sweep\",\"model\":\"resnet18\",\"stack\":\"%s\",\"device\":\"%s\","
             "\"threads\":2,\"batch\":%d,\"task\":\"train\",\"size\":8,\"region\":\"latency\"}",
             stack, device, batch);
    snprintf(results, sizeof results, "{\"median_ns\":%g}", median_ns);
    const plb_study_item_row row = {"again", keys, "ok", NULL, results};
    CHECK_OK(plb_store_put_item(store, run, &row));
}

static void put_throughput(const char *stack, int batch, double median_ns) {
    put_throughput_on("cpu", stack, batch, median_ns);
}

static void bars_of_each_device_are_a_figure(void) {
    open_store();
    put_throughput("torch-eager", 2, 1e9);
    char *said = page();
    CHECK_PAGE("### Throughput\n");
    plb_free(said);
    put_throughput_on("cuda:1", "torch-eager", 2, 1e6);
    said = page();
    CHECK_PAGE("### Throughput, cpu\n");
    CHECK_PAGE("### Throughput, cuda:1\n");
    plb_free(said);
    close_store();
}

static void throughputs_are_of_equal_work(void) {
    open_store();
    put_throughput("torch-eager", 2, 1e9), put_throughput("plumb-plan", 64, 1e9);
    char *said = page();
    CHECK_SAY(!strstr(said, "Table 1's throughputs"), "%s", said); // nothing to set beside it
    plb_free(said);
    put_throughput("plumb-plan", 2, 5e8);
    said = page();
    CHECK_PAGE("batch 2 at 8: torch-eager 2 /s, plumb-plan 4 /s.");
    plb_free(said);
    close_store();
}

// A list of a study has room for 64 seeds, and its parts for any number of stacks.
static void no_seed_and_no_stack_is_left_out(void) {
    open_store();
    for (int seed = 1; seed <= 64; seed++) {
        put_training("torch-eager", 1, seed, 8, seed <= 32 ? 0.90 : 0.92, 2.3);
        put_training("plumb-plan", 1, seed, 4, 0.91, 2.3);
    }
    for (int k = 1; k <= 70; k++) {
        char stack[16];
        snprintf(stack, sizeof stack, "stack%d", k);
        put_training(stack, 1, 1, 8, 0.91, 2.3);
        put_cell(stack, 8, 1e6, "ok"), put_cell(stack, 16, 1e6, "ok");
    }
    char *said = page();
    CHECK_PAGE("torch-eager 91.0 % (90.0 to 92.0), plumb-plan 91.0 % (91.0 to 91.0), 64 and 64 "
               "seeds");
    CHECK_PAGE("stack70 91.0 % (91.0 to 91.0, 1 seed)");
    CHECK_PAGE("| stack70 | 8 |"); // of the slice
    plb_free(said);
    close_store();
}

// Of a card, where memory of one kind is known of all.
static void put_memory(const char *part, const char *stack, int batch, int size, int bytes) {
    char keys[400], results[200];
    snprintf(keys, sizeof keys,
             "{\"kind\":\"sweep\",\"model\":\"resnet18\",\"stack\":\"%s\",\"device\":\"cuda\","
             "\"threads\":2,\"batch\":%d,\"task\":\"infer\",\"size\":%d,\"region\":\"latency\"}",
             stack, batch, size);
    snprintf(results, sizeof results,
             "{\"median_ns\":1,\"memory\":{\"devices\":[{\"allocated_peak_bytes\":%d}]}}", bytes);
    const plb_study_item_row row = {part, keys, "ok", NULL, results};
    CHECK_OK(plb_store_put_item(store, run, &row));
}

// Stated was: below resolution 2^6 and batch 2^7.
static void memory_is_compared_on_both_sides_of_what_was_stated(void) {
    static const struct {
        const char *part;
        int batch, size;
    } cells[] = {{"sizes", 2, 32},
                 {"sizes", 2, 64},
                 {"sizes", 2, 96},
                 {"again", 64, 96},
                 {"again", 128, 96}};
    open_store_with("{\"quick\":false,\"set\":\"findings=[memory_crossover];"
                    "parts.again.batch=[64,128];parts.again.size=96\"}");
    for (size_t i = 0; i < sizeof cells / sizeof *cells; i++) {
        put_memory(cells[i].part, "torch-eager", cells[i].batch, cells[i].size, 200);
        put_memory(cells[i].part, "plumb-plan", cells[i].batch, cells[i].size, 100);
    }
    char *said = page();
    CHECK_PAGE("less than torch-eager in 2 of 2 cells that lie there (in a slice over batches by "
               "batch alone), and in 3 of the other 3");
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
    {"a_run_of_values_that_are_refused_now_is_read", a_run_of_values_that_are_refused_now_is_read},
    {"rows_come_back_in_order", rows_come_back_in_order},
    {"an_item_is_taken_once", an_item_is_taken_once},
    {"held_is_what_others_have_that_live", held_is_what_others_have_that_live},
    {"no_seed_and_no_stack_is_left_out", no_seed_and_no_stack_is_left_out},
    {"memory_is_compared_on_both_sides_of_what_was_stated",
     memory_is_compared_on_both_sides_of_what_was_stated},
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
    {"bars_of_each_device_are_a_figure", bars_of_each_device_are_a_figure},
    {"a_stand_in_is_named_with_its_part", a_stand_in_is_named_with_its_part},
    {"an_empty_study_has_a_page", an_empty_study_has_a_page},
};
CHECK_MAIN(tests)
