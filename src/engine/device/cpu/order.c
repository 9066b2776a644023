// SPDX-License-Identifier: Apache-2.0
#include "engine/device/cpu/order.h"

enum { RUN = 16, SHORT = 256 };

static void insert_all(plb_entry *e, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        const plb_entry own = e[i];
        int64_t j = i;
        for (; j > 0 && e[j - 1].key > own.key; j--) e[j] = e[j - 1];
        e[j] = own;
    }
}

static void merge(plb_entry *to, const plb_entry *a, int64_t n_a, const plb_entry *b, int64_t n_b) {
    int64_t i = 0, j = 0;
    while (i < n_a && j < n_b) *to++ = b[j].key < a[i].key ? b[j++] : a[i++];
    memcpy(to, a + i, (size_t)(n_a - i) * sizeof *to);
    memcpy(to + (n_a - i), b + j, (size_t)(n_b - j) * sizeof *to);
}

// Returns the buffer that holds the sorted entries, `e` or `other`.
static plb_entry *sort_by_merging(plb_entry *e, plb_entry *other, int64_t n) {
    for (int64_t i = 0; i < n; i += RUN) insert_all(e + i, n - i < RUN ? n - i : RUN);
    for (int64_t run = RUN; run < n; run *= 2) {
        for (int64_t i = 0; i < n; i += 2 * run) {
            const int64_t n_a = n - i < run ? n - i : run, rest = n - i - n_a;
            merge(other + i, e + i, n_a, e + i + n_a, rest < run ? rest : run);
        }
        plb_entry *swap = e;
        e = other, other = swap;
    }
    return e;
}

static plb_entry *sort_by_bytes(plb_entry *e, plb_entry *other, int64_t n) {
    int64_t count[sizeof(uint64_t)][256] = {{0}};
    for (int64_t i = 0; i < n; i++) {
        for (int k = 0; k < 8; k++) count[k][e[i].key >> 8 * k & 255]++;
    }
    for (int k = 0; k < 8; k++) {
        int64_t before = 0;
        if (count[k][e[0].key >> 8 * k & 255] == n) continue;
        for (int b = 0; b < 256; b++) {
            const int64_t own = count[k][b];
            count[k][b] = before;
            before += own;
        }
        for (int64_t i = 0; i < n; i++) other[count[k][e[i].key >> 8 * k & 255]++] = e[i];
        plb_entry *swap = e;
        e = other, other = swap;
    }
    return e;
}

plb_entry *plb_order_sort(plb_entry *entries, plb_entry *other, int64_t n) {
    return n < SHORT ? sort_by_merging(entries, other, n) : sort_by_bytes(entries, other, n);
}
