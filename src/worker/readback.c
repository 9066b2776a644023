// SPDX-License-Identifier: Apache-2.0
// What really ran, and memory.
#include <omp.h>

#include "base/core/status.h"
#include "base/machine.h"
#include "base/memory_use.h"
#include "worker/session.h"

static const char *common_layout(const plb_plan *plan) {
    int nhwc = 0, blocked = 0, plain = 0;
    for (int i = 0; i < plb_plan_op_count(plan); i++) {
        const plb_plan_op op = plb_plan_op_info(plan, i);
        if (op.type.shape.rank != 4) continue;
        if (op.layout.kind == PLB_LAYOUT_NHWC)
            nhwc++;
        else if (op.layout.kind == PLB_LAYOUT_BLOCKED)
            blocked++;
        else
            plain++;
    }
    return nhwc >= plain && nhwc >= blocked && nhwc ? "nhwc"
           : blocked > plain                        ? "blocked"
                                                    : "plain";
}

plb_status plb_worker_ran(plb_worker_session *s, const json_t *request) {
    (void)request;
    const plb_worker_job *job = &s->job;
    plb_json *reply = &s->reply;
    if (!job->plan) return plb_fail(PLB_EINVAL, "nothing is loaded");
    int threads = job->plan_options.threads;
    plb_json_begin_object(reply, "threads");
    plb_json_int(reply, "plan", threads ? threads : plb_machine_threads());
    plb_json_int(reply, "openmp", omp_get_max_threads());
    plb_json_end(reply);
    plb_json_begin_array(reply, "devices");
    plb_json_begin_object(reply, NULL);
    plb_json_string(reply, "device", job->device[0] ? job->device : "cpu");
    plb_json_int(reply, "nodes", plb_plan_op_count(job->plan));
    plb_json_end(reply);
    plb_json_end(reply);
    plb_json_string(reply, "dtype", job->plan_options.f64 ? "f64" : "f32");
    plb_json_string(reply, "math",
                    job->plan_options.f64                     ? "f64"
                    : job->plan_options.math == PLB_MATH_TF32 ? "tf32"
                                                              : "f32");
    plb_json_string(reply, "autocast", plb_worker_autocast_name(job->plan_options.autocast));
    plb_json_string(reply, "layout", common_layout(job->plan));
    plb_json_bool(reply, "training", job->training);
    plb_json_int(reply, "graphs", 1);
    plb_json_int(reply, "breaks", 0);
    plb_json_int(reply, "recompiles", 0);
    plb_json_begin_array(reply, "fallbacks");
    plb_json_end(reply);
    plb_json_begin_object(reply, "settings");
    if (s->kind->level != PLB_LEVEL_INTERP && !s->kind->f64) { // those that `hello` lists
        plb_json_bool(reply, "no_winograd", job->plan_options.no_winograd);
        plb_json_bool(reply, "no_fusion", job->plan_options.no_fusion);
        plb_json_bool(reply, "no_tuning", job->plan_options.no_tuning);
        plb_json_bool(reply, "deterministic", job->plan_options.deterministic);
    }
    plb_json_end(reply);
    return PLB_OK;
}

static void known_bytes(plb_json *reply, const char *key, int64_t bytes) {
    if (bytes < 0) {
        plb_json_null(reply, key);
    } else {
        plb_json_int(reply, key, bytes);
    }
}

// What is planned is allocated, and nothing else; at level interp a pool grows as it needs.
static void describe_device_memory(plb_worker_session *s) {
    plb_json *reply = &s->reply;
    bool planned = s->job.plan && s->kind->level != PLB_LEVEL_INTERP;
    plb_json_begin_object(reply, NULL);
    plb_json_string(reply, "device", s->job.device);
    known_bytes(reply, "allocated_peak_bytes",
                planned ? (int64_t)plb_plan_memory(s->job.plan).total : -1);
    plb_json_null(reply, "reserved_peak_bytes");
    plb_json_null(reply, "graph_pool_bytes");
    plb_json_null(reply, "context_bytes");
    plb_json_end(reply);
}

plb_status plb_worker_memory(plb_worker_session *s, const json_t *request) {
    (void)request;
    plb_json *reply = &s->reply;
    known_bytes(reply, "rss_bytes", plb_memory_resident());
    known_bytes(reply, "peak_rss_bytes", plb_memory_resident_peak());
    known_bytes(reply, "libraries_rss_bytes", s->libraries_rss_bytes);
    known_bytes(reply, "planned_bytes",
                s->job.plan && s->kind->level != PLB_LEVEL_INTERP
                    ? (int64_t)plb_plan_memory(s->job.plan).total
                    : -1);
    plb_json_begin_array(reply, "devices");
    if (s->job.device[0]) describe_device_memory(s);
    plb_json_end(reply);
    return PLB_OK;
}
