// SPDX-License-Identifier: Apache-2.0
// A probe's file is input like any other: whatever stands in it, it is refused or safe to use.
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "check.h"
#include "probe/kernel_name.h"
#include "probe/profile.h"
#include "probe/spool.h"
#include "probe/sum.h"
#if __has_include(<cupti.h>)
#include <cupti.h>
#define HAVE_CUPTI 1
#else
#define HAVE_CUPTI 0
#endif

static plb_spool *filled(void) {
    plb_spool *s = plb_alloc(sizeof *s);
    s->magic = PLB_SPOOL_MAGIC, s->version = PLB_SPOOL_VERSION;
    s->size_bytes = sizeof *s, s->name_bytes = 1;
    plb_sum *sum = plb_sum_new(s);
    plb_record r = {.kind = PLB_RECORD_KERNEL, .start_ns = 100, .end_ns = 200, .name = "k"};
    plb_sum_record(sum, &r);
    r = (plb_record){.kind = PLB_RECORD_CALL,
                     .start_ns = 100,
                     .end_ns = 150,
                     .name = "call",
                     .busy = PLB_BUSY_FREE};
    plb_sum_record(sum, &r);
    plb_sum_settle(sum, 1);
    plb_sum_free(sum);
    return s;
}

static plb_spool_kernel *only_kernel(plb_spool *s) {
    for (int i = 0; i < PLB_SPOOL_KERNELS; i++)
        if (s->kernel[i].hash) return &s->kernel[i];
    return NULL;
}

static void what_was_written_is_fine(void) {
    plb_spool *s = filled();
    CHECK_OK(plb_spool_check(s, sizeof *s, "f"));
    CHECK(strcmp(s->names + only_kernel(s)->name, "k") == 0);
    plb_free(s);
}

static void damage_is_named(void) {
    plb_spool *s = filled();
    CHECK_FAILS(PLB_EINVAL, "expected", plb_spool_check(s, sizeof *s - 1, "f"));
    s->magic++;
    CHECK_FAILS(PLB_EINVAL, "not a probe's file", plb_spool_check(s, sizeof *s, "f"));
    s->magic--, s->version = 1;
    CHECK_FAILS(PLB_EINVAL, "version 4", plb_spool_check(s, sizeof *s, "f"));
    s->version = PLB_SPOOL_VERSION, s->name_bytes = PLB_SPOOL_NAME_BYTES + 1;
    CHECK_FAILS(PLB_EINVAL, "names", plb_spool_check(s, sizeof *s, "f"));
    s->name_bytes = 2; // ends within "k"
    CHECK_FAILS(PLB_EINVAL, "names", plb_spool_check(s, sizeof *s, "f"));
    plb_free(s);

    s = filled();
    only_kernel(s)->name = UINT32_MAX;
    CHECK_FAILS(PLB_EINVAL, "name of kernel", plb_spool_check(s, sizeof *s, "f"));
    plb_free(s);

    s = filled();
    only_kernel(s)->device = -1;
    CHECK_FAILS(PLB_EINVAL, "kernel", plb_spool_check(s, sizeof *s, "f"));
    plb_free(s);

    s = filled();
    s->device[0].sums.mask_ns[1] = INT64_MAX;
    CHECK_FAILS(PLB_EINVAL, "mask", plb_spool_check(s, sizeof *s, "f"));
    plb_free(s);

    s = filled();
    s->range[5] = (plb_spool_range){.hash = 1, .parent = 6};
    s->range[6] = (plb_spool_range){.hash = 2, .parent = 5};
    CHECK_FAILS(PLB_EINVAL, "parent of range", plb_spool_check(s, sizeof *s, "f"));
    s->range[6].parent = PLB_SPOOL_RANGES;
    CHECK_FAILS(PLB_EINVAL, "parent of range", plb_spool_check(s, sizeof *s, "f"));
    s->range[6].parent = -1;
    CHECK_OK(plb_spool_check(s, sizeof *s, "f"));
    s->blocks = PLB_SPOOL_BLOCKS + 1;
    CHECK_FAILS(PLB_EINVAL, "blocks", plb_spool_check(s, sizeof *s, "f"));
    plb_free(s);

    s = filled();
    memset(s->reason, 'x', sizeof s->reason);
    CHECK_FAILS(PLB_EINVAL, "text", plb_spool_check(s, sizeof *s, "f"));
    plb_free(s);
}

// What is added up over rows, devices or processes, each at a time as large as a number can be.
static void amounts_that_no_run_has_are_refused(void) {
    plb_spool *s = filled();
    plb_spool_device *d = &s->device[3];
    plb_spool_range *range = &s->range[5];
    plb_spool_size *copies = &d->copies[PLB_COPY_OUT][1][7];
    const struct {
        int64_t *amount;
        const char *told;
    } table[] = {{&range->device_ns, "range 5"},
                 {&range->device_work, "range 5"},
                 {&only_kernel(s)->graph_calls, "kernel"},
                 {&copies->calls, "copies of device 3"},
                 {&copies->total_ns, "copies of device 3"},
                 {&d->allocations, "allocations of device 3"},
                 {&d->kernels, "records of device 3"},
                 {&s->lost[PLB_LOST_TIMES], "lost records 2"},
                 {&s->recorded_ns, "time of recording"},
                 {&s->outside_ranges_ns, "time of recording"}};
    *range = (plb_spool_range){.hash = 1, .parent = -1};
    CHECK_OK(plb_spool_check(s, sizeof *s, "f"));
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (int negative = 0; negative < 2; negative++) {
            *table[i].amount = negative ? -1 : INT64_MAX;
            CHECK_FAILS(PLB_EINVAL, table[i].told, plb_spool_check(s, sizeof *s, "f"));
            *table[i].amount = 0;
        }
    copies->bytes = -1;
    CHECK_FAILS(PLB_EINVAL, "copies", plb_spool_check(s, sizeof *s, "f"));
    copies->bytes = INT64_MAX; // never added to another one's
    CHECK_OK(plb_spool_check(s, sizeof *s, "f"));
    plb_free(s);
}

// Of 1024 processes what a table has in all can be added up.
static void tables_that_no_run_has_are_refused(void) {
    plb_spool *s = filled();
    const int64_t most = (INT64_C(1) << 50) - 1;
    for (int i = 0; i < 9; i++) {
        CHECK_OK(plb_spool_check(s, sizeof *s, "f"));
        s->range[i] = (plb_spool_range){.hash = 1, .parent = -1, .device_ns = most};
    }
    CHECK_FAILS(PLB_EINVAL, "range 8", plb_spool_check(s, sizeof *s, "f"));
    plb_free(s);
}

static void a_short_file_is_refused(void) {
    char path[] = "/tmp/plumb-spool-XXXXXX";
    int fd = mkstemp(path);
    plb_spool *s = NULL;
    CHECK(fd >= 0 && write(fd, "PlmProb1", 8) == 8);
    CHECK_FAILS(PLB_EINVAL, "found 8", plb_spool_read(path, &s));
    CHECK(!s);
    close(fd);
    unlink(path);
}

enum { NAMES = 60000 };

typedef struct namer {
    plb_spool *spool;
    char letter;
    uint32_t at[NAMES];
} namer;

static void name_of_number(const namer *n, int i, char text[16]) {
    snprintf(text, 16, "%c%d", n->letter, i);
}

static void *add_names(void *context) {
    namer *n = context;
    char text[16];
    for (int i = 0; i < NAMES; i++) {
        name_of_number(n, i, text);
        n->at[i] = plb_spool_add_name(n->spool, text);
    }
    return NULL;
}

// The program's threads name ranges while CUPTI's names kernels.
static void threads_name_side_by_side(void) {
    plb_spool *s = filled();
    namer *n = plb_alloc_array(2, sizeof *n);
    pthread_t other;
    n[0].spool = n[1].spool = s, n[0].letter = 'a', n[1].letter = 'b';
    CHECK(pthread_create(&other, NULL, add_names, &n[1]) == 0);
    add_names(&n[0]);
    pthread_join(other, NULL);
    int wrong = 0;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < NAMES; i++) {
            char text[16];
            name_of_number(&n[k], i, text);
            wrong += strcmp(s->names + n[k].at[i], text) != 0;
        }
    CHECK_SAY(wrong == 0, "%d of %d names are others", wrong, 2 * NAMES);
    CHECK_OK(plb_spool_check(s, sizeof *s, "f"));
    plb_free(n);
    plb_free(s);
}

static void names_become_readable(void) {
    char text[256], shorter[64];
    plb_kernel_demangle("_ZN2at6native12vectorized_kIiEEvPT_", text, sizeof text);
    CHECK_SAY(strcmp(text, "void at::native::vectorized_k<int>") == 0, "%s", text);
    plb_kernel_shorten("void a::b<c<d<e>, f>, g>", 64, shorter, sizeof shorter);
    CHECK_SAY(strcmp(shorter, "a::b<c, g>") == 0, "%s", shorter);
    plb_kernel_shorten("abcdefghijklmnopqrstuvwxyz", 11, shorter, sizeof shorter);
    CHECK_SAY(strcmp(shorter, "abcdef..xyz") == 0, "%s", shorter);
    plb_kernel_demangle("sm80_gemm", text, sizeof text);
    CHECK(strcmp(text, "sm80_gemm") == 0);
}

static void classes_come_from_patterns(void) {
    char path[] = "/tmp/plumb-classes-XXXXXX";
    static const char rules[] = "# mine\nmine *my_gemm*\n";
    plb_kernel_classes *built_in = NULL, *mine = NULL;
    int fd = mkstemp(path);
    CHECK(fd >= 0 && write(fd, rules, sizeof rules - 1) == (ssize_t)sizeof rules - 1);
    CHECK_OK(plb_kernel_classes_new(NULL, &built_in));
    CHECK_OK(plb_kernel_classes_new(path, &mine));
    CHECK(strcmp(plb_kernel_class(built_in, "my_gemm_f32"), "matmul") == 0);
    CHECK(strcmp(plb_kernel_class(mine, "my_gemm_f32"), "mine") == 0);
    CHECK(strcmp(plb_kernel_class(mine, "void cutlass_80_wgrad_x"), "convolution") == 0);
    CHECK(strcmp(plb_kernel_class(built_in, "spin"), "other") == 0);
    plb_kernel_classes_free(built_in);
    plb_kernel_classes_free(mine);
    CHECK(write(fd, "one\n", 4) == 4);
    CHECK_FAILS(PLB_EINVAL, ":3: expected a class and a pattern",
                plb_kernel_classes_new(path, &mine));
    close(fd);
    unlink(path);
}

// The offsets that src/probe/cupti.c reads at, against NVIDIA's header.
static void offsets_are_those_of_the_header(void) {
#if HAVE_CUPTI
#define AT(type, field, offset) CHECK(offsetof(type, field) == (offset))
    AT(CUpti_ActivityKernel10, registersPerThread, 6);
    AT(CUpti_ActivityKernel10, start, 16);
    AT(CUpti_ActivityKernel10, end, 24);
    AT(CUpti_ActivityKernel10, deviceId, 40);
    AT(CUpti_ActivityKernel10, streamId, 48);
    AT(CUpti_ActivityKernel10, gridX, 52);
    AT(CUpti_ActivityKernel10, blockX, 64);
    AT(CUpti_ActivityKernel10, staticSharedMemory, 76);
    AT(CUpti_ActivityKernel10, dynamicSharedMemory, 80);
    AT(CUpti_ActivityKernel10, correlationId, 92);
    AT(CUpti_ActivityKernel10, name, 104);
    AT(CUpti_ActivityKernel10, graphNodeId, 144);
    AT(CUpti_ActivityMemcpy6, copyKind, 4);
    AT(CUpti_ActivityMemcpy6, srcKind, 5);
    AT(CUpti_ActivityMemcpy6, dstKind, 6);
    AT(CUpti_ActivityMemcpy6, bytes, 8);
    AT(CUpti_ActivityMemcpy6, start, 16);
    AT(CUpti_ActivityMemcpy6, deviceId, 32);
    AT(CUpti_ActivityMemcpy6, streamId, 40);
    AT(CUpti_ActivityMemcpy6, correlationId, 44);
    AT(CUpti_ActivityMemcpy6, graphNodeId, 64);
    AT(CUpti_ActivityMemcpyPtoP4, start, 16);
    AT(CUpti_ActivityMemcpyPtoP4, deviceId, 32);
    AT(CUpti_ActivityMemcpyPtoP4, correlationId, 60);
    AT(CUpti_ActivityMemset4, bytes, 8);
    AT(CUpti_ActivityMemset4, start, 16);
    AT(CUpti_ActivityMemset4, deviceId, 32);
    AT(CUpti_ActivityMemset4, graphNodeId, 64);
    AT(CUpti_ActivityAPI, cbid, 4);
    AT(CUpti_ActivityAPI, start, 8);
    AT(CUpti_ActivityAPI, threadId, 28);
    AT(CUpti_ActivityAPI, correlationId, 32);
    AT(CUpti_ActivityOverhead3, start, 24);
    AT(CUpti_ActivityMemory4, memoryOperationType, 4);
    AT(CUpti_ActivityMemory4, memoryKind, 8);
    AT(CUpti_ActivityMemory4, bytes, 24);
    AT(CUpti_ActivityMemory4, timestamp, 32);
    AT(CUpti_ActivityMemory4, deviceId, 52);
    AT(CUpti_ActivityGraphTrace2, start, 8);
    AT(CUpti_ActivityGraphTrace2, deviceId, 24);
    AT(CUpti_ActivityGraphTrace2, streamId, 36);
    AT(CUpti_ActivityMarker2, timestamp, 8);
    AT(CUpti_ActivityMarker2, id, 16);
    AT(CUpti_ActivityMarker2, name, 40);
#else
    SKIP("no cupti.h on this machine");
#endif
}

static const check_test tests[] = {
    {"what was written is fine", what_was_written_is_fine},
    {"damage is named", damage_is_named},
    {"amounts that no run has are refused", amounts_that_no_run_has_are_refused},
    {"tables that no run has are refused", tables_that_no_run_has_are_refused},
    {"a short file is refused", a_short_file_is_refused},
    {"threads name side by side", threads_name_side_by_side},
    {"names become readable", names_become_readable},
    {"classes come from patterns", classes_come_from_patterns},
    {"offsets are those of the header", offsets_are_those_of_the_header},
};
CHECK_MAIN(tests)
