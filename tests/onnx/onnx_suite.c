// SPDX-License-Identifier: Apache-2.0
// Runs cases of ONNX's own backend test suite, or of anyone who keeps them in its form:
//
//   onnx_suite [--interp] [--verbose] [--list FILE] [--rtol R] [--atol A] DIR…
//
// DIR is a case (it holds model.onnx and test_data_set_N with input_I.pb and output_I.pb), or a
// folder of cases, or of "light" models (NAME.onnx with NAME_output_0.pb, whose inputs are
// arange(n) / n). Each case passes, is wrong, is refused with a reason, or breaks. Tolerances are
// those of the suite's own runner unless told: relative 1e-3, absolute 1e-7, types and shapes
// exact. Where a stored zero is itself rounding noise that even the exact result misses by more
// than the absolute tolerance, the case is "noise": off by less than four roundings of the largest
// element. Exit 1 if any is wrong or broke; the last line is what tools/run_tests sums: refused
// and noise count as skipped.
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/core/alloc.h"
#include "plumb/onnx.h"
#include "plumb/plan.h"

enum { MAX_TENSORS = 64 };

typedef struct suite {
    bool interp, verbose, noisy;
    FILE *list;
    int passed, wrong, refused, broke, noise;
    double rtol, atol;
} suite;

typedef struct tensors {
    int n;
    plb_tensor tensor[MAX_TENSORS];
    void *memory[MAX_TENSORS];
} tensors;

static void tensors_free(tensors *t) {
    for (int i = 0; i < t->n; i++) plb_free(t->memory[i]);
    t->n = 0;
}

static bool exists(const char *path) {
    struct stat info;
    return stat(path, &info) == 0;
}

static plb_status read_set(const char *folder, const char *what, tensors *out) {
    out->n = 0;
    for (int i = 0; i < MAX_TENSORS; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s_%d.pb", folder, what, i);
        if (!exists(path)) break;
        plb_status status = plb_onnx_read_tensor(path, &out->tensor[i], &out->memory[i]);
        if (status) return status;
        out->n++;
    }
    return PLB_OK;
}

// ---------------------------------------------------------------------------- comparing
static double largest(const plb_tensor *t) {
    double most = 0;
    int64_t count = plb_shape_count(&t->shape);
    for (int64_t i = 0; i < count && plb_dtype_is_float(t->dtype); i++) {
        double a = fabs(plb_load_f64(t->data, t->dtype, i));
        if (isfinite(a) && a > most) most = a;
    }
    return most;
}

// "" if `found` is what the suite's runner would take for `expected`.
static const char *differs(const plb_tensor *found, const plb_tensor *expected, double rtol,
                           double atol, bool *noise) {
    static char text[256];
    char s[100], t[100];
    if (found->dtype != expected->dtype || !plb_shape_equal(&found->shape, &expected->shape)) {
        snprintf(text, sizeof text, "expected %s %s, found %s %s", plb_dtype_name(expected->dtype),
                 plb_shape_format(&expected->shape, s, sizeof s), plb_dtype_name(found->dtype),
                 plb_shape_format(&found->shape, t, sizeof t));
        return text;
    }
    int64_t count = plb_shape_count(&expected->shape);
    bool real = plb_dtype_is_float(expected->dtype);
    double rounding = 4 * plb_dtype_epsilon(expected->dtype) * largest(expected);
    for (int64_t i = 0; i < count; i++) {
        int64_t at = plb_tensor_offset_linear(found, i);
        if (real) {
            double a = plb_load_f64(found->data, found->dtype, at);
            double b = plb_load_f64(expected->data, expected->dtype, i);
            if (a == b || (isnan(a) && isnan(b))) continue;
            if (!isnan(a) && !isnan(b) && fabs(a - b) <= atol + rtol * fabs(b)) continue;
            if (fabs(b) <= rounding && fabs(a - b) <= rounding) {
                *noise = true;
                continue;
            }
            snprintf(text, sizeof text, "element %lld: expected %.9g, found %.9g", (long long)i, b,
                     a);
            return text;
        }
        int64_t a = plb_load_i64(found->data, found->dtype, at);
        int64_t b = plb_load_i64(expected->data, expected->dtype, i);
        if (a == b || (double)llabs(a - b) <= atol + rtol * (double)llabs(b)) continue;
        snprintf(text, sizeof text, "element %lld: expected %lld, found %lld", (long long)i,
                 (long long)b, (long long)a);
        return text;
    }
    return "";
}

// An output whose extent depends on data is cut to its count.
static plb_status trim(plb_plan *plan, const char *name, plb_tensor *t) {
    char count_name[512];
    plb_tensor count;
    snprintf(count_name, sizeof count_name, "%s:count", name);
    if (plb_plan_output(plan, count_name, &count)) return PLB_OK;
    t->shape.dim[0] = plb_load_i64(count.data, count.dtype, 0);
    return PLB_OK;
}

// ---------------------------------------------------------------------------- one case
typedef struct run {
    plb_onnx *file;
    plb_model *model;
    plb_plan *plan;
    char *fixed;
} run;

static void run_free(run *r) {
    plb_plan_free(r->plan);
    plb_model_free(r->model);
    plb_onnx_free(r->file);
    plb_free(r->fixed);
    *r = (run){0};
}

static plb_status prepare(const suite *s, const char *path, const tensors *in, run *r) {
    plb_graph *graph;
    plb_onnx_given given[MAX_TENSORS];
    plb_status status = plb_onnx_open(path, &r->file);
    if (status) return status;
    int n = plb_onnx_input_count(r->file);
    for (int i = 0; i < n && i < in->n; i++) {
        plb_onnx_input_info info;
        if ((status = plb_onnx_input(r->file, i, &info))) return status;
        given[i] = (plb_onnx_given){.name = info.name, .tensor = in->tensor[i]};
    }
    r->model = plb_model_new();
    if (!r->model) return PLB_ENOMEM;
    if ((status = plb_model_program(r->model, "main", &graph))) return status;
    plb_onnx_options options = {.given = given, .n_given = n < in->n ? n : in->n};
    if ((status = plb_onnx_build(r->file, &options, graph, &r->fixed))) return status;
    plb_plan_options plan = {.threads = 1, .no_tuning = true};
    if (s->interp || plb_onnx_needs_interp(graph)) plan.level = PLB_LEVEL_INTERP;
    return plb_plan_new(graph, &plan, &r->plan);
}

static plb_status execute(const run *r, const tensors *in) {
    for (int i = 0; i < plb_onnx_input_count(r->file) && i < in->n; i++) {
        plb_onnx_input_info info;
        plb_tensor to;
        plb_status status = plb_onnx_input(r->file, i, &info);
        if (!status) status = plb_plan_input(r->plan, info.name, &to);
        if (!status) status = plb_tensor_copy(&to, &in->tensor[i]);
        if (status) return status;
    }
    return plb_plan_run(r->plan);
}

static void report(suite *s, const char *name, const char *verdict, const char *why) {
    if (s->verbose) printf("%-8s %s%s%s\n", verdict, name, *why ? ": " : "", why);
    if (s->list) fprintf(s->list, "%s\t%s\t%s\n", verdict, name, why);
}

static void settle(suite *s, const char *name, plb_status status, const char *difference) {
    if (status == PLB_EUNSUPPORTED) {
        s->refused++;
        report(s, name, "refused", plb_error_text());
    } else if (status) {
        s->broke++;
        report(s, name, "broke", plb_error_text());
    } else if (*difference) {
        s->wrong++;
        report(s, name, "wrong", difference);
    } else if (s->noisy) {
        s->noise++;
        report(s, name, "noise", "what is expected is itself off by more than the tolerance");
    } else {
        s->passed++;
        report(s, name, "passed", "");
    }
    s->noisy = false;
}

static plb_status compare(suite *s, const run *r, const tensors *expected, char *difference,
                          size_t size_bytes) {
    bool noise = false;
    *difference = '\0';
    for (int i = 0; i < expected->n && !*difference; i++) {
        const char *name = plb_onnx_output_name(r->file, i);
        plb_tensor found;
        plb_status status = plb_plan_output(r->plan, name, &found);
        if (!status) status = trim(r->plan, name, &found);
        if (status) return status;
        const char *why = differs(&found, &expected->tensor[i], s->rtol, s->atol, &noise);
        if (*why) snprintf(difference, size_bytes, "output %s: %s", name, why);
    }
    s->noisy |= noise;
    return PLB_OK;
}

static void one_case(suite *s, const char *folder) {
    const char *slash = strrchr(folder, '/'), *name = slash ? slash + 1 : folder;
    char path[4096], set[4096], difference[512] = "";
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    plb_status status = PLB_OK;
    for (int k = 0; !status && !*difference; k++) {
        tensors in = {0}, out = {0};
        run r = {0};
        snprintf(set, sizeof set, "%s/test_data_set_%d", folder, k);
        if (!exists(set)) {
            if (k == 0) snprintf(difference, sizeof difference, "no test_data_set_0");
            break;
        }
        // The model first: its reason to be refused says more than a tensor's.
        plb_status values = read_set(set, "input", &in);
        status = prepare(s, path, &in, &r);
        if (!status) status = values;
        if (!status) status = execute(&r, &in);
        if (!status) status = read_set(set, "output", &out);
        if (!status) status = compare(s, &r, &out, difference, sizeof difference);
        run_free(&r);
        tensors_free(&in);
        tensors_free(&out);
    }
    settle(s, name, status, difference);
}

// ---------------------------------------------------------------------------- light models
static plb_status ramp_inputs(const char *path, tensors *in) {
    plb_onnx *file;
    plb_status status = plb_onnx_open(path, &file);
    for (int i = 0; !status && i < plb_onnx_input_count(file) && i < MAX_TENSORS; i++) {
        plb_onnx_input_info info;
        if ((status = plb_onnx_input(file, i, &info))) break;
        int64_t count = plb_shape_count(&info.shape);
        size_t size = (size_t)count * plb_dtype_size(info.dtype);
        if (!(in->memory[i] = plb_alloc(size))) status = PLB_ENOMEM;
        in->tensor[i] = plb_tensor_dense(in->memory[i], info.dtype, &info.shape, (plb_layout){0});
        for (int64_t k = 0; k < count && !status; k++) {
            plb_store_f64(in->memory[i], info.dtype, k, (double)k / (double)count);
        }
        in->n++;
    }
    plb_onnx_free(file);
    return status;
}

static void one_light_model(suite *s, const char *path) {
    char base[4096], output[4200], difference[512] = "";
    snprintf(base, sizeof base, "%s", path);
    base[strlen(base) - strlen(".onnx")] = '\0';
    snprintf(output, sizeof output, "%s_output_0.pb", base);
    tensors in = {0}, out = {0};
    run r = {0};
    plb_status status = ramp_inputs(path, &in);
    if (!status) status = prepare(s, path, &in, &r);
    if (!status) status = execute(&r, &in);
    if (!status) {
        status = plb_onnx_read_tensor(output, &out.tensor[0], &out.memory[0]);
        out.n = !status;
    }
    if (!status) status = compare(s, &r, &out, difference, sizeof difference);
    run_free(&r);
    tensors_free(&in);
    tensors_free(&out);
    settle(s, strrchr(path, '/') + 1, status, difference);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

static void walk(suite *s, const char *folder) {
    char path[4096];
    struct dirent **entries;
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (exists(path)) {
        one_case(s, folder);
        return;
    }
    int n = scandir(folder, &entries, NULL, by_name);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        size_t length = strlen(name);
        snprintf(path, sizeof path, "%s/%s", folder, name);
        struct stat info;
        if (*name != '.' && stat(path, &info) == 0) {
            if (S_ISDIR(info.st_mode)) {
                walk(s, path);
            } else if (length > 5 && strcmp(name + length - 5, ".onnx") == 0) {
                one_light_model(s, path);
            }
        }
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

int main(int argc, char **argv) {
    suite s = {.rtol = 1e-3, .atol = 1e-7};
    int first = 1;
    for (; first < argc && argv[first][0] == '-'; first++) {
        if (strcmp(argv[first], "--interp") == 0)
            s.interp = true;
        else if (strcmp(argv[first], "--verbose") == 0)
            s.verbose = true;
        else if (strcmp(argv[first], "--list") == 0 && first + 1 < argc) {
            s.list = fopen(argv[++first], "w");
        } else if (strcmp(argv[first], "--rtol") == 0 && first + 1 < argc) {
            s.rtol = atof(argv[++first]);
        } else if (strcmp(argv[first], "--atol") == 0 && first + 1 < argc) {
            s.atol = atof(argv[++first]);
        } else
            first = argc;
    }
    if (first >= argc) {
        fprintf(stderr,
                "usage: onnx_suite [--interp] [--verbose] [--list FILE] [--rtol R] [--atol A]"
                " DIR...\n");
        return 2;
    }
    for (int i = first; i < argc; i++) walk(&s, argv[i]);
    if (s.list) fclose(s.list);
    printf("%d passed, %d failed, %d skipped\n", s.passed, s.wrong + s.broke, s.refused + s.noise);
    return s.wrong + s.broke ? 1 : 0;
}
