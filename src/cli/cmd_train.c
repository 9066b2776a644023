// SPDX-License-Identifier: Apache-2.0
// Trains a model of the zoo or an ONNX file. What flags leave open comes from the checkpoint that
// is resumed, else from the model; the rest is train/loop.h.
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/folder.h"
#include "base/machine.h"
#include "base/memory_use.h"
#include "cli/cli.h"
#include "cli/onnx_model.h"
#include "cli/train_model.h"
#include "cli/train_report.h"
#include "data/cache.h"
#include "data/registry.h"
#include "engine/device/inventory.h"
#include "plumb/weights.h"
#include "plumb/zoo.h"
#include "train/loop.h"

// What was given; 0 or NULL: nothing. Numbers that may well be 0 stay text.
typedef struct train_flags {
    const char *data, *optimizer, *schedule, *level, *device, *math, *autocast;
    const char *lr, *momentum, *weight_decay, *seed;
    int64_t epochs, batch, threads, max_steps, limit, size, checkpoint_every, tune_seconds;
    const char *save, *checkpoint, *resume;
    const char *loss, *output, *only, *freeze;
    bool no_winograd, deterministic, sync, recompute;
} train_flags;

#define FLAG(flag, what, field) \
    .name = flag, .kind = PLB_FLAG_##what, .offset = offsetof(train_flags, field)
static const plb_flag flags[] = {
    {FLAG("data", STRING, data), .value = "NAME",
     .help = "data set, a folder of pictures, or auto (default: the model's)"},
    {FLAG("epochs", INT, epochs), .value = "N", .min = 1, .max = 1000000, .help = "default 1"},
    {FLAG("batch", INT, batch), .value = "N", .min = 1, .max = 1 << 20,
     .help = "samples of a step; default: the model's"},
    {FLAG("lr", STRING, lr), .value = "X", .help = "learning rate; default: the model's"},
    {FLAG("momentum", STRING, momentum), .value = "X",
     .help = "of sgd, 0 to below 1; default: the model's"},
    {FLAG("weight-decay", STRING, weight_decay), .value = "X",
     .help = "default: the model's with sgd, else the optimizer's"},
    {FLAG("optimizer", CHOICE, optimizer), .value = "sgd|adam|adamw", .help = "default sgd"},
    {FLAG("schedule", CHOICE, schedule), .value = "constant|step|cosine",
     .help = "of the learning rate over the epochs; default constant"},
    {FLAG("seed", STRING, seed), .value = "N",
     .help = "of first weights, order and dropout; default 1"},
    {FLAG("threads", INT, threads), .value = "N", .min = 1, .max = 1024,
     .help = "default: as many as this process may use"},
    {FLAG("level", CHOICE, level), .value = "interp|plan|replay",
     .help = "default plan, on a device replay"},
    {FLAG("max-steps", INT, max_steps), .value = "N", .min = 1, .max = INT64_MAX,
     .help = "end after so many steps in all"},
    {FLAG("limit", INT, limit), .value = "N", .min = 1, .max = INT64_MAX,
     .help = "only the first N samples of each part of the data"},
    {FLAG("size", INT, size), .value = "N", .min = 8, .max = 4096,
     .help = "height and width of pictures, drawn or read"},
    {FLAG("save", FILE, save), .value = "F",
     .help = "write the weights, as safetensors, or the model, to F.onnx"},
    {FLAG("checkpoint", FILE, checkpoint), .value = "F",
     .help = "write all that a later run needs to go on"},
    {FLAG("checkpoint-every", INT, checkpoint_every), .value = "STEPS", .min = 1, .max = INT64_MAX,
     .help = "how often; default: after each epoch"},
    {FLAG("resume", FILE, resume), .value = "F",
     .help = "go on from a checkpoint, with its options"},
    {FLAG("loss", CHOICE, loss), .value = "cross-entropy|nll|mse|output",
     .help = "of an ONNX file; default: by what its outputs are"},
    {FLAG("output", STRING, output), .value = "NAME",
     .help = "of an ONNX file: of which the loss is; default: one that fits"},
    {FLAG("only", STRING, only), .value = "NAMES",
     .help = "of an ONNX file: weights to train, as \"fc.*,head.*\""},
    {FLAG("freeze", STRING, freeze), .value = "NAMES",
     .help = "of an ONNX file: weights to leave as they are"},
    PLB_DEVICE_FLAGS,
    {FLAG("sync", SWITCH, sync), .help = "wait after each op, so that errors name it"},
    {FLAG("recompute", SWITCH, recompute),
     .help = "on a device: save memory by computing again what is cheap"},
    {FLAG("no-winograd", SWITCH, no_winograd), .help = "no Winograd convolutions"},
    {FLAG("deterministic", SWITCH, deterministic),
     .help = "choose kernels by rule and not by timing"},
};

typedef struct session {
    const train_flags *flags;
    plb_train_model from;
    plb_train_options options;
    plb_checkpoint *resume;
    plb_dataset *train_set, *test_set;
    plb_zoo_options zoo;
    plb_zoo_pixels pixels;
    plb_model *model;
    plb_train_result result;
    plb_train_report report;
    bool json;
} session;

// ---------------------------------------------------------------------------- options
static void set_defaults(session *s) {
    bool small = s->from.small;
    s->options = (plb_train_options){.model = s->from.name,
                                     .data = small ? "mnist" : "shapes",
                                     .epochs = 1,
                                     .batch = s->from.batch,
                                     .size = s->from.size,
                                     .optimizer = "sgd",
                                     .schedule = "constant",
                                     .lr = 0.01,
                                     .momentum = small ? 0.5 : 0.9,
                                     .weight_decay = small ? 0 : 1e-4,
                                     .seed = 1,
                                     .threads = plb_machine_threads()};
}

// Another optimizer than the default brings its own numbers.
static void set_optimizer(plb_train_options *o, const char *name) {
    o->optimizer = name;
    if (strcmp(name, "sgd") == 0) return;
    o->lr = 1e-3, o->momentum = 0;
    o->weight_decay = strcmp(name, "adamw") == 0 ? 0.01 : 0;
}

static plb_status set_double(const char *flag, const char *text, double low, double *out) {
    if (!text) return PLB_OK;
    plb_status status = plb_parse_double(text, low, HUGE_VAL, out);
    return status ? plb_fail_context(status, "--%s", flag) : PLB_OK;
}

static plb_status set_seed(const char *text, uint64_t *out) {
    int64_t seed;
    if (!text) return PLB_OK;
    plb_status status = plb_parse_int(text, 0, INT64_MAX, &seed);
    if (status) return plb_fail_context(status, "--seed");
    *out = (uint64_t)seed;
    return PLB_OK;
}

static plb_status set_given(session *s) {
    const train_flags *f = s->flags;
    plb_train_options *o = &s->options;
    if (f->optimizer && strcmp(f->optimizer, o->optimizer) != 0) set_optimizer(o, f->optimizer);
    if (f->data && !(s->resume && strcmp(f->data, "auto") == 0)) o->data = f->data;
    if (f->schedule) o->schedule = f->schedule;
    if (f->level) PLB_TRY(plb_level_from_name(f->level, &o->level));
    if (f->math) PLB_TRY(plb_math_from_name(f->math, &o->math));
    if (f->autocast) PLB_TRY(plb_autocast_from_name(f->autocast, &o->autocast));
    PLB_TRY(set_double("lr", f->lr, 0, &o->lr));
    PLB_TRY(set_double("momentum", f->momentum, 0, &o->momentum));
    PLB_TRY(set_double("weight-decay", f->weight_decay, 0, &o->weight_decay));
    PLB_TRY(set_seed(f->seed, &o->seed));
    if (strcmp(o->optimizer, "sgd") != 0 && f->momentum) {
        return plb_fail(PLB_EINVAL, "--momentum: %s has none", o->optimizer);
    }
    if (f->momentum && o->momentum >= 1) {
        return plb_fail(PLB_EINVAL, "--momentum: expected a number from 0 to below 1, found %s",
                        f->momentum);
    }
    if (f->epochs) o->epochs = f->epochs;
    if (f->batch) o->batch = f->batch;
    if (f->threads) o->threads = (int)f->threads;
    if (f->limit) o->limit = f->limit;
    if (f->size) o->size = f->size;
    if (f->no_winograd) o->no_winograd = true;
    return PLB_OK;
}

// What only files can be asked, and are asked again where a checkpoint says it.
static plb_status set_learning(session *s) {
    const train_flags *f = s->flags;
    plb_train_options *o = &s->options;
    if (f->loss) o->loss = f->loss;
    if (f->output) o->output = f->output;
    if (f->only) o->only = f->only;
    if (f->freeze) o->freeze = f->freeze;
    plb_onnx_learning *l = &s->from.learning;
    l->loss = o->loss, l->output = o->output, l->only = o->only, l->freeze = o->freeze;
    const char *flag = f->loss ? "loss" : f->output ? "output" : f->only ? "only" : NULL;
    if (!flag && f->freeze) flag = "freeze";
    if (!flag || s->from.file) return PLB_OK;
    return plb_fail(PLB_EINVAL, "--%s is for ONNX files, and %s is none", flag, s->from.name);
}

static bool on_device(const plb_train_options *o) {
    return o->device && strcmp(o->device, "cpu") != 0;
}

// A checkpoint that the weights alone replaced is none.
static plb_status check_save(const train_flags *f) {
    if (!f->save) return PLB_OK;
    const char *flag = f->checkpoint && plb_same_file(f->save, f->checkpoint) ? "checkpoint"
                       : f->resume && plb_same_file(f->save, f->resume)       ? "resume"
                                                                              : NULL;
    if (!flag) return PLB_OK;
    return plb_fail(PLB_EINVAL, "--save: expected another file than --%s, found %s", flag, f->save);
}

static plb_status set_options(session *s, const char *model) {
    const train_flags *f = s->flags;
    plb_train_options *o = &s->options;
    PLB_TRY(plb_train_model_open(model, &s->from));
    set_defaults(s);
    if (f->resume) {
        plb_status status = plb_checkpoint_open(f->resume, &s->resume);
        if (status) return plb_fail_context(status, "--resume");
        PLB_TRY(plb_checkpoint_options(s->resume, o));
    }
    o->model = s->from.name; // of another model: the check below tells
    PLB_TRY(set_given(s));
    PLB_TRY(set_learning(s));
    if (f->checkpoint_every && !f->checkpoint) {
        return plb_fail(PLB_EINVAL, "--checkpoint-every: expected --checkpoint F with it");
    }
    o->deterministic = f->deterministic;
    o->device = f->device;
    o->sync = f->sync;
    o->recompute = f->recompute;
    o->tune_ms = f->tune_seconds * 1000;
    o->max_steps = f->max_steps;
    o->checkpoint = f->checkpoint;
    o->checkpoint_every = f->checkpoint_every;
    PLB_TRY(plb_device_check(f->device)); // before data are read
    if (on_device(o) && !f->level && !s->resume) o->level = PLB_LEVEL_REPLAY;
    o->profile = !on_device(o); // reading its clocks would hold a device up
    enum { MOST_LOADERS = 16 }; // more only wake one another
    int spare = plb_machine_threads() - o->threads;
    o->loader_threads = spare < 1 ? 1 : spare < MOST_LOADERS ? spare : MOST_LOADERS;
    PLB_TRY(plb_cli_check_writable("save", f->save));
    PLB_TRY(plb_cli_check_writable("checkpoint", f->checkpoint));
    PLB_TRY(check_save(f));
    return s->resume ? plb_checkpoint_check(s->resume, o) : PLB_OK;
}

// ---------------------------------------------------------------------------- data
static bool go_on(void *context, const plb_progress_event *event) {
    (void)context, (void)event;
    return !plb_cli_interrupted();
}

// `auto`: the model's own set; drawn digits where MNIST is neither here nor to be had.
static plb_status choose_data(session *s) {
    plb_train_options *o = &s->options;
    if (strcmp(o->data, "auto") != 0) return PLB_OK;
    o->data = s->from.small ? "mnist" : "shapes";
    if (strcmp(o->data, "mnist") != 0) return PLB_OK;
    plb_progress progress = {.callback = go_on};
    plb_dataset *found = NULL;
    plb_status status = plb_dataset_open(o->data, PLB_TRAIN, NULL, &found);
    plb_dataset_free(found);
    if (status != PLB_EMISSING) return status; // damaged files are no missing ones
    status = plb_dataset_download(o->data, NULL, &progress);
    if (status == PLB_ECANCELLED || status == PLB_ENOMEM) return status;
    if (status) {
        plb_note("mnist is not on this machine and cannot be downloaded now; training on drawn "
                 "digits instead");
        o->data = "digits";
    }
    return PLB_OK;
}

// Drawn sets are drawn once, and no more of them than is used.
static plb_status open_set(session *s, plb_data_split split, plb_dataset **out) {
    const plb_train_options *o = &s->options;
    plb_dataset_options options = {.size = o->size};
    if (strchr(o->data, '/') && !o->size) options.size = s->from.height;
    PLB_TRY(plb_dataset_open(o->data, split, &options, out));
    if (strcmp((*out)->info.kind, "synthetic") != 0) return PLB_OK;
    if (o->limit && o->limit < (*out)->info.count) {
        plb_dataset_free(*out);
        *out = NULL;
        options.count = o->limit;
        PLB_TRY(plb_dataset_open(o->data, split, &options, out));
    }
    plb_dataset *kept = NULL;
    plb_progress progress = {.callback = go_on};
    PLB_TRY(plb_dataset_materialise(*out, plb_machine_threads(), &progress, &kept));
    plb_dataset_free(*out);
    *out = kept;
    return PLB_OK;
}

// Some sets are of one size, and nobody resizes them.
static plb_status check_size(const session *s) {
    const plb_dataset_info *data = &s->train_set->info;
    const int64_t size = s->flags->size;
    if (!size || (data->height == size && data->width == size)) return PLB_OK;
    return plb_fail(PLB_EINVAL,
                    "--size: pictures of %s have %" PRId64 "x%" PRId64
                    " pixels and no other size, found %" PRId64,
                    s->options.data, data->height, data->width, size);
}

// A device gets pixels as they are stored, a quarter of the bytes, and normalises them itself.
static void use_pixels(session *s) {
    const plb_dataset_info *data = &s->train_set->info;
    if (!on_device(&s->options) || data->dtype != PLB_U8 || s->test_set->info.dtype != PLB_U8 ||
        data->channels > PLB_ZOO_CHANNELS) {
        return;
    }
    for (int64_t c = 0; c < data->channels; c++) {
        s->pixels.mean[c] = data->mean[c], s->pixels.std[c] = data->std[c];
    }
    s->zoo.pixels = &s->pixels;
}

// A folder or tar file without parts is both of them.
static plb_status warn_of_one_part(const session *s) {
    bool same;
    PLB_TRY(plb_dataset_same_source(s->train_set, s->test_set, &same));
    if (same)
        plb_note("warning: %s: has no parts train and test: what is tested with is what is "
                 "trained on",
                 s->options.data);
    return PLB_OK;
}

static plb_status open_data(session *s) {
    PLB_TRY(choose_data(s));
    PLB_TRY(open_set(s, PLB_TRAIN, &s->train_set));
    PLB_TRY(open_set(s, PLB_TEST, &s->test_set));
    PLB_TRY(check_size(s));
    PLB_TRY(warn_of_one_part(s));
    const plb_dataset_info *data = &s->train_set->info;
    PLB_TRY(plb_train_model_fit(&s->from, data, s->options.data));
    if (s->from.file)
        return plb_train_model_check_batches(&s->from, &s->options, data->count,
                                             s->test_set->info.count);
    s->zoo.size = data->height;
    s->zoo.classes = data->classes;
    use_pixels(s);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- running
static plb_status build_train(void *context, plb_model *model, const char *program, int64_t batch,
                              plb_graph **out_graph, plb_value *out_loss) {
    session *s = context;
    if (s->from.file) {
        return plb_train_model_build(&s->from, model, program, batch, false, out_graph, out_loss);
    }
    s->zoo.batch = batch;
    s->zoo.program = program;
    return plb_zoo_build_train(model, s->from.name, &s->zoo, out_graph, out_loss);
}

static plb_status build_eval(void *context, plb_model *model, const char *program, int64_t batch) {
    session *s = context;
    plb_graph *graph;
    plb_value loss;
    if (s->from.file) {
        return plb_train_model_build(&s->from, model, program, batch, true, &graph, &loss);
    }
    s->zoo.batch = batch;
    s->zoo.program = program;
    return plb_zoo_build_eval(model, s->from.name, &s->zoo);
}

static void show_batch(void *context, const plb_train_event *event) {
    (void)context;
    plb_train_show_progress(event);
}

static void show_epoch(void *context, const plb_train_epoch *epoch) {
    const session *s = context;
    if (!s->json) plb_train_print_epoch(epoch);
}

// The threads of OpenMP belong to what loading libraries takes, not to the model.
static int64_t resident_before_model(int threads) {
    int touched = 0;
#pragma omp parallel num_threads(threads) reduction(+ : touched)
    touched += omp_get_thread_num() >= 0;
    return touched > 0 ? plb_memory_resident() : -1;
}

static int64_t limited(const plb_dataset *set, int64_t limit) {
    return limit && limit < set->info.count ? limit : set->info.count;
}

static plb_status train(session *s) {
    const plb_train_options *o = &s->options;
    const plb_train_task task = {.context = s,
                                 .build_train = build_train,
                                 .build_eval = build_eval,
                                 .train_set = s->train_set,
                                 .test_set = s->test_set,
                                 .pixels = s->zoo.pixels != NULL};
    const plb_train_callbacks callbacks = {
        .context = s, .stop = plb_cli_stop, .batch = show_batch, .epoch = show_epoch};
    s->report = (plb_train_report){.options = o,
                                   .result = &s->result,
                                   .train_count = limited(s->train_set, o->limit),
                                   .test_count = limited(s->test_set, o->limit),
                                   .loaded_rss_bytes = resident_before_model(o->threads)};
    if (!s->json) plb_train_print_head(&s->report);
    s->model = plb_model_new();
    if (!s->model) return plb_fail(PLB_ENOMEM, "out of memory for a model");
    plb_status status = plb_train_run(s->model, &task, o, s->resume, &callbacks, &s->result);
    plb_train_clear_progress();
    s->report.peak_rss_bytes = plb_memory_resident_peak();
    return status;
}

// A model that cannot be written as ONNX costs nobody the training: its weights are kept.
static plb_status save_onnx(const session *s) {
    char why[512], path[PATH_MAX];
    plb_status status = plb_train_model_write(&s->from, s->model, &s->zoo, s->flags->save);
    if (status != PLB_EUNSUPPORTED) return status;
    snprintf(why, sizeof why, "%s", plb_error_text());
    if (snprintf(path, sizeof path, "%s.safetensors", s->flags->save) >= PATH_MAX)
        return plb_fail(status, "%s", why);
    PLB_TRY(plb_weights_write(path, s->model));
    return plb_fail(status, "%s; the weights are in %s", why, path);
}

static plb_status save(const session *s) {
    const char *path = s->flags->save;
    if (!path) return PLB_OK;
    return plb_cli_is_onnx(path) ? save_onnx(s) : plb_weights_write(path, s->model);
}

static plb_status fail_interrupted(const session *s) {
    const char *path = s->flags->checkpoint;
    const bool missing = s->result.unwritten != PLB_OK;
    return plb_fail(PLB_ECANCELLED, "interrupted after %lld steps%s%s", (long long)s->result.steps,
                    missing ? "; no checkpoint of them: "
                    : path  ? "; go on with --resume "
                            : "",
                    missing ? s->result.why
                    : path  ? path
                            : "");
}

// What a full disk left unwritten is told of once all else is kept.
static plb_status finish(session *s) {
    if (s->json)
        PLB_TRY(plb_train_print_json(&s->report));
    else
        plb_train_print_end(&s->report);
    if (s->result.stopped) return fail_interrupted(s);
    PLB_TRY(save(s));
    if (!s->result.unwritten) return PLB_OK;
    return plb_fail(s->result.unwritten, "--checkpoint: %s", s->result.why);
}

static plb_status run_train(plb_call *call) {
    session s = {.flags = call->options, .json = call->json};
    plb_status status;
    PLB_TRY_OUT(set_options(&s, call->operands[0]));
    PLB_TRY_OUT(open_data(&s));
    PLB_TRY_OUT(train(&s));
    PLB_TRY_OUT(finish(&s));
out:
    plb_train_clear_progress();
    plb_train_result_free(&s.result);
    plb_model_free(s.model); // before the file, which holds its first weights
    plb_train_model_close(&s.from);
    plb_dataset_free(s.train_set);
    plb_dataset_free(s.test_set);
    plb_checkpoint_free(s.resume);
    return status;
}

const plb_command plb_cmd_train = {
    .name = "train",
    .summary = "train a model",
    .operands = "MODEL|F.onnx",
    .description =
        "Trains a model of the zoo, or an ONNX file from the weights that it has, and tells, for\n"
        "every epoch, loss and accuracy, those on the test set, and the time of training alone;\n"
        "at the end the memory that was used and planned, and the ops that took most time.\n\n"
        "A run that writes checkpoints may be killed at any time: --resume goes on from the\n"
        "last one and ends with the same weights, bit for bit, on the same machine with the\n"
        "same number of threads. It takes its options from the checkpoint; more epochs may be\n"
        "asked for where the schedule is constant.\n\n"
        "--save writes parameters and buffers alone, under torchvision's names. --data auto is\n"
        "the model's own set, or drawn digits where MNIST is not to be had. --limit holds for\n"
        "training and test set alike. The step schedule divides the learning rate by ten after\n"
        "each third of the epochs. A folder, or a tar file, of pictures without folders train and\n"
        "test (or val) in it is both sets, so that its accuracy is of what was trained on; a\n"
        "warning says so.",
    .min_operands = 1,
    .max_operands = 1,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(train_flags),
    .run = run_train,
};
