// SPDX-License-Identifier: Apache-2.0
#include "cli/stack_operators.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/core/alloc.h"
#include "cli/cli.h"
#include "cli/units.h"

typedef struct ranked {
    double self_ns;
    const json_t *row;
} ranked;

static double number(const json_t *row, const char *key) {
    return json_number_value(json_object_get(row, key));
}

static int costlier(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    return (a->self_ns < b->self_ns) - (a->self_ns > b->self_ns);
}

// Yours to plb_free; NULL where there is nothing to show.
static ranked *in_order(const json_t *rows, size_t *out_count) {
    const size_t count = json_array_size(rows);
    ranked *order = count ? plb_alloc_array(count, sizeof *order) : NULL;
    *out_count = order ? count : 0;
    for (size_t i = 0; i < *out_count; i++) {
        order[i].row = json_array_get(rows, i);
        order[i].self_ns = number(order[i].row, "self_cpu_ns");
    }
    if (order) qsort(order, count, sizeof *order, costlier);
    return order;
}

static size_t shown(size_t count, int top) {
    return top > 0 && (size_t)top < count ? (size_t)top : count;
}

// Taken minus given back; where more was given back it is negative.
static void print_bytes(const json_t *row, const char *key, double iterations) {
    const json_t *value = json_object_get(row, key);
    const double bytes = json_number_value(value) / iterations;
    char text[32] = "-";
    if (json_is_number(value))
        snprintf(text, sizeof text, "%s%s", bytes < 0 ? "-" : "",
                 plb_show_bytes(bytes < 0 ? -bytes : bytes).text);
    plb_print("%12s", text);
}

static void print_ms(const json_t *row, const char *key, double iterations) {
    const json_t *value = json_object_get(row, key);
    char text[32] = "-";
    if (json_is_number(value))
        snprintf(text, sizeof text, "%.3f", json_number_value(value) / 1e6 / iterations);
    plb_print("%12s", text);
}

static void print_row(const json_t *row, double iterations, double all_ns) {
    const char *name = json_string_value(json_object_get(row, "name"));
    plb_print("%7.1f", all_ns > 0 ? 100 * number(row, "self_cpu_ns") / all_ns : 0);
    print_ms(row, "self_cpu_ns", iterations);
    print_ms(row, "cpu_ns", iterations);
    print_bytes(row, "self_cpu_bytes", iterations);
    print_bytes(row, "cpu_bytes", iterations);
    print_bytes(row, "self_device_bytes", iterations);
    print_bytes(row, "device_bytes", iterations);
    plb_print("%9.4g  %s\n", number(row, "calls") / iterations, name ? name : "?");
}

void plb_stack_operators_print(const json_t *rows, int64_t iterations, int top) {
    size_t count = 0;
    ranked *order = in_order(rows, &count);
    double all_ns = 0;
    for (size_t i = 0; i < count; i++) all_ns += order[i].self_ns;
    if (count)
        plb_print("\n%7s%12s%12s%12s%12s%12s%12s%9s  %s\n", "self %", "self CPU ms", "CPU ms",
                  "self memory", "memory", "self device", "device mem", "calls",
                  "operators of the stack, an iteration; memory: taken less given back");
    for (size_t i = 0; i < shown(count, top); i++)
        print_row(order[i].row, (double)(iterations > 0 ? iterations : 1), all_ns);
    if (shown(count, top) < count)
        plb_print("%7s %zu more operators: --top 0 shows all\n", "", count - shown(count, top));
    plb_free(order);
}

static void json_each(const json_t *row, const char *from, const char *to, double divisor,
                      plb_json *json) {
    const json_t *value = json_object_get(row, from);
    if (json_is_number(value))
        plb_json_double(json, to, json_number_value(value) / divisor);
    else
        plb_json_null(json, to);
}

void plb_stack_operators_json(const json_t *rows, int64_t iterations, int top, plb_json *json) {
    static const struct {
        const char *from, *to;
        double unit;
    } members[] = {{"calls", "calls", 1},
                   {"self_cpu_ns", "self_cpu_ms", 1e6},
                   {"cpu_ns", "cpu_ms", 1e6},
                   {"self_device_ns", "self_device_ms", 1e6},
                   {"device_ns", "device_ms", 1e6},
                   {"self_cpu_bytes", "self_cpu_bytes", 1},
                   {"cpu_bytes", "cpu_bytes", 1},
                   {"self_device_bytes", "self_device_bytes", 1},
                   {"device_bytes", "device_bytes", 1}};
    const double each = (double)(iterations > 0 ? iterations : 1);
    size_t count = 0;
    if (!rows) {
        plb_json_null(json, "stack_operators");
        return;
    }
    ranked *order = in_order(rows, &count);
    plb_json_begin_array(json, "stack_operators");
    for (size_t i = 0; i < shown(count, top); i++) {
        plb_json_begin_object(json, NULL);
        plb_json_string(json, "name", json_string_value(json_object_get(order[i].row, "name")));
        for (size_t m = 0; m < sizeof members / sizeof *members; m++)
            json_each(order[i].row, members[m].from, members[m].to, each * members[m].unit, json);
        plb_json_end(json);
    }
    plb_json_end(json);
    plb_free(order);
}
