// SPDX-License-Identifier: Apache-2.0
// The worker's two windows: inputs that the caller writes, outputs that it reads. Pages of outputs
// are allocated when they are set aside, so that a full machine is an error here and not a fault
// inside a timed loop.
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/core/status.h"
#include "worker/session.h"

plb_status plb_worker_in_map(plb_worker_in *in, size_t end_bytes) {
    if (end_bytes <= in->size_bytes) return PLB_OK;
    struct stat info;
    if (fstat(in->fd, &info)) return plb_fail_errno("inputs");
    if (info.st_size < 0 || (size_t)info.st_size < end_bytes) {
        return plb_fail(PLB_EINVAL, "inputs: expected %zu bytes, found %lld", end_bytes,
                        (long long)info.st_size);
    }
    if (in->bytes) munmap((void *)in->bytes, in->size_bytes);
    *in = (plb_worker_in){.fd = in->fd};
    void *bytes = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_SHARED, in->fd, 0);
    if (bytes == MAP_FAILED) return plb_fail_errno("inputs: cannot map");
    in->bytes = bytes, in->size_bytes = (size_t)info.st_size;
    return PLB_OK;
}

static plb_status grow(plb_worker_out *out, size_t need) {
    enum { STEP = 1 << 20 };
    size_t size = (need + STEP - 1) / STEP * STEP;
    int code = posix_fallocate(out->fd, 0, (off_t)size);
    if (code) {
        errno = code;
        plb_status status = plb_fail_errno("outputs: no room for %zu bytes", size);
        return code == ENOSPC ? plb_fail(PLB_ENOMEM, "outputs: no room for %zu bytes", size)
                              : status;
    }
    void *bytes = out->bytes ? mremap(out->bytes, out->size_bytes, size, MREMAP_MAYMOVE)
                             : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, out->fd, 0);
    if (bytes == MAP_FAILED) return plb_fail_errno("outputs: cannot map");
    out->bytes = bytes, out->size_bytes = size;
    return PLB_OK;
}

plb_status plb_worker_out_place(plb_worker_out *out, size_t size_bytes, size_t *out_offset) {
    enum { ALIGN = 64 };
    size_t end = out->used_bytes + size_bytes;
    if (end > out->size_bytes) PLB_TRY(grow(out, end));
    *out_offset = out->used_bytes;
    memset(out->bytes + out->used_bytes, 0, size_bytes);
    out->used_bytes = (end + ALIGN - 1) / ALIGN * ALIGN;
    return PLB_OK;
}

plb_status plb_worker_place_like(plb_worker_out *out, const plb_tensor *tensor,
                                 plb_worker_place *place) {
    *place = (plb_worker_place){.dtype = tensor->dtype, .shape = tensor->shape};
    size_t size = (size_t)plb_shape_count(&tensor->shape) * plb_dtype_size(tensor->dtype);
    return plb_worker_out_place(out, size, &place->offset);
}

plb_status plb_worker_fill(plb_worker_out *out, const plb_worker_place *place,
                           const plb_tensor *tensor) {
    plb_tensor to = plb_tensor_dense(plb_worker_out_at(out, place->offset), place->dtype,
                                     &place->shape, (plb_layout){0});
    return plb_tensor_copy(&to, tensor);
}

void plb_worker_describe_place(plb_json *reply, const char *name, int64_t batch,
                               const plb_worker_place *place) {
    plb_json_begin_object(reply, NULL);
    plb_json_string(reply, "name", name);
    if (batch >= 0) plb_json_int(reply, "batch", batch);
    plb_json_string(reply, "dtype", plb_dtype_name(place->dtype));
    plb_json_begin_array(reply, "shape");
    for (int i = 0; i < place->shape.rank; i++) plb_json_int(reply, NULL, place->shape.dim[i]);
    plb_json_end(reply);
    plb_json_int(reply, "offset", (int64_t)place->offset);
    plb_json_end(reply);
}

plb_status plb_worker_emit(plb_worker_session *s, const char *name, int64_t batch,
                           const plb_tensor *tensor) {
    plb_worker_place place;
    PLB_TRY(plb_worker_place_like(&s->out, tensor, &place));
    PLB_TRY(plb_worker_fill(&s->out, &place, tensor));
    plb_worker_describe_place(&s->reply, name, batch, &place);
    return PLB_OK;
}
