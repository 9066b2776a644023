// SPDX-License-Identifier: Apache-2.0
// What the importer's calls are in a build without protobuf-c: each says what is missing.
#include "base/core/status.h"
#include "onnx/lower.h"
#include "plumb/onnx.h"

static plb_status absent(void) {
    return plb_fail(PLB_EMISSING, "this build of Plumb has no ONNX (it was made without "
                                  "protobuf-c or the schema: see docs/dependencies.md)");
}

plb_status plb_onnx_open(const char *path, plb_onnx **out) {
    (void)path;
    *out = NULL;
    return absent();
}

plb_status plb_onnx_parse(const void *bytes, size_t size_bytes, const char *label, plb_onnx **out) {
    (void)bytes, (void)size_bytes, (void)label;
    *out = NULL;
    return absent();
}

void plb_onnx_free(plb_onnx *file) {
    (void)file;
}

int plb_onnx_input_count(const plb_onnx *file) {
    (void)file;
    return 0;
}

plb_status plb_onnx_input(const plb_onnx *file, int index, plb_onnx_input_info *out) {
    (void)file, (void)index, (void)out;
    return absent();
}

int plb_onnx_output_count(const plb_onnx *file) {
    (void)file;
    return 0;
}

const char *plb_onnx_output_name(const plb_onnx *file, int index) {
    (void)file, (void)index;
    return "";
}

int64_t plb_onnx_opset(const plb_onnx *file) {
    (void)file;
    return 0;
}

const char *plb_onnx_producer(const plb_onnx *file) {
    (void)file;
    return "";
}

plb_status plb_onnx_build(const plb_onnx *file, const plb_onnx_options *options, plb_graph *graph,
                          char **fixed) {
    (void)file, (void)options, (void)graph;
    if (fixed) *fixed = NULL;
    return absent();
}

bool plb_onnx_needs_interp(const plb_graph *graph) {
    (void)graph;
    return false;
}

plb_status plb_onnx_uses(const plb_onnx *file, plb_onnx_use uses[PLB_ONNX_MAX_USES], int *count) {
    (void)file, (void)uses;
    *count = 0;
    return absent();
}

bool plb_onnx_end(const plb_graph *graph, bool outputs, int index, const char **name,
                  plb_type *type) {
    (void)graph, (void)outputs, (void)index, (void)name, (void)type;
    return false;
}

plb_onnx_costs plb_onnx_costs_of(const plb_graph *graph) {
    (void)graph;
    return (plb_onnx_costs){0};
}

bool plb_onnx_served(int index, const char **name, int64_t *since, const char **note) {
    (void)index, (void)name, (void)since, (void)note;
    return false;
}

plb_status plb_onnx_digest(const plb_graph *graph, uint64_t *out) {
    (void)graph;
    *out = 0;
    return absent();
}

uint64_t plb_onnx_hash_content(const plb_graph *graph, const plb_node *node, uint64_t hash,
                               bool *failed) {
    (void)graph, (void)node;
    *failed = true;
    return hash;
}

plb_status plb_onnx_write(const plb_graph *graph, const char *path, bool external,
                          plb_onnx_written *out) {
    (void)graph, (void)path, (void)external;
    *out = (plb_onnx_written){0};
    return absent();
}

plb_status plb_onnx_build_learning(const plb_onnx *file, const plb_onnx_learning *how,
                                   plb_graph *graph, plb_value *out_loss) {
    (void)file, (void)how, (void)graph;
    *out_loss = PLB_NONE;
    return absent();
}

plb_status plb_onnx_learning_of(const plb_onnx *file, int64_t batch, plb_onnx_learning *out) {
    (void)file, (void)batch;
    *out = (plb_onnx_learning){0};
    return absent();
}

int64_t plb_onnx_learning_classes(const plb_graph *graph) {
    (void)graph;
    return 0;
}

plb_status plb_onnx_write_trained(const plb_onnx *file, plb_model *model, const char *path,
                                  bool external, plb_onnx_written *out) {
    (void)file, (void)model, (void)path, (void)external;
    *out = (plb_onnx_written){0};
    return absent();
}

plb_status plb_onnx_read_tensor(const char *path, plb_tensor *out, void **memory) {
    (void)path, (void)out;
    *memory = NULL;
    return absent();
}
