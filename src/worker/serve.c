// SPDX-License-Identifier: Apache-2.0
// The main loop: a line in, a handler, a line out. A request that fails is answered and forgotten.
#include "worker/worker.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "base/memory_use.h"
#include "worker/session.h"

static const plb_worker_kind kinds[] = {
    {.name = "plumb-plan", .level = PLB_LEVEL_PLAN},
    {.name = "plumb-interp", .level = PLB_LEVEL_INTERP},
    {.name = "plumb-replay", .level = PLB_LEVEL_REPLAY, .device_only = true},
    {.name = "plumb-ref", .level = PLB_LEVEL_PLAN, .f64 = true, .describes = true},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

static const struct {
    const char *type, *answer;
    plb_status (*handle)(plb_worker_session *s, const json_t *request);
} requests[] = {
    {"hello", "hello", plb_worker_hello},
    {"load", "loaded", plb_worker_load},
    {"batches", "ok", plb_worker_batches},
    {"prove", "proof", plb_worker_prove},
    {"sample", "samples", plb_worker_sample},
    {"state", "proof", plb_worker_state},
    {"ran", "ran", plb_worker_ran},
    {"memory", "memory", plb_worker_memory},
    {"epoch", "ok", plb_worker_epoch},
    {"batch", "done", plb_worker_batch},
    {"epoch_end", "ok", plb_worker_epoch_end},
    {"describe", "description", plb_worker_describe},
    {"roof", "roof", plb_worker_roof},
    {"weights", "ok", plb_worker_weights},
    {"bye", "ok", NULL},
};
enum { REQUESTS = sizeof requests / sizeof *requests };

const char *plb_request_text(const json_t *request, const char *key, const char *fallback) {
    const json_t *value = json_object_get(request, key);
    return json_is_string(value) ? json_string_value(value) : fallback;
}

int64_t plb_request_int(const json_t *request, const char *key, int64_t fallback) {
    const json_t *value = json_object_get(request, key);
    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

double plb_request_double(const json_t *request, const char *key, double fallback) {
    const json_t *value = json_object_get(request, key);
    return json_is_number(value) ? json_number_value(value) : fallback;
}

bool plb_request_bool(const json_t *request, const char *key, bool fallback) {
    const json_t *value = json_object_get(request, key);
    return json_is_boolean(value) ? json_is_true(value) : fallback;
}

static const char *error_code(const plb_worker_session *s, plb_status status) {
    if (s->error_code) return s->error_code;
    switch (status) {
    case PLB_ENOMEM: return "oom";
    case PLB_EFULL: return "full";
    case PLB_EINVAL: return "invalid";
    case PLB_EUNSUPPORTED: return "refused";
    case PLB_ECANCELLED: return "cancelled";
    default: return "internal";
    }
}

static void begin_reply(plb_worker_session *s, const char *type, int64_t id) {
    plb_json_free(&s->reply);
    s->reply.compact = true;
    plb_json_begin_object(&s->reply, NULL);
    plb_json_string(&s->reply, "type", type);
    plb_json_int(&s->reply, "id", id);
}

static void reply_error(plb_worker_session *s, int64_t id, plb_status status) {
    begin_reply(s, "error", id);
    plb_json_string(&s->reply, "code", error_code(s, status));
    if (status == PLB_EUNSUPPORTED && !s->error_kind) s->error_kind = "model";
    plb_json_string(&s->reply, "kind", s->error_kind);
    plb_json_string(&s->reply, "reason", plb_error_text());
}

static plb_status send_reply(plb_worker_session *s) {
    plb_json_end(&s->reply);
    PLB_TRY(plb_json_status(&s->reply));
    plb_strbuf_append(&s->reply.text, "\n", 1);
    if (s->reply.text.failed) return plb_fail(PLB_ENOMEM, "out of memory for an answer");
    return plb_lines_write(&s->lines, s->reply.text.text, s->reply.text.length, -1);
}

static plb_status handle(plb_worker_session *s, const json_t *request, const char *type,
                         int64_t id) {
    s->error_code = s->error_kind = NULL;
    for (int i = 0; i < REQUESTS; i++) {
        if (strcmp(requests[i].type, type) != 0) continue;
        begin_reply(s, requests[i].answer, id);
        s->bye = strcmp(type, "bye") == 0;
        return requests[i].handle ? requests[i].handle(s, request) : PLB_OK;
    }
    s->error_code = "unsupported";
    return plb_fail(PLB_EUNSUPPORTED, "no request %s", type);
}

static plb_status serve_line(plb_worker_session *s, const char *line, size_t length) {
    json_error_t error;
    json_t *request = json_loadb(line, length, JSON_REJECT_DUPLICATES, &error);
    const char *type = plb_request_text(request, "type", NULL);
    int64_t id = plb_request_int(request, "id", -1);
    plb_status status;
    if (type && strcmp(type, "cancel") == 0) { // nothing is under way
        json_decref(request);
        return PLB_OK;
    }
    if (type) {
        s->out.used_bytes = 0;
        status = handle(s, request, type, id);
    } else {
        s->error_code = "invalid", s->error_kind = NULL;
        status = plb_fail(PLB_EINVAL, "expected an object with a type, found none");
    }
    if (status) reply_error(s, id, status);
    json_decref(request);
    return send_reply(s);
}

static plb_status inherited(const char *variable, int *out) {
    const char *text = getenv(variable);
    int fd = text ? atoi(text) : -1;
    if (fd < 3 || fcntl(fd, F_GETFD) < 0) {
        return plb_fail(PLB_EINVAL,
                        "%s: expected an open descriptor, found %s; `plumb bench` starts workers",
                        variable, text ? text : "nothing");
    }
    if (fcntl(fd, F_SETFD, FD_CLOEXEC)) return plb_fail_errno("%s", variable);
    *out = fd;
    return PLB_OK;
}

static plb_status find_kind(const char *stack, const plb_worker_kind **out) {
    const char *names[KINDS];
    for (int i = 0; i < KINDS; i++) {
        names[i] = kinds[i].name;
        *out = &kinds[i];
        if (strcmp(names[i], stack) == 0) return PLB_OK;
    }
    const char *nearest = plb_nearest_name(stack, names, KINDS);
    return plb_fail(PLB_EINVAL, "no stack %s in this program; did you mean %s?", stack,
                    nearest ? nearest : kinds[0].name);
}

plb_status plb_worker_serve(const char *stack) {
    plb_worker_session s = {0};
    int fd = -1;
    plb_status status;
    PLB_TRY(find_kind(stack, &s.kind));
    PLB_TRY(inherited("PLUMB_FD", &fd));
    PLB_TRY(inherited("PLUMB_IN_FD", &s.in.fd));
    PLB_TRY(inherited("PLUMB_OUT_FD", &s.out.fd));
    plb_lines_open(&s.lines, fd);
    s.libraries_rss_bytes = plb_memory_resident();
    while (!s.bye) {
        char *line = NULL;
        size_t length = 0;
        plb_lines_event event;
        PLB_TRY_OUT(plb_lines_read(&s.lines, -1, &event, &line, &length));
        if (event == PLB_LINES_END) break;
        if (event == PLB_LINES_LINE) PLB_TRY_OUT(serve_line(&s, line, length));
    }
    status = PLB_OK;
out:
    plb_worker_job_free(&s.job);
    plb_json_free(&s.reply);
    plb_lines_free(&s.lines);
    return status;
}
