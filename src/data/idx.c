// SPDX-License-Identifier: Apache-2.0
#include "data/idx.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/file.h"

enum { HEADER_BYTES = 4, IDX_U8 = 0x08 };
static const size_t file_limit_bytes = (size_t)16 << 30;
// Deflate's shortest code for its longest match: two bits for 258 bytes (RFC 1951, 3.2.5).
static const size_t inflate_ratio_limit = 4 * 258;

static uint32_t big_endian_u32(const uint8_t *bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

static const char *element_type_name(uint8_t code) {
    switch (code) {
    case 0x09: return "i8";
    case 0x0B: return "i16";
    case 0x0C: return "i32";
    case 0x0D: return "f32";
    case 0x0E: return "f64";
    }
    return NULL;
}

// Checks the first four bytes; *out_rank is 1 to PLB_MAX_RANK.
static plb_status check_magic(const uint8_t magic[HEADER_BYTES], const char *place, int *out_rank) {
    const char *type = element_type_name(magic[2]);
    if (magic[0] || magic[1] || (magic[2] != IDX_U8 && !type))
        return plb_fail(PLB_EINVAL,
                        "%s: offset 0: expected the IDX magic 00 00 08 rank, found "
                        "%02x %02x %02x %02x",
                        place, magic[0], magic[1], magic[2], magic[3]);
    if (type)
        return plb_fail(PLB_EUNSUPPORTED, "%s: offset 2: expected elements of u8, found %s", place,
                        type);
    if (magic[3] < 1 || magic[3] > PLB_MAX_RANK)
        return plb_fail(PLB_EINVAL, "%s: offset 3: expected a rank of 1 to %d, found %d", place,
                        PLB_MAX_RANK, magic[3]);
    *out_rank = magic[3];
    return PLB_OK;
}

static plb_status read_extents(const uint8_t *bytes, int rank, const char *place, plb_shape *out) {
    *out = (plb_shape){.rank = rank};
    for (int axis = 0; axis < rank; axis++) out->dim[axis] = big_endian_u32(bytes + 4 * axis);
    plb_status status = plb_shape_check(out);
    return status ? plb_fail_context(status, "%s: offset %d", place, HEADER_BYTES) : PLB_OK;
}

static plb_status too_short(const char *place, size_t expected_bytes, size_t found_bytes) {
    return plb_fail(PLB_EINVAL, "%s: ends early: expected %zu bytes, found %zu", place,
                    expected_bytes, found_bytes);
}

// Where the decoded bytes come from: memory as it is, or through inflate.
typedef struct source {
    const uint8_t *bytes;
    size_t left_bytes;
    const char *place;
    bool gzip, ended; // ended: inflate has seen the end of the last member
    z_stream stream;
} source;

static voidpf zlib_alloc(voidpf context, uInt count, uInt size_bytes) {
    (void)context;
    return plb_alloc_array(count, size_bytes);
}

static void zlib_free(voidpf context, voidpf pointer) {
    (void)context;
    plb_free(pointer);
}

static plb_status source_open(source *from, const void *bytes, size_t size_bytes,
                              const char *place) {
    *from = (source){.bytes = bytes, .left_bytes = size_bytes, .place = place};
    from->gzip = size_bytes >= 2 && from->bytes[0] == 0x1f && from->bytes[1] == 0x8b;
    if (!from->gzip) return PLB_OK;
    from->stream.zalloc = zlib_alloc;
    from->stream.zfree = zlib_free;
    int code = inflateInit2(&from->stream, 16 + MAX_WBITS); // 16: a gzip header, checksum checked
    if (code == Z_OK) return PLB_OK;
    from->gzip = false;
    return plb_fail(code == Z_MEM_ERROR ? PLB_ENOMEM : PLB_EBROKEN, "%s: inflateInit2 failed: %s",
                    place, zError(code));
}

static void source_close(source *from) {
    if (from->gzip) inflateEnd(&from->stream);
}

// One call of inflate on what is left; zlib counts in uInt, so large input goes in pieces.
static plb_status inflate_some(source *from) {
    z_stream *stream = &from->stream;
    uInt given = from->left_bytes > INT_MAX ? INT_MAX : (uInt)from->left_bytes;
    stream->next_in = (z_const Bytef *)from->bytes;
    stream->avail_in = given;
    int code = inflate(stream, Z_NO_FLUSH);
    from->bytes += given - stream->avail_in;
    from->left_bytes -= given - stream->avail_in;
    if (code == Z_STREAM_END) { // a file may be several members, one after the other
        from->ended = from->left_bytes == 0;
        code = from->ended ? Z_OK : inflateReset(stream);
    }
    if (code == Z_OK || code == Z_BUF_ERROR) return PLB_OK;
    return plb_fail(code == Z_MEM_ERROR ? PLB_ENOMEM : PLB_EINVAL,
                    "%s: gzip: damaged after %" PRIu64 " decoded bytes: %s", from->place,
                    (uint64_t)stream->total_out, stream->msg ? stream->msg : zError(code));
}

// Decodes up to size_bytes; fewer only at the end.
static plb_status source_read(source *from, uint8_t *to, size_t size_bytes, size_t *out_read) {
    if (!from->gzip) {
        size_t n = size_bytes < from->left_bytes ? size_bytes : from->left_bytes;
        memcpy(to, from->bytes, n);
        from->bytes += n, from->left_bytes -= n;
        *out_read = n;
        return PLB_OK;
    }
    size_t done = 0;
    while (done < size_bytes && !from->ended) {
        size_t before = from->left_bytes;
        uInt room = size_bytes - done > INT_MAX ? INT_MAX : (uInt)(size_bytes - done);
        from->stream.next_out = to + done;
        from->stream.avail_out = room;
        PLB_TRY(inflate_some(from));
        size_t got = room - from->stream.avail_out;
        done += got;
        if (!got && before == from->left_bytes && !from->ended) break; // input ran out
    }
    *out_read = done;
    return PLB_OK;
}

// After the last element: nothing may follow, and gzip's checksum must have been reached.
static plb_status check_end(source *from, size_t expected_bytes) {
    uint8_t extra;
    size_t got = 0;
    PLB_TRY(source_read(from, &extra, 1, &got));
    if (got)
        return plb_fail(PLB_EINVAL, "%s: expected %zu bytes as its header states, found more",
                        from->place, expected_bytes);
    if (from->gzip && !from->ended)
        return plb_fail(PLB_EINVAL, "%s: gzip: ends before its checksum", from->place);
    return PLB_OK;
}

static plb_status read_header(source *from, plb_shape *out_shape, size_t *out_bytes) {
    uint8_t header[HEADER_BYTES + 4 * PLB_MAX_RANK];
    size_t got = 0, more = 0;
    int rank = 0;
    PLB_TRY(source_read(from, header, HEADER_BYTES, &got));
    if (got < HEADER_BYTES) return too_short(from->place, HEADER_BYTES, got);
    PLB_TRY(check_magic(header, from->place, &rank));
    size_t extents_bytes = 4 * (size_t)rank;
    PLB_TRY(source_read(from, header + HEADER_BYTES, extents_bytes, &more));
    if (more < extents_bytes)
        return too_short(from->place, HEADER_BYTES + extents_bytes, HEADER_BYTES + more);
    *out_bytes = HEADER_BYTES + extents_bytes;
    return read_extents(header + HEADER_BYTES, rank, from->place, out_shape);
}

static plb_status decode(source *from, plb_idx *out) {
    size_t header_bytes = 0, got = 0;
    size_t whole_bytes = from->left_bytes;
    PLB_TRY(read_header(from, &out->shape, &header_bytes));
    size_t size_bytes = (size_t)plb_shape_count(&out->shape);
    size_t most = from->gzip ? whole_bytes * inflate_ratio_limit : from->left_bytes;
    if (size_bytes > most) {
        char text[128];
        return plb_fail(
            PLB_EINVAL, "%s: its header states %s, %zu bytes, but the file can hold at most %zu",
            from->place, plb_shape_format(&out->shape, text, sizeof text), size_bytes, most);
    }
    out->data = plb_alloc_slab(size_bytes);
    if (!out->data)
        return plb_fail(PLB_ENOMEM, "%s: no memory for %zu bytes", from->place, size_bytes);
    PLB_TRY(source_read(from, out->data, size_bytes, &got));
    if (got < size_bytes)
        return too_short(from->place, header_bytes + size_bytes, header_bytes + got);
    return check_end(from, header_bytes + size_bytes);
}

plb_status plb_idx_decode(const void *bytes, size_t size_bytes, const char *place, plb_idx *out) {
    source from;
    *out = (plb_idx){0};
    PLB_TRY(source_open(&from, bytes, size_bytes, place));
    plb_status status = decode(&from, out);
    source_close(&from);
    if (status) {
        plb_free(out->data);
        *out = (plb_idx){0};
    }
    return status;
}

plb_status plb_idx_read(const char *path, plb_idx *out) {
    uint8_t *bytes;
    size_t size_bytes;
    PLB_TRY(plb_file_read(path, file_limit_bytes, &bytes, &size_bytes));
    plb_status status = plb_idx_decode(bytes, size_bytes, path, out);
    plb_free(bytes);
    return status;
}

static plb_status check_pair(const plb_idx *images, const char *images_place, const plb_idx *labels,
                             const char *labels_place) {
    char text[128];
    if (images->shape.rank != 3)
        return plb_fail(PLB_EINVAL, "%s: expected images [N,H,W], found %s", images_place,
                        plb_shape_format(&images->shape, text, sizeof text));
    if (labels->shape.rank != 1)
        return plb_fail(PLB_EINVAL, "%s: expected labels [N], found %s", labels_place,
                        plb_shape_format(&labels->shape, text, sizeof text));
    if (images->shape.dim[0] != labels->shape.dim[0])
        return plb_fail(PLB_EINVAL,
                        "%s: expected %" PRId64 " labels as %s has images, found %" PRId64,
                        labels_place, images->shape.dim[0], images_place, labels->shape.dim[0]);
    return PLB_OK;
}

plb_status plb_idx_dataset_new(const plb_dataset_info *info, plb_idx *images,
                               const char *images_place, const plb_idx *labels,
                               const char *labels_place, plb_dataset **out) {
    PLB_TRY(check_pair(images, images_place, labels, labels_place));
    plb_dataset_info whole = *info;
    whole.kind = "idx", whole.dtype = PLB_U8, whole.channels = 1;
    whole.count = images->shape.dim[0];
    whole.height = images->shape.dim[1], whole.width = images->shape.dim[2];
    int64_t *wide = plb_alloc_array((size_t)whole.count, sizeof *wide);
    if (!wide) return plb_fail(PLB_ENOMEM, "%s: no memory for labels", labels_place);
    plb_status status = PLB_OK;
    for (int64_t i = 0; i < whole.count; i++) {
        wide[i] = labels->data[i];
        if (wide[i] < whole.classes) continue;
        PLB_TRY_OUT(plb_fail(PLB_EINVAL,
                             "%s: label of image %" PRId64 ": expected below %" PRId64
                             ", found %" PRId64,
                             labels_place, i, whole.classes, wide[i]));
    }
    PLB_TRY_OUT(plb_memory_dataset_new(&whole, images->data, wide, out));
    images->data = NULL, wide = NULL;
out:
    plb_free(wide);
    return status;
}

plb_status plb_idx_dataset_open(const plb_dataset_info *info, const char *images_path,
                                const char *labels_path, plb_dataset **out) {
    plb_idx images = {0}, labels = {0};
    plb_status status = PLB_OK;
    PLB_TRY_OUT(plb_idx_read(images_path, &images));
    PLB_TRY_OUT(plb_idx_read(labels_path, &labels));
    PLB_TRY_OUT(plb_idx_dataset_new(info, &images, images_path, &labels, labels_path, out));
out:
    plb_free(images.data);
    plb_free(labels.data);
    return status;
}
