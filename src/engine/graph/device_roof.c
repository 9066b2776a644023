// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/device_roof.h"

#include "base/core/status.h"
#include "engine/device/backend.h"
#include "plumb/ops.h"

enum { EXTENT = 8192, REPEATS = 10, ROUNDS = 3 };
static const size_t copied_bytes = (size_t)512 << 20;

static plb_status time_copies(const plb_backend *b, plb_stream *stream, void *to, void *from,
                              plb_event *begin, plb_event *end, double *out_seconds) {
    int64_t ns = 0;
    PLB_TRY(b->record(stream, begin));
    for (int i = 0; i < REPEATS; i++) PLB_TRY(b->copy(stream, to, from, copied_bytes));
    PLB_TRY(b->record(stream, end));
    PLB_TRY(b->elapsed_ns(begin, end, &ns));
    double seconds = (double)ns / 1e9 / REPEATS;
    if (*out_seconds == 0 || seconds < *out_seconds) *out_seconds = seconds;
    return PLB_OK;
}

static plb_status measure_memory(const plb_backend *b, plb_device *device, plb_roof *out) {
    plb_stream *stream = NULL;
    plb_event *begin = NULL, *end = NULL;
    void *to = NULL, *from = NULL;
    double seconds = 0;
    plb_status status;
    PLB_TRY_OUT(b->stream_new(device, &stream));
    PLB_TRY_OUT(b->event_new(device, &begin));
    PLB_TRY_OUT(b->event_new(device, &end));
    PLB_TRY_OUT(b->alloc(device, copied_bytes, &to));
    PLB_TRY_OUT(b->alloc(device, copied_bytes, &from));
    PLB_TRY_OUT(b->clear(stream, from, copied_bytes));
    for (int i = 0; i < ROUNDS; i++) {
        PLB_TRY_OUT(time_copies(b, stream, to, from, begin, end, &seconds));
    }
    out->memory_buffer_bytes = 2 * copied_bytes;
    out->memory_bytes_per_s = 2 * (double)copied_bytes / seconds;
out:
    b->free(device, to);
    b->free(device, from);
    b->event_free(begin);
    b->event_free(end);
    b->stream_free(stream);
    return status;
}

static plb_status fill(plb_plan *plan, const char *name) {
    plb_tensor t;
    PLB_TRY(plb_plan_input(plan, name, &t));
    for (int64_t i = 0; i < plb_shape_count(&t.shape); i++) { // zeros would draw less power
        plb_store_f64(t.data, t.dtype, i, (double)(i * 2654435761 % 1024) / 1024 - 0.5);
    }
    return PLB_OK;
}

static plb_status measure_product(const plb_plan_options *given, plb_roof *out) {
    const plb_plan_options options = {.device = given->device, .math = given->math};
    static const plb_dtype casts[] = {[PLB_AUTOCAST_NONE] = PLB_F32,
                                      [PLB_AUTOCAST_BF16] = PLB_BF16,
                                      [PLB_AUTOCAST_F16] = PLB_F16};
    const plb_dtype dtype = casts[given->autocast];
    const plb_shape shape = plb_shape_of(EXTENT, EXTENT);
    plb_graph *graph = NULL;
    plb_plan *plan = NULL;
    int64_t ns = 0;
    plb_model *model = plb_model_new();
    plb_status status = model ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a roof");
    PLB_TRY_OUT(status);
    PLB_TRY_OUT(plb_model_program(model, "roof", &graph));
    plb_value a = plb_input(graph, "a", dtype, &shape), b = plb_input(graph, "b", dtype, &shape);
    plb_output(graph, "y", plb_matmul(graph, a, b, NULL));
    PLB_TRY_OUT(plb_plan_new(graph, &options, &plan));
    PLB_TRY_OUT(fill(plan, "a"));
    PLB_TRY_OUT(fill(plan, "b"));
    PLB_TRY_OUT(plb_plan_run(plan));
    for (int i = 0; i < ROUNDS; i++) {
        PLB_TRY_OUT(plb_plan_time(plan, REPEATS, &ns));
        double rate = 2.0 * EXTENT * EXTENT * (double)EXTENT * REPEATS / ((double)ns / 1e9);
        if (rate > out->flops_per_s) out->flops_per_s = rate;
    }
out:
    plb_plan_free(plan);
    plb_model_free(model);
    return status;
}

plb_status plb_device_roof(const plb_plan_options *options, plb_roof *out) {
    const plb_backend *backend = NULL;
    plb_device *opened = NULL;
    int index = 0;
    *out = (plb_roof){0};
    PLB_TRY(plb_device_find(options->device, &backend, &index));
    PLB_TRY(backend->open(index, &opened));
    out->isa = backend->describe(opened);
    plb_status status = measure_memory(backend, opened, out);
    if (!status) status = measure_product(options, out);
    backend->close(opened);
    return status ? plb_fail_context(status, "roof") : PLB_OK;
}
