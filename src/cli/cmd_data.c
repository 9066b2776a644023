// SPDX-License-Identifier: Apache-2.0
// The data sets: which are known and where they are, getting one, checking one, looking at one.
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/machine.h"
#include "cli/cli.h"
#include "data/contact_sheet.h"
#include "data/inspect.h"
#include "data/registry.h"

typedef struct data_options { // all of show; NULL or 0: not given
    const char *output, *split;
    int64_t count, size, seed;
} data_options;

// "drawn", the folder, or NULL where the set is missing.
static plb_status place_of(const plb_known_dataset *set, plb_arena *arena, const char **out) {
    *out = "drawn";
    if (set->drawn) return PLB_OK;
    plb_status status = plb_dataset_locate(set->name, NULL, arena, out);
    if (status == PLB_EMISSING) {
        *out = NULL;
        return PLB_OK;
    }
    return status;
}

static const char *lacks_of(const plb_known_dataset *set, const char *place) {
    return place && !set->drawn ? plb_dataset_lacks(set->name, place) : NULL;
}

static void json_set(plb_json *json, const plb_known_dataset *set, const char *place) {
    plb_json_begin_object(json, NULL);
    plb_json_string(json, "name", set->name);
    plb_json_string(json, "summary", set->summary);
    plb_json_bool(json, "drawn", set->drawn);
    plb_json_bool(json, "downloadable", set->downloadable);
    plb_json_string(json, "folder", set->drawn ? NULL : place);
    plb_json_string(json, "lacks", lacks_of(set, place));
    plb_json_string(json, "page", set->page);
    plb_json_end(json);
}

static void print_set(const plb_known_dataset *set, const char *place) {
    const char *lacks = lacks_of(set, place), *get = set->downloadable ? set->name : NULL;
    plb_print("%-14s  %-46s  ", set->name, set->summary);
    if (lacks)
        plb_print("%s lacks %s%s%s\n", place, lacks, get ? "; plumb data get " : "",
                  get ? get : "");
    else if (place)
        plb_print("%s\n", place);
    else if (set->downloadable)
        plb_print("missing; plumb data get %s\n", set->name);
    else
        plb_print("missing\n");
}

static plb_status list(bool as_json) {
    plb_arena *arena = plb_arena_new();
    plb_json json = {0};
    plb_status status = PLB_OK;
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    if (as_json) {
        plb_cli_json_begin(&json, "data", 1);
        plb_json_begin_array(&json, "data_sets");
    }
    for (size_t i = 0; i < plb_known_dataset_count; i++) {
        const plb_known_dataset *set = plb_known_dataset_at(i);
        const char *place = NULL;
        PLB_TRY_OUT(place_of(set, arena, &place));
        if (as_json)
            json_set(&json, set, place);
        else
            print_set(set, place);
    }
    if (as_json) {
        plb_json_end(&json);
        status = plb_cli_json_print(&json);
    }
out:
    plb_json_free(&json);
    plb_arena_free(arena);
    return status;
}

static bool show_progress(void *context, const plb_progress_event *e) {
    const bool *terminal = context;
    if (*terminal) {
        double mb = (double)e->done / 1e6;
        fprintf(stderr, "\r\033[K%s  %.1f MB", e->what, mb);
        if (e->total > 0) {
            fprintf(stderr, " of %.1f (%.0f %%)", (double)e->total / 1e6,
                    100 * (double)e->done / (double)e->total);
        }
        if (e->last) fputc('\n', stderr);
        fflush(stderr);
    }
    return !plb_cli_interrupted();
}

static plb_status answer(const char *what, const char *name, const char *text, bool as_json) {
    if (!as_json) {
        plb_print("%s: %s\n", name, text);
        return PLB_OK;
    }
    plb_json json;
    plb_cli_json_begin(&json, "data", 1);
    plb_json_string(&json, "name", name);
    plb_json_string(&json, what, text);
    return plb_cli_json_print(&json);
}

static plb_status get(const char *name, bool as_json) {
    bool terminal = isatty(STDERR_FILENO);
    plb_progress progress = {
        .callback = show_progress, .context = &terminal, .interval_ns = 100000000};
    plb_status status = plb_dataset_download(name, NULL, &progress);
    if (status) return status;
    plb_arena *arena = plb_arena_new();
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory");
    const char *folder = NULL;
    status = plb_dataset_locate(name, NULL, arena, &folder);
    if (!status) status = answer("folder", name, folder, as_json);
    plb_arena_free(arena);
    return status;
}

// ---------------------------------------------------------------------------- check
enum { SHOWN_BAD = 20, SHOWN_SHARED = 5 };

typedef struct check_view {
    bool as_json;
    plb_json json;
    int64_t files, bad;
} check_view;

static bool found(void *context, const char *file, const char *wrong) {
    check_view *view = context;
    view->files++;
    if (!wrong) return !plb_cli_interrupted();
    if (view->as_json) {
        plb_json_begin_object(&view->json, NULL);
        plb_json_string(&view->json, "file", file);
        plb_json_string(&view->json, "wrong", wrong);
        plb_json_end(&view->json);
    } else if (view->bad < SHOWN_BAD) {
        plb_note("%s", wrong);
    }
    view->bad++;
    return !plb_cli_interrupted();
}

static bool go_on(void *context, const plb_progress_event *event) {
    (void)context, (void)event;
    return !plb_cli_interrupted();
}

// Both splits, pictures made equally large: what is decoded must be comparable.
static plb_status open_splits(const char *name, plb_dataset *sets[2]) {
    plb_dataset_options options = {.size = strchr(name, '/') ? 64 : 0};
    for (int split = 0; split < 2; split++)
        PLB_TRY(plb_dataset_open(name, (plb_data_split)split, &options, &sets[split]));
    return PLB_OK;
}

static plb_status count_classes(check_view *view, plb_dataset *const sets[2]) {
    const plb_dataset_info *info = &sets[0]->info;
    PLB_TRY(plb_dataset_same_classes(sets[0], sets[1]));
    int64_t *counts = plb_alloc_array((size_t)(2 * info->classes), sizeof *counts);
    if (!counts) return plb_fail(PLB_ENOMEM, "out of memory");
    for (int split = 0; split < 2; split++)
        plb_dataset_class_counts(sets[split], counts + split * info->classes);
    if (view->as_json)
        plb_json_begin_array(&view->json, "classes");
    else
        plb_print("%-20s %9s %9s\n", "class", "train", "test");
    for (int64_t k = 0; k < info->classes; k++) {
        char number[24];
        snprintf(number, sizeof number, "%lld", (long long)k);
        const char *class = info->class_names ? info->class_names[k] : number;
        long long train = (long long)counts[k], test = (long long)counts[info->classes + k];
        if (view->as_json) {
            plb_json_begin_object(&view->json, NULL);
            plb_json_string(&view->json, "name", class);
            plb_json_int(&view->json, "train", train);
            plb_json_int(&view->json, "test", test);
            plb_json_end(&view->json);
        } else {
            plb_print("%-20s %9lld %9lld\n", class, train, test);
        }
    }
    if (view->as_json) plb_json_end(&view->json);
    plb_free(counts);
    return PLB_OK;
}

static plb_status compare_splits(check_view *view, plb_dataset *const sets[2]) {
    plb_shared_sample first[SHOWN_SHARED];
    int64_t shared = 0;
    plb_progress progress = {.callback = go_on};
    PLB_TRY(plb_dataset_shared(sets[0], sets[1], plb_machine_threads(), &progress, first,
                               SHOWN_SHARED, &shared));
    if (view->as_json) {
        plb_json_int(&view->json, "shared_samples", shared);
        return PLB_OK;
    }
    if (!shared) {
        plb_print("no sample to test is among those to train (by content)\n");
        return PLB_OK;
    }
    plb_print("%lld samples to test are among those to train:", (long long)shared);
    for (int64_t k = 0; k < shared && k < SHOWN_SHARED; k++)
        plb_print(" %lld=%lld", (long long)first[k].b, (long long)first[k].a);
    plb_print("%s\n", shared > SHOWN_SHARED ? " ..." : "");
    return PLB_OK;
}

static plb_status describe_splits(check_view *view, const char *name) {
    plb_dataset *sets[2] = {0};
    plb_status status;
    PLB_TRY_OUT(open_splits(name, sets));
    PLB_TRY_OUT(count_classes(view, sets));
    status = compare_splits(view, sets);
out:
    plb_dataset_free(sets[0]);
    plb_dataset_free(sets[1]);
    return status;
}

// A document that names the bad files is printed even so.
static plb_status end_bad(check_view *view, plb_status status, const char *text) {
    if (view->as_json && view->bad) {
        plb_json_string(&view->json, "check", text);
        PLB_TRY(plb_cli_json_print(&view->json));
    } else {
        plb_json_free(&view->json);
    }
    return plb_fail(status, "%s", text);
}

static plb_status check(plb_call *call, const char *name) {
    check_view view = {.as_json = call->json};
    const plb_check_report report = {found, &view};
    char first[1024];
    if (view.as_json) {
        plb_cli_json_begin(&view.json, "data", 1);
        plb_json_string(&view.json, "name", name);
        plb_json_begin_array(&view.json, "bad");
    }
    plb_status status = plb_dataset_check(name, NULL, &report);
    snprintf(first, sizeof first, "%s", status ? plb_error_text() : "");
    // Drawn sets have no files, but classes and splits like any other.
    if (status == PLB_EUNSUPPORTED) status = PLB_OK;
    if (view.as_json) plb_json_end(&view.json);
    if (status) return end_bad(&view, status, first);
    if (view.as_json)
        plb_json_string(&view.json, "check", first[0] ? first : "all files and samples are right");
    else if (first[0])
        plb_print("%s\n", first);
    else
        plb_print("%s: all %lld files and samples are right\n", name, (long long)view.files);
    status = describe_splits(&view, name);
    if (!status && view.as_json) return plb_cli_json_print(&view.json);
    plb_json_free(&view.json);
    return status;
}

// ---------------------------------------------------------------------------- show
static const char *split_of(const data_options *o) {
    return o->split ? o->split : "train";
}

static plb_status draw_sheet(const char *name, const data_options *o, plb_image *out) {
    plb_data_split split = strcmp(split_of(o), "test") == 0 ? PLB_TEST : PLB_TRAIN;
    plb_dataset_options options = {.size = o->size};
    if (strchr(name, '/') && !o->size) options.size = 96;
    plb_dataset *set = NULL;
    char title[128];
    PLB_TRY(plb_dataset_open(name, split, &options, &set));
    snprintf(title, sizeof title, "%s, %s", set->info.name, split_of(o));
    plb_contact_options sheet = {
        .title = title, .columns = o->count ? o->count : 10, .seed = (uint64_t)o->seed};
    plb_status status = plb_contact_sheet(set, &sheet, out);
    plb_dataset_free(set);
    return status;
}

// Here, under the last word of the set's name: that of a folder may end in slashes, as completion
// has it, or be one that only says where it is.
static plb_status name_sheet(const char *name, const char *split, char path[PATH_MAX]) {
    char whole[PATH_MAX];
    size_t length = strlen(name);
    while (length && name[length - 1] == '/') length--;
    size_t at = length;
    while (at && name[at - 1] != '/') at--;
    const bool dots = length > at && strspn(name + at, ".") >= length - at;
    if (dots && realpath(name, whole)) {
        name = whole, length = strlen(whole);
        at = (size_t)(strrchr(whole, '/') + 1 - whole);
    }
    const int cut = snprintf(path, PATH_MAX, "%.*s%s-%s.png", (int)(length - at), name + at,
                             length == at ? "sheet" : "", split);
    return cut < PATH_MAX ? PLB_OK : plb_fail(PLB_EINVAL, "%s: the name is too long", name);
}

static plb_status show_sheet(plb_call *call, const char *name) {
    const data_options *o = call->options;
    char path[PATH_MAX];
    plb_image sheet;
    PLB_TRY(name_sheet(name, split_of(o), path));
    PLB_TRY(draw_sheet(name, o, &sheet));
    plb_status status = plb_image_write_png(&sheet, o->output ? o->output : path);
    plb_image_free(&sheet);
    if (status) return status;
    return answer("sheet", name, o->output ? o->output : path, call->json);
}

// All flags are show's: elsewhere they would change nothing.
static plb_status refuse_flags(const data_options *o, const char *verb) {
    const char *flag = o->output  ? "out"
                       : o->split ? "split"
                       : o->count ? "count"
                       : o->size  ? "size"
                       : o->seed  ? "seed"
                                  : NULL;
    if (!flag) return PLB_OK;
    return plb_fail(PLB_EINVAL, "--%s is for show, not for %s", flag, verb);
}

static plb_status run_data(plb_call *call) {
    static const char *const verbs[] = {"list", "get", "check", "show"};
    const char *verb = call->operand_count ? call->operands[0] : "list";
    int which = 0;
    while (which < 4 && strcmp(verb, verbs[which]) != 0) which++;
    if (which == 4) {
        return plb_fail(PLB_EINVAL,
                        "expected list, get NAME, check NAME or show NAME, found \"%s\"", verb);
    }
    if (which != 3) PLB_TRY(refuse_flags(call->options, verb));
    if (which == 0 && call->operand_count > 1)
        return plb_fail(PLB_EINVAL, "unexpected \"%s\"", call->operands[1]);
    if (which == 0) return list(call->json);
    if (call->operand_count < 2)
        return plb_fail(PLB_EINVAL, "%s: expected a data set's name", verb);
    if (which == 1) return get(call->operands[1], call->json);
    return which == 2 ? check(call, call->operands[1]) : show_sheet(call, call->operands[1]);
}

#define FLAG(flag, what, field) \
    .name = flag, .kind = PLB_FLAG_##what, .offset = offsetof(data_options, field)
static const plb_flag flags[] = {
    {FLAG("out", FILE, output), .letter = 'o', .value = "F.png",
     .help = "show: where the sheet is written"},
    {FLAG("split", CHOICE, split), .value = "train|test",
     .help = "show: which part of the data; default train"},
    {FLAG("count", INT, count), .value = "N", .min = 1, .max = 100,
     .help = "show: samples of a class; default 10"},
    {FLAG("size", INT, size), .value = "N", .min = 0, .max = 1024,
     .help = "show: height and width of pictures that come in any size"},
    {FLAG("seed", INT, seed), .value = "N", .min = 0, .max = INT64_MAX,
     .help = "show: of which samples"},
};

const plb_command plb_cmd_data = {
    .name = "data",
    .summary = "list, download, check or show data sets",
    .operands = "[list|get NAME|check NAME|show NAME]",
    .description =
        "Lists the data sets that Plumb knows and where they are; gets one, into the\n"
        "first of the folders below; compares its files with the checksums that their\n"
        "publisher states, or decodes every sample where none are published, counts the\n"
        "classes and looks for samples that are in both splits; or writes a sheet of\n"
        "samples with their labels. A download that was interrupted goes on where it was.\n"
        "A NAME with a slash is a folder or a tar file of pictures, a folder a class, these\n"
        "in folders train and test (or val); without them all is in both splits.\n\n"
        "Folders, in order: $PLUMB_DATA, else $XDG_DATA_HOME/plumb/data, else\n"
        "~/.local/share/plumb/data; then $PLUMB_TEST_DATA.",
    .max_operands = 2,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(data_options),
    .completes = "list get check show",
    .run = run_data,
};
