// SPDX-License-Identifier: Apache-2.0
#include "engine/graph/home.h"

#include "base/core/alloc.h"
#include "base/core/status.h"

enum { ALIGN_BYTES = 256 }; // what devices' vector loads and libraries like

static size_t padded(const plb_variable *v) {
    size_t size = plb_layout_bytes(&v->type.shape, v->type.dtype, (plb_layout){0});
    return (size + ALIGN_BYTES) & ~(size_t)(ALIGN_BYTES - 1); // empty ones differ too
}

static size_t exact(const plb_variable *v) {
    return plb_layout_bytes(&v->type.shape, v->type.dtype, (plb_layout){0});
}

static void home_free(plb_home *home) {
    if (!home->device) return;
    if (home->stream) home->backend->stream_free(home->stream);
    for (int i = 0; i < home->n_slabs; i++) home->backend->free(home->device, home->slabs[i]);
    plb_free(home->slabs);
    home->backend->close(home->device);
    *home = (plb_home){0};
}

void plb_homes_free(plb_model *model) {
    for (int i = 0; i < model->n_homes; i++) home_free(&model->homes[i]);
    plb_free(model->homes);
    model->homes = NULL;
    model->n_homes = 0;
}

// Room on the device for variables that have none there yet.
static plb_status place(plb_model *model, int index) {
    plb_home *home = &model->homes[index - 1];
    size_t total = 0;
    void *slab = NULL;
    for (int i = 0; i < model->n_variables; i++) {
        if (!model->variables[i].away[index - 1]) total += padded(&model->variables[i]);
    }
    if (!total) return PLB_OK;
    PLB_TRY(
        plb_reserve(&home->slabs, &home->slabs_capacity, home->n_slabs + 1, sizeof *home->slabs));
    plb_status status = home->backend->alloc(home->device, total, &slab);
    if (status) return plb_fail_context(status, "variables");
    home->slabs[home->n_slabs++] = slab;
    for (int i = 0; i < model->n_variables; i++) {
        plb_variable *v = &model->variables[i];
        if (v->away[index - 1]) continue;
        v->away[index - 1] = slab;
        model->copies++;
        slab = (char *)slab + padded(v);
        home->bytes[v->role] += padded(v);
    }
    return PLB_OK;
}

plb_status plb_home_on(plb_model *model, const plb_backend *backend, plb_device *device,
                       int *out_index) {
    *out_index = 0;
    for (int i = 0; i < model->n_homes; i++) {
        if (model->homes[i].backend != backend || model->homes[i].device != device) continue;
        backend->close(device); // the home has it open
        *out_index = i + 1;
        return place(model, i + 1);
    }
    if (!model->homes) model->homes = plb_alloc_array(PLB_MAX_HOMES, sizeof *model->homes);
    plb_status status = PLB_OK;
    if (!model->homes) status = plb_fail(PLB_ENOMEM, "out of memory for a device");
    if (!status && model->n_homes == PLB_MAX_HOMES) {
        status = plb_fail(PLB_EUNSUPPORTED, "a model runs on at most %d devices", PLB_MAX_HOMES);
    }
    if (status) {
        backend->close(device);
        return status;
    }
    plb_home *home = &model->homes[model->n_homes];
    *home = (plb_home){.backend = backend, .device = device};
    status = backend->stream_new(device, &home->stream);
    if (status) { // no home yet: the next plan would find one without a stream
        backend->close(device);
        return status;
    }
    *out_index = ++model->n_homes;
    return place(model, model->n_homes);
}

plb_status plb_home_update(plb_model *model, int index) {
    const plb_home *home = &model->homes[index - 1];
    const unsigned here = 1u << index;
    bool copied = false;
    for (int i = 0; i < model->n_variables; i++) {
        plb_variable *v = &model->variables[i];
        if (v->valid & here || !v->away[index - 1]) continue;
        PLB_TRY(plb_home_fetch(model, i));
        PLB_TRY(home->backend->enter(home->device)); // it may have come from another device
        PLB_TRY(home->backend->copy(home->stream, v->away[index - 1], v->data, exact(v)));
        v->valid |= here;
        model->copies++;
        copied = true;
    }
    return copied ? home->backend->wait(home->stream) : PLB_OK;
}

void plb_home_wrote(plb_model *model, int index, int variable) {
    plb_variable *v = &model->variables[variable];
    if (v->valid == 1u << index && !v->exposed) return;
    v->valid = 1u << index;
    v->exposed = false;
    model->copies++;
}

plb_status plb_home_fetch(plb_model *model, int variable) {
    plb_variable *v = &model->variables[variable];
    if (v->valid & 1u << PLB_HOST_HOME || !v->data) return PLB_OK;
    for (int i = 0; i < model->n_homes; i++) {
        const plb_home *home = &model->homes[i];
        if (!(v->valid >> (i + 1) & 1u)) continue;
        PLB_TRY(home->backend->enter(home->device));
        PLB_TRY(home->backend->copy(home->stream, v->data, v->away[i], exact(v)));
        PLB_TRY(home->backend->wait(home->stream));
        v->valid |= 1u << PLB_HOST_HOME;
        model->copies++;
        return PLB_OK;
    }
    return plb_fail(PLB_EBROKEN, "variable %s: true nowhere", v->name);
}
