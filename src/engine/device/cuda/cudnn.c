// SPDX-License-Identifier: Apache-2.0
#include "engine/device/cuda/cudnn.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/status.h"

typedef cudnnBackendDescriptor_t descriptor;

// ---------------------------------------------------------------------------- the library
static struct {
    size_t (*get_version)(void);
    cudnnStatus_t (*create)(cudnnHandle_t *);
    cudnnStatus_t (*set_stream)(cudnnHandle_t, cudaStream_t);
    const char *(*error_string)(cudnnStatus_t);
    void (*last_error)(char *, size_t);
    cudnnStatus_t (*descriptor_create)(cudnnBackendDescriptorType_t, descriptor *);
    cudnnStatus_t (*descriptor_destroy)(descriptor);
    cudnnStatus_t (*finalize)(descriptor);
    cudnnStatus_t (*set)(descriptor, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t,
                         int64_t, const void *);
    cudnnStatus_t (*get)(const descriptor, cudnnBackendAttributeName_t, cudnnBackendAttributeType_t,
                         int64_t, int64_t *, void *);
    cudnnStatus_t (*execute)(cudnnHandle_t, descriptor, descriptor);
} lib;

static const plb_cuda_symbol symbols[] = {
    {"cudnnGetVersion", &lib.get_version},
    {"cudnnCreate", &lib.create},
    {"cudnnSetStream", &lib.set_stream},
    {"cudnnGetErrorString", &lib.error_string},
    {"cudnnGetLastErrorString", &lib.last_error},
    {"cudnnBackendCreateDescriptor", &lib.descriptor_create},
    {"cudnnBackendDestroyDescriptor", &lib.descriptor_destroy},
    {"cudnnBackendFinalize", &lib.finalize},
    {"cudnnBackendSetAttribute", &lib.set},
    {"cudnnBackendGetAttribute", &lib.get},
    {"cudnnBackendExecute", &lib.execute},
};

static const char *missing;
static char version[24] = "no-cudnn";
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_library(void) {
    static const char *const names[] = {"libcudnn.so.9", "libcudnn.so", NULL};
    void *library = plb_cuda_open_library(names);
    if (!library) {
        missing = "cuDNN 9 (libcudnn.so.9) was not found";
    } else if (!plb_cuda_symbols(library, symbols, sizeof symbols / sizeof *symbols)) {
        missing = "cuDNN is older than 9";
    } else {
        snprintf(version, sizeof version, "cudnn%zu", lib.get_version());
    }
}

const char *plb_cudnn_missing(void) {
    pthread_once(&once, open_library);
    return missing;
}

const char *plb_cudnn_version(void) {
    pthread_once(&once, open_library);
    return version;
}

static plb_status check(cudnnStatus_t status, const char *what) {
    if (status == CUDNN_STATUS_SUCCESS) return PLB_OK;
    char text[400] = "";
    lib.last_error(text, sizeof text);
    bool memory = status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                  status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    return plb_fail(memory ? PLB_ENOMEM : PLB_EUNSUPPORTED, "cuDNN: %s: %s: %.300s", what,
                    lib.error_string(status), text);
}

enum { MAX_DEVICES = 64 };
// One handle to make plans and one to run them, so that making never waits for running.
static cudnnHandle_t makers[MAX_DEVICES], runners[MAX_DEVICES];
static pthread_mutex_t handle_lock = PTHREAD_MUTEX_INITIALIZER;

static plb_status handle_of(plb_device *device, cudnnHandle_t *handles, cudnnHandle_t *out) {
    *out = NULL;
    const char *reason = plb_cudnn_missing();
    if (reason) return plb_fail(PLB_EMISSING, "%s", reason);
    PLB_TRY(plb_cuda_enter(device));
    pthread_mutex_lock(&handle_lock);
    cudnnHandle_t *handle = &handles[device->index];
    plb_status status = *handle ? PLB_OK : check(lib.create(handle), "start");
    *out = *handle;
    pthread_mutex_unlock(&handle_lock);
    return status;
}

plb_status plb_cudnn_handle_new(plb_device *device, cudnnHandle_t *out) {
    *out = NULL;
    const char *reason = plb_cudnn_missing();
    if (reason) return plb_fail(PLB_EMISSING, "%s", reason);
    PLB_TRY(plb_cuda_enter(device));
    return check(lib.create(out), "start");
}

plb_status plb_cudnn_handle(plb_device *device, cudnnHandle_t *out) {
    return handle_of(device, makers, out);
}

void plb_cudnn_preload(plb_device *device) {
    cudnnHandle_t handle;
    (void)!handle_of(device, makers, &handle);
    (void)!handle_of(device, runners, &handle);
}

// ---------------------------------------------------------------------------- descriptors
void plb_cudnn_descriptor_free(descriptor d) {
    if (d) lib.descriptor_destroy(d);
}

static plb_status create(cudnnBackendDescriptorType_t type, descriptor *out) {
    *out = NULL;
    return check(lib.descriptor_create(type, out), "a descriptor");
}

// One attribute to set.
typedef struct setting {
    cudnnBackendAttributeName_t name;
    cudnnBackendAttributeType_t type;
    int64_t count;
    const void *values;
} setting;

static plb_status set_all(descriptor d, const setting *settings, int n, const char *what) {
    for (int i = 0; i < n; i++) {
        const setting *s = &settings[i];
        PLB_TRY(check(lib.set(d, s->name, s->type, s->count, s->values), what));
    }
    return check(lib.finalize(d), what);
}

static plb_status make(cudnnBackendDescriptorType_t type, const setting *settings, int n,
                       const char *what, descriptor *out) {
    PLB_TRY(create(type, out));
    plb_status status = set_all(*out, settings, n, what);
    if (!status) return PLB_OK;
    plb_cudnn_descriptor_free(*out);
    *out = NULL;
    return status;
}

static int64_t number(descriptor d, cudnnBackendAttributeName_t name) {
    int64_t n = 0, value = -1;
    bool fine = lib.get(d, name, CUDNN_TYPE_INT64, 1, &n, &value) == CUDNN_STATUS_SUCCESS;
    return fine && n == 1 ? value : -1;
}

static cudnnDataType_t type_of(plb_dtype dtype) {
    switch (dtype) {
    case PLB_F64: return CUDNN_DATA_DOUBLE;
    case PLB_F16: return CUDNN_DATA_HALF;
    case PLB_BF16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
    }
}

// ---------------------------------------------------------------------------- graphs
enum { MAX_OWNED = 32, MAX_OPS = 6 };

struct plb_cudnn_graph {
    descriptor owned[MAX_OWNED], ops[MAX_OPS], graph;
    int n_owned, n_ops;
    plb_dtype precision;
};

plb_status plb_cudnn_graph_new(plb_cudnn_graph **out) {
    *out = plb_alloc(sizeof **out);
    return *out ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a cuDNN graph");
}

void plb_cudnn_graph_free(plb_cudnn_graph *graph) {
    if (!graph) return;
    plb_cudnn_descriptor_free(graph->graph);
    for (int i = graph->n_ops - 1; i >= 0; i--) plb_cudnn_descriptor_free(graph->ops[i]);
    for (int i = graph->n_owned - 1; i >= 0; i--) plb_cudnn_descriptor_free(graph->owned[i]);
    plb_free(graph);
}

static plb_status own(plb_cudnn_graph *graph, descriptor d) {
    if (graph->n_owned == MAX_OWNED) {
        plb_cudnn_descriptor_free(d);
        return plb_fail(PLB_EUNSUPPORTED, "cuDNN: more than %d parts in a graph", MAX_OWNED);
    }
    graph->owned[graph->n_owned++] = d;
    return PLB_OK;
}

static plb_status own_op(plb_cudnn_graph *graph, descriptor d) {
    if (graph->n_ops == MAX_OPS) {
        plb_cudnn_descriptor_free(d);
        return plb_fail(PLB_EUNSUPPORTED, "cuDNN: more than %d ops in a graph", MAX_OPS);
    }
    graph->ops[graph->n_ops++] = d;
    return PLB_OK;
}

plb_status plb_cudnn_add_tensor(plb_cudnn_graph *graph, const plb_cudnn_tensor *t,
                                descriptor *out) {
    const cudnnDataType_t type = type_of(t->dtype);
    const int64_t alignment = 16;
    const setting settings[] = {
        {CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type},
        {CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, t->rank, t->dim},
        {CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, t->rank, t->stride},
        {CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &t->uid},
        {CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment},
        {CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &t->inner},
    };
    PLB_TRY(make(CUDNN_BACKEND_TENSOR_DESCRIPTOR, settings, 6, "a tensor", out));
    return own(graph, *out);
}

static plb_status add_numbers(plb_cudnn_graph *graph, const plb_cudnn_convolution *c,
                              descriptor *out) {
    const cudnnDataType_t precision = type_of(c->precision);
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t axes = c->axes;
    const setting settings[] = {
        {CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &precision},
        {CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode},
        {CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &axes},
        {CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, axes, c->dilation},
        {CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, axes, c->stride},
        {CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, axes, c->pad},
        {CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, axes, c->pad_end},
    };
    PLB_TRY(make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, settings, 7, "a convolution", out));
    return own(graph, *out);
}

// Names of what an op of each of the three kinds is made of.
typedef struct convolution_names {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t numbers, x, w, y, alpha, beta;
} convolution_names;

static const convolution_names *names_of(plb_op_id op) {
    static const convolution_names forward = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA};
    static const convolution_names data = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA};
    static const convolution_names filter = {
        CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
        CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA};
    if (op == PLB_OP_conv) return &forward;
    return op == PLB_OP_conv_input_grad ? &data : &filter;
}

plb_status plb_cudnn_add_convolution(plb_cudnn_graph *graph, const plb_cudnn_convolution *c) {
    const convolution_names *names = names_of(c->op);
    const cudnnBackendAttributeType_t is = CUDNN_TYPE_BACKEND_DESCRIPTOR;
    const bool wide = c->precision == PLB_F64;
    const cudnnBackendAttributeType_t scale = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
    const double one = 1, zero = 0;
    const float one_f = 1, zero_f = 0;
    descriptor numbers, op;
    graph->precision = c->precision;
    PLB_TRY(add_numbers(graph, c, &numbers));
    const setting settings[] = {
        {names->numbers, is, 1, &numbers},
        {names->x, is, 1, &c->x},
        {names->w, is, 1, &c->w},
        {names->y, is, 1, &c->y},
        {names->alpha, scale, 1, wide ? (const void *)&one : &one_f},
        {names->beta, scale, 1, wide ? (const void *)&zero : &zero_f},
    };
    PLB_TRY(make(names->type, settings, 6, "a convolution", &op));
    return own_op(graph, op);
}

static plb_status add_pointwise(plb_cudnn_graph *graph, descriptor kind, descriptor x, descriptor b,
                                descriptor y) {
    const cudnnBackendAttributeType_t is = CUDNN_TYPE_BACKEND_DESCRIPTOR;
    descriptor op;
    PLB_TRY(own(graph, kind));
    const setting settings[] = {
        {CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, is, 1, &kind},
        {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, is, 1, &x},
        {CUDNN_ATTR_OPERATION_POINTWISE_YDESC, is, 1, &y},
        {CUDNN_ATTR_OPERATION_POINTWISE_BDESC, is, 1, &b},
    };
    PLB_TRY(make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, settings, b ? 4 : 3,
                 "a pointwise op", &op));
    return own_op(graph, op);
}

plb_status plb_cudnn_add_sum(plb_cudnn_graph *graph, descriptor a, descriptor b, descriptor y) {
    const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
    const cudnnDataType_t precision = type_of(graph->precision);
    const setting settings[] = {
        {CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode},
        {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision},
    };
    descriptor kind;
    PLB_TRY(make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, settings, 2, "a sum", &kind));
    return add_pointwise(graph, kind, a, b, y);
}

plb_status plb_cudnn_add_silu(plb_cudnn_graph *graph, descriptor x, descriptor y) {
    const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_SWISH_FWD; // x sigmoid(beta x), beta 1
    const cudnnDataType_t precision = type_of(graph->precision);
    const setting settings[] = {
        {CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode},
        {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision},
    };
    descriptor kind;
    PLB_TRY(make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, settings, 2, "a SiLU", &kind));
    return add_pointwise(graph, kind, x, NULL, y);
}

plb_status plb_cudnn_add_clamp(plb_cudnn_graph *graph, descriptor x, descriptor y,
                               const double bounds[2]) {
    const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_RELU_FWD;
    const cudnnDataType_t precision = type_of(graph->precision);
    const float narrow[2] = {(float)bounds[0], (float)bounds[1]};
    const bool wide = graph->precision == PLB_F64;
    const cudnnBackendAttributeType_t real = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
    const setting settings[] = {
        {CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode},
        {CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &precision},
        {CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, real, 1, wide ? (const void *)bounds : narrow},
        {CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, real, 1,
         wide ? (const void *)(bounds + 1) : narrow + 1},
    };
    // Clips are told only where they differ from the defaults: more engines know plain ReLU.
    int n = bounds[0] == 0 && isinf(bounds[1]) ? 2 : 4;
    descriptor kind;
    PLB_TRY(make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR, settings, n, "a clamp", &kind));
    return add_pointwise(graph, kind, x, NULL, y);
}

plb_status plb_cudnn_graph_finish(plb_cudnn_graph *graph, cudnnHandle_t handle) {
    const setting settings[] = {
        {CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle},
        {CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph->n_ops, graph->ops},
    };
    return make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, settings, 2, "a graph", &graph->graph);
}

// ---------------------------------------------------------------------------- candidates
enum { MAX_KNOBS = 32, MAX_RESULTS = 64, MAX_NOTES = 16 };

static uint32_t knobs_of(descriptor config) {
    descriptor knobs[MAX_KNOBS] = {0};
    uint64_t hash = PLB_HASH_SEED;
    int64_t n = 0;
    int made = 0;
    while (made < MAX_KNOBS &&
           create(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &knobs[made]) == PLB_OK) {
        made++;
    }
    cudnnStatus_t status = lib.get(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                   CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &n, knobs);
    for (int i = 0; i < n && i < made && !status; i++) {
        cudnnBackendKnobType_t kind = CUDNN_KNOB_TYPE_COUNTS;
        int64_t count = 0, value = -1;
        lib.get(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &count, &kind);
        value = number(knobs[i], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE);
        hash = plb_hash_bytes(hash, &kind, sizeof kind);
        hash = plb_hash_bytes(hash, &value, sizeof value);
    }
    for (int i = 0; i < made; i++) plb_cudnn_descriptor_free(knobs[i]);
    return (uint32_t)(hash ^ hash >> 32);
}

// What an engine does to its numbers, one bit a note.
static cudnnStatus_t notes_of(descriptor engine, unsigned *bits) {
    int notes[MAX_NOTES] = {0}; // the library's enums are ints
    int64_t n = 0;
    cudnnStatus_t status = lib.get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                   CUDNN_TYPE_NUMERICAL_NOTE, MAX_NOTES, &n, notes);
    *bits = 0;
    for (int i = 0; i < n && i < MAX_NOTES && !status; i++) {
        if (notes[i] >= 0 && notes[i] < 32) *bits |= 1u << notes[i];
    }
    return status;
}

static plb_status describe(descriptor config, plb_cudnn_candidate *out) {
    descriptor engine = NULL;
    int64_t n = 0;
    *out = (plb_cudnn_candidate){.config = config, .knobs = knobs_of(config)};
    PLB_TRY(create(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine));
    cudnnStatus_t status =
        lib.get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine);
    if (!status) {
        out->engine = number(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
        status = notes_of(engine, &out->notes); // unknown, it might compute anything
    }
    plb_cudnn_descriptor_free(engine);
    return check(status, "an engine");
}

void plb_cudnn_propose(plb_cudnn_graph *graph, cudnnBackendHeurMode_t mode, int most,
                       plb_cudnn_taker take, void *context) {
    const setting settings[] = {
        {CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &graph->graph},
        {CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode},
    };
    const cudnnBackendAttributeType_t is = CUDNN_TYPE_BACKEND_DESCRIPTOR;
    descriptor heuristics, configs[MAX_RESULTS] = {0};
    int made = 0, taken = 0;
    int64_t count = 0, got = 0;
    if (make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, settings, 2, "heuristics", &heuristics)) return;
    lib.get(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, is, 0, &count, NULL);
    if (count > MAX_RESULTS) count = MAX_RESULTS;
    while (made < count && !create(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configs[made])) made++;
    cudnnStatus_t status =
        made ? lib.get(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, is, made, &got, configs)
             : CUDNN_STATUS_SUCCESS;
    for (int i = 0; i < made; i++) {
        plb_cudnn_candidate c;
        if (!status && i < got && taken < most && describe(configs[i], &c) == PLB_OK) {
            taken += take(context, &c);
        } else {
            plb_cudnn_descriptor_free(configs[i]);
        }
    }
    plb_cudnn_descriptor_free(heuristics);
}

void plb_cudnn_candidate_free(plb_cudnn_candidate *candidate) {
    plb_cudnn_descriptor_free(candidate->config);
    *candidate = (plb_cudnn_candidate){0};
}

// ---------------------------------------------------------------------------- plans
static plb_status finish_plan(const setting *settings, plb_cudnn_plan *out) {
    *out = (plb_cudnn_plan){0};
    PLB_TRY(make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, settings, 2, "a plan", &out->descriptor));
    int64_t bytes = number(out->descriptor, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
    out->workspace_bytes = bytes > 0 ? (size_t)bytes : 0;
    return PLB_OK;
}

// The headers mark the attribute as deprecated; libraries up to 9.14 need it.
enum { PLAN_HANDLE = 400 };

plb_status plb_cudnn_plan_build(cudnnHandle_t handle, const plb_cudnn_candidate *candidate,
                                plb_cudnn_plan *out) {
    const setting settings[] = {
        {(cudnnBackendAttributeName_t)PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle},
        {CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
         &candidate->config},
    };
    return finish_plan(settings, out);
}

plb_status plb_cudnn_plan_read(cudnnHandle_t handle, const char *text, size_t size_bytes,
                               plb_cudnn_plan *out) {
    const setting settings[] = {
        {(cudnnBackendAttributeName_t)PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle},
        {CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)size_bytes, text},
    };
    return finish_plan(settings, out);
}

plb_status plb_cudnn_plan_write(const plb_cudnn_plan *plan, char **out, size_t *out_bytes) {
    const cudnnBackendAttributeName_t name = CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION;
    int64_t count = 0, got = 0;
    *out = NULL;
    *out_bytes = 0;
    PLB_TRY(check(lib.get(plan->descriptor, name, CUDNN_TYPE_CHAR, 0, &count, NULL), "a plan"));
    if (count <= 0) return plb_fail(PLB_EUNSUPPORTED, "cuDNN: a plan without text");
    char *text = plb_alloc((size_t)count + 1);
    if (!text) return plb_fail(PLB_ENOMEM, "out of memory for a plan's text");
    cudnnStatus_t status = lib.get(plan->descriptor, name, CUDNN_TYPE_CHAR, count, &got, text);
    if (status) {
        plb_free(text);
        return check(status, "a plan's text");
    }
    *out = text;
    *out_bytes = (size_t)(got < count ? got : count);
    return PLB_OK;
}

void plb_cudnn_plan_free(plb_cudnn_plan *plan) {
    plb_cudnn_descriptor_free(plan->descriptor);
    *plan = (plb_cudnn_plan){0};
}

plb_status plb_cudnn_pack_new(const plb_cudnn_operands *o, descriptor *out) {
    const setting settings[] = {
        {CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, o->n, o->uid},
        {CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, o->n, o->data},
        {CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &o->workspace},
    };
    return make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, settings, 3, "operands", out);
}

// A handle works for one stream at a time.
plb_status plb_cudnn_execute(plb_stream *stream, const plb_cudnn_plan *plan, descriptor pack) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    cudnnHandle_t handle;
    PLB_TRY(handle_of(stream->device, runners, &handle));
    pthread_mutex_lock(&lock);
    plb_status status = check(lib.set_stream(handle, stream->handle), "take a stream");
    if (!status) status = check(lib.execute(handle, plan->descriptor, pack), "run a plan");
    pthread_mutex_unlock(&lock);
    return status;
}
