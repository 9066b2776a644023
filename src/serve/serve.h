// SPDX-License-Identifier: Apache-2.0
// The store as pages for a browser on this machine. It writes nothing but the store's cache of
// summaries; whoever may not see it is kept out by the address it listens on, by a token, and by
// looking at the name that the browser believes to speak to (a page of the web could otherwise
// point its own name here).
#ifndef PLB_SERVE_SERVE_H
#define PLB_SERVE_SERVE_H

#include "plumb/status.h"

typedef struct plb_serve_options {
    const char *db;    // the store; NULL: the default one
    const char *bind;  // an IP address; NULL: 127.0.0.1
    int port;          // 0: any that is free
    const char *token; // asked for in ?token= once, then kept as a cookie; NULL: nobody is asked
} plb_serve_options;

typedef struct plb_server plb_server;

// Listens and answers in a thread of its own; *port is where. PLB_EINVAL: an address that is no IP
// address, or one that others reach without a token; PLB_EIO: the port is taken; PLB_EMISSING: this
// build has no server, or there is no store. Ended by plb_serve_stop.
PLB_API PLB_MUST_USE plb_status plb_serve_start(const plb_serve_options *options, plb_server **out,
                                                int *port);
PLB_API void plb_serve_stop(plb_server *server); // NULL is legal

#endif
