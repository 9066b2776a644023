// SPDX-License-Identifier: Apache-2.0
#include "data/digest.h"

#include "base/core/status.h"

#ifdef PLB_HAVE_CURL
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static plb_status digest_stream(EVP_MD_CTX *context, gzFile file, const char *path) {
    unsigned char piece[1 << 14];
    int got;
    while ((got = gzread(file, piece, sizeof piece)) > 0)
        if (!EVP_DigestUpdate(context, piece, (size_t)got))
            return plb_fail(PLB_ENOMEM, "%s: libcrypto cannot go on", path);
    int code = Z_OK;
    const char *text = gzerror(file, &code);
    if (code == Z_ERRNO) return plb_fail_errno("%s: cannot read", path);
    // "<fd:4>: incorrect data check": its name of a file that was handed over open.
    if (strncmp(text, "<fd:", 4) == 0 && strstr(text, ": ")) text = strstr(text, ": ") + 2;
    if (got < 0 || code != Z_OK) return plb_fail(PLB_EINVAL, "%s: gzip: %s", path, text);
    return PLB_OK;
}

static plb_status digest_plain(EVP_MD_CTX *context, int file, const char *path) {
    unsigned char piece[1 << 14];
    for (;;) {
        ssize_t got = read(file, piece, sizeof piece);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return plb_fail_errno("%s: cannot read", path);
        if (got == 0) return PLB_OK;
        if (!EVP_DigestUpdate(context, piece, (size_t)got))
            return plb_fail(PLB_ENOMEM, "%s: libcrypto cannot go on", path);
    }
}

static plb_status digest_open_file(EVP_MD_CTX *context, int file, const char *path, bool unpack) {
    if (!unpack) return digest_plain(context, file, path);
    int copy = dup(file); // gzclose closes it
    gzFile stream = copy < 0 ? NULL : gzdopen(copy, "rb");
    if (!stream) {
        if (copy >= 0) close(copy);
        return plb_fail(PLB_ENOMEM, "%s: no memory to unpack", path);
    }
    plb_status status = digest_stream(context, stream, path);
    gzclose(stream);
    return status;
}

static void write_digest(const unsigned char *digest, unsigned int length, char *text) {
    for (unsigned int i = 0; i < length && 2 * i + 2 < PLB_DIGEST_TEXT_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
}

plb_status plb_digest_blob(bool sha256, const void *bytes, size_t size_bytes,
                           char text[PLB_DIGEST_TEXT_BYTES]) {
    char head[32];
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    const size_t head_bytes = (size_t)snprintf(head, sizeof head, "blob %zu", size_bytes) + 1;
    bool done = context && EVP_DigestInit_ex(context, sha256 ? EVP_sha256() : EVP_sha1(), NULL) &&
                EVP_DigestUpdate(context, head, head_bytes) &&
                EVP_DigestUpdate(context, bytes, size_bytes) &&
                EVP_DigestFinal_ex(context, digest, &length);
    EVP_MD_CTX_free(context);
    if (!done) return plb_fail(PLB_EMISSING, "libcrypto does not offer git's checksum");
    write_digest(digest, length, text);
    return PLB_OK;
}

plb_status plb_digest_file(plb_digest_kind kind, const char *path, bool unpack,
                           char text[PLB_DIGEST_TEXT_BYTES]) {
    plb_status status = PLB_OK;
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int length = 0;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) PLB_TRY_OUT(plb_fail_errno("%s: cannot open", path));
    if (!context || !EVP_DigestInit_ex(context, kind == PLB_MD5 ? EVP_md5() : EVP_sha256(), NULL))
        PLB_TRY_OUT(plb_fail(PLB_EMISSING, "%s: libcrypto does not offer this checksum", path));
    PLB_TRY_OUT(digest_open_file(context, file, path, unpack));
    if (!EVP_DigestFinal_ex(context, digest, &length))
        PLB_TRY_OUT(plb_fail(PLB_ENOMEM, "%s: libcrypto cannot go on", path));
    write_digest(digest, length, text);
out:
    if (file >= 0) close(file);
    EVP_MD_CTX_free(context);
    return status;
}

#else

plb_status plb_digest_file(plb_digest_kind kind, const char *path, bool unpack,
                           char text[PLB_DIGEST_TEXT_BYTES]) {
    (void)kind, (void)unpack, (void)text;
    return plb_fail(PLB_EMISSING,
                    "%s: cannot be checked: this build has no libcrypto (Debian: "
                    "libcurl4-openssl-dev libssl-dev)",
                    path);
}

plb_status plb_digest_blob(bool sha256, const void *bytes, size_t size_bytes,
                           char text[PLB_DIGEST_TEXT_BYTES]) {
    (void)sha256, (void)bytes, (void)size_bytes, (void)text;
    return plb_fail(PLB_EMISSING, "git's checksum: this build has no libcrypto");
}

#endif
