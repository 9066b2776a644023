// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "io/safetensors.h"

// The format's name; another one, once something changes that older readers would misread.
static const char format[] = "plumb checkpoint 1";

void plb_train_progress_free(plb_train_progress *progress) {
    plb_free(progress->history);
    *progress = (plb_train_progress){0};
}

plb_status plb_train_progress_push(plb_train_progress *progress, const plb_train_epoch *epoch) {
    if (progress->n_history == progress->capacity) {
        int capacity = 2 * progress->capacity + 8;
        plb_train_epoch *grown =
            plb_realloc_array(progress->history, (size_t)capacity, sizeof *grown);
        if (!grown) return plb_fail(PLB_ENOMEM, "out of memory for an epoch");
        progress->history = grown, progress->capacity = capacity;
    }
    progress->history[progress->n_history++] = *epoch;
    return PLB_OK;
}

// ---------------------------------------------------------------------------- writing
// All of the model's variables, where they lie.
static plb_status list_variables(plb_model *model, plb_named_tensor **out, size_t *out_count) {
    int n = plb_model_variable_count(model);
    plb_named_tensor *all = plb_alloc_array((size_t)n + 1, sizeof *all);
    *out = all;
    *out_count = 0;
    if (!all) return plb_fail(PLB_ENOMEM, "out of memory for a list of variables");
    for (int i = 0; i < n; i++) {
        const plb_variable_info info = plb_model_variable_info(model, i);
        void *data = plb_variable_data(model, i);
        if (!data) return plb_fail(PLB_EBROKEN, "variable %s: has no value yet", info.name);
        all[(*out_count)++] = (plb_named_tensor){
            info.name, plb_tensor_dense(data, info.type.dtype, &info.type.shape, (plb_layout){0})};
    }
    return PLB_OK;
}

// %a keeps every bit of a double.
static void append_metrics(plb_strbuf *text, const plb_train_progress *p) {
    plb_strbuf_printf(text, "%a %a %" PRId64 " %" PRId64 " %" PRId64, p->metrics.loss_sum,
                      p->metrics.correct, p->metrics.samples, p->train_ns, p->wait_ns);
}

static void append_epoch(plb_strbuf *text, const plb_train_epoch *e) {
    plb_strbuf_printf(
        text, "%" PRId64 " %" PRId64 " %a %a %a %a %a %" PRId64 " %a %" PRId64 " %" PRId64 "\n",
        e->epoch, e->samples, e->lr, e->loss, e->accuracy, e->test_loss, e->test_accuracy,
        e->test_count, e->majority_baseline, e->train_ns, e->wait_ns);
}

enum { OTHER_KEYS = 6, MAX_KEYS = PLB_TRAIN_KEPT + OTHER_KEYS };

typedef struct metadata {
    plb_arena *arena;
    plb_name_value list[MAX_KEYS];
    size_t count;
    plb_strbuf metrics, history;
    bool failed;
} metadata;

static void add(metadata *m, const char *name, const char *value) {
    m->failed = m->failed || !name || !value;
    m->list[m->count++] = (plb_name_value){name, value};
}

static plb_status fill_metadata(metadata *m, const plb_train_options *options,
                                const plb_train_progress *p, const char *choices) {
    m->arena = plb_arena_new();
    if (!m->arena) return plb_fail(PLB_ENOMEM, "out of memory for a checkpoint");
    add(m, "format", format);
    for (int i = 0; i < PLB_TRAIN_KEPT; i++) {
        add(m, plb_arena_printf(m->arena, "option.%s", plb_train_kept_name(i)),
            plb_train_kept_text(options, i, m->arena));
    }
    add(m, "step", plb_arena_printf(m->arena, "%" PRId64, p->step));
    add(m, "position", plb_arena_printf(m->arena, "%" PRId64 " %" PRId64, p->epoch, p->number));
    append_metrics(&m->metrics, p);
    for (int i = 0; i < p->n_history; i++) append_epoch(&m->history, &p->history[i]);
    add(m, "metrics", m->metrics.text);
    add(m, "history", m->history.text ? m->history.text : "");
    add(m, "choices", choices);
    if (m->failed || m->metrics.failed || m->history.failed) {
        return plb_fail(PLB_ENOMEM, "out of memory for a checkpoint");
    }
    return PLB_OK;
}

plb_status plb_checkpoint_write(const char *path, plb_model *model,
                                const plb_train_options *options,
                                const plb_train_progress *progress, const char *choices) {
    metadata m = {0};
    plb_named_tensor *tensors = NULL;
    size_t count = 0;
    plb_status status;
    PLB_TRY_OUT(fill_metadata(&m, options, progress, choices));
    PLB_TRY_OUT(list_variables(model, &tensors, &count));
    status = plb_safetensors_write(path, tensors, count, m.list, m.count);
out:
    plb_free(tensors);
    plb_strbuf_free(&m.metrics);
    plb_strbuf_free(&m.history);
    plb_arena_free(m.arena);
    return status;
}

// ---------------------------------------------------------------------------- reading
struct plb_checkpoint {
    plb_safetensors *file;
    char *path;
};

plb_status plb_checkpoint_open(const char *path, plb_checkpoint **out) {
    *out = NULL;
    plb_checkpoint *c = plb_alloc(sizeof *c);
    if (!c) return plb_fail(PLB_ENOMEM, "out of memory for a checkpoint");
    plb_status status = PLB_OK;
    c->path = plb_strdup(path);
    if (!c->path) PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "out of memory for a checkpoint"));
    PLB_TRY_OUT(plb_safetensors_open(path, &c->file));
    const char *found = plb_safetensors_metadata(c->file, "format");
    if (!found || strcmp(found, format) != 0) {
        PLB_TRY_OUT(plb_fail(PLB_EINVAL, "%s: expected \"%s\", found %s%.40s%s", path, format,
                             found ? "\"" : "a file of tensors alone", found ? found : "",
                             found ? "\"" : ""));
    }
    *out = c;
    c = NULL;
out:
    plb_checkpoint_free(c);
    return status;
}

void plb_checkpoint_free(plb_checkpoint *checkpoint) {
    if (!checkpoint) return;
    plb_safetensors_free(checkpoint->file);
    plb_free(checkpoint->path);
    plb_free(checkpoint);
}

static plb_status lacks(const plb_checkpoint *c, const char *key) {
    return plb_fail(PLB_EINVAL, "%s: expected the key %s, found none or one that makes no sense",
                    c->path, key);
}

static const char *kept_value(const plb_checkpoint *c, int i) {
    char key[64];
    snprintf(key, sizeof key, "option.%s", plb_train_kept_name(i));
    const char *value = plb_safetensors_metadata(c->file, key);
    return value ? value : plb_train_kept_before(i);
}

plb_status plb_checkpoint_options(const plb_checkpoint *c, plb_train_options *out) {
    for (int i = 0; i < PLB_TRAIN_KEPT; i++) {
        const char *text = kept_value(c, i);
        if (!text) return lacks(c, plb_train_kept_name(i));
        plb_status status = plb_train_kept_set(out, i, text);
        if (status) return plb_fail_context(status, "%s", c->path);
    }
    return PLB_OK;
}

plb_status plb_checkpoint_check(const plb_checkpoint *c, const plb_train_options *options) {
    plb_arena *arena = plb_arena_new();
    plb_status status = PLB_OK;
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory for a checkpoint");
    for (int i = 0; i < PLB_TRAIN_KEPT && !status; i++) {
        const char *name = plb_train_kept_name(i), *began = kept_value(c, i);
        const char *now = plb_train_kept_text(options, i, arena);
        if (!now) {
            status = plb_fail(PLB_ENOMEM, "out of memory for a checkpoint");
        } else if (!began) {
            status = lacks(c, name);
        } else if (strcmp(began, now) != 0 && !plb_train_kept_free(options, i)) {
            status = plb_fail(PLB_EINVAL,
                              "%s: the run began with %s %.80s and cannot go on with %s %.80s",
                              c->path, name, *began ? began : "none", name, *now ? now : "none");
        }
    }
    plb_arena_free(arena);
    return status;
}

static bool read_metrics(const char *text, plb_train_progress *p) {
    int end = 0;
    int n =
        text ? sscanf(text, "%la %la %" SCNd64 " %" SCNd64 " %" SCNd64 "%n", &p->metrics.loss_sum,
                      &p->metrics.correct, &p->metrics.samples, &p->train_ns, &p->wait_ns, &end)
             : 0;
    return n == 5 && !text[end] && p->metrics.samples >= 0 && p->train_ns >= 0;
}

static bool read_epoch(const char **text, plb_train_epoch *e) {
    int end = 0;
    int n = sscanf(
        *text,
        "%" SCNd64 " %" SCNd64 " %la %la %la %la %la %" SCNd64 " %la %" SCNd64 " %" SCNd64 "%n",
        &e->epoch, &e->samples, &e->lr, &e->loss, &e->accuracy, &e->test_loss, &e->test_accuracy,
        &e->test_count, &e->majority_baseline, &e->train_ns, &e->wait_ns, &end);
    if (n != 11 || (*text)[end] != '\n') return false;
    *text += end + 1;
    return true;
}

static plb_status read_progress(const plb_checkpoint *c, plb_train_progress *p) {
    const char *step = plb_safetensors_metadata(c->file, "step");
    const char *position = plb_safetensors_metadata(c->file, "position");
    const char *history = plb_safetensors_metadata(c->file, "history");
    if (!step || sscanf(step, "%" SCNd64, &p->step) != 1 || p->step < 0) return lacks(c, "step");
    if (!position || sscanf(position, "%" SCNd64 " %" SCNd64, &p->epoch, &p->number) != 2 ||
        p->epoch < 0 || p->number < 0) {
        return lacks(c, "position");
    }
    if (!read_metrics(plb_safetensors_metadata(c->file, "metrics"), p)) return lacks(c, "metrics");
    while (history && *history) {
        plb_train_epoch epoch;
        if (!read_epoch(&history, &epoch)) return lacks(c, "history");
        PLB_TRY(plb_train_progress_push(p, &epoch));
    }
    if (!history || p->n_history != p->epoch) return lacks(c, "history");
    return PLB_OK;
}

plb_status plb_checkpoint_progress(const plb_checkpoint *c, plb_train_progress *out) {
    *out = (plb_train_progress){0};
    plb_status status = read_progress(c, out);
    if (status) plb_train_progress_free(out);
    return status;
}

const char *plb_checkpoint_choices(const plb_checkpoint *c) {
    const char *choices = plb_safetensors_metadata(c->file, "choices");
    return choices ? choices : "";
}

static plb_status check_variable(const plb_checkpoint *c, const plb_variable_info *info) {
    const plb_named_tensor *found = plb_safetensors_find(c->file, info->name);
    if (!found) return plb_fail(PLB_EINVAL, "%s: expected %s, found none", c->path, info->name);
    const plb_tensor *t = &found->tensor;
    if (t->dtype == info->type.dtype && plb_shape_equal(&t->shape, &info->type.shape)) {
        return PLB_OK;
    }
    char expected[160], actual[160];
    return plb_fail(PLB_EINVAL, "%s: %s: expected %s %s, found %s %s", c->path, info->name,
                    plb_dtype_name(info->type.dtype),
                    plb_shape_format(&info->type.shape, expected, sizeof expected),
                    plb_dtype_name(t->dtype), plb_shape_format(&t->shape, actual, sizeof actual));
}

static plb_status check_variables(const plb_checkpoint *c, const plb_model *model) {
    int n = plb_model_variable_count(model);
    for (int i = 0; i < n; i++) {
        const plb_variable_info info = plb_model_variable_info(model, i);
        PLB_TRY(check_variable(c, &info));
    }
    for (size_t i = 0; i < plb_safetensors_count(c->file); i++) {
        const char *name = plb_safetensors_at(c->file, i)->name;
        if (plb_model_find_variable(model, name) < 0) {
            return plb_fail(PLB_EINVAL, "%s: holds %.80s, which this run has no place for", c->path,
                            name);
        }
    }
    return PLB_OK;
}

plb_status plb_checkpoint_load(const plb_checkpoint *c, plb_model *model) {
    PLB_TRY(check_variables(c, model));
    int n = plb_model_variable_count(model);
    for (int i = 0; i < n; i++) {
        const char *name = plb_model_variable_info(model, i).name;
        PLB_TRY(plb_variable_write(model, i, &plb_safetensors_find(c->file, name)->tensor));
    }
    return PLB_OK;
}
