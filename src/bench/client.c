// SPDX-License-Identifier: Apache-2.0
#include "bench/client.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/arena.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "bench/usage.h"

enum { LOOK_MS = 50, MAX_LOG_BYTES = 16 << 20 };

static const int64_t second_ns = 1000000000;

static plb_status begin_asking(plb_client *c, json_t *request, double limit_s,
                               plb_client_question *out);
static plb_status end_asking(plb_client *c, const plb_client_question *question, double limit_s,
                             const char *expected, json_t **answer);

// ---------------------------------------------------------------------------- starting
static const char *const thread_variables[] = {"OMP_NUM_THREADS",      "MKL_NUM_THREADS",
                                               "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS",
                                               "NUMEXPR_NUM_THREADS",  "PLUMB_THREADS"};
enum { THREAD_VARIABLES = sizeof thread_variables / sizeof *thread_variables };

static plb_status make_environment(const plb_client *c, plb_arena *arena, const char ***out) {
    size_t n = 0, own = 0, more = 0;
    while (c->stack->environment[own]) own++;
    while (c->options.environment && c->options.environment[more]) more++;
    const char **list = plb_arena_alloc(arena, (own + more + THREAD_VARIABLES + 6) * sizeof *list);
    if (!list) return plb_fail(PLB_ENOMEM, "out of memory for a worker");
    for (int i = 0; i < THREAD_VARIABLES; i++) {
        list[n++] = plb_arena_printf(arena, "%s=%d", thread_variables[i], c->options.threads);
    }
    list[n++] = "PLUMB_FD=3", list[n++] = "PLUMB_IN_FD=4", list[n++] = "PLUMB_OUT_FD=5";
    if (c->options.cache) list[n++] = plb_arena_printf(arena, "PLUMB_CACHE=%s", c->options.cache);
    for (size_t i = 0; i < own; i++) list[n++] = c->stack->environment[i];
    for (size_t i = 0; i < more; i++) list[n++] = c->options.environment[i];
    for (size_t i = 0; i < n; i++) {
        if (!list[i]) return plb_fail(PLB_ENOMEM, "out of memory for a worker");
    }
    *out = list;
    return PLB_OK;
}

static plb_status launch(plb_client *c) {
    int pair[2] = {-1, -1}, in_fd = -1;
    const char **environment = NULL;
    plb_arena *arena = plb_arena_new();
    plb_status status;
    if (!arena) return plb_fail(PLB_ENOMEM, "out of memory for a worker");
    PLB_TRY_OUT(make_environment(c, arena, &environment));
    PLB_TRY_OUT(plb_segment_open("plumb-in", &c->in));
    PLB_TRY_OUT(plb_segment_open("plumb-out", &c->out));
    PLB_TRY_OUT(plb_segment_read_only(&c->in, &in_fd));
    c->log_fd = memfd_create("plumb-log", MFD_CLOEXEC);
    if (c->log_fd < 0 || fcntl(c->log_fd, F_SETFL, O_APPEND) ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) {
        PLB_TRY_OUT(plb_fail_errno("cannot start a worker"));
    }
    const plb_process_options options = {.command = c->stack->command,
                                         .folder = c->stack->folder,
                                         .environment = environment,
                                         .message_fd = pair[1],
                                         .in_fd = in_fd,
                                         .out_fd = c->out.fd,
                                         .log_fd = c->log_fd};
    PLB_TRY_OUT(plb_process_start(&options, &c->process));
    c->message_fd = pair[0], pair[0] = -1;
    plb_lines_open(&c->lines, c->message_fd);
out:
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0) close(pair[i]);
    }
    if (in_fd >= 0) close(in_fd);
    plb_arena_free(arena);
    return status;
}

plb_client plb_client_absent(const plb_stack *stack, json_t *hello) {
    return (plb_client){.stack = stack,
                        .in = PLB_SEGMENT_CLOSED,
                        .out = PLB_SEGMENT_CLOSED,
                        .message_fd = -1,
                        .log_fd = -1,
                        .process = {.keep_fd = -1, .news_fd = -1},
                        .hello = json_incref(hello)};
}

static double hello_limit_s(const plb_client *c) {
    return c->options.hello_s > 0 ? c->options.hello_s : 120;
}

plb_status plb_client_launch(plb_client *c, const plb_stack *stack,
                             const plb_client_options *options) {
    *c = plb_client_absent(stack, NULL);
    c->options = *options;
    if (stack->wrong) return plb_failure_set(&c->failure, PLB_OUTCOME_CRASH, "%s", stack->wrong);
    PLB_TRY(launch(c));
    return begin_asking(c, json_pack("{s:s,s:i}", "type", "hello", "protocol", 1), hello_limit_s(c),
                        &c->asking);
}

plb_status plb_client_greet(plb_client *c) {
    PLB_TRY(end_asking(c, &c->asking, hello_limit_s(c), "hello", &c->hello));
    // A worker that could not speak our protocol would have answered an error.
    const json_t *protocol = json_object_get(c->hello, "protocol");
    if (!protocol || json_integer_value(protocol) == 1) return PLB_OK;
    return plb_failure_set(&c->failure, PLB_OUTCOME_PROTOCOL, "hello: expected protocol 1");
}

plb_status plb_client_start(plb_client *c, const plb_stack *stack,
                            const plb_client_options *options) {
    PLB_TRY(plb_client_launch(c, stack, options));
    return plb_client_greet(c);
}

void plb_client_stop(plb_client *c) {
    if (!c->stack) return;
    plb_process_pause(&c->process, false);
    bool usable = c->failure.outcome == PLB_OUTCOME_OK ||
                  c->failure.outcome == PLB_OUTCOME_REFUSED ||
                  c->failure.outcome == PLB_OUTCOME_INVALID;
    if (usable && c->process.worker) {
        plb_status ignored = plb_client_ask(c, json_pack("{s:s}", "type", "bye"), 5, "ok", NULL);
        (void)ignored; // it is killed otherwise
    }
    plb_process_stop(&c->process);
    if (c->message_fd >= 0) close(c->message_fd);
    if (c->log_fd >= 0) close(c->log_fd);
    plb_lines_free(&c->lines);
    plb_segment_close(&c->in);
    plb_segment_close(&c->out);
    plb_free(c->samples_ns);
    c->samples_ns = NULL, c->samples_room = 0;
    json_decref(c->hello);
    c->hello = NULL, c->stack = NULL, c->message_fd = c->log_fd = -1;
}

// ---------------------------------------------------------------------------- the log
void plb_client_log_tail(const plb_client *c, char *out, size_t size) {
    struct stat info;
    out[0] = '\0';
    if (c->log_fd < 0 || fstat(c->log_fd, &info) || size < 2) return;
    off_t begin = info.st_size > (off_t)size - 1 ? info.st_size - (off_t)size + 1 : 0;
    ssize_t n = pread(c->log_fd, out, size - 1, begin);
    if (n < 0) n = 0;
    while (n && (out[n - 1] == '\n' || out[n - 1] == ' ')) n--;
    out[n] = '\0';
    for (ssize_t i = 0; i < n; i++) {
        unsigned char byte = (unsigned char)out[i];
        if ((byte < ' ' && byte != '\n' && byte != '\t') || byte == 127) out[i] = '?';
    }
}

// Its last line that says something.
static void last_log_line(const plb_client *c, char *out, size_t size) {
    char tail[2048];
    plb_client_log_tail(c, tail, sizeof tail);
    const char *line = strrchr(tail, '\n');
    snprintf(out, size, "%s", line ? line + 1 : tail);
}

static void cut_log(const plb_client *c) {
    struct stat info;
    if (fstat(c->log_fd, &info) == 0 && info.st_size > MAX_LOG_BYTES) {
        if (ftruncate(c->log_fd, 0)) return; // then it grows on; memory is watched anyway
    }
}

// ---------------------------------------------------------------------------- waiting
static plb_status fail_ended(plb_client *c) {
    char how[128], line[400];
    plb_process_describe_end(&c->process, how, sizeof how);
    last_log_line(c, line, sizeof line);
    bool starved = WIFSIGNALED(c->process.wait_status) &&
                   WTERMSIG(c->process.wait_status) == SIGKILL && c->options.memory_limit_bytes &&
                   c->peak_rss_bytes > c->options.memory_limit_bytes / 2;
    return plb_failure_set(
        &c->failure, starved ? PLB_OUTCOME_OOM : PLB_OUTCOME_CRASH, "the worker %s%s%s%s", how,
        starved ? ", probably for lack of memory" : "", line[0] ? "; its log ends: " : "", line);
}

static plb_status watch(plb_client *c) {
    c->looked_ns = plb_now_ns();
    if (c->options.interrupted && c->options.interrupted(c->options.context)) {
        plb_process_stop(&c->process);
        return plb_fail(PLB_ECANCELLED, "interrupted");
    }
    cut_log(c);
    // What is no program yet is a copy of this one.
    int64_t rss = plb_process_is_program(&c->process) ? plb_usage_tree_rss(c->process.worker) : 0;
    if (rss > c->peak_rss_bytes) c->peak_rss_bytes = rss;
    if (!c->options.memory_limit_bytes || rss <= c->options.memory_limit_bytes) return PLB_OK;
    plb_process_stop(&c->process);
    return plb_failure_set(&c->failure, PLB_OUTCOME_OOM,
                           "the worker had %" PRId64 " MiB resident, allowed are %" PRId64
                           " MiB (--memory-limit)",
                           rss >> 20, c->options.memory_limit_bytes >> 20);
}

// Of a worker whose answers are never waited for that long.
static plb_status watch_now_and_then(plb_client *c) {
    return plb_now_ns() - c->looked_ns < (int64_t)LOOK_MS * 1000000 ? PLB_OK : watch(c);
}

plb_status plb_client_look(plb_client *c) {
    plb_process_look(&c->process);
    return c->process.ended ? fail_ended(c) : watch(c);
}

// The worker has closed its end: give it a moment to end, so that we can say how.
static plb_status fail_closed(plb_client *c) {
    const int64_t until = plb_now_ns() + second_ns;
    while (!c->process.ended && plb_now_ns() < until) {
        plb_process_look(&c->process);
        if (!c->process.ended) usleep(2000);
    }
    if (c->process.ended) return fail_ended(c);
    plb_process_stop(&c->process);
    return plb_failure_set(&c->failure, PLB_OUTCOME_PROTOCOL,
                           "the worker closed its descriptor and went on");
}

static plb_status wait_line(plb_client *c, const char *type, double limit_s, char **line,
                            size_t *length) {
    const int64_t until = plb_now_ns() + (int64_t)(limit_s * 1e9);
    for (;;) {
        int64_t slice = plb_now_ns() + (int64_t)LOOK_MS * 1000000;
        plb_lines_event event;
        plb_status status = plb_lines_read(&c->lines, slice, &event, line, length);
        if (status == PLB_EBROKEN) {
            plb_process_stop(&c->process);
            return plb_failure_set(&c->failure, PLB_OUTCOME_PROTOCOL, "%s: %s", type,
                                   plb_error_text());
        }
        if (status) return status;
        if (event == PLB_LINES_LINE) return PLB_OK;
        if (event == PLB_LINES_END) return fail_closed(c);
        PLB_TRY(plb_client_look(c));
        if (plb_now_ns() < until) continue;
        plb_process_stop(&c->process);
        return plb_failure_set(&c->failure, PLB_OUTCOME_TIMEOUT, "%s: no answer in %.4g s", type,
                               limit_s);
    }
}

// ---------------------------------------------------------------------------- asking
static plb_status send_request(plb_client *c, json_t *request, double limit_s) {
    char *text = json_dumps(request, JSON_COMPACT);
    plb_strbuf buf = {0};
    if (!text) return plb_fail(PLB_ENOMEM, "out of memory for a request");
    plb_strbuf_printf(&buf, "%s\n", text);
    free(text);
    plb_status status = PLB_OK;
    if (buf.failed) {
        status = plb_fail(PLB_ENOMEM, "out of memory for a request");
    } else {
        c->asked_ns = plb_now_ns();
        status = plb_lines_write(&c->lines, buf.text, buf.length,
                                 c->asked_ns + (int64_t)(limit_s * 1e9));
    }
    plb_strbuf_free(&buf);
    return status == PLB_EBROKEN ? fail_closed(c) : status;
}

static plb_outcome outcome_of_code(const char *code) {
    static const struct {
        const char *code;
        plb_outcome outcome;
    } codes[] = {{"refused", PLB_OUTCOME_REFUSED},
                 {"oom", PLB_OUTCOME_OOM},
                 {"unsupported", PLB_OUTCOME_PROTOCOL},
                 {"invalid", PLB_OUTCOME_PROTOCOL},
                 {"internal", PLB_OUTCOME_CRASH}};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (strcmp(codes[i].code, code) == 0) return codes[i].outcome;
    }
    return PLB_OUTCOME_PROTOCOL;
}

static plb_status fail_error(plb_client *c, const char *type, const json_t *answer) {
    const char *code = json_string_value(json_object_get(answer, "code"));
    const char *kind = json_string_value(json_object_get(answer, "kind"));
    const char *reason = json_string_value(json_object_get(answer, "reason"));
    plb_outcome outcome = outcome_of_code(code ? code : "");
    // The disk is everybody's: another case would find it as full.
    if (code && strcmp(code, "full") == 0)
        return plb_fail(PLB_EFULL, "%s: %s", type, reason ? reason : "no reason given");
    snprintf(c->failure.kind, sizeof c->failure.kind, "%s", kind ? kind : "");
    if (outcome == PLB_OUTCOME_REFUSED) {
        return plb_failure_set(&c->failure, outcome, "%s", reason ? reason : "no reason given");
    }
    return plb_failure_set(&c->failure, outcome, "%s: %s", type,
                           reason ? reason : "no reason given");
}

static plb_status check_answer(plb_client *c, const char *type, int64_t id, const char *expected,
                               const json_t *answer, const char *line) {
    const char *found = json_string_value(json_object_get(answer, "type"));
    const json_t *found_id = json_object_get(answer, "id");
    if (!found || !json_is_integer(found_id) || json_integer_value(found_id) != id) {
        return plb_failure_set(&c->failure, PLB_OUTCOME_PROTOCOL,
                               "%s: expected an answer with type and id %" PRId64 ", found: %.80s",
                               type, id, line);
    }
    if (strcmp(found, expected) == 0) return PLB_OK;
    if (strcmp(found, "error") == 0) return fail_error(c, type, answer);
    return plb_failure_set(&c->failure, PLB_OUTCOME_PROTOCOL, "%s: expected %s, found %.40s", type,
                           expected, found);
}

// jansson recurses as deep as a text nests.
static bool nests_too_deep(const char *text) {
    enum { DEEPEST = 32 };
    int depth = 0;
    bool quoted = false;
    for (; *text; text++) {
        if (quoted && *text == '\\' && text[1])
            text++;
        else if (*text == '"')
            quoted = !quoted;
        else if (!quoted && (*text == '{' || *text == '[') && ++depth > DEEPEST)
            return true;
        else if (!quoted && (*text == '}' || *text == ']'))
            depth--;
    }
    return false;
}

static plb_status begin_asking(plb_client *c, json_t *request, double limit_s,
                               plb_client_question *out) {
    out->id = ++c->next_id;
    if (!request || json_object_set_new(request, "id", json_integer(out->id))) {
        json_decref(request);
        return plb_fail(PLB_ENOMEM, "out of memory for a request");
    }
    const char *name = json_string_value(json_object_get(request, "type"));
    snprintf(out->type, sizeof out->type, "%s", name ? name : "?");
    plb_status status = watch_now_and_then(c);
    if (!status) status = send_request(c, request, limit_s);
    json_decref(request);
    return status;
}

static plb_status end_asking(plb_client *c, const plb_client_question *question, double limit_s,
                             const char *expected, json_t **answer) {
    char *line = NULL;
    size_t length = 0;
    PLB_TRY(wait_line(c, question->type, limit_s, &line, &length));
    c->answered_ns = plb_now_ns();
    json_error_t error;
    json_t *found = nests_too_deep(line) ? NULL : json_loadb(line, length, 0, &error);
    plb_status status = check_answer(c, question->type, question->id, expected, found, line);
    if (status && c->failure.outcome != PLB_OUTCOME_REFUSED) plb_process_stop(&c->process);
    if (status || !answer) {
        json_decref(found);
        return status;
    }
    *answer = found;
    // Once an answer, never while places in it are looked up: mapping anew moves what was found.
    if (plb_segment_refresh(&c->out) == PLB_OK) return PLB_OK;
    json_decref(found);
    *answer = NULL;
    plb_process_stop(&c->process); // it gave its outputs a size that nobody can map
    return plb_failure_set(&c->failure, PLB_OUTCOME_PROTOCOL, "%s: %s", question->type,
                           plb_error_text());
}

plb_status plb_client_ask(plb_client *c, json_t *request, double limit_s, const char *expected,
                          json_t **answer) {
    plb_client_question question;
    PLB_TRY(begin_asking(c, request, limit_s, &question));
    return end_asking(c, &question, limit_s, expected, answer);
}

// ---------------------------------------------------------------------------- shared memory
static plb_status fail_place(plb_client *c, const char *what) {
    plb_process_stop(&c->process);
    return plb_failure_set(&c->failure, PLB_OUTCOME_PROTOCOL, "%s", what);
}

// Whether [offset, offset + size) lies in the outputs as they are now.
static plb_status check_place(plb_client *c, int64_t offset, size_t size, const char *what) {
    if (offset < 0) return fail_place(c, what);
    if ((size_t)offset > c->out.size_bytes || c->out.size_bytes - (size_t)offset < size) {
        return fail_place(c, what);
    }
    return PLB_OK;
}

plb_status plb_client_tensor(plb_client *c, const json_t *entry, plb_tensor *out) {
    static const char wrong[] = "a tensor's description makes no sense";
    const char *type = json_string_value(json_object_get(entry, "dtype"));
    const json_t *extents = json_object_get(entry, "shape"), *at = json_object_get(entry, "offset");
    plb_dtype dtype = type ? plb_dtype_from_name(type) : PLB_DTYPE_COUNT;
    plb_shape shape = {.rank = (int)json_array_size(extents)};
    if (dtype == PLB_DTYPE_COUNT || !plb_dtype_size(dtype) || !json_is_array(extents) ||
        json_array_size(extents) > PLB_MAX_RANK || !json_is_integer(at)) {
        return fail_place(c, wrong);
    }
    for (int i = 0; i < shape.rank; i++) {
        const json_t *extent = json_array_get(extents, (size_t)i);
        shape.dim[i] = json_is_integer(extent) ? json_integer_value(extent) : -1;
    }
    if (plb_shape_check(&shape) || json_integer_value(at) % 8) return fail_place(c, wrong);
    size_t size = plb_layout_bytes(&shape, dtype, (plb_layout){0});
    PLB_TRY(check_place(c, json_integer_value(at), size, "a tensor lies outside the outputs"));
    *out = plb_tensor_dense(c->out.bytes + json_integer_value(at), dtype, &shape, (plb_layout){0});
    return PLB_OK;
}

plb_status plb_client_loss(plb_client *c, const json_t *entry, plb_tensor *out) {
    PLB_TRY(plb_client_tensor(c, entry, out));
    return plb_shape_count(&out->shape) == 1 ? PLB_OK : fail_place(c, "a loss is not one number");
}

plb_status plb_client_samples(plb_client *c, int64_t offset, int64_t count, const int64_t **out) {
    if (count < 1 || count > INT64_C(1) << 40 || offset % 8) {
        return fail_place(c, "samples: their place makes no sense");
    }
    PLB_TRY(
        check_place(c, offset, (size_t)count * sizeof **out, "samples lie outside the outputs"));
    // A copy: the worker can write to the outputs at any moment.
    if (count > c->samples_room) {
        int64_t *more = plb_realloc_array(c->samples_ns, (size_t)count, sizeof *more);
        if (!more) return plb_fail(PLB_ENOMEM, "out of memory for samples");
        c->samples_ns = more, c->samples_room = count;
    }
    memcpy(c->samples_ns, c->out.bytes + offset, (size_t)count * sizeof **out);
    for (int64_t i = 0; i < count; i++)
        if (c->samples_ns[i] < 0) return fail_place(c, "samples: a time is negative");
    *out = c->samples_ns;
    return PLB_OK;
}

bool plb_client_can(const plb_client *c, const char *key, const char *word) {
    const json_t *list = json_object_get(json_object_get(c->hello, "capabilities"), key);
    if (!json_is_array(list)) return true;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *found = json_string_value(json_array_get(list, i));
        if (found && strcmp(found, word) == 0) return true;
    }
    return false;
}
