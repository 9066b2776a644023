// SPDX-License-Identifier: Apache-2.0
// The server in a build without libmicrohttpd: says what is missing.
#include <stddef.h>

#include "base/core/status.h"
#include "serve/serve.h"

plb_status plb_serve_start(const plb_serve_options *options, plb_server **out, int *port) {
    (void)options;
    *out = NULL, *port = 0;
    return plb_fail(PLB_EMISSING, "this build of Plumb serves no pages (it was made without "
                                  "libmicrohttpd: install libmicrohttpd-dev and build anew; "
                                  "plumb report writes the same pages as files)");
}

void plb_serve_stop(plb_server *server) {
    (void)server;
}
