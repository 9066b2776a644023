// SPDX-License-Identifier: Apache-2.0
#include "cli/train_model.h"

#include <string.h>

#include "base/core/status.h"
#include "cli/onnx_model.h"

enum { FILE_BATCH = 32, DIGITS = 28, LEAST_SIZE = 8 };

// ---------------------------------------------------------------------------- opening
static void use_zoo(plb_train_model *m) {
    m->name = m->info->name;
    m->channels = m->info->channels, m->height = m->info->height;
    m->batch = m->info->batch_train;
    m->small = m->channels == 1;
}

// What the file's input of floats tells of the pictures that it wants.
static void use_input(plb_train_model *m, const plb_onnx_input_info *info) {
    const plb_shape *s = &info->shape;
    int64_t elements = 1;
    for (int i = 1; i < s->rank; i++) elements *= s->dim[i] > 0 ? s->dim[i] : 1;
    if (s->rank && s->dim[0] > 0) m->fixed_batch = s->dim[0];
    m->batch = m->fixed_batch ? m->fixed_batch : FILE_BATCH;
    m->small = elements == DIGITS * DIGITS;
    if (s->rank != 4) return;
    bool last = s->dim[1] > 4 && s->dim[3] > 0 && s->dim[3] <= 4; // channels, of Keras' exports
    int64_t channels = s->dim[last ? 3 : 1], height = s->dim[last ? 1 : 2];
    m->channels = channels > 0 ? channels : 0;
    m->height = m->size = height >= LEAST_SIZE ? height : 0; // else no data has it
    m->small |= channels == 1;
}

static plb_status open_file(const char *path, plb_train_model *m) {
    const char *slash = strrchr(path, '/');
    m->name = slash ? slash + 1 : path;
    m->batch = FILE_BATCH;
    PLB_TRY(plb_onnx_open(path, &m->file));
    for (int i = 0; i < plb_onnx_input_count(m->file); i++) {
        plb_onnx_input_info info;
        plb_status status = plb_onnx_input(m->file, i, &info);
        if (status) return plb_fail_context(status, "%s", path);
        if (!plb_dtype_is_float(info.dtype)) continue;
        if (info.ranked) use_input(m, &info);
        break;
    }
    return PLB_OK;
}

plb_status plb_train_model_open(const char *name, plb_train_model *out) {
    *out = (plb_train_model){0};
    if (plb_cli_is_onnx(name)) return open_file(name, out);
    PLB_TRY(plb_zoo_find(name, &out->info));
    use_zoo(out);
    return PLB_OK;
}

void plb_train_model_close(plb_train_model *model) {
    plb_onnx_free(model->file);
    *model = (plb_train_model){0};
}

// ---------------------------------------------------------------------------- fitting
plb_status plb_train_model_fit(plb_train_model *m, const plb_dataset_info *data,
                               const char *data_name) {
    if (m->channels && data->channels != m->channels) {
        return plb_fail(PLB_EINVAL, "%s takes pictures of %lld channels; those of %s have %lld",
                        m->name, (long long)m->channels, data_name, (long long)data->channels);
    }
    if (m->info && data->height != data->width) {
        return plb_fail(PLB_EINVAL, "%s: expected square pictures, found %lld x %lld", data_name,
                        (long long)data->height, (long long)data->width);
    }
    m->learning.channels = data->channels, m->learning.classes = data->classes;
    m->learning.height = data->height, m->learning.width = data->width;
    return PLB_OK;
}

plb_status plb_train_model_check_batches(const plb_train_model *m, const plb_train_options *options,
                                         int64_t train_count, int64_t test_count) {
    int64_t batch = m->fixed_batch, limit = options->limit;
    if (!batch) return PLB_OK;
    if (options->batch != batch) {
        return plb_fail(PLB_EINVAL, "--batch: the file %s has batches of %lld and no others",
                        m->name, (long long)batch);
    }
    if (limit && limit < train_count) train_count = limit;
    if (limit && limit < test_count) test_count = limit;
    if (train_count % batch == 0 && test_count % batch == 0) return PLB_OK;
    return plb_fail(PLB_EINVAL,
                    "the file %s has batches of %lld, which do not divide %lld and %lld samples: "
                    "give a --limit that they divide",
                    m->name, (long long)batch, (long long)train_count, (long long)test_count);
}

// ---------------------------------------------------------------------------- programs, files
plb_status plb_train_model_build(const plb_train_model *m, plb_model *to, const char *program,
                                 int64_t batch, bool eval, plb_graph **out_graph,
                                 plb_value *out_loss) {
    plb_onnx_learning learning = m->learning;
    learning.batch = batch, learning.eval = eval;
    PLB_TRY(plb_model_program(to, program, out_graph));
    return plb_onnx_build_learning(m->file, &learning, *out_graph, out_loss);
}

plb_status plb_train_model_write(const plb_train_model *m, plb_model *trained,
                                 const plb_zoo_options *zoo, const char *path) {
    plb_onnx_written written;
    if (m->file) return plb_onnx_write_trained(m->file, trained, path, false, &written);
    plb_zoo_options options = {.size = zoo->size, .classes = zoo->classes};
    PLB_TRY(plb_zoo_build_infer(trained, m->name, &options));
    return plb_onnx_write(plb_model_find_program(trained, "infer"), path, false, &written);
}
