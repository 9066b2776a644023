// SPDX-License-Identifier: Apache-2.0
// Memory of level interp: on the host as eager frameworks on the CPU take it, on a device from its
// pool, in the order of the stream.
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "engine/graph/interp.h"

plb_status plb_interp_alloc(plb_plan *plan, size_t size_bytes, void **out) {
    if (!plan->backend->host_memory) {
        return plan->backend->pool_alloc(plan->stream, size_bytes, out);
    }
    *out = plb_alloc_slab(size_bytes);
    return *out ? PLB_OK : plb_fail(PLB_ENOMEM, "out of memory for a value");
}

void plb_interp_release(plb_plan *plan, void *memory) {
    if (plan->backend->host_memory) {
        plb_free(memory);
    } else if (memory) {
        plan->backend->pool_free(plan->stream, memory);
    }
}

plb_status plb_interp_copy(plb_plan *plan, const plb_tensor *to, const plb_tensor *from) {
    if (!plan->backend->host_memory) return plan->backend->move(plan->stream, to, from);
    plb_tensor target = *to;
    return plb_tensor_copy(&target, from);
}

plb_status plb_interp_clear(plb_plan *plan, void *memory, size_t size_bytes) {
    if (!plan->backend->host_memory) {
        return plan->backend->clear(plan->stream, memory, size_bytes);
    }
    memset(memory, 0, size_bytes);
    return PLB_OK;
}

plb_status plb_interp_put(plb_plan *plan, void *to, const void *from, size_t size_bytes) {
    if (!plan->backend->host_memory) {
        return plan->backend->copy(plan->stream, to, from, size_bytes);
    }
    memcpy(to, from, size_bytes);
    return PLB_OK;
}

plb_status plb_interp_get(plb_plan *plan, void *to, const void *from, size_t size_bytes) {
    if (!plan->backend->host_memory) {
        PLB_TRY(plan->backend->copy(plan->stream, to, from, size_bytes));
        return plan->backend->wait(plan->stream);
    }
    memcpy(to, from, size_bytes);
    return PLB_OK;
}
