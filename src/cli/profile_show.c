// SPDX-License-Identifier: Apache-2.0
#include "cli/profile_show.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/core/arena.h"
#include "base/core/status.h"
#include "base/folder.h"
#include "cli/profile_numbers.h"
#include "cli/profile_trace.h"

plb_status plb_profile_folder(char out[PATH_MAX]) {
    const char *tmp = getenv("TMPDIR");
    snprintf(out, PATH_MAX, "%s/plumb-profile-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    return mkdtemp(out) ? PLB_OK : plb_fail_errno("%s", out);
}

void plb_profile_remove_folder(const char *folder) {
    plb_arena *arena = plb_arena_new();
    const char *const *names;
    char path[PATH_MAX];
    size_t count = 0;
    if (arena && plb_folder_list(folder, arena, &names, &count) == PLB_OK)
        for (size_t i = 0; i < count; i++) {
            snprintf(path, sizeof path, "%s/%s", folder, names[i]);
            unlink(path);
        }
    plb_arena_free(arena);
    rmdir(folder);
}

static plb_profile_order order_of(const char *sort) {
    static const char *const names[] = {"total", "calls", "average", "max", "name"};
    for (int i = 0; i < 5; i++)
        if (strcmp(sort, names[i]) == 0) return (plb_profile_order)i;
    return PLB_BY_TOTAL;
}

static plb_status tell(const plb_profile_report *report, const plb_call *call) {
    if (!call->json) {
        plb_profile_print(report);
        return PLB_OK;
    }
    plb_json json;
    plb_cli_json_begin(&json, "profile", 1);
    plb_profile_json(report, &json);
    return plb_cli_json_print(&json);
}

// Standard output is that file while the report is told; then what else goes there comes behind it.
static plb_status tell_into(int output, const plb_profile_report *report, const plb_call *call) {
    const int own = output >= 0 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0) : -1;
    if (output >= 0 && (own < 0 || dup2(output, STDOUT_FILENO) < 0)) return plb_fail_errno("dup2");
    plb_status status = tell(report, call);
    const plb_status written = plb_cli_close_output();
    if (own < 0) return status ? status : written;
    if (!status && written) status = plb_fail_errno("cannot write the file of --output");
    dup2(own, STDOUT_FILENO);
    close(own);
    return status;
}

// Ranges have self times and those of the device, too; of other tables these are total times.
static plb_operator_order operators_by(const char *sort) {
    static const struct {
        const char *sort;
        plb_operator_order order;
    } table[] = {
        {"calls", PLB_OPERATORS_BY_CALLS},   {"average", PLB_OPERATORS_BY_CPU_AVERAGE},
        {"name", PLB_OPERATORS_BY_NAME},     {"self", PLB_OPERATORS_BY_SELF_CPU},
        {"device", PLB_OPERATORS_BY_DEVICE}, {"self-device", PLB_OPERATORS_BY_SELF_DEVICE}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(sort, table[i].sort) == 0) return table[i].order;
    return PLB_OPERATORS_BY_CPU;
}

static plb_profile_report report_of(const plb_profile_view *v, const plb_profile *profile) {
    return (plb_profile_report){.command = v->about.command,
                                .words = v->about.words,
                                .run = v->about.run,
                                .sampled = v->about.sampled,
                                .profile = profile,
                                .operators = v->operators,
                                .operator_iterations = v->operator_iterations,
                                .top = (int)v->flags->top,
                                .steps = v->flags->steps,
                                .operators_by = operators_by(v->flags->sort),
                                .group = v->flags->group};
}

// What the folder holds, read; closed also after a failure.
typedef struct opened {
    plb_kernel_classes *classes;
    plb_profile *profile;
} opened;

static plb_status open_profile(const plb_profile_view *v, opened *o) {
    *o = (opened){0};
    PLB_TRY(plb_kernel_classes_new(v->flags->classes, &o->classes));
    return plb_profile_read(v->folder, o->classes, &o->profile);
}

static void close_profile(opened *o) {
    plb_profile_free(o->profile);
    plb_kernel_classes_free(o->classes);
}

// Of the devices that copied; the program has ended, so that they are free.
static void measure(const plb_profile *p, plb_bandwidth rows[PLB_SPOOL_DEVICES]) {
    bool copied[PLB_SPOOL_DEVICES] = {false};
    for (plb_profile_copies at = {0}; plb_profile_next_copies(p, &at);) copied[at.device] = true;
    for (int i = 0; i < PLB_SPOOL_DEVICES; i++)
        if (copied[i]) plb_bandwidth_measure(i, &rows[i]);
}

static plb_status show(const plb_profile_view *v, const plb_call *call, plb_profile *profile,
                       char *why, size_t why_bytes) {
    plb_bandwidth measured[PLB_SPOOL_DEVICES] = {{0}};
    plb_profile_report report = report_of(v, profile);
    if (v->bandwidth) {
        measure(profile, measured);
        report.bandwidth = measured;
    }
    plb_profile_sort(profile, order_of(v->flags->sort));
    const plb_status told = tell_into(v->output, &report, call);
    if (!plb_profile_incomplete(&report, why, why_bytes) &&
        !plb_profile_empty(&report, why, why_bytes))
        why[0] = '\0';
    const plb_status traced = v->trace ? plb_profile_write_trace(&report, v->trace) : PLB_OK;
    return told ? told : traced;
}

plb_status plb_profile_tell(const plb_profile_view *v,
                            void (*teller)(const plb_profile_report *report)) {
    opened o;
    plb_status status = open_profile(v, &o);
    if (!status) {
        const plb_profile_report report = report_of(v, o.profile);
        plb_profile_sort(o.profile, order_of(v->flags->sort));
        teller(&report);
    }
    close_profile(&o);
    return status;
}

plb_status plb_profile_extract(const plb_store_profile *profile, const char *folder,
                               plb_arena *arena, plb_kept_about *out) {
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/kept", folder);
    PLB_TRY(plb_atomic_write_all(path, profile->kept, profile->kept_bytes));
    return plb_kept_extract(path, folder, arena, out);
}

plb_status plb_profile_show(const plb_profile_view *v, const plb_call *call, char *why,
                            size_t why_bytes) {
    opened o;
    plb_status status = open_profile(v, &o);
    if (!status) status = show(v, call, o.profile, why, why_bytes);
    close_profile(&o);
    return status;
}

plb_status plb_profile_document_text(const plb_profile_view *v, plb_json *out) {
    opened o;
    *out = (plb_json){0};
    plb_status status = open_profile(v, &o);
    if (!status) {
        const plb_profile_report report = report_of(v, o.profile);
        plb_cli_json_begin(out, "profile", 1);
        plb_profile_json(&report, out);
        plb_json_end(out);
        status = plb_json_status(out);
    }
    close_profile(&o);
    return status;
}
