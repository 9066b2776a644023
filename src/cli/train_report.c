// SPDX-License-Identifier: Apache-2.0
#include "cli/train_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "base/core/clock.h"
#include "base/libraries.h"
#include "cli/cli.h"
#include "plumb/version.h"

enum { SHOWN_OPS = 5, NAME_WIDTH = 44 };

// ---------------------------------------------------------------------------- while it runs
static bool progress_shown;

void plb_train_show_progress(const plb_train_event *e) {
    static int64_t shown_ns;
    static int terminal = -1;
    if (terminal < 0) terminal = isatty(STDERR_FILENO);
    if (!terminal || plb_now_ns() - shown_ns < 100000000) return;
    shown_ns = plb_now_ns();
    progress_shown = true;
    fprintf(stderr,
            "\r\033[Kepoch %" PRId64 "/%" PRId64 "  %s %3.0f %%  loss %.4f  accuracy %.2f %%",
            e->epoch, e->epochs, e->evaluating ? "testing" : "training",
            100 * (double)e->done / (double)e->total, e->loss, 100 * e->accuracy);
    if (!e->evaluating) {
        fprintf(stderr, "  %.0f images/s", (double)e->done * 1e9 / (double)e->train_ns);
    }
    fflush(stderr);
}

void plb_train_clear_progress(void) {
    if (progress_shown) fprintf(stderr, "\r\033[K");
    progress_shown = false;
}

// ---------------------------------------------------------------------------- text
void plb_train_print_head(const plb_train_report *r) {
    const plb_train_options *o = r->options;
    plb_print("%s on %s: %" PRId64 " samples to train, %" PRId64 " to test; batch %" PRId64
              ", %s, level %s, %d thread%s\n",
              o->model, o->data, r->train_count, r->test_count, o->batch, o->optimizer,
              plb_level_name(o->level), o->threads, o->threads == 1 ? "" : "s");
    plb_print("epoch        lr     loss  accuracy  test loss  test acc.  seconds  images/s  "
              "data wait\n");
}

static double seconds(int64_t ns) {
    return (double)ns / 1e9;
}

static double images_per_s(const plb_train_epoch *e) {
    return (double)e->samples / seconds(e->train_ns);
}

// "97.50 %"; a model without scores has no accuracy.
static const char *percent(char text[16], double share) {
    if (isnan(share)) return "-";
    snprintf(text, 16, "%.2f %%", 100 * share);
    return text;
}

void plb_train_print_epoch(const plb_train_epoch *e) {
    char train[16], test[16];
    plb_train_clear_progress();
    plb_print("%5" PRId64 "  %8.3g  %7.4f  %8s  %9.4f   %8s  %7.2f  %8.0f  %7.2f s\n", e->epoch,
              e->lr, e->loss, percent(train, e->accuracy), e->test_loss,
              percent(test, e->test_accuracy), seconds(e->train_ns), images_per_s(e),
              seconds(e->wait_ns));
    (void)!fflush(stdout); // a long run is watched; errors are found when output is closed
}

static double mib(double bytes) {
    return bytes / (1 << 20);
}

static void print_memory(const plb_train_report *r) {
    const plb_plan_bytes *p = &r->result->planned;
    if (r->peak_rss_bytes >= 0 && r->loaded_rss_bytes >= 0) {
        plb_print("Memory   peak %.1f MiB resident, %.1f MiB of it before the model was built\n",
                  mib((double)r->peak_rss_bytes), mib((double)r->loaded_rss_bytes));
    }
    plb_print("         planned %.1f MiB", mib((double)p->total));
    if (!p->activations) {
        plb_print(" for variables; level interp plans nothing else\n");
        return;
    }
    plb_print(": weights %.1f, optimizer %.1f; sharing the rest: activations %.1f, gradients %.1f, "
              "workspace %.1f; code of kernels %.1f\n",
              mib((double)p->weights), mib((double)p->optimizer), mib((double)p->activations),
              mib((double)p->gradients), mib((double)p->workspace), mib((double)p->kernels));
}

static double total_seconds(const plb_train_result *result) {
    double sum = 0;
    for (int i = 0; i < result->n_ops; i++) sum += seconds(result->ops[i].time_ns);
    return sum;
}

static void print_ops(const plb_train_result *result) {
    double total = total_seconds(result);
    if (!result->n_ops) return;
    plb_print("\nOps that took most of %.2f s:%*s  seconds   share     calls   GFLOP/s      GB/s\n",
              total, NAME_WIDTH - 22, "");
    for (int i = 0; i < result->n_ops && i < SHOWN_OPS; i++) {
        const plb_train_op *op = &result->ops[i];
        double s = seconds(op->time_ns);
        plb_print("  %-*.*s  %10.3f  %4.1f %%  %8" PRId64 "  %8.2f  %8.2f\n", NAME_WIDTH,
                  NAME_WIDTH, op->name, s, 100 * s / total, op->calls, op->flops / s / 1e9,
                  op->bytes / s / 1e9);
    }
}

void plb_train_print_end(const plb_train_report *r) {
    const plb_train_result *result = r->result;
    plb_train_clear_progress();
    if (result->n_epochs) {
        const plb_train_epoch *last = &result->epochs[result->n_epochs - 1];
        plb_print("Always answering the most frequent class: %.2f %% of %" PRId64 "\n",
                  100 * last->majority_baseline, last->test_count);
    }
    plb_print("\nModel    %" PRId64 " parameters; %" PRId64 " steps done\n", result->parameters,
              result->steps);
    print_memory(r);
    print_ops(result);
}

// ---------------------------------------------------------------------------- JSON
static void json_versions(plb_json *json) {
    plb_library libraries[PLB_LIBRARIES_MAX];
    size_t count = plb_libraries(libraries);
    plb_json_begin_object(json, "versions");
    plb_json_string(json, "plumb", PLUMB_VERSION);
    for (size_t i = 0; i < count; i++) {
        if (libraries[i].found) {
            const char *version = libraries[i].version;
            plb_json_string(json, libraries[i].name, version[0] ? version : NULL);
        }
    }
    plb_json_end(json);
}

static void json_options(plb_json *json, const plb_train_options *o) {
    plb_json_string(json, "model", o->model);
    plb_json_string(json, "data", o->data);
    plb_json_string(json, "level", plb_level_name(o->level));
    plb_json_string(json, "device", o->device ? o->device : "cpu");
    plb_json_string(json, "math", plb_math_name(o->math));
    plb_json_string(json, "autocast", plb_autocast_name(o->autocast));
    plb_json_int(json, "threads", o->threads);
    json_versions(json);
    plb_json_int(json, "batch", o->batch);
    plb_json_string(json, "optimizer", o->optimizer);
    plb_json_string(json, "schedule", o->schedule);
    plb_json_double(json, "lr", o->lr);
    plb_json_double(json, "momentum", o->momentum);
    plb_json_double(json, "weight_decay", o->weight_decay);
    // A seed may need all 64 bits, of which many readers of JSON keep 53: text then.
    char seed[24];
    snprintf(seed, sizeof seed, "%" PRIu64, o->seed);
    plb_json_string(json, "seed", seed);
}

static void json_memory(plb_json *json, const plb_train_report *r) {
    const plb_plan_bytes *p = &r->result->planned;
    plb_json_begin_object(json, "planned_bytes");
    plb_json_int(json, "weights", (int64_t)p->weights);
    plb_json_int(json, "activations", (int64_t)p->activations);
    plb_json_int(json, "gradients", (int64_t)p->gradients);
    plb_json_int(json, "optimizer", (int64_t)p->optimizer);
    plb_json_int(json, "workspace", (int64_t)p->workspace);
    plb_json_int(json, "kernels", (int64_t)p->kernels);
    plb_json_int(json, "total", (int64_t)p->total);
    plb_json_end(json);
    if (r->peak_rss_bytes >= 0)
        plb_json_int(json, "peak_rss_bytes", r->peak_rss_bytes);
    else
        plb_json_null(json, "peak_rss_bytes");
    if (r->loaded_rss_bytes >= 0)
        plb_json_int(json, "loaded_rss_bytes", r->loaded_rss_bytes);
    else
        plb_json_null(json, "loaded_rss_bytes");
}

static void json_epoch(plb_json *json, const plb_train_epoch *e) {
    plb_json_begin_object(json, NULL);
    plb_json_int(json, "epoch", e->epoch);
    plb_json_int(json, "samples", e->samples);
    plb_json_double(json, "lr", e->lr);
    plb_json_double(json, "loss", e->loss);
    plb_json_double(json, "train_accuracy", e->accuracy);
    plb_json_double(json, "test_loss", e->test_loss);
    plb_json_double(json, "test_accuracy", e->test_accuracy);
    plb_json_int(json, "test_count", e->test_count);
    plb_json_double(json, "majority_baseline", e->majority_baseline);
    plb_json_double(json, "seconds", seconds(e->train_ns));
    plb_json_double(json, "images_per_s", images_per_s(e));
    plb_json_double(json, "data_wait_seconds", seconds(e->wait_ns));
    plb_json_end(json);
}

static void json_ops(plb_json *json, const plb_train_result *result) {
    double total = total_seconds(result);
    plb_json_begin_array(json, "ops");
    for (int i = 0; i < result->n_ops; i++) {
        const plb_train_op *op = &result->ops[i];
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", op->name);
        plb_json_int(json, "calls", op->calls);
        plb_json_double(json, "seconds", seconds(op->time_ns));
        plb_json_double(json, "share", seconds(op->time_ns) / total);
        plb_json_double(json, "flops", op->flops);
        plb_json_double(json, "bytes", op->bytes);
        plb_json_end(json);
    }
    plb_json_end(json);
}

plb_status plb_train_print_json(const plb_train_report *r) {
    plb_json json;
    plb_train_clear_progress();
    plb_cli_json_begin(&json, "train", 1);
    json_options(&json, r->options);
    plb_json_int(&json, "parameters", r->result->parameters);
    plb_json_int(&json, "steps", r->result->steps);
    plb_json_bool(&json, "interrupted", r->result->stopped);
    json_memory(&json, r);
    plb_json_begin_array(&json, "epochs");
    for (int i = 0; i < r->result->n_epochs; i++) json_epoch(&json, &r->result->epochs[i]);
    plb_json_end(&json);
    json_ops(&json, r->result);
    return plb_cli_json_print(&json);
}
