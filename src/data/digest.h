// SPDX-License-Identifier: Apache-2.0
// Checksums as publishers of data state them. OpenSSL's libcrypto computes them: own hash functions
// would be one more thing to get wrong, and libcurl brings it along anyway.
#ifndef PLB_DATA_DIGEST_H
#define PLB_DATA_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

#include "plumb/status.h"

typedef enum plb_digest_kind { PLB_MD5, PLB_SHA256 } plb_digest_kind;

enum { PLB_DIGEST_TEXT_BYTES = 65 }; // hexadecimal, with its end

// Writes the digest of the file's bytes, or with `unpack` of what they are once a gzip file is
// unpacked, as lower-case hexadecimal. PLB_EMISSING in a build without libcrypto.
PLB_API PLB_MUST_USE plb_status plb_digest_file(plb_digest_kind kind, const char *path, bool unpack,
                                                char text[PLB_DIGEST_TEXT_BYTES]);

// The name that git gives a file of these bytes, by SHA-1 or SHA-256. PLB_EMISSING as above.
PLB_API PLB_MUST_USE plb_status plb_digest_blob(bool sha256, const void *bytes, size_t size_bytes,
                                                char text[PLB_DIGEST_TEXT_BYTES]);

#endif
