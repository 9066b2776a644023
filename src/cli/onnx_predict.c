// SPDX-License-Identifier: Apache-2.0
// Runs an ONNX file on arrays. An array with one axis more than its input holds one element a run;
// outputs then gain that axis too.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "cli/cli.h"
#include "cli/onnx_model.h"
#include "io/npy.h"

enum { MAX_ENDS = 32 };

typedef struct arrays {
    plb_onnx_model m;
    plb_plan *plan;
    int n_in, n_out;
    plb_tensor in[MAX_ENDS], out[MAX_ENDS]; // out: of all runs
    const char *out_name[MAX_ENDS];
    int64_t runs; // 0: once, without an axis of runs
} arrays;

static plb_status check_array(arrays *a, int i, const char *path, const plb_tensor *want) {
    const plb_tensor *found = &a->in[i];
    char s[160], t[160];
    bool runs = found->shape.rank == want->shape.rank + 1;
    plb_shape one = found->shape;
    if (runs) {
        one.rank--;
        for (int k = 0; k < one.rank; k++) one.dim[k] = found->shape.dim[k + 1];
    }
    if (plb_shape_equal(&one, &want->shape)) {
        if (runs && found->shape.dim[0] == 0)
            return plb_fail(PLB_EINVAL, "%s: expected at least one run, found none", path);
        int64_t count = runs ? found->shape.dim[0] : 0;
        if (i == 0) a->runs = count;
        if (a->runs == count) return PLB_OK;
    }
    return plb_fail(PLB_EINVAL, "%s: expected %s, or that with one axis of runs in front; found %s",
                    path, plb_shape_format(&want->shape, s, sizeof s),
                    plb_shape_format(&found->shape, t, sizeof t));
}

static plb_status read_arrays(arrays *a, char **paths, int n) {
    if (n != plb_onnx_input_count(a->m.file) || n > MAX_ENDS) {
        return plb_fail(PLB_EINVAL, "expected %d arrays, one an input, found %d",
                        plb_onnx_input_count(a->m.file), n);
    }
    for (int i = 0; i < n; i++) {
        plb_onnx_input_info info;
        plb_tensor want;
        PLB_TRY(plb_npy_read(paths[i], &a->in[i]));
        a->n_in++;
        PLB_TRY(plb_onnx_input(a->m.file, i, &info));
        PLB_TRY(plb_plan_input(a->plan, info.name, &want));
        PLB_TRY(check_array(a, i, paths[i], &want));
    }
    return PLB_OK;
}

// The part of `all` that belongs to run k.
static plb_tensor part_of(const plb_tensor *all, int64_t k, bool runs) {
    plb_tensor part = *all;
    if (!runs) return part;
    plb_shape shape = {.rank = all->shape.rank - 1};
    for (int i = 0; i < shape.rank; i++) shape.dim[i] = all->shape.dim[i + 1];
    size_t offset = (size_t)(k * plb_shape_count(&shape)) * plb_dtype_size(all->dtype);
    return plb_tensor_dense((char *)all->data + offset, all->dtype, &shape, (plb_layout){0});
}

static plb_status make_outputs(arrays *a) {
    a->n_out = plb_onnx_output_count(a->m.file);
    if (a->n_out > MAX_ENDS) return plb_fail(PLB_EUNSUPPORTED, "%d outputs", a->n_out);
    for (int i = 0; i < a->n_out; i++) {
        plb_tensor one;
        a->out_name[i] = plb_onnx_output_name(a->m.file, i);
        PLB_TRY(plb_plan_output(a->plan, a->out_name[i], &one));
        plb_shape shape = one.shape;
        if (a->runs) {
            if (shape.rank == PLB_MAX_RANK)
                return plb_fail(PLB_EUNSUPPORTED, "rank %d", shape.rank);
            memmove(shape.dim + 1, shape.dim, (size_t)shape.rank * sizeof *shape.dim);
            shape.dim[0] = a->runs, shape.rank++;
        }
        void *memory = plb_alloc((size_t)plb_shape_count(&shape) * plb_dtype_size(one.dtype) + 1);
        if (!memory) return plb_fail(PLB_ENOMEM, "out of memory for outputs");
        a->out[i] = plb_tensor_dense(memory, one.dtype, &shape, (plb_layout){0});
    }
    return PLB_OK;
}

static plb_status run_one(arrays *a, int64_t k) {
    for (int i = 0; i < a->n_in; i++) {
        plb_onnx_input_info info;
        plb_tensor to, from = part_of(&a->in[i], k, a->runs > 0);
        PLB_TRY(plb_onnx_input(a->m.file, i, &info));
        PLB_TRY(plb_plan_input(a->plan, info.name, &to));
        PLB_TRY(plb_tensor_copy(&to, &from));
    }
    PLB_TRY(plb_plan_run(a->plan));
    if (k == 0) PLB_TRY(make_outputs(a));
    for (int i = 0; i < a->n_out; i++) {
        plb_tensor from, to = part_of(&a->out[i], k, a->runs > 0);
        PLB_TRY(plb_plan_output(a->plan, a->out_name[i], &from));
        PLB_TRY(plb_tensor_copy(&to, &from));
    }
    return PLB_OK;
}

static plb_status save_outputs(const arrays *a, const char *folder) {
    for (int i = 0; i < a->n_out; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%d.npy", folder, i);
        PLB_TRY(plb_npy_write(path, &a->out[i]));
    }
    return PLB_OK;
}

typedef struct summary {
    double low, mean, high;
} summary;

static summary summarise(const plb_tensor *t) {
    summary s = {HUGE_VAL, 0, -HUGE_VAL};
    bool nan = false;
    int64_t count = plb_shape_count(&t->shape);
    for (int64_t k = 0; k < count; k++) {
        double x = plb_load_f64(t->data, t->dtype, k);
        s.low = fmin(s.low, x), s.high = fmax(s.high, x), s.mean += x / (double)count;
        nan |= isnan(x);
    }
    if (nan || !count) s = (summary){NAN, NAN, NAN}; // fmin and fmax pass NaNs over
    return s;
}

static void tell(const arrays *a) {
    for (int i = 0; i < a->n_out; i++) {
        const plb_tensor *t = &a->out[i];
        char shape[160];
        summary s = summarise(t);
        plb_print("%-24s %-5s %-24s min %.6g, mean %.6g, max %.6g\n", a->out_name[i],
                  plb_dtype_name(t->dtype), plb_shape_format(&t->shape, shape, sizeof shape), s.low,
                  s.mean, s.high);
    }
}

static plb_status tell_json(const arrays *a, const char *model) {
    plb_json json;
    plb_cli_json_begin(&json, "predict_arrays", 1);
    plb_json_string(&json, "model", model);
    plb_json_int(&json, "runs", a->runs ? a->runs : 1);
    plb_json_begin_array(&json, "outputs");
    for (int i = 0; i < a->n_out; i++) {
        const plb_tensor *t = &a->out[i];
        summary s = summarise(t);
        plb_json_begin_object(&json, NULL);
        plb_json_string(&json, "name", a->out_name[i]);
        plb_json_string(&json, "dtype", plb_dtype_name(t->dtype));
        plb_json_begin_array(&json, "shape");
        for (int k = 0; k < t->shape.rank; k++) plb_json_int(&json, NULL, t->shape.dim[k]);
        plb_json_end(&json);
        plb_json_double(&json, "min", s.low);
        plb_json_double(&json, "mean", s.mean);
        plb_json_double(&json, "max", s.high);
        plb_json_end(&json);
    }
    plb_json_end(&json);
    return plb_cli_json_print(&json);
}

plb_status plb_cli_onnx_predict(const char *path, const char *dims, char **paths, int n,
                                const char *save, const plb_plan_options *options, bool as_json) {
    arrays a = {0};
    plb_plan_options o = *options;
    plb_status status = plb_cli_onnx_load(path, dims, &a.m);
    if (!status && plb_onnx_needs_interp(a.m.graph)) o.level = PLB_LEVEL_INTERP;
    if (!status) status = plb_plan_new(a.m.graph, &o, &a.plan);
    if (!status) status = read_arrays(&a, paths, n);
    for (int64_t k = 0; !status && k < (a.runs ? a.runs : 1); k++) {
        status = plb_cli_go_on();
        if (!status) status = run_one(&a, k);
    }
    if (!status && save) status = save_outputs(&a, save);
    if (!status && as_json)
        status = tell_json(&a, path);
    else if (!status)
        tell(&a);
    for (int i = 0; i < a.n_in; i++) plb_free(a.in[i].data);
    for (int i = 0; i < MAX_ENDS; i++) plb_free(a.out[i].data);
    plb_plan_free(a.plan);
    plb_cli_onnx_free(&a.m);
    return status;
}
