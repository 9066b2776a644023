// SPDX-License-Identifier: Apache-2.0
#include "cli/bench_flags.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/file.h"
#include "bench/git.h"
#include "cli/typed.h"

static plb_status no_memory(void) {
    return plb_fail(PLB_ENOMEM, "out of memory");
}

static plb_status split(const char *flag, const char *text, plb_arena *arena, plb_words *out) {
    char *copy = text ? plb_arena_strdup(arena, text) : NULL, *rest = NULL;
    out->count = 0;
    if (!text) return PLB_OK;
    if (!copy) return no_memory();
    const size_t length = strlen(text);
    if (length && (text[0] == ',' || text[length - 1] == ',' || strstr(text, ",,")))
        return plb_fail(PLB_EINVAL,
                        "--%s %s: expected a word before and after each comma, found none", flag,
                        text);
    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (out->count == PLB_BENCH_MAX_WORDS) {
            return plb_fail(PLB_EINVAL, "--%s: expected at most %d words", flag,
                            PLB_BENCH_MAX_WORDS);
        }
        for (int i = 0; i < out->count; i++)
            if (strcmp(out->word[i], word) == 0)
                return plb_fail(PLB_EINVAL, "--%s: %s is there twice", flag, word);
        out->word[out->count++] = word;
    }
    return out->count ? PLB_OK : plb_fail(PLB_EINVAL, "--%s: expected a list, found none", flag);
}

static plb_status read_bytes(const char *text, int64_t *out) {
    char *end;
    double value = strtod(text, &end);
    double unit = *end == 'G' || *end == 'g'   ? 0x1p30
                  : *end == 'M' || *end == 'm' ? 0x1p20
                  : *end == 'K' || *end == 'k' ? 0x1p10
                  : !*end                      ? 1
                                               : 0;
    if (end == text || unit == 0 || (*end && end[1]) || !(value > 0) || value * unit > 0x1p62) {
        return plb_fail(PLB_EINVAL, "--memory-limit %s: expected a size such as 800M or 4G", text);
    }
    *out = (int64_t)(value * unit);
    return PLB_OK;
}

plb_status plb_own_path(plb_arena *arena, const char **out) {
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n < 0) return plb_fail_errno("/proc/self/exe");
    path[n] = '\0';
    *out = plb_arena_strdup(arena, path);
    return *out ? PLB_OK : no_memory();
}

plb_status plb_bench_flags_read(const plb_bench_flags *f, const plb_call *call, plb_arena *arena,
                                plb_bench_options *o) {
    *o = (plb_bench_options){.models = (const char *const *)call->operands,
                             .model_count = call->operand_count,
                             .starts = (int)f->starts,
                             .time_s = f->time,
                             .precision = f->precision / 100,
                             .timeout_s = f->timeout,
                             .proof_budget_s = f->proof_time,
                             .store = f->db,
                             .label = f->label,
                             .dims = f->dim,
                             .resume = f->resume,
                             .interrupted = plb_cli_stop};
    PLB_TRY(split("task", f->task, arena, &o->tasks));
    PLB_TRY(split("stack", f->stack, arena, &o->stacks));
    PLB_TRY(split("device", f->device, arena, &o->devices));
    PLB_TRY(split("batch", f->batch, arena, &o->batches));
    PLB_TRY(split("size", f->size, arena, &o->sizes));
    PLB_TRY(split("dtype", f->dtype, arena, &o->dtypes));
    PLB_TRY(split("math", f->math, arena, &o->maths));
    PLB_TRY(split("autocast", f->autocast, arena, &o->autocasts));
    PLB_TRY(split("region", f->region, arena, &o->regions));
    PLB_TRY(split("threads", f->threads, arena, &o->threads));
    PLB_TRY(split("set", f->set, arena, &o->settings));
    if (f->memory_limit) PLB_TRY(read_bytes(f->memory_limit, &o->memory_limit_bytes));
    o->command = plb_typed_command(arena);
    char revision[PLB_GIT_BYTES];
    plb_git_revision(".", revision);
    o->git = revision[0] ? plb_arena_strdup(arena, revision) : NULL;
    return plb_own_path(arena, &o->plumb);
}

plb_status plb_measure_lock(void) {
    static const char name[] = "plumb-measures"; // in the abstract namespace: gone with its owner
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path + 1, name, sizeof name - 1);
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof name);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return plb_fail_errno("cannot make a lock");
    for (bool told = false; bind(fd, (struct sockaddr *)&address, length); told = true) {
        if (errno != EADDRINUSE) return plb_fail_errno("cannot make a lock");
        if (!told) plb_note("another plumb measures; waiting for it (--no-lock: do not)");
        PLB_TRY(plb_cli_go_on());
        usleep(200000);
    }
    return PLB_OK; // the descriptor lives as long as the process
}
