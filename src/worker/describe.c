// SPDX-License-Identifier: Apache-2.0
// What only the reference answers: the facts about a model that its caller, which knows no engine,
// needs to make batches and to judge results.
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "base/machine.h"
#include "engine/device/cpu/roof.h"
#include "engine/graph/graph.h"
#include "engine/ops/op.h"
#include "plumb/ops.h"
#include "plumb/version.h"
#include "worker/session.h"
#include "zoo/summary.h"

plb_status plb_worker_only_reference(plb_worker_session *s) {
    if (s->kind->describes) return PLB_OK;
    s->error_code = "unsupported";
    return plb_fail(PLB_EUNSUPPORTED, "only plumb-ref answers this");
}

bool plb_worker_draws(const plb_graph *graph) {
    for (int i = 0; i < graph->n_nodes; i++) {
        if (plb_op_of(graph->nodes[i].op)->flags & PLB_OP_RANDOM) return true;
    }
    return false;
}

plb_status plb_worker_product_depth(const plb_graph *graph, int *out) {
    int *depth = plb_alloc_array((size_t)graph->n_values + 1, sizeof *depth);
    if (!depth) return plb_fail(PLB_ENOMEM, "out of memory for a depth");
    *out = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        int most = 0;
        for (int k = 0; k < node->n_in; k++) {
            if (node->in[k] >= 0 && depth[node->in[k]] > most) most = depth[node->in[k]];
        }
        most += node->op == PLB_OP_conv || node->op == PLB_OP_matmul;
        for (int k = 0; k < node->n_out; k++) depth[node->out + k] = most;
        if (most > *out) *out = most;
    }
    plb_free(depth);
    return PLB_OK;
}

// A convolution can cost less than its definition says: by Winograd's way with tiles of 8x8 it
// takes (8/6)^2 = 1.78 multiplications an output of a 3x3 kernel, by Fourier transforms of ever
// larger tiles 1.5 (half of the frequencies, three products for a complex one). With a stride these
// compute outputs that nobody wants.
static double least_conv_flops(const plb_graph *graph, const plb_node *node) {
    const double best = 1.5;
    const plb_conv_attrs *attrs = node->attrs;
    const plb_type w = plb_value_type(graph, node->in[1]), y = plb_value_type(graph, node->out);
    double kernel = 1, strides = 1;
    for (int i = 2; i < w.shape.rank; i++) {
        kernel *= (double)w.shape.dim[i];
        strides *= attrs->stride[i - 2] > 1 ? (double)attrs->stride[i - 2] : 1;
    }
    double channels = (double)w.shape.dim[1];
    return 2 * (double)plb_shape_count(&y.shape) * channels * fmin(kernel, best * strides);
}

static double matmul_flops(const plb_graph *graph, const plb_node *node) {
    plb_type in[2] = {plb_value_type(graph, node->in[0]), plb_value_type(graph, node->in[1])};
    plb_type out = plb_value_type(graph, node->out);
    const plb_signature s = {.attrs = node->attrs, .n_in = 2, .n_out = 1, .in = in, .out = &out};
    return plb_op_of(PLB_OP_matmul)->flops(&s);
}

// Of the products of the forward pass; a training step has the weights' gradients at the least
// besides, which take as many.
static double least_flops(const plb_graph *graph, bool training) {
    double sum = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        if (node->op == PLB_OP_conv) sum += least_conv_flops(graph, node);
        if (node->op == PLB_OP_matmul) sum += matmul_flops(graph, node);
    }
    return training ? 2 * sum : sum;
}

// Of what is computed: ops in order, their attributes and types.
static uint64_t hash_graph(const plb_graph *graph) {
    uint64_t hash = plb_hash_string(PLB_HASH_SEED, plb_version());
    for (int i = 0; i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        const plb_op *op = plb_op_of(node->op);
        hash = plb_hash_string(hash, op->name);
        if (!(op->flags & PLB_OP_FRAME)) {
            hash = plb_hash_bytes(hash, node->attrs, op->attrs_bytes);
        }
        hash = plb_hash_bytes(hash, node->in, (size_t)node->n_in * sizeof *node->in);
        for (int k = 0; k < node->n_out; k++) {
            const plb_type type = plb_value_type(graph, node->out + k);
            hash = plb_hash_string(hash, plb_dtype_name(type.dtype));
            hash = plb_hash_bytes(hash, type.shape.dim,
                                  (size_t)type.shape.rank * sizeof *type.shape.dim);
        }
    }
    return hash;
}

static void describe_input(plb_json *reply, const char *name, const char *dtype,
                           const int64_t *extents, int rank) {
    plb_json_begin_object(reply, NULL);
    plb_json_string(reply, "name", name);
    plb_json_string(reply, "dtype", dtype);
    plb_json_begin_array(reply, "shape");
    for (int i = 0; i < rank; i++) plb_json_int(reply, NULL, extents[i]);
    plb_json_end(reply);
    plb_json_end(reply);
}

static plb_status describe_graph(plb_worker_session *s, const plb_zoo_info *info, bool training,
                                 const plb_zoo_options *zoo, plb_model *model) {
    plb_json *reply = &s->reply;
    plb_graph *graph = NULL;
    plb_value loss = PLB_NONE;
    int depth = 0;
    char hash[32];
    if (training) {
        PLB_TRY(plb_zoo_build_train(model, info->name, zoo, &graph, &loss));
    } else {
        PLB_TRY(plb_zoo_build_infer(model, info->name, zoo));
        graph = plb_model_find_program(model, "infer");
    }
    PLB_TRY(plb_worker_product_depth(graph, &depth));
    snprintf(hash, sizeof hash, "%016" PRIx64, hash_graph(graph));
    plb_json_bool(reply, "dropout", training && plb_worker_draws(graph));
    plb_json_int(reply, "depth", depth);
    plb_json_double(reply, "least_flops", least_flops(graph, training));
    plb_json_string(reply, "graph", hash);
    return PLB_OK;
}

static plb_status describe_cost(plb_worker_session *s, const plb_zoo_info *info, bool training,
                                const plb_zoo_options *zoo) {
    plb_zoo_summary summary;
    plb_zoo_options one = *zoo;
    one.batch = 1;
    plb_status status = plb_zoo_summarize(info->name, &one, &summary);
    if (!status) {
        double flops = training ? summary.flops_train : summary.flops_infer;
        plb_json_double(&s->reply, "flops", flops * (double)zoo->batch);
        plb_json_int(&s->reply, "parameters", summary.parameters);
    }
    plb_zoo_summary_free(&summary);
    return status;
}

plb_status plb_worker_describe(plb_worker_session *s, const json_t *request) {
    const plb_zoo_info *info = NULL;
    plb_json *reply = &s->reply;
    PLB_TRY(plb_worker_only_reference(s));
    if (json_is_string(json_object_get(request, "file"))) {
        return plb_worker_file_describe(s, request);
    }
    if (plb_zoo_find(plb_request_text(request, "model", ""), &info)) {
        s->error_code = "refused", s->error_kind = "model";
        return PLB_EINVAL;
    }
    bool training = strcmp(plb_request_text(request, "task", "infer"), "train") == 0;
    plb_zoo_options zoo = {.batch = plb_request_int(request, "batch", 0),
                           .size = plb_request_int(request, "size", 0),
                           .classes = plb_request_int(request, "classes", 0)};
    if (!zoo.batch) zoo.batch = training ? info->batch_train : info->batch_infer;
    if (!zoo.size) zoo.size = info->height;
    plb_model *model = plb_model_new();
    if (!model) return plb_fail(PLB_ENOMEM, "out of memory for a model");
    plb_json_string(reply, "model", info->name);
    plb_json_int(reply, "batch", zoo.batch);
    plb_json_int(reply, "size", zoo.size);
    plb_json_int(reply, "classes", zoo.classes ? zoo.classes : info->classes);
    plb_json_begin_array(reply, "inputs");
    describe_input(reply, "x", "f32", (int64_t[]){zoo.batch, info->channels, zoo.size, zoo.size},
                   4);
    if (training) describe_input(reply, "y", "i64", &zoo.batch, 1);
    plb_json_end(reply);
    plb_json_bool(reply, "log_probabilities", plb_zoo_log_probabilities(info));
    plb_status status = describe_graph(s, info, training, &zoo, model);
    if (!status) status = describe_cost(s, info, training, &zoo);
    plb_model_free(model);
    if (status == PLB_EINVAL) s->error_code = "refused", s->error_kind = "model";
    return status;
}

plb_status plb_worker_roof(plb_worker_session *s, const json_t *request) {
    plb_roof roof;
    plb_machine machine;
    PLB_TRY(plb_worker_only_reference(s));
    int64_t threads = plb_request_int(request, "threads", 1);
    if (threads < 1 || threads > 4096) return plb_fail(PLB_EINVAL, "threads: expected 1 to 4096");
    PLB_TRY(plb_cpu_roof((int)threads, NULL, &roof));
    plb_machine_read("", &machine);
    int64_t largest = 0;
    for (int i = 0; i < 3; i++) {
        if (machine.cache_bytes[i] > largest) largest = machine.cache_bytes[i];
    }
    if ((int64_t)roof.cache_bytes > largest) largest = (int64_t)roof.cache_bytes;
    // Below what the processor has, vectors say nothing of its peak.
    const bool whole = !getenv("PLUMB_ISA") && strcmp(roof.isa, "portable") != 0;
    plb_json_double(&s->reply, "flops_per_s", whole ? roof.flops_per_s : 0);
    plb_json_double(&s->reply, "cache_bytes_per_s", roof.cache_bytes_per_s);
    plb_json_double(&s->reply, "memory_bytes_per_s", roof.memory_bytes_per_s);
    plb_json_int(&s->reply, "largest_cache_bytes", largest);
    return PLB_OK;
}
