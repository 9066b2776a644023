// SPDX-License-Identifier: Apache-2.0
// HTTP by libmicrohttpd: one thread, GET and HEAD, everything else is refused.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include <microhttpd.h>

#include "base/core/alloc.h"
#include "base/core/log.h"
#include "base/core/status.h"
#include "report/html.h"
#include "serve/pages.h"
#include "serve/serve.h"

// A client that says nothing is let go soon, one that waits for a page or reads it is not.
enum { MOST_CONNECTIONS = 64, MOST_OF_ONE = 32, SILENT_S = 5, ANSWER_S = 30 };

struct plb_server {
    struct MHD_Daemon *daemon;
    char *db, *bind, *token;
    int port;
};

typedef struct MHD_Connection connection;

// ---------------------------------------------------------------------------- answers
static enum MHD_Result answer(connection *c, int status, const char *type, const plb_strbuf *body,
                              const char *header, const char *value) {
    struct MHD_Response *response = MHD_create_response_from_buffer(
        body->length, body->text ? body->text : (void *)(uintptr_t) "", MHD_RESPMEM_MUST_COPY);
    if (!response) return MHD_NO;
    MHD_add_response_header(response, "Content-Type", type);
    MHD_add_response_header(response, "Content-Security-Policy",
                            PLB_PAGE_POLICY "; frame-ancestors 'none'");
    MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
    MHD_add_response_header(response, "Referrer-Policy", "no-referrer");
    MHD_add_response_header(response, "Cache-Control", "no-store");
    if (header) MHD_add_response_header(response, header, value);
    enum MHD_Result result = MHD_queue_response(c, (unsigned)status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result answer_text(connection *c, int status, const char *text) {
    plb_strbuf body = {0};
    plb_strbuf_printf(&body, "%s\n", text);
    enum MHD_Result result = answer(c, status, "text/plain; charset=utf-8", &body, NULL, NULL);
    plb_strbuf_free(&body);
    return result;
}

// ---------------------------------------------------------------------------- who may
// Compares in a time that does not tell how much of it was right.
static bool same_secret(const char *expected, const char *found) {
    size_t n = strlen(expected), m = strlen(found);
    unsigned char difference = n != m;
    for (size_t i = 0; i < n; i++)
        difference |= (unsigned char)(expected[i] ^ (m ? found[i % m] : 0));
    return difference == 0;
}

static const char *header_of(connection *c, const char *name) {
    const char *value = MHD_lookup_connection_value(c, MHD_HEADER_KIND, name);
    return value ? value : "";
}

// The name of this server as the browser knows it, without the port.
static bool known_host(const plb_server *s, connection *c) {
    char host[128];
    snprintf(host, sizeof host, "%s", header_of(c, "Host"));
    char *port = strrchr(host, ':');
    if (port && !strchr(port, ']')) *port = '\0';
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(host, own[i]) == 0) return true;
    return strcmp(host, s->bind) == 0;
}

static bool has_token(const plb_server *s, connection *c) {
    const char *given = MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "token");
    if (!given) given = MHD_lookup_connection_value(c, MHD_COOKIE_KIND, "plumb-token");
    if (given && same_secret(s->token, given)) return true;
    const char *bearer = header_of(c, "Authorization");
    return strncmp(bearer, "Bearer ", 7) == 0 && same_secret(s->token, bearer + 7);
}

// ---------------------------------------------------------------------------- requests
// After the token came with the address it stays in a cookie, and goes from the address.
static enum MHD_Result keep_token(const plb_server *s, connection *c, const char *path) {
    plb_strbuf cookie = {0};
    plb_strbuf_printf(&cookie, "plumb-token=%s; Path=/; HttpOnly; SameSite=Strict", s->token);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(0, (void *)(uintptr_t) "", MHD_RESPMEM_PERSISTENT);
    enum MHD_Result result = MHD_NO;
    if (response && !cookie.failed) {
        MHD_add_response_header(response, "Set-Cookie", cookie.text);
        MHD_add_response_header(response, "Location", path);
        result = MHD_queue_response(c, 303, response);
    }
    if (response) MHD_destroy_response(response);
    plb_strbuf_free(&cookie);
    return result;
}

static enum MHD_Result put_page(const plb_server *s, connection *c, const char *path) {
    plb_store *store;
    plb_strbuf page = {0};
    int code = 200;
    plb_status status = plb_store_open_existing(s->db, &store);
    if (!status) status = plb_serve_page(store, path, &page, &code);
    plb_store_close(store);
    enum MHD_Result result = status
                                 ? answer_text(c, 500, plb_error_text())
                                 : answer(c, code, "text/html; charset=utf-8", &page, NULL, NULL);
    if (status) plb_log_line(PLB_LOG_WARN, "%s: %s", path, plb_error_text());
    plb_strbuf_free(&page);
    return result;
}

// A path that leads to this server: what begins with two slashes would lead elsewhere.
static bool plain_path(const char *path) {
    return path[0] == '/' && path[1] != '/' &&
           !path[strspn(path, "/0123456789abcdefghijklmnopqrstuvwxyz-")];
}

static enum MHD_Result handle(void *context, connection *c, const char *path, const char *method,
                              const char *version, const char *upload, size_t *upload_size,
                              void **state) {
    static int seen;
    const plb_server *s = context;
    (void)version, (void)upload;
    if (!*state) { // the headers alone so far
        *state = &seen;
        MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)ANSWER_S);
        return MHD_YES;
    }
    if (*upload_size) {
        *upload_size = 0; // what is sent is not looked at
        return MHD_YES;
    }
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return answer_text(c, 405, "This server only shows: GET and HEAD.");
    if (!plain_path(path)) return answer_text(c, 404, "No page has this address.");
    if (!s->token && !known_host(s, c))
        return answer_text(c, 403,
                           "This server is known as localhost; under another name it needs "
                           "--token.");
    if (s->token && !has_token(s, c)) return answer_text(c, 401, "A token is needed: /?token=...");
    if (s->token && MHD_lookup_connection_value(c, MHD_GET_ARGUMENT_KIND, "token"))
        return keep_token(s, c, path);
    return put_page(s, c, path);
}

// The answer is sent: the connection may bring another request.
static void wait_again(void *context, connection *c, void **state,
                       enum MHD_RequestTerminationCode how) {
    (void)context, (void)state, (void)how;
    MHD_set_connection_option(c, MHD_CONNECTION_OPTION_TIMEOUT, (unsigned)SILENT_S);
}

// ---------------------------------------------------------------------------- start and stop
typedef struct address {
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } at;
    bool six, local;
} address;

static plb_status parse_address(const char *text, int port, address *out) {
    *out = (address){0};
    if (inet_pton(AF_INET, text, &out->at.v4.sin_addr) == 1) {
        out->at.v4.sin_family = AF_INET;
        out->at.v4.sin_port = htons((uint16_t)port);
        out->local = ntohl(out->at.v4.sin_addr.s_addr) >> 24 == 127;
        return PLB_OK;
    }
    if (inet_pton(AF_INET6, text, &out->at.v6.sin6_addr) == 1) {
        out->at.v6.sin6_family = AF_INET6;
        out->at.v6.sin6_port = htons((uint16_t)port);
        out->six = true;
        out->local = IN6_IS_ADDR_LOOPBACK(&out->at.v6.sin6_addr);
        return PLB_OK;
    }
    return plb_fail(PLB_EINVAL, "--bind %s: expected an IP address such as 127.0.0.1 or ::1", text);
}

// Only letters that a cookie and an address hold as they are.
static plb_status check_token(const char *token) {
    static const char letters[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_.~";
    if (!token) return PLB_OK;
    if (strlen(token) < 8 || token[strspn(token, letters)])
        return plb_fail(PLB_EINVAL, "--token: expected 8 letters, digits or any of -_.~ at least");
    return PLB_OK;
}

// By poll: with epoll, which libmicrohttpd takes by itself, 0.9.75 overlooks that a client has left
// in the middle of a request, and some dozens of these kept everybody else out.
static plb_status listen_at(plb_server *s, const address *a) {
    const unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | (a->six ? MHD_USE_IPv6 : 0u);
    errno = 0;
    s->daemon = MHD_start_daemon(flags, 0, NULL, NULL, handle, s, MHD_OPTION_SOCK_ADDR, &a->at.any,
                                 MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS,
                                 MHD_OPTION_PER_IP_CONNECTION_LIMIT, (unsigned)MOST_OF_ONE,
                                 MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SILENT_S,
                                 MHD_OPTION_NOTIFY_COMPLETED, wait_again, NULL, MHD_OPTION_END);
    if (!s->daemon) {
        return plb_fail(PLB_EIO, "cannot listen on %s, port %d: %s", s->bind, s->port,
                        errno ? strerror(errno) : "the port is taken, or not ours");
    }
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT);
    if (info) s->port = info->port;
    return PLB_OK;
}

// So that a store that is not there is said at once, not on the first page.
static plb_status check_store(const char *db) {
    plb_store *store;
    plb_status status = plb_store_open_existing(db, &store);
    plb_store_close(store);
    return status;
}

plb_status plb_serve_start(const plb_serve_options *options, plb_server **out, int *port) {
    address a;
    plb_status status;
    plb_server *s = plb_alloc(sizeof *s);
    *out = NULL, *port = 0;
    if (!s) return plb_fail(PLB_ENOMEM, "out of memory for the server");
    s->bind = plb_strdup(options->bind ? options->bind : "127.0.0.1");
    s->db = options->db ? plb_strdup(options->db) : NULL;
    s->token = options->token ? plb_strdup(options->token) : NULL;
    s->port = options->port;
    if (!s->bind || (options->db && !s->db) || (options->token && !s->token)) {
        status = plb_fail(PLB_ENOMEM, "out of memory for the server");
        goto out;
    }
    PLB_TRY_OUT(parse_address(s->bind, options->port, &a));
    PLB_TRY_OUT(check_token(s->token));
    if (!a.local && !s->token) {
        status = plb_fail(PLB_EINVAL,
                          "--bind %s: others reach this address, so a --token is needed", s->bind);
        goto out;
    }
    PLB_TRY_OUT(check_store(s->db));
    PLB_TRY_OUT(listen_at(s, &a));
    *out = s, *port = s->port;
    return PLB_OK;
out:
    plb_serve_stop(s);
    return status;
}

void plb_serve_stop(plb_server *server) {
    if (!server) return;
    if (server->daemon) MHD_stop_daemon(server->daemon);
    plb_free(server->bind);
    plb_free(server->db);
    plb_free(server->token);
    plb_free(server);
}
