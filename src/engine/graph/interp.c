// SPDX-License-Identifier: Apache-2.0
// Level interp: the program as it was written, op by op. For every node the kernel is looked up,
// its outputs are allocated, it runs, and what nobody needs any more is freed, as eager frameworks
// do. No passes, no layouts, no sharing but views. What is kept from run to run is what those
// frameworks keep too: prepared kernels, found again by the node. What runs inside of a region
// counts as that of the node that owns it.
#include <omp.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "engine/graph/interp.h"

static plb_layout plain(void) {
    return (plb_layout){0};
}

static plb_status find_copies(plb_interp *interp) {
    const plb_graph *graph = interp->graph;
    bool *seen = plb_alloc_array((size_t)graph->n_values + 1, sizeof *seen);
    if (!seen) return plb_fail(PLB_ENOMEM, "out of memory for an interpreter");
    for (int i = 0; i < graph->n_nodes; i++) {
        if (graph->nodes[i].op == PLB_OP_read) {
            interp->nodes[i].copies = plb_read_outlives_assign(graph, i, seen);
        }
    }
    plb_free(seen);
    return PLB_OK;
}

static size_t bytes_of(const plb_interp *interp, plb_value value) {
    const plb_type *type = &interp->graph->values[value].type;
    return plb_layout_bytes(&type->shape, type->dtype, plain());
}

static plb_status make_mirror(plb_interp *interp, plb_value value) {
    size_t size = bytes_of(interp, value);
    if (interp->mirror[value]) return PLB_OK;
    PLB_TRY(interp->plan->backend->host_alloc(interp->plan->device, size, &interp->mirror[value]));
    memset(interp->mirror[value], 0, size);
    return PLB_OK;
}

static plb_status bind_inputs(plb_interp *interp) {
    for (int i = 0; i < interp->graph->n_nodes; i++) {
        const plb_node *node = &interp->graph->nodes[i];
        if (node->op != PLB_OP_input) continue;
        plb_type type = interp->graph->values[node->out].type;
        size_t size = plb_layout_bytes(&type.shape, type.dtype, plain());
        void *memory = NULL;
        PLB_TRY(plb_interp_alloc(interp->plan, size, &memory));
        interp->bound[node->out] = memory;
        PLB_TRY(plb_interp_clear(interp->plan, memory, size));
        if (!interp->plan->backend->host_memory) PLB_TRY(make_mirror(interp, node->out));
        interp->tensors[node->out] = plb_tensor_dense(memory, type.dtype, &type.shape, plain());
    }
    return PLB_OK;
}

static plb_status interp_new(plb_plan *plan, const plb_graph *graph, plb_interp **out);

static plb_status make_regions(plb_interp *interp) {
    for (int i = 0; i < interp->graph->n_nodes; i++) {
        for (int r = 0; r < PLB_MAX_REGIONS; r++) {
            const plb_graph *region = interp->graph->nodes[i].region[r];
            if (!region) continue;
            PLB_TRY(interp_new(interp->plan, region, &interp->nodes[i].region[r]));
        }
    }
    return PLB_OK;
}

static void *copy_of(const void *array, int n, size_t size_bytes) {
    void *copy = plb_alloc_array((size_t)n + 1, size_bytes);
    if (copy && n) memcpy(copy, array, (size_t)n * size_bytes);
    return copy;
}

// Arrays of its own, for the graph's may grow and move. What nodes point to stays where it is.
static bool keep_graph(plb_interp *interp, const plb_graph *graph) {
    plb_graph *now = &interp->now;
    *now = *graph;
    now->nodes = copy_of(graph->nodes, graph->n_nodes, sizeof *graph->nodes);
    now->values = copy_of(graph->values, graph->n_values, sizeof *graph->values);
    now->outputs = copy_of(graph->outputs, graph->n_outputs, sizeof *graph->outputs);
    interp->graph = now;
    return now->nodes && now->values && now->outputs;
}

static plb_status interp_new(plb_plan *plan, const plb_graph *graph, plb_interp **out) {
    plb_interp *interp = *out = plb_alloc(sizeof *interp);
    if (!interp) return plb_fail(PLB_ENOMEM, "out of memory for an interpreter");
    interp->plan = plan;
    size_t n = (size_t)graph->n_values + 1, m = (size_t)graph->n_nodes + 1;
    const bool kept = keep_graph(interp, graph);
    interp->tensors = plb_alloc_array(n, sizeof *interp->tensors);
    interp->root = plb_alloc_array(n, sizeof *interp->root);
    interp->owned = plb_alloc_array(n, sizeof *interp->owned);
    interp->bound = plb_alloc_array(n, sizeof *interp->bound);
    interp->uses = plb_alloc_array(n, sizeof *interp->uses);
    interp->left = plb_alloc_array(n, sizeof *interp->left);
    interp->nodes = plb_alloc_array(m, sizeof *interp->nodes);
    interp->constants = plb_alloc_array(n, sizeof *interp->constants);
    interp->mirror = plb_alloc_array(n, sizeof *interp->mirror);
    if (!kept || !interp->tensors || !interp->root || !interp->owned || !interp->bound ||
        !interp->uses || !interp->left || !interp->nodes || !interp->constants || !interp->mirror) {
        return plb_fail(PLB_ENOMEM, "out of memory for an interpreter");
    }
    for (int i = 0; i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        for (int k = 0; k < node->n_in; k++) {
            if (node->in[k] >= 0) interp->uses[node->in[k]]++;
        }
    }
    for (int i = 0; i < graph->n_outputs; i++) interp->uses[graph->outputs[i].value]++;
    PLB_TRY(find_copies(interp));
    return make_regions(interp);
}

plb_status plb_interp_new(plb_plan *plan, const plb_graph *graph) {
    PLB_TRY(interp_new(plan, graph, &plan->interp));
    return bind_inputs(plan->interp);
}

void plb_interp_drop(plb_interp *interp) {
    for (int i = 0; i < interp->graph->n_values; i++) {
        plb_interp_release(interp->plan, interp->owned[i]);
        interp->owned[i] = NULL;
    }
}

void plb_interp_free(plb_interp *interp) {
    if (!interp) return;
    for (int i = 0; i < interp->graph->n_nodes && interp->nodes; i++) {
        plb_interp_node *node = &interp->nodes[i];
        if (node->step.launch.release) node->step.launch.release(node->step.launch.state);
        for (int r = 0; r < PLB_MAX_REGIONS; r++) plb_interp_free(node->region[r]);
    }
    for (int i = 0; i < interp->graph->n_values; i++) {
        if (interp->owned) plb_interp_release(interp->plan, interp->owned[i]);
        if (interp->bound) plb_interp_release(interp->plan, interp->bound[i]);
        if (interp->constants) plb_interp_release(interp->plan, interp->constants[i]);
        if (interp->mirror && interp->mirror[i]) {
            interp->plan->backend->host_free(interp->plan->device, interp->mirror[i]);
        }
    }
    plb_free(interp->tensors);
    plb_free(interp->root);
    plb_free(interp->owned);
    plb_free(interp->bound);
    plb_free(interp->uses);
    plb_free(interp->left);
    plb_free(interp->nodes);
    plb_free(interp->constants);
    plb_free(interp->mirror);
    plb_free(interp->now.nodes);
    plb_free(interp->now.values);
    plb_free(interp->now.outputs);
    plb_free(interp);
}

// ---------------------------------------------------------------------------- one node
static plb_status allocate(plb_interp *interp, plb_value value) {
    plb_type type = interp->graph->values[value].type;
    void *memory = NULL;
    PLB_TRY(plb_interp_alloc(interp->plan, bytes_of(interp, value), &memory));
    interp->owned[value] = memory;
    interp->root[value] = value;
    interp->left[value] = interp->uses[value];
    interp->tensors[value] = plb_tensor_dense(memory, type.dtype, &type.shape, plain());
    return PLB_OK;
}

static void release_use(plb_interp *interp, plb_value value) {
    if (value < 0) return;
    plb_value root = interp->root[value];
    if (--interp->left[root] > 0) return;
    plb_interp_release(interp->plan, interp->owned[root]);
    interp->owned[root] = NULL;
}

static plb_status read_variable(plb_plan *plan, plb_interp *interp, int index) {
    const plb_node *node = &interp->graph->nodes[index];
    const plb_variable *v =
        &plan->model->variables[((const plb_variable_attrs *)node->attrs)->variable];
    plb_tensor whole =
        plb_tensor_dense(plb_home_data(v, plan->home), v->type.dtype, &v->type.shape, plain());
    if (interp->nodes[index].copies) {
        PLB_TRY(allocate(interp, node->out));
        return plb_interp_copy(plan, &interp->tensors[node->out], &whole);
    }
    interp->tensors[node->out] = whole;
    return PLB_OK;
}

static plb_status read_constant(plb_plan *plan, plb_interp *interp, const plb_node *node) {
    const plb_constant_attrs *a = node->attrs;
    void *data = (void *)a->data, **copy = &interp->constants[node->out];
    if (!plan->backend->host_memory) {
        size_t size = bytes_of(interp, node->out);
        if (!*copy) {
            PLB_TRY(plb_interp_alloc(plan, size, copy));
            PLB_TRY(plb_interp_put(plan, *copy, data, size));
        }
        data = *copy;
    }
    interp->tensors[node->out] = plb_tensor_dense(data, a->type.dtype, &a->type.shape, plain());
    return PLB_OK;
}

static plb_status run_frame(plb_plan *plan, plb_interp *interp, int index) {
    const plb_node *node = &interp->graph->nodes[index];
    if (node->n_out) {
        interp->root[node->out] = node->out;
        interp->left[node->out] = interp->uses[node->out];
    }
    if (node->op == PLB_OP_read) return read_variable(plan, interp, index);
    if (node->op == PLB_OP_constant) return read_constant(plan, interp, node);
    if (node->op == PLB_OP_assign) {
        const plb_variable *v =
            &plan->model->variables[((const plb_variable_attrs *)node->attrs)->variable];
        plb_tensor to =
            plb_tensor_dense(plb_home_data(v, plan->home), v->type.dtype, &v->type.shape, plain());
        return plb_interp_copy(plan, &to, &interp->tensors[node->in[0]]);
    }
    return PLB_OK;
}

static plb_status gather(plb_interp *interp, const plb_node *node, plb_interp_operands *o) {
    size_t n = (size_t)(node->n_in + node->n_out);
    o->all = n <= sizeof o->few / sizeof *o->few ? o->few : plb_alloc_array(n, sizeof *o->all);
    if (!o->all) return plb_fail(PLB_ENOMEM, "out of memory for operands");
    for (int k = 0; k < node->n_in; k++) {
        o->all[k] =
            node->in[k] < 0 ? (plb_tensor){.dtype = PLB_DTYPE_COUNT} : interp->tensors[node->in[k]];
    }
    for (int k = 0; k < node->n_out; k++) o->all[node->n_in + k] = interp->tensors[node->out + k];
    return PLB_OK;
}

static bool run_view(plb_interp *interp, const plb_node *node) {
    const plb_op *op = plb_op_of(node->op);
    plb_tensor out;
    if (!(op->flags & PLB_OP_VIEW) || !op->view(node->attrs, &interp->tensors[node->in[0]], &out)) {
        return false;
    }
    if (!plb_tensor_is_dense(&out)) return false; // kernels want dense operands
    plb_value root = interp->root[node->in[0]];
    interp->tensors[node->out] = out;
    interp->root[node->out] = root;
    interp->left[root] += interp->uses[node->out];
    return true;
}

static plb_status prepare(plb_plan *plan, plb_interp *interp, int index,
                          const plb_interp_operands *o) {
    const plb_node *node = &interp->graph->nodes[index];
    plb_interp_node *p = &interp->nodes[index];
    if (p->ready) return PLB_OK;
    plb_query q = {.op = node->op,
                   .attrs = node->attrs,
                   .n_in = node->n_in,
                   .n_out = node->n_out,
                   .in = o->all,
                   .out = o->all + node->n_in,
                   .threads = plan->options.threads,
                   .deterministic = plan->options.deterministic,
                   .no_winograd = plan->options.no_winograd,
                   .math = plan->options.math,
                   .device = plan->device};
    for (int k = 0; k < q.n_in + q.n_out; k++) q.unaligned |= plb_is_unaligned(&o->all[k]);
    PLB_TRY(plb_select_kernel(plan, &q, &p->step));
    p->ready = true;
    return PLB_OK;
}

static plb_status launch(plb_plan *plan, plb_interp *interp, int index, plb_interp_operands *o) {
    const plb_node *node = &interp->graph->nodes[index];
    PLB_TRY(prepare(plan, interp, index, o));
    const plb_launch *l = &interp->nodes[index].step.launch;
    void *workspace = NULL, *packed = NULL;
    plb_status status = PLB_OK;
    if (l->workspace_bytes) PLB_TRY_OUT(plb_interp_alloc(plan, l->workspace_bytes, &workspace));
    if (l->pack) PLB_TRY_OUT(plb_interp_alloc(plan, l->packed_bytes, &packed));
    plb_call call = {.attrs = node->attrs,
                     .n_in = node->n_in,
                     .n_out = node->n_out,
                     .in = o->all,
                     .out = o->all + node->n_in,
                     .workspace = workspace,
                     .packed = packed,
                     .threads = plan->options.threads};
    if (l->pack) PLB_TRY_OUT(l->pack(l->state, &call, packed, plan->stream));
    status = l->run(l->state, &call, plan->stream);
out:
    plb_interp_release(plan, workspace);
    plb_interp_release(plan, packed);
    return status;
}

static plb_status run_compute(plb_plan *plan, plb_interp *interp, int index) {
    const plb_node *node = &interp->graph->nodes[index];
    plb_interp_operands o;
    if (run_view(interp, node)) return PLB_OK;
    for (int k = 0; k < node->n_out; k++) PLB_TRY(allocate(interp, node->out + k));
    PLB_TRY(gather(interp, node, &o));
    plb_status status = node->region[0] ? plb_interp_run_regions(plan, interp, index, &o)
                                        : launch(plan, interp, index, &o);
    if (o.all != o.few) plb_free(o.all);
    return status;
}

static plb_status run_node(plb_plan *plan, plb_interp *interp, int index) {
    const plb_node *node = &interp->graph->nodes[index];
    bool frame = plb_op_of(node->op)->flags & PLB_OP_FRAME;
    PLB_TRY(frame ? run_frame(plan, interp, index) : run_compute(plan, interp, index));
    for (int k = 0; k < node->n_in; k++) release_use(interp, node->in[k]);
    for (int k = 0; k < node->n_out; k++) { // outputs that nobody reads
        plb_value v = node->out + k;
        if (interp->uses[v] == 0 && interp->root[v] == v) {
            plb_interp_release(plan, interp->owned[v]);
            interp->owned[v] = NULL;
        }
    }
    return PLB_OK;
}

plb_status plb_interp_run_graph(plb_plan *plan, plb_interp *interp) {
    const plb_graph *graph = interp->graph;
    const bool waits = !plan->backend->host_memory && (plan->options.sync || plan->options.profile);
    plb_interp_drop(interp); // outputs of the last run
    for (int i = 0; i < graph->n_nodes; i++) {
        int64_t begin = plan->options.profile ? plb_now_ns() : 0;
        plb_status status = run_node(plan, interp, i);
        if (!status && waits) status = plan->backend->wait(plan->stream);
        const plb_node *node = &graph->nodes[i];
        if (status) {
            return plb_fail_context(status, "%s%s%s", node->scope, *node->scope ? ": " : "",
                                    plb_op_of(node->op)->name);
        }
        if (!plan->options.profile) continue;
        interp->nodes[i].step.time_ns += plb_now_ns() - begin;
        interp->nodes[i].step.calls++;
    }
    return PLB_OK;
}

plb_status plb_interp_run(plb_plan *plan) {
    return plb_interp_run_graph(plan, plan->interp);
}

plb_status plb_interp_upload(plb_plan *plan) {
    plb_interp *interp = plan->interp;
    for (int i = 0; i < interp->graph->n_nodes; i++) {
        const plb_node *node = &interp->graph->nodes[i];
        if (node->op != PLB_OP_input) continue;
        PLB_TRY(plan->backend->copy(plan->stream, interp->bound[node->out],
                                    interp->mirror[node->out], bytes_of(interp, node->out)));
    }
    return PLB_OK;
}

// What the host sees of an input or output.
static plb_status view_of(plb_plan *plan, plb_value value, bool fetch, plb_tensor *out) {
    plb_interp *interp = plan->interp;
    *out = interp->tensors[value];
    if (plan->backend->host_memory || !out->data) return PLB_OK;
    PLB_TRY(plan->backend->enter(plan->device));
    PLB_TRY(make_mirror(interp, value));
    void *mirror = interp->mirror[value];
    if (fetch) { // dense: views that are not have been copied
        PLB_TRY(plb_interp_get(plan, mirror, out->data, bytes_of(interp, value)));
    }
    out->data = mirror;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- questions
plb_status plb_interp_input(plb_plan *plan, const char *name, plb_tensor *out) {
    const plb_graph *graph = plan->interp->graph;
    for (int i = 0; i < graph->n_nodes; i++) {
        const plb_node *node = &graph->nodes[i];
        if (node->op != PLB_OP_input) continue;
        if (strcmp(((const plb_input_attrs *)node->attrs)->name, name) != 0) continue;
        return view_of(plan, node->out, false, out);
    }
    return plb_fail(PLB_EINVAL, "%s: no input is called %s", graph->name, name);
}

plb_status plb_interp_output(plb_plan *plan, const char *name, plb_tensor *out) {
    const plb_graph *graph = plan->interp->graph;
    for (int i = 0; i < graph->n_outputs; i++) {
        if (strcmp(graph->outputs[i].name, name) != 0) continue;
        PLB_TRY(view_of(plan, graph->outputs[i].value, true, out));
        if (out->data) return PLB_OK;
        return plb_fail(PLB_EINVAL, "output %s: the program has not run yet", name);
    }
    return plb_fail(PLB_EINVAL, "%s: no output is called %s", graph->name, name);
}

static int compute_node(const plb_graph *graph, int index) {
    for (int i = 0; i < graph->n_nodes; i++) {
        if (plb_op_of(graph->nodes[i].op)->flags & PLB_OP_FRAME) continue;
        if (index-- == 0) return i;
    }
    return -1;
}

int plb_interp_op_count(const plb_plan *plan) {
    const plb_graph *graph = plan->interp->graph;
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++) {
        n += !(plb_op_of(graph->nodes[i].op)->flags & PLB_OP_FRAME);
    }
    return n;
}

plb_plan_op plb_interp_op_info(const plb_plan *plan, int index) {
    const plb_graph *graph = plan->interp->graph;
    int i = compute_node(graph, index);
    if (i < 0) return (plb_plan_op){.op = ""};
    const plb_node *node = &graph->nodes[i];
    const plb_step *step = &plan->interp->nodes[i].step;
    double bytes = 0;
    for (int k = 0; k < node->n_in + node->n_out; k++) {
        plb_value v = k < node->n_in ? node->in[k] : node->out + (k - node->n_in);
        if (v < 0) continue;
        const plb_type *type = &graph->values[v].type;
        bytes += (double)plb_layout_bytes(&type->shape, type->dtype, plain());
    }
    return (plb_plan_op){.op = plb_op_of(node->op)->name,
                         .scope = node->scope,
                         .kernel = step->kernel      ? step->kernel->name
                                   : node->region[0] ? "regions"
                                                     : "view",
                         .choice = step->choice,
                         .refused = step->refused ? step->refused : "",
                         .flops = step->launch.flops,
                         .bytes = bytes,
                         .calls = step->calls,
                         .time_ns = step->time_ns,
                         .type = graph->values[node->out].type,
                         .backward = node->backward};
}

void plb_interp_reset_times(plb_plan *plan) {
    for (int i = 0; i < plan->interp->graph->n_nodes; i++) {
        plan->interp->nodes[i].step.calls = plan->interp->nodes[i].step.time_ns = 0;
    }
}
