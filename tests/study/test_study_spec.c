// SPDX-License-Identifier: Apache-2.0
// How the file of a study is read, and what is wrong with one.
#include "study/spec.h"

#include <unistd.h>

#include "base/folder.h"
#include "check.h"
#include "faults.h"
#include "tiny.h"

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
        {"lr: 0.05", "lr: fast",
         "tiny.yaml, line 15: lr: expected a number from 0 that f32 can hold, found fast"},
        {"batch: 64", "batch: 0",
         "tiny.yaml, line 14: batch: expected numbers from 1 to 1048576, found 0"},
        {"batch: 64", "batch: -3", "line 14: batch: expected numbers from 1 to 1048576, found -3"},
        {"kind: sweep", "kind: sweep\n    regions: [latency, quued]",
         "line 18: regions: expected latency, queued, host or return, found quued"},
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
    plb_spec_options devices = {.devices = "cuda:1,cuda,cuda:0"};
    CHECK_FAILS(PLB_EINVAL, "--device cuda:1,cuda,cuda:0: expected each device once",
                parse(text, &devices, &spec));
    CHECK_FAILS(
        PLB_EINVAL, "devices: expected each device once",
        parse(with("    devices: cpu\n", "    devices: [cuda, cuda:0]\n"), &options, &spec));
    wrong.set = "parts";
    CHECK_FAILS(PLB_EINVAL, "expected key=value", parse(text, &wrong, &spec));
    CHECK_FAILS(PLB_EINVAL, "expected a document, found none", parse("", &options, &spec));
}

// A key of a part, a value that `bench` or `train` refuse, and what is said of it.
static const struct {
    const char *line, *words;
} refused[] = {
    {"tasks: [infer, train, foo]", "tasks: expected infer or train, found foo"},
    {"tasks: Train", "tasks: expected infer or train, found Train"},
    {"tasks: [train, infer, train]", "tasks: expected each once, found train"},
    {"tasks: []", "tasks: expected at least one, or no such key, found a list"},
    {"regions: [host, host]", "regions: expected each once, found host"},
    {"threads: [1..4, 2]", "threads: expected each number once, found 2"},
    {"threads: 0", "threads: expected numbers from 1 to 1048576, or all, found 0"},
    {"seeds: [3, 1, 3]", "seeds: expected each number once, found 3"},
    {"seeds: all", "seeds: expected a whole number from 0, found all"},
    {"time: 0", "time: expected seconds from 0.01 to 1000000, found 0"},
    {"time: -1", "time: expected seconds from 0.01 to 1000000, found -1"},
    {"lr: -1", "lr: expected a number from 0 that f32 can hold, found -1"},
    {"lr: 1e300", "lr: expected a number from 0 that f32 can hold, found 1e300"},
    {"momentum: -1", "momentum: expected a number from 0 to below 1, found -1"},
    {"momentum: 1", "momentum: expected a number from 0 to below 1, found 1"},
    {"momentum: 0.9\n    optimizer: adam",
     "momentum: expected none, which only sgd has, found 0.9"},
    {"nesterov: true", "nesterov: expected momentum above 0 with it, found true"},
    {"weight_decay: -1", "weight_decay: expected a number from 0 that f32 can hold, found -1"},
    {"optimizer: foo", "optimizer: expected sgd, adam or adamw, found foo"},
    {"epochs: 1000001", "epochs: expected a number from 0 to 1000000, found 1000001"},
};
static const struct {
    const char *from, *to, *words;
} refused_numbers[] = {
    {"size: 8..32", "size: 0", "line 22: size: expected numbers from 1 to 1048576, found 0"},
    {"size: 8..32", "size: [8, 1048577]",
     "line 22: size: expected numbers from 1 to 1048576, found 1048577"},
    {"size: 8..32", "size: 8..1048577",
     "line 22: size: expected numbers from 1 to 1048576, found 8..1048577"},
    {"batch: 2", "batch: 1048577", "line 21: batch: expected numbers from 1 to 1048576"},
    {"batch: 2", "batch: all", "line 21: batch: expected numbers from 1 to 1048576, found all"},
    {"batch: 2", "batch: 8..1", "line 21: batch: expected a range that ends above its start"},
    {"batch: 2", "batch: [1, 1]", "line 21: batch: expected each number once, found 1"},
    {"batch: 2", "batch: [4, 1..8]", "line 21: batch: expected each number once, found 1..8"},
    {"models: resnet18", "models: [resnet18, vgg11, resnet18]",
     "line 18: models: expected each once, found resnet18"},
};

static void what_bench_refuses_is_refused(void) {
    plb_study_spec spec;
    plb_spec_options options = {0};
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        char lines[120];
        snprintf(lines, sizeof lines, "kind: sweep\n    %s", refused[i].line);
        CHECK_FAILS(PLB_EINVAL, refused[i].words,
                    parse(with("kind: sweep", lines), &options, &spec));
    }
    for (size_t i = 0; i < sizeof refused_numbers / sizeof *refused_numbers; i++)
        CHECK_FAILS(PLB_EINVAL, refused_numbers[i].words,
                    parse(with(refused_numbers[i].from, refused_numbers[i].to), &options, &spec));
    options.set = "parts.sizes.size=[1, 1048576];parts.sizes.batch=1048576;parts.train.lr=0;"
                  "parts.sizes.time=0.01;parts.train.momentum=0.999;parts.train.nesterov=true";
    CHECK_OK(parse(text, &options, &spec));
    CHECK(spec.parts[1].size.count == 2 && spec.parts[0].lr == 0);
}

// They name files: the study's its page, a part's the pictures of its figures.
static void names_are_names_of_files(void) {
    static const char *const names[] = {"../../evil", "a/b", "..", ".hidden", "-x", "\"\"", "a b"};
    plb_study_spec spec;
    plb_spec_options options = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char line[64], words[120];
        const char *found = strcmp(names[i], "\"\"") == 0 ? "" : names[i];
        snprintf(line, sizeof line, "name: %s\ntitle", names[i]);
        snprintf(words, sizeof words,
                 "tiny.yaml, line 1: name: expected a name of letters, digits, _, - and ., for "
                 "files, found %s",
                 found);
        CHECK_FAILS(PLB_EINVAL, words, parse(with("name: tiny\ntitle", line), &options, &spec));
        snprintf(line, sizeof line, "- name: %s\n    kind: sweep", names[i]);
        CHECK_FAILS(PLB_EINVAL, "line 16: name: expected a name of letters",
                    parse(with("- name: sizes\n    kind: sweep", line), &options, &spec));
    }
    CHECK_OK(parse(with("name: tiny", "name: Tiny_2.0-b"), &options, &spec));
}

static void what_a_flag_sets_is_named_by_the_flag(void) {
    static const char *const sets[][2] = {
        {"parts.train.epochs=-1", "--set parts.train.epochs: epochs: expected a number from 0"},
        {"parts.train.seeds=[1, x]", "--set parts.train.seeds: seeds: expected a whole number"},
        {"parts.train={name: train, lrr: 1}", "--set parts.train: no key lrr; did you mean lr?"},
        {"parts.train={name: train}", "--set parts.train: the part train has no models"},
        {"findings=[c_acuracy]", "--set findings: findings: there is no c_acuracy"},
        {"parts.train.seeds=[1", "--set parts.train.seeds, line 2: YAML: "},
    };
    plb_study_spec spec;
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        plb_spec_options options = {.set = sets[i][0]};
        plb_status status = parse(text, &options, &spec);
        CHECK_FAILS(PLB_EINVAL, sets[i][1], status);
        CHECK_SAY(!strstr(plb_error_text(), "tiny.yaml"), "%s", plb_error_text());
    }
}

// The double of the largest power of two that is a number is none.
static void a_range_ends_where_numbers_do(void) {
    plb_study_spec spec;
    plb_spec_options options = {.set =
                                    "parts.train.seeds=5000000000000000000..9223372036854775807"};
    CHECK_OK(parse(text, &options, &spec));
    CHECK(spec.parts[0].seeds.count == 1 && spec.parts[0].seeds.value[0] == 5000000000000000000);
    options.set = "parts.train.seeds=2305843009213693952..9223372036854775807";
    CHECK_OK(parse(text, &options, &spec));
    CHECK(spec.parts[0].seeds.count == 2 && spec.parts[0].seeds.value[1] == INT64_C(1) << 62);
    options.set = "parts.train.seeds=[0..8, 3..6, 5..9]"; // of 0 there is no double
    CHECK_OK(parse(text, &options, &spec));
    CHECK(spec.parts[0].seeds.count == 4 && spec.parts[0].seeds.value[2] == 6);
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

static void write_empty(const char *folder, const char *name) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    CHECK(file && fclose(file) == 0);
}

static void a_study_that_is_not_there_is_told_those_that_are(void) {
    char program[128], folder[128];
    plb_arena *arena = plb_arena_new();
    plb_spec_options options = {0};
    plb_study_spec spec;
    snprintf(folder, sizeof folder, "%s/studies", fault_folder());
    snprintf(program, sizeof program, "%.*s/plumb", (int)(strlen(folder) - 8), folder);
    CHECK_FAILS(PLB_EINVAL, "no study none; expected a file FILE.yaml",
                plb_study_spec_open("none", program, &options, arena, &spec));
    CHECK_OK(plb_folder_make(folder));
    write_empty(folder, "own.yaml"), write_empty(folder, "my.other.yaml");
    write_empty(folder, "notes.md");
    CHECK_FAILS(PLB_EINVAL, "no study none; expected my.other, own, or a file FILE.yaml",
                plb_study_spec_open("none", program, &options, arena, &spec));
    CHECK_OK(plb_folder_remove(folder));
    *strrchr(folder, '/') = '\0';
    CHECK_OK(plb_folder_remove(folder));
    plb_arena_free(arena);
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

static const check_test tests[] = {
    {"a_file_becomes_parts", a_file_becomes_parts},
    {"quick_and_set_change_values", quick_and_set_change_values},
    {"parts_are_chosen_by_name", parts_are_chosen_by_name},
    {"mistakes_are_named_with_line_and_key", mistakes_are_named_with_line_and_key},
    {"what_bench_refuses_is_refused", what_bench_refuses_is_refused},
    {"names_are_names_of_files", names_are_names_of_files},
    {"what_a_flag_sets_is_named_by_the_flag", what_a_flag_sets_is_named_by_the_flag},
    {"a_range_ends_where_numbers_do", a_range_ends_where_numbers_do},
    {"the_studies_that_come_along_are_right", the_studies_that_come_along_are_right},
    {"a_study_that_is_not_there_is_told_those_that_are",
     a_study_that_is_not_there_is_told_those_that_are},
    {"allocation_failures_are_told", allocation_failures_are_told},
};
CHECK_MAIN(tests)
