// SPDX-License-Identifier: Apache-2.0
// Classifies pictures: decode, resize, crop and normalise as torchvision does, run, name the best.
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/file.h"
#include "base/folder.h"
#include "base/machine.h"
#include "base/thread.h"
#include "cli/cli.h"
#include "cli/onnx_model.h"
#include "data/registry.h"
#include "data/transform.h"
#include "engine/device/inventory.h"
#include "plumb/plan.h"
#include "plumb/weights.h"
#include "plumb/zoo.h"
#include "train/options.h"

typedef struct predict_flags {
    const char *weights, *labels, *level, *normalize, *device, *math, *autocast, *dim, *save;
    int64_t classes, size, batch, top, threads, tune_seconds;
    double time_limit;
    bool no_winograd;
} predict_flags;

#define FLAG(flag, what, field) \
    .name = flag, .kind = PLB_FLAG_##what, .offset = offsetof(predict_flags, field)
static const plb_flag flags[] = {
    {FLAG("weights", FILE, weights), .value = "F", .help = "the safetensors file to read"},
    {FLAG("labels", FILE, labels), .value = "F",
     .help = "names of the classes, one a line; default: see above"},
    {FLAG("top", INT, top), .value = "N", .min = 1, .max = 1000,
     .help = "classes to show of each picture; default 5"},
    {FLAG("classes", INT, classes), .value = "N", .min = 1, .max = 1 << 24,
     .help = "outputs of the model; default: the model's"},
    {FLAG("size", INT, size), .value = "N", .min = 8, .max = 4096,
     .help = "height and width of the input; default: the model's"},
    {FLAG("normalize", CHOICE, normalize), .value = "imagenet|half",
     .help = "mean and deviation of colours; half: 0.5 and 0.5; default imagenet"},
    {FLAG("batch", INT, batch), .value = "N", .min = 1, .max = 65536,
     .help = "most pictures to run at once; default 8"},
    {FLAG("threads", INT, threads), .value = "N", .min = 1, .max = 1024,
     .help = "default: as many as this process may use"},
    {FLAG("level", CHOICE, level), .value = "interp|plan|replay", .fallback = "plan",
     .help = "how the engine runs the model"},
    PLB_DEVICE_FLAGS,
    {FLAG("no-winograd", SWITCH, no_winograd), .help = "no Winograd convolutions"},
    {FLAG("time-limit", DOUBLE, time_limit), .value = "S", .low = 0.001, .high = 1e6,
     .help = "limit of loops in an ONNX file; default: none"},
    {FLAG("dim", STRING, dim), .value = "NAME=N,...",
     .help = "of an ONNX file: numbers for extents that it names; default 1"},
    {FLAG("save", FILE, save), .value = "DIR",
     .help = "of an ONNX file: folder for its outputs, 0.npy, 1.npy, ..."},
};

enum { USUAL_TOP = 5, USUAL_BATCH = 8 };

static const plb_normalization half_normalization = {{0.5f, 0.5f, 0.5f}, {0.5f, 0.5f, 0.5f}};
static const float digit_mean = 0.1307f, digit_std = 0.3081f; // of MNIST

typedef struct predict {
    const predict_flags *flags;
    const plb_zoo_info *info;
    char **files;
    int64_t n_files, batch, first; // first: file of the running batch
    int threads;
    plb_model *model;
    plb_plan *plan;
    plb_tensor x;
    int64_t classes, size, top;
    char *label_text; // lines cut apart
    const char **labels;
    int64_t *index; // [n_files][top]
    double *probability;
    double *scratch; // [classes]
} predict;

// ---------------------------------------------------------------------------- labels
static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory for predictions");
}

// Cuts the text of a file into lines. Fewer or more than the classes is PLB_EINVAL.
static plb_status read_labels(predict *p, const char *path) {
    enum { MOST = 64 << 20 };
    uint8_t *bytes = NULL;
    size_t size = 0;
    PLB_TRY(plb_file_read(path, MOST, &bytes, &size));
    p->label_text = plb_alloc(size + 1);
    p->labels = plb_alloc_array((size_t)p->classes, sizeof *p->labels);
    if (p->label_text && p->labels) memcpy(p->label_text, bytes, size);
    plb_free(bytes);
    if (!p->label_text || !p->labels) return no_memory();
    int64_t count = 0;
    for (char *line = p->label_text; line < p->label_text + size;) {
        size_t length = strcspn(line, "\n");
        char *next = line + length + 1;
        if (length && line[length - 1] == '\r') length--;
        line[length] = '\0';
        if (count < p->classes) p->labels[count] = line;
        count++;
        line = next;
    }
    if (count == p->classes) return PLB_OK;
    return plb_fail(PLB_EINVAL, "%s: expected %" PRId64 " lines, one a class, found %" PRId64, path,
                    p->classes, count);
}

// Looks for imagenet_classes.txt where data sets are looked for.
static plb_status find_labels(predict *p) {
    static const char name[] = "imagenet_classes.txt";
    if (p->flags->labels) return read_labels(p, p->flags->labels);
    if (p->classes != 1000 || p->info->channels != 3) return PLB_OK;
    plb_arena *arena = plb_arena_new();
    if (!arena) return no_memory();
    const char *roots[2] = {NULL, getenv("PLUMB_TEST_DATA")};
    plb_status status = PLB_OK;
    if (plb_data_root(arena, &roots[0]) != PLB_OK) roots[0] = NULL; // no home: nothing there
    for (int i = 0; i < 2 && !p->labels && !status; i++) {
        const char *path = roots[i] ? plb_arena_printf(arena, "%s/%s", roots[i], name) : NULL;
        if (path && plb_file_exists(path)) status = read_labels(p, path);
    }
    plb_arena_free(arena);
    return status;
}

// ---------------------------------------------------------------------------- pictures
// As PIL's conversion to "L", in all three channels.
static void make_grey(plb_image *image) {
    for (int64_t i = 0; i < image->height * image->width; i++) {
        uint8_t *c = image->pixels + 3 * i;
        uint32_t grey = (19595u * c[0] + 38470u * c[1] + 7471u * c[2] + 0x8000u) >> 16;
        c[0] = c[1] = c[2] = (uint8_t)grey;
    }
}

static void store_grey(const plb_image *image, int64_t n, plb_tensor *x) {
    float *to = (float *)x->data + n * x->stride[0];
    for (int64_t i = 0; i < image->height * image->width; i++) {
        to[i] = ((float)image->pixels[3 * i] / 255.0f - digit_mean) / digit_std;
    }
}

// torchvision's presets resize the short side to 8/7 of the crop: 256 for 224, 342 for 299.
static int64_t short_side(int64_t size) {
    return (8 * size + 3) / 7;
}

static plb_status transform(predict *p, plb_image *image, int64_t n) {
    plb_image small = {0}, crop = {0};
    plb_status status;
    if (p->info->channels == 1) {
        make_grey(image);
        PLB_TRY_OUT(plb_image_resize(image, p->size, p->size, &small));
        store_grey(&small, n, &p->x);
        goto out;
    }
    PLB_TRY_OUT(plb_image_resize_short(image, short_side(p->size), &small));
    PLB_TRY_OUT(plb_image_crop_center(&small, p->size, p->size, &crop));
    bool half = p->flags->normalize && strcmp(p->flags->normalize, "half") == 0;
    status =
        plb_image_store(&crop, half ? &half_normalization : &plb_imagenet_normalization, n, &p->x);
out:
    plb_image_free(&small);
    plb_image_free(&crop);
    return status;
}

static plb_status load_picture(void *context, int64_t n, int thread) {
    (void)thread;
    predict *p = context;
    const char *path = p->files[p->first + n];
    plb_image image;
    PLB_TRY(plb_image_read(path, NULL, &image));
    plb_status status = transform(p, &image, n);
    plb_image_free(&image);
    return status ? plb_fail_context(status, "%s", path) : PLB_OK;
}

// ---------------------------------------------------------------------------- running
static plb_status prepare(predict *p) {
    const predict_flags *f = p->flags;
    const plb_zoo_options zoo = {.batch = p->batch, .size = f->size, .classes = f->classes};
    plb_plan_options options = {.threads = p->threads,
                                .no_winograd = f->no_winograd,
                                .device = f->device,
                                .tune_ms = f->tune_seconds * 1000};
    PLB_TRY(plb_math_from_name(f->math, &options.math));
    PLB_TRY(plb_autocast_from_name(f->autocast, &options.autocast));
    PLB_TRY(plb_level_from_name(f->level, &options.level));
    p->model = plb_model_new();
    if (!p->model) return plb_fail(PLB_ENOMEM, "out of memory for a model");
    PLB_TRY(plb_zoo_build_infer(p->model, p->info->name, &zoo));
    const plb_graph *graph = plb_model_find_program(p->model, "infer");
    PLB_TRY(plb_weights_load(f->weights, p->model, graph, p->threads));
    PLB_TRY(plb_plan_new(graph, &options, &p->plan));
    return plb_plan_input(p->plan, "x", &p->x);
}

static bool has_nan(const plb_model *model, int index, void *data) {
    const plb_variable_info info = plb_model_variable_info(model, index);
    int64_t count = plb_shape_count(&info.type.shape);
    if (!plb_dtype_is_float(info.type.dtype)) return false;
    for (int64_t i = 0; i < count; i++) {
        if (!isfinite(plb_load_f64(data, info.type.dtype, i))) return true;
    }
    return false;
}

static plb_status fail_not_finite(predict *p, const char *file) {
    for (int i = 0; i < plb_model_variable_count(p->model); i++) {
        if (!has_nan(p->model, i, plb_variable_data(p->model, i))) continue;
        return plb_fail(PLB_EINVAL, "%s: %s: expected finite numbers, found NaN or infinity",
                        p->flags->weights, plb_model_variable_info(p->model, i).name);
    }
    return plb_fail(PLB_EINVAL,
                    "%s: expected finite outputs, found NaN or infinity; the numbers "
                    "in %s are too large",
                    file, p->flags->weights);
}

// The best of one picture: softmax in f64, ties to the lower index.
static plb_status rank(predict *p, const plb_tensor *logits, int64_t n) {
    double most = -HUGE_VAL, sum = 0;
    int64_t *index = p->index + (p->first + n) * p->top;
    double *probability = p->probability + (p->first + n) * p->top;
    for (int64_t c = 0; c < p->classes; c++) {
        p->scratch[c] =
            plb_load_f64(logits->data, logits->dtype, plb_tensor_offset(logits, (int64_t[]){n, c}));
        if (!isfinite(p->scratch[c])) return fail_not_finite(p, p->files[p->first + n]);
        most = fmax(most, p->scratch[c]);
    }
    for (int64_t c = 0; c < p->classes; c++) sum += p->scratch[c] = exp(p->scratch[c] - most);
    for (int64_t k = 0; k < p->top; k++) {
        int64_t best = 0;
        for (int64_t c = 1; c < p->classes; c++) {
            if (p->scratch[c] > p->scratch[best]) best = c;
        }
        index[k] = best;
        probability[k] = p->scratch[best] / sum;
        p->scratch[best] = -1; // below every exp
    }
    return PLB_OK;
}

static plb_status run_batches(predict *p) {
    size_t cells = (size_t)(p->n_files * p->top);
    p->index = plb_alloc_array(cells, sizeof *p->index);
    p->probability = plb_alloc_array(cells, sizeof *p->probability);
    p->scratch = plb_alloc_array((size_t)p->classes, sizeof *p->scratch);
    if (!p->index || !p->probability || !p->scratch) return no_memory();
    for (p->first = 0; p->first < p->n_files; p->first += p->batch) {
        PLB_TRY(plb_cli_go_on());
        int64_t left = p->n_files - p->first, count = left < p->batch ? left : p->batch;
        plb_tensor logits;
        PLB_TRY(plb_thread_for(count, p->threads, load_picture, p));
        PLB_TRY(plb_plan_run(p->plan)); // of a last part, rows beyond it are not looked at
        PLB_TRY(plb_plan_output(p->plan, "logits", &logits));
        for (int64_t n = 0; n < count; n++) PLB_TRY(rank(p, &logits, n));
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- telling
static void print_text(const predict *p) {
    for (int64_t i = 0; i < p->n_files; i++) {
        plb_print("%s%s\n", i ? "\n" : "", p->files[i]);
        for (int64_t k = i * p->top; k < (i + 1) * p->top; k++) {
            plb_print("  %6.2f %%  %5" PRId64 "%s%s\n", 100 * p->probability[k], p->index[k],
                      p->labels ? "  " : "", p->labels ? p->labels[p->index[k]] : "");
        }
    }
}

static plb_status print_json(const predict *p) {
    plb_json json;
    plb_cli_json_begin(&json, "predict", 1);
    plb_json_string(&json, "model", p->info->name);
    plb_json_string(&json, "weights", p->flags->weights);
    plb_json_string(&json, "level", p->flags->level);
    plb_json_int(&json, "threads", p->threads);
    plb_json_int(&json, "batch", p->batch);
    plb_json_begin_array(&json, "images");
    for (int64_t i = 0; i < p->n_files; i++) {
        plb_json_begin_object(&json, NULL);
        plb_json_string(&json, "file", p->files[i]);
        plb_json_begin_array(&json, "top");
        for (int64_t k = i * p->top; k < (i + 1) * p->top; k++) {
            plb_json_begin_object(&json, NULL);
            plb_json_int(&json, "index", p->index[k]);
            plb_json_string(&json, "label", p->labels ? p->labels[p->index[k]] : NULL);
            plb_json_double(&json, "probability", p->probability[k]);
            plb_json_end(&json);
        }
        plb_json_end(&json);
        plb_json_end(&json);
    }
    plb_json_end(&json);
    return plb_cli_json_print(&json);
}

static plb_status predict_onnx(const plb_call *call) {
    const predict_flags *f = call->options;
    if (f->save) { // not once all has run
        char first[PATH_MAX];
        const plb_status made = plb_folder_make(f->save);
        if (made) return plb_fail_context(made, "--save");
        snprintf(first, sizeof first, "%s/0.npy", f->save);
        PLB_TRY(plb_cli_check_writable("save", first));
    }
    plb_plan_options options = {.threads = f->threads ? (int)f->threads : plb_machine_threads(),
                                .no_winograd = f->no_winograd,
                                .device = f->device,
                                .tune_ms = f->tune_seconds * 1000,
                                .time_limit_ms = (int64_t)ceil(f->time_limit * 1000)};
    PLB_TRY(plb_math_from_name(f->math, &options.math));
    PLB_TRY(plb_autocast_from_name(f->autocast, &options.autocast));
    PLB_TRY(plb_level_from_name(f->level, &options.level));
    return plb_cli_onnx_predict(call->operands[0], f->dim, call->operands + 1,
                                call->operand_count - 1, f->save, &options, call->json);
}

static plb_status run_predict(plb_call *call) {
    const predict_flags *f = call->options;
    const char *of_zoo = f->weights     ? "weights"
                         : f->labels    ? "labels"
                         : f->classes   ? "classes"
                         : f->size      ? "size"
                         : f->top       ? "top"
                         : f->batch     ? "batch"
                         : f->normalize ? "normalize"
                                        : NULL;
    const char *of_file = f->save ? "save" : f->time_limit > 0 ? "time-limit" : NULL;
    plb_cli_stop_engine();
    PLB_TRY(plb_cli_onnx_check(call->operands[0], of_zoo, f->dim));
    PLB_TRY(plb_device_check(f->device));
    if (plb_cli_is_onnx(call->operands[0])) return predict_onnx(call);
    if (of_file)
        return plb_fail(PLB_EINVAL, "--%s is for ONNX files, and %s is none", of_file,
                        call->operands[0]);
    predict p = {.flags = f, .files = call->operands + 1, .n_files = call->operand_count - 1};
    plb_status status;
    PLB_TRY_OUT(plb_zoo_find(call->operands[0], &p.info));
    if (f->normalize && p.info->channels == 1)
        PLB_TRY_OUT(plb_fail(PLB_EINVAL,
                             "--normalize is for pictures in colour; those of %s are "
                             "normalised as MNIST",
                             p.info->name));
    if (!f->weights) {
        status = plb_fail(PLB_EINVAL,
                          "expected --weights F.safetensors; `plumb init %s --save F` "
                          "writes some",
                          p.info->name);
        goto out;
    }
    p.threads = f->threads ? (int)f->threads : plb_machine_threads();
    p.classes = f->classes ? f->classes : p.info->classes;
    p.size = f->size ? f->size : p.info->height;
    const int64_t top = f->top ? f->top : USUAL_TOP, batch = f->batch ? f->batch : USUAL_BATCH;
    p.top = top < p.classes ? top : p.classes;
    p.batch = batch < p.n_files ? batch : p.n_files;
    PLB_TRY_OUT(find_labels(&p));
    PLB_TRY_OUT(prepare(&p));
    PLB_TRY_OUT(run_batches(&p));
    if (call->json) {
        status = print_json(&p);
    } else {
        print_text(&p);
    }
out:
    plb_plan_free(p.plan);
    plb_model_free(p.model);
    plb_free(p.label_text);
    plb_free(p.labels);
    plb_free(p.index);
    plb_free(p.probability);
    plb_free(p.scratch);
    return status;
}

const plb_command plb_cmd_predict = {
    .name = "predict",
    .summary = "name what is on pictures",
    .operands = "MODEL IMAGE... | F.onnx X.npy...",
    .description =
        "Tells the most probable classes of JPEG and PNG pictures. The weights are a state\n"
        "dict that PyTorch saved as safetensors, or what `plumb init` and `plumb train` write.\n\n"
        "Pictures are prepared as by torchvision: the short side is resized to 8/7 of the\n"
        "input's size (256 for 224) by antialiased bilinear interpolation, the middle is cut\n"
        "out, and colours are normalised with the mean and deviation of ImageNet. The\n"
        "published weights of googlenet and inception_v3 expect --normalize half. Models of\n"
        "digits get grey pictures of 28x28.\n\n"
        "Without --labels, models of 1000 classes use imagenet_classes.txt in the folder of\n"
        "data sets ($PLUMB_DATA, else $XDG_DATA_HOME/plumb/data), if it is there.\n\n"
        "An ONNX file is run on arrays in numpy's format, one an input in their order. Arrays\n"
        "with one axis more than their inputs hold one element a run.",
    .min_operands = 2,
    .max_operands = -1,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(predict_flags),
    .completes = "",
    .run = run_predict,
};
