// SPDX-License-Identifier: Apache-2.0
#include "data/subset.h"

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "data/order.h"

typedef struct subset {
    plb_dataset base;
    plb_dataset *whole;
    uint32_t *order; // the first base.info.count of them are the samples
} subset;

static const subset *self_of(const plb_dataset *set) {
    return (const subset *)set;
}

static plb_status subset_get(const plb_dataset *set, int64_t i, plb_scratch *scratch,
                             void *sample) {
    const subset *self = self_of(set);
    return self->whole->ops->get(self->whole, self->order[i], scratch, sample);
}

static const void *subset_peek(const plb_dataset *set, int64_t i) {
    const subset *self = self_of(set);
    return self->whole->ops->peek(self->whole, self->order[i]);
}

static int64_t subset_label(const plb_dataset *set, int64_t i) {
    const subset *self = self_of(set);
    return self->whole->ops->label(self->whole, self->order[i]);
}

static void subset_release(plb_dataset *set) {
    plb_dataset_free(self_of(set)->whole);
    plb_free(self_of(set)->order);
}

static const plb_dataset_ops decoding = {
    .get = subset_get, .label = subset_label, .release = subset_release};
static const plb_dataset_ops in_memory = {
    .get = subset_get, .peek = subset_peek, .label = subset_label, .release = subset_release};

plb_status plb_dataset_subset(plb_dataset **set, int64_t count, uint64_t seed) {
    plb_dataset_info info = (*set)->info;
    if (count < 1 || count >= info.count) return PLB_OK;
    if (info.count > UINT32_MAX)
        return plb_fail(PLB_EUNSUPPORTED, "%s: expected fewer than 2^32 samples", info.name);
    uint32_t *order = plb_alloc_array((size_t)info.count, sizeof *order);
    if (!order) return plb_fail(PLB_ENOMEM, "%s: no memory to choose samples", info.name);
    plb_order_shuffle(order, (uint32_t)info.count, seed, 0);
    subset *self;
    info.count = count;
    plb_status status =
        plb_dataset_new(&info, (*set)->ops->peek ? &in_memory : &decoding, sizeof *self, &self);
    if (status) {
        plb_free(order);
        return status;
    }
    self->whole = *set, self->order = order;
    *set = &self->base;
    return PLB_OK;
}
