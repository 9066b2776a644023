// SPDX-License-Identifier: Apache-2.0
// The smallest test harness that serves: a test program lists its tests, CHECK counts, main ends
// with the line "N passed, N failed, N skipped". PLB_TEST_FILTER=word runs the tests whose name
// contains the word.
#ifndef PLB_TESTS_CHECK_H
#define PLB_TESTS_CHECK_H

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plumb/status.h"

static int check_failures;        // of the running test
static const char *check_skipped; // reason, when the running test skips itself

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            check_failures++;                                                             \
            fprintf(stderr, "%s:%d: CHECK failed: %s\n", __FILE__, __LINE__, #condition); \
        }                                                                                 \
    } while (0)

// Like CHECK, with a printf explanation.
#define CHECK_SAY(condition, ...)                                                         \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            check_failures++;                                                             \
            fprintf(stderr, "%s:%d: CHECK failed: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                                 \
            fputc('\n', stderr);                                                          \
        }                                                                                 \
    } while (0)

#define CHECK_OK(expression)                                                       \
    do {                                                                           \
        plb_status check_status = (expression);                                    \
        CHECK_SAY(check_status == PLB_OK, "%s: %s", plb_status_name(check_status), \
                  plb_error_text());                                               \
    } while (0)

// The call must fail with this status, and its text must contain `words`.
#define CHECK_FAILS(expected, words, expression)                                          \
    do {                                                                                  \
        plb_status check_status = (expression);                                           \
        CHECK_SAY(check_status == (expected), "found %s", plb_status_name(check_status)); \
        if (check_status) {                                                               \
            CHECK_SAY(strstr(plb_error_text(), words), "text: %s", plb_error_text());     \
        }                                                                                 \
    } while (0)

#define CHECK_NEAR(a, b, tolerance)                                                               \
    do {                                                                                          \
        double check_a = (a), check_b = (b);                                                      \
        CHECK_SAY(fabs(check_a - check_b) <= (tolerance), "%.9g against %.9g", check_a, check_b); \
    } while (0)

#define SKIP(reason)            \
    do {                        \
        check_skipped = reason; \
        return;                 \
    } while (0)

typedef struct check_test {
    const char *name;
    void (*run)(void);
} check_test;

// Runs what depends on times, which a neighbour may disturb, up to five times: wrong is what always
// is. The whole of a test.
__attribute__((unused)) static void check_again(void (*run)(void)) {
    for (int left = 5; left > 0; left--) {
        check_failures = 0;
        run();
        if (!check_failures) return;
        if (left > 1) fprintf(stderr, "once more\n");
    }
}

static int check_main(const check_test *tests, size_t count) {
    const char *filter = getenv("PLB_TEST_FILTER");
    int passed = 0, failed = 0, skipped = 0;
    for (size_t i = 0; i < count; i++) {
        if (filter && !strstr(tests[i].name, filter)) continue;
        check_failures = 0, check_skipped = NULL;
        tests[i].run();
        if (check_failures) {
            failed++;
            fprintf(stderr, "FAILED  %s\n", tests[i].name);
        } else if (check_skipped) {
            skipped++;
            printf("skipped %s: %s\n", tests[i].name, check_skipped);
        } else {
            passed++;
        }
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    return failed != 0;
}

#define CHECK_MAIN(tests)                                          \
    int main(void) {                                               \
        return check_main(tests, sizeof(tests) / sizeof *(tests)); \
    }

#endif
