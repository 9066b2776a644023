// SPDX-License-Identifier: Apache-2.0
// Winograd convolution against a direct one in f64. Every buffer ends, or begins, at a page that
// must not be touched, and scratch memory starts as NaN.
#include "engine/device/cpu/winograd.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "check.h"

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

// Memory of a multiple of a cache line between two forbidden pages, at the end of its own pages or
// at their beginning; all bits set, which is NaN.
typedef struct guarded {
    char *map;
    size_t map_bytes;
    float *data;
} guarded;

static guarded guarded_alloc(size_t size_bytes, bool at_end) {
    size_t page = page_bytes(), inner = (size_bytes + page - 1) / page * page;
    guarded g = {.map_bytes = inner + 2 * page};
    g.map = mmap(NULL, g.map_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED || mprotect(g.map + page, inner, PROT_READ | PROT_WRITE)) {
        perror("mmap");
        exit(1);
    }
    memset(g.map + page, 0xff, inner);
    g.data = (float *)(void *)(g.map + page + (at_end ? inner - size_bytes : 0));
    return g;
}

// The slack between a buffer and the far page must be as it was.
static bool guarded_intact(const guarded *g, size_t size_bytes) {
    const char *begin = (const char *)g->data, *inner_end = g->map + g->map_bytes - page_bytes();
    for (const char *p = g->map + page_bytes(); p < begin; p++) {
        if (*p != (char)0xff) return false;
    }
    for (const char *p = begin + size_bytes; p < inner_end; p++) {
        if (*p != (char)0xff) return false;
    }
    return true;
}

static void guarded_free(guarded *g) {
    munmap(g->map, g->map_bytes);
}

static uint64_t random_state = 1;

// Near enough to normal: the sum of four uniform numbers, of variance 1.
static float random_value(void) {
    double sum = 0;
    for (int i = 0; i < 4; i++) {
        random_state = random_state * 6364136223846793005u + 1442695040888963407u;
        sum += (double)(random_state >> 33) / 2147483648.0 - 0.5;
    }
    return (float)(sum * 1.7320508075688772);
}

static void fill(float *data, size_t count) {
    for (size_t i = 0; i < count; i++) data[i] = random_value();
}

// One convolution: its tensors as the kernel sees them, in x[n,ih,iw,ic], out y[n,oh,ow,oc].
typedef struct problem {
    plb_winograd_shape shape;
    int64_t ih, iw, ic, oh, ow, oc;
    size_t x_count, y_count, w_count;
    guarded x, w, bias, residual;
    double *expected; // without the epilogue
    double rms;
} problem;

// y = conv(x, w), or its adjoint: both go through all (output pixel, tap, input pixel) of the
// forward convolution.
static void reference(problem *p) {
    const plb_winograd_shape *s = &p->shape;
    int64_t OH = s->h + 2 * s->pad - 2, OW = s->w + 2 * s->pad - 2;
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t r = 0; r < OH * OW * 9; r++) {
            int64_t oy = r / 9 / OW, ox = r / 9 % OW, tap = r % 9;
            int64_t iy = oy + tap / 3 - s->pad, ix = ox + tap % 3 - s->pad;
            if (iy < 0 || iy >= s->h || ix < 0 || ix >= s->w) continue;
            int64_t in = (n * s->h + iy) * s->w + ix, out = (n * OH + oy) * OW + ox;
            for (int64_t k = 0; k < s->k; k++)
                for (int64_t c = 0; c < s->c; c++) {
                    double w = p->w.data[(k * s->c + c) * 9 + tap];
                    if (s->rotate) {
                        p->expected[in * s->c + c] += w * p->x.data[out * s->k + k];
                    } else {
                        p->expected[out * s->k + k] += w * p->x.data[in * s->c + c];
                    }
                }
        }
    double square = 0;
    for (size_t i = 0; i < p->y_count; i++) square += p->expected[i] * p->expected[i];
    p->rms = sqrt(square / (double)p->y_count);
}

static problem problem_make(plb_winograd_shape s, bool at_end) {
    int64_t oh = s.h + 2 * s.pad - 2, ow = s.w + 2 * s.pad - 2;
    problem p = {.shape = s, .ih = s.h, .iw = s.w, .ic = s.c, .oh = oh, .ow = ow, .oc = s.k};
    if (s.rotate) {
        p.ih = oh, p.iw = ow, p.ic = s.k, p.oh = s.h, p.ow = s.w, p.oc = s.c;
    }
    p.x_count = (size_t)(s.n * p.ih * p.iw * p.ic);
    p.y_count = (size_t)(s.n * p.oh * p.ow * p.oc);
    p.w_count = (size_t)(s.k * s.c * 9);
    p.x = guarded_alloc(p.x_count * 4, at_end);
    p.w = guarded_alloc(p.w_count * 4, at_end);
    p.bias = guarded_alloc((size_t)p.oc * 4, at_end);
    p.residual = guarded_alloc(p.y_count * 4, at_end);
    fill(p.x.data, p.x_count);
    fill(p.w.data, p.w_count);
    fill(p.bias.data, (size_t)p.oc);
    fill(p.residual.data, p.y_count);
    p.expected = plb_alloc_array(p.y_count, sizeof *p.expected);
    if (!p.expected) exit(1);
    reference(&p);
    return p;
}

static void problem_free(problem *p) {
    guarded_free(&p->x);
    guarded_free(&p->w);
    guarded_free(&p->bias);
    guarded_free(&p->residual);
    plb_free(p->expected);
}

// Packs and runs into a fresh y; packed weights, scratch memory and y keep within their bounds.
static guarded convolve(const problem *p, plb_winograd_isa isa, plb_winograd_config config,
                        int threads, const plb_winograd_epilogue *end, bool at_end) {
    plb_winograd_plan plan;
    CHECK_OK(plb_winograd_plan_make(&p->shape, isa, &config, threads, &plan));
    size_t packed_bytes = plb_winograd_packed_bytes(&plan);
    size_t workspace_bytes = plb_winograd_workspace_bytes(&plan);
    guarded packed = guarded_alloc(packed_bytes, at_end);
    guarded workspace = guarded_alloc(workspace_bytes, at_end);
    guarded y = guarded_alloc(p->y_count * 4, at_end);
    uint64_t allocations = plb_alloc_count();
    plb_winograd_pack(&plan, p->w.data, packed.data);
    plb_winograd_run(&plan, p->x.data, packed.data, end, y.data, workspace.data);
    CHECK(plb_alloc_count() == allocations);
    CHECK(guarded_intact(&packed, packed_bytes));
    CHECK(guarded_intact(&workspace, workspace_bytes));
    CHECK(guarded_intact(&y, p->y_count * 4));
    guarded_free(&packed);
    guarded_free(&workspace);
    return y;
}

// Largest error over the RMS of the convolution; NaN if any output is NaN.
static double error_of(const problem *p, const plb_winograd_epilogue *end, const float *y) {
    double worst = 0;
    for (size_t i = 0; i < p->y_count; i++) {
        double e = p->expected[i];
        if (end && end->bias) e += end->bias[i % (size_t)p->oc];
        if (end && end->residual) e += p->residual.data[i];
        if (end && end->activation == PLB_WINOGRAD_RELU) e = fmax(e, 0);
        if (end && end->activation == PLB_WINOGRAD_CLAMP) e = fmin(fmax(e, end->low), end->high);
        double d = fabs(e - y[i]);
        if (!(d <= worst)) worst = d;
    }
    return worst / p->rms;
}

static const int variants[] = {2, 4, 5};
enum { VARIANTS = sizeof variants / sizeof *variants };

// Any two buffers' ends are tried: odd configurations, few and many threads, both ends guarded.
static void check_shape(plb_winograd_isa isa, plb_winograd_shape shape) {
    for (int guard = 0; guard < 2; guard++) {
        problem p = problem_make(shape, guard);
        for (int i = 0; i < VARIANTS; i++) {
            plb_winograd_config config = {variants[i], guard ? 5 : 16, guard ? 64 : 16, guard};
            guarded y = convolve(&p, isa, config, 2, NULL, guard);
            double error = error_of(&p, NULL, y.data);
            CHECK_SAY(error <= 2e-5, "f%d n%d c%d k%d %dx%d pad %d rotate %d: error %.2e",
                      variants[i], (int)shape.n, (int)shape.c, (int)shape.k, (int)shape.h,
                      (int)shape.w, shape.pad, shape.rotate, error);
            guarded_free(&y);
        }
        problem_free(&p);
    }
}

static void matches_direct(plb_winograd_isa isa) {
    static const int64_t size[][2] = {{1, 1}, {2, 3}, {5, 9}, {7, 7}, {14, 14}, {13, 30}};
    static const int64_t channels[][2] = {{16, 16}, {32, 48}, {48, 32}, {80, 64}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        for (int pad = 0; pad < 3; pad++) {
            const int64_t *ck = channels[(i + (size_t)pad) % 4];
            plb_winograd_shape s = {pad == 1 ? 3 : 1, ck[0], ck[1], size[i][0], size[i][1], pad, 0};
            for (int rotate = 0; rotate < 2; rotate++) {
                s.rotate = rotate;
                if (!plb_winograd_refuse(&s, isa)) check_shape(isa, s);
            }
        }
    }
}

// Channels that fill no whole panel, on the instruction set that takes them.
static void matches_direct_odd_vectors(plb_winograd_isa isa) {
    int64_t lanes = isa == PLB_WINOGRAD_AVX2 ? 8 : 16;
    check_shape(isa, (plb_winograd_shape){1, lanes, lanes, 6, 11, 1, false});
    check_shape(isa, (plb_winograd_shape){2, 3 * lanes, 5 * lanes, 9, 8, 1, false});
    check_shape(isa, (plb_winograd_shape){2, 3 * lanes, 5 * lanes, 9, 8, 0, true});
}

// The sum over channels is where digits are lost; more channels than one block of the kernel's.
static void keeps_digits_over_many_channels(plb_winograd_isa isa) {
    check_shape(isa, (plb_winograd_shape){1, 1040, 32, 10, 5, 1, false});
    check_shape(isa, (plb_winograd_shape){1, 32, 528, 5, 5, 1, true});
}

static void epilogues(plb_winograd_isa isa) {
    problem p = problem_make((plb_winograd_shape){2, 32, 48, 9, 7, 1, false}, true);
    static const plb_winograd_activation all[] = {PLB_WINOGRAD_LINEAR, PLB_WINOGRAD_RELU,
                                                  PLB_WINOGRAD_CLAMP};
    for (int i = 0; i < 12; i++) {
        plb_winograd_epilogue end = {.bias = i & 1 ? p.bias.data : NULL,
                                     .residual = i & 2 ? p.residual.data : NULL,
                                     .activation = all[i / 4],
                                     .low = -2.5f,
                                     .high = 6};
        guarded y = convolve(&p, isa, (plb_winograd_config){4, 8, 16, i & 1}, 2, &end, true);
        CHECK_SAY(error_of(&p, &end, y.data) <= 2e-5, "epilogue %d", i);
        guarded_free(&y);
    }
    problem_free(&p);
}

// The residual may be the output: a gradient is added to.
static void adds_in_place(plb_winograd_isa isa) {
    problem p = problem_make((plb_winograd_shape){1, 32, 16, 8, 10, 1, true}, true);
    plb_winograd_config config = {4, 3, 32, false};
    plb_winograd_plan plan;
    CHECK_OK(plb_winograd_plan_make(&p.shape, isa, &config, 2, &plan));
    float *packed = plb_alloc_slab(plb_winograd_packed_bytes(&plan));
    float *workspace = plb_alloc_slab(plb_winograd_workspace_bytes(&plan));
    float *y = plb_alloc_slab(p.y_count * 4);
    if (!packed || !workspace || !y) exit(1);
    memcpy(y, p.residual.data, p.y_count * 4);
    plb_winograd_epilogue end = {.residual = y};
    plb_winograd_pack(&plan, p.w.data, packed);
    plb_winograd_run(&plan, p.x.data, packed, &end, y, workspace);
    CHECK(error_of(&p, &end, y) <= 2e-5);
    plb_free(packed);
    plb_free(workspace);
    plb_free(y);
    problem_free(&p);
}

// Bits depend on the variant alone: not on threads, blocks or sharing.
static void bits_are_the_same(plb_winograd_isa isa) {
    problem p = problem_make((plb_winograd_shape){3, 144, 96, 15, 9, 1, false}, true);
    plb_winograd_epilogue end = {.bias = p.bias.data, .activation = PLB_WINOGRAD_RELU};
    for (int i = 0; i < VARIANTS; i++) {
        guarded first = {0};
        for (int trial = 0; trial < 8; trial++) {
            plb_winograd_config config = {variants[i], trial & 2 ? 7 : 48, trial & 2 ? 32 : 96,
                                          trial & 4};
            guarded y = convolve(&p, isa, config, 1 + (trial & 1), &end, true);
            if (!trial) {
                first = y;
                continue;
            }
            CHECK_SAY(!memcmp(first.data, y.data, p.y_count * 4), "f%d trial %d", variants[i],
                      trial);
            guarded_free(&y);
        }
        guarded_free(&first);
    }
    problem_free(&p);
}

static void nan_comes_through(plb_winograd_isa isa) {
    problem p = problem_make((plb_winograd_shape){1, 16, 16, 12, 12, 1, false}, true);
    p.x.data[0] = NAN; // pixel 0, 0
    plb_winograd_epilogue end = {.activation = PLB_WINOGRAD_RELU};
    guarded y = convolve(&p, isa, (plb_winograd_config){4, 4, 32, false}, 1, &end, true);
    CHECK(isnan(y.data[0]) && isnan(y.data[(12 + 1) * 16]));
    CHECK(!isnan(y.data[(11 * 12 + 11) * 16])); // a tile that does not read it
    guarded_free(&y);
    problem_free(&p);
}

static void refuses(plb_winograd_isa isa) {
    const plb_winograd_shape good = {1, 16, 16, 5, 5, 1, false};
    plb_winograd_shape s = good;
    CHECK(!plb_winograd_refuse(&s, isa));
    s.c = 20;
    CHECK(strstr(plb_winograd_refuse(&s, isa), "multiple"));
    s = good, s.pad = 3;
    CHECK(strstr(plb_winograd_refuse(&s, isa), "padding"));
    s = good, s.h = 2, s.pad = 0;
    CHECK(strstr(plb_winograd_refuse(&s, isa), "smaller"));
    s = good, s.n = 0;
    CHECK(strstr(plb_winograd_refuse(&s, isa), "below 1"));
    s = good, s.n = INT64_MAX / 8;
    CHECK(strstr(plb_winograd_refuse(&s, isa), "large"));
    plb_winograd_plan plan;
    plb_winograd_config config = {4, 48, 64, false};
    CHECK_FAILS(PLB_EUNSUPPORTED, "large", plb_winograd_plan_make(&s, isa, &config, 1, &plan));
    CHECK_FAILS(PLB_EINVAL, "threads", plb_winograd_plan_make(&good, isa, &config, 0, &plan));
    config.m = 3;
    CHECK_FAILS(PLB_EINVAL, "f3", plb_winograd_plan_make(&good, isa, &config, 1, &plan));
    config.m = 4, config.tile_block = 0;
    CHECK_FAILS(PLB_EINVAL, "tb=0", plb_winograd_plan_make(&good, isa, &config, 1, &plan));
}

static void candidates_are_valid(plb_winograd_isa isa) {
    static const plb_winograd_shape shapes[] = {{1, 64, 64, 56, 56, 1, 0},
                                                {32, 512, 512, 7, 7, 1, 1},
                                                {8, 256, 256, 14, 14, 1, 0},
                                                {1, 16, 16, 1, 1, 1, 0},
                                                {4, 128, 2048, 300, 5, 2, 1}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        plb_winograd_config all[256], few[2];
        int count = plb_winograd_candidates(&shapes[i], isa, 2, all, 256);
        CHECK(count >= 1 && count < 256);
        CHECK(plb_winograd_candidates(&shapes[i], isa, 2, few, 2) == (count < 2 ? count : 2));
        char a[PLB_WINOGRAD_TEXT_BYTES], b[PLB_WINOGRAD_TEXT_BYTES];
        CHECK(!strcmp(plb_winograd_config_format(few, a), plb_winograd_config_format(all, b)));
        for (int j = 0; j < count; j++) {
            plb_winograd_plan plan;
            CHECK_OK(plb_winograd_plan_make(&shapes[i], isa, &all[j], 2, &plan));
        }
    }
}

// F4 on one 64-channel 56x56 image: 14 * 14 tiles of 36 products; the transforms of a tile's
// vector are 12 1-d ones of 12 multiply-adds, and 6 + 4 of 12.
static void flops_are_counted(plb_winograd_isa isa) {
    plb_winograd_shape shape = {1, 64, 64, 56, 56, 1, false};
    plb_winograd_config config = {4, 48, 64, false};
    plb_winograd_plan plan;
    CHECK_OK(plb_winograd_plan_make(&shape, isa, &config, 2, &plan));
    double products = 36.0 * 64 * 64, transforms = 144.0 * 64 + 120.0 * 64;
    CHECK_NEAR(plb_winograd_flops(&plan), 2 * 196 * (products + transforms), 0.5);
}

static void text_goes_both_ways(void) {
    char text[PLB_WINOGRAD_TEXT_BYTES];
    plb_winograd_config config = {4, 48, 64, false}, back;
    CHECK(!strcmp(plb_winograd_config_format(&config, text), "winograd f4 private tb=48 kc=64"));
    config = (plb_winograd_config){5, 7, 512, true};
    CHECK_OK(plb_winograd_config_parse(plb_winograd_config_format(&config, text), &back));
    CHECK(back.m == 5 && back.tile_block == 7 && back.channel_block == 512 && back.shared);
    static const char *const bad[] = {"",
                                      "winograd",
                                      "winograd f4 both tb=48 kc=64",
                                      "winograd f3 private tb=48 kc=64",
                                      "winograd f4 private tb=0 kc=64",
                                      "winograd f4 private tb=48 kc=64 ",
                                      "winograd f4 private tb=48 kc=99999999999",
                                      "winograd f4 private tb=-1 kc=64"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_FAILS(PLB_EINVAL, bad[i], plb_winograd_config_parse(bad[i], &back));
    }
}

// Each test of a kernel runs on both instruction sets, where the processor has them.
#define ON_BOTH(test)                                                                        \
    static void test##_avx2(void) {                                                          \
        if (!plb_winograd_present(PLB_WINOGRAD_AVX2)) SKIP("the processor lacks AVX2");      \
        test(PLB_WINOGRAD_AVX2);                                                             \
    }                                                                                        \
    static void test##_avx512(void) {                                                        \
        if (!plb_winograd_present(PLB_WINOGRAD_AVX512)) SKIP("the processor lacks AVX-512"); \
        test(PLB_WINOGRAD_AVX512);                                                           \
    }
ON_BOTH(matches_direct)
ON_BOTH(matches_direct_odd_vectors)
ON_BOTH(keeps_digits_over_many_channels)
ON_BOTH(epilogues)
ON_BOTH(adds_in_place)
ON_BOTH(bits_are_the_same)
ON_BOTH(nan_comes_through)
ON_BOTH(refuses)
ON_BOTH(candidates_are_valid)
ON_BOTH(flops_are_counted)

#define BOTH(test)                     \
    {#test "_avx2", test##_avx2}, {    \
#test "_avx512", test##_avx512 \
    }
static const check_test tests[] = {
    BOTH(matches_direct),
    BOTH(matches_direct_odd_vectors),
    BOTH(keeps_digits_over_many_channels),
    BOTH(epilogues),
    BOTH(adds_in_place),
    BOTH(bits_are_the_same),
    BOTH(nan_comes_through),
    BOTH(refuses),
    BOTH(candidates_are_valid),
    BOTH(flops_are_counted),
    {"text_goes_both_ways", text_goes_both_ways},
};
CHECK_MAIN(tests)
