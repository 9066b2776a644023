// SPDX-License-Identifier: Apache-2.0
// The store as pages, until Ctrl-C.
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/core/status.h"
#include "cli/cli.h"
#include "cli/stored.h"
#include "serve/serve.h"

typedef struct serve_flags {
    const char *db, *bind, *token;
    int64_t port;
} serve_flags;

static const plb_flag flags[] = {
    PLB_FLAG_DB(offsetof(serve_flags, db)),
    {.name = "port",
     .kind = PLB_FLAG_INT,
     .offset = offsetof(serve_flags, port),
     .value = "N",
     .min = 0,
     .max = 65535,
     .fallback = "8642",
     .help = "where to listen; 0: any port that is free"},
    {.name = "bind",
     .kind = PLB_FLAG_STRING,
     .offset = offsetof(serve_flags, bind),
     .value = "ADDRESS",
     .fallback = "127.0.0.1",
     .help = "of this machine; where others reach it --token is needed"},
    {.name = "token",
     .kind = PLB_FLAG_STRING,
     .offset = offsetof(serve_flags, token),
     .value = "SECRET",
     .help = "whoever wants to read opens /?token=SECRET first"},
};

static plb_status run_serve(plb_call *call) {
    const serve_flags *f = call->options;
    const plb_serve_options options = {
        .db = f->db, .bind = f->bind, .port = (int)f->port, .token = f->token};
    plb_server *server;
    int port;
    plb_cli_catch_interrupt();
    PLB_TRY(plb_serve_start(&options, &server, &port));
    const bool six = strchr(f->bind, ':') != NULL;
    char address[128];
    snprintf(address, sizeof address, "http://%s%s%s:%d/", six ? "[" : "", f->bind, six ? "]" : "",
             port);
    if (call->json) {
        plb_json json;
        plb_cli_json_begin(&json, "serve", 1);
        plb_json_string(&json, "address", address);
        plb_status status = plb_cli_json_print(&json);
        if (status) {
            plb_serve_stop(server);
            return status;
        }
    } else {
        plb_print("%s%s\n", address, f->token ? "?token=..." : "");
    }
    fflush(stdout);
    plb_note("serving; Ctrl-C ends it");
    while (!plb_cli_interrupted()) nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    plb_serve_stop(server);
    return PLB_OK;
}

const plb_command plb_cmd_serve = {
    .name = "serve",
    .summary = "show the store as pages in a browser",
    .description =
        "Runs, each run's report, the history of a case, two runs compared; the page of a run\n"
        "that is being measured loads anew every five seconds. It writes nothing but the store's\n"
        "cache of summaries, and listens on this machine alone unless --bind says otherwise.",
    .min_operands = 0,
    .max_operands = 0,
    .flags = flags,
    .flag_count = sizeof flags / sizeof *flags,
    .options_bytes = sizeof(serve_flags),
    .run = run_serve,
};
