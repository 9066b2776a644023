// SPDX-License-Identifier: Apache-2.0
#include "check.h"
#include "engine/tensor/convert.h"
#include "plumb/tensor.h"

// Every f16 survives a round trip; ties go to even; overflow becomes infinity.
static void f16_rounds_as_ieee(void) {
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = plb_f32_of_f16((uint16_t)bits);
        if (value == value) CHECK(plb_f16_of_f32(value) == bits);
    }
    CHECK(plb_f16_of_f32(65504.0f) == 0x7bff && plb_f16_of_f32(65520.0f) == 0x7c00);
    CHECK(plb_f16_of_f32(65519.9f) == 0x7bff);
    CHECK(plb_f16_of_f32(1.0f + 0x1p-11f) == 0x3c00);     // tie, down to even
    CHECK(plb_f16_of_f32(1.0f + 3 * 0x1p-11f) == 0x3c02); // tie, up to even
    CHECK(plb_f16_of_f32(0x1p-25f) == 0 && plb_f16_of_f32(0x1.8p-25f) == 1);
}

static void bf16_rounds_as_ieee(void) {
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        float value = plb_f32_of_bf16((uint16_t)bits);
        if (value == value) CHECK(plb_bf16_of_f32(value) == bits);
    }
    CHECK(plb_bf16_of_f32(1.0f + 0x1p-8f) == 0x3f80 &&
          plb_bf16_of_f32(1.0f + 3 * 0x1p-8f) == 0x3f82);
    uint16_t half;
    plb_store_f64(&half, PLB_BF16, 0, 1.0 + 0x1p-8 + 0x1p-40); // one rounding, not two
    CHECK(half == 0x3f81);
}

static void stores_saturate(void) {
    int8_t small;
    plb_store_f64(&small, PLB_I8, 0, 1e9);
    CHECK(small == 127);
    uint64_t large;
    plb_store_f64(&large, PLB_U64, 0, 1e300);
    CHECK(large == UINT64_MAX);
    plb_store_f64(&large, PLB_U64, 0, NAN);
    CHECK(large == 0);
    uint8_t flag;
    plb_store_f64(&flag, PLB_BOOL, 0, 0.5);
    CHECK(flag == 1);
}

// Past 2^53 neither f64 nor f32 may be a stop on the way to the dtype.
static void integers_round_once(void) {
    const struct {
        int64_t from;
        float f32;
        uint16_t bf16;
    } cases[] = {{(INT64_C(1) << 60) + (INT64_C(1) << 36) + 1, 0x1.000002p60f, 0x5d80},
                 {-(INT64_C(1) << 60) - (INT64_C(1) << 36) - 1, -0x1.000002p60f, 0xdd80},
                 {(INT64_C(1) << 60) + (INT64_C(1) << 36), 0x1p60f, 0x5d80}, // a tie: to even
                 {(INT64_C(1) << 60) + (INT64_C(1) << 52) + 1, 0x1.01p60f, 0x5d81},
                 {(1 << 24) + 1, 0x1p24f, 0x4b80},
                 {(1 << 24) + (1 << 16) + 1, 0x1.01p24f, 0x4b81},
                 {INT64_MIN, -0x1p63f, 0xdf00},
                 {INT64_MAX, 0x1p63f, 0x5f00}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float single;
        uint16_t half;
        plb_store_i64(&single, PLB_F32, 0, cases[i].from);
        plb_store_i64(&half, PLB_BF16, 0, cases[i].from);
        CHECK_SAY(single == cases[i].f32, "%lld as f32: %a", (long long)cases[i].from,
                  (double)single);
        CHECK_SAY(half == cases[i].bf16, "%lld as bf16: %x", (long long)cases[i].from,
                  (unsigned)half);
    }
    uint16_t half;
    plb_store_i64(&half, PLB_F16, 0, 32784); // halfway between 32768 and 32800
    CHECK(half == 0x7800);
    plb_store_i64(&half, PLB_F16, 0, 32785);
    CHECK(half == 0x7801);
    const double truncated[] = {2.5, 3.5, -0.5};
    for (int i = 0; i < 3; i++) {
        int32_t whole;
        plb_store_f64(&whole, PLB_I32, 0, truncated[i]);
        CHECK(whole == (int32_t)truncated[i]);
    }
}

static void shapes_broadcast_and_refuse(void) {
    plb_shape out;
    CHECK_OK(plb_shape_broadcast(&plb_shape_of(8, 1, 6), &plb_shape_of(7, 1), &out));
    CHECK(plb_shape_equal(&out, &plb_shape_of(8, 7, 6)));
    CHECK_OK(plb_shape_broadcast(&plb_scalar_shape, &plb_shape_of(0, 1), &out));
    CHECK(plb_shape_count(&out) == 0);
    CHECK_FAILS(PLB_EINVAL, "[2] and [3]",
                plb_shape_broadcast(&plb_shape_of(2), &plb_shape_of(3), &out));
    CHECK_FAILS(PLB_EINVAL, "too large",
                plb_shape_check(&plb_shape_of(INT64_MAX / 4, 0, INT64_MAX / 4)));
    CHECK_FAILS(PLB_EINVAL, "-1", plb_shape_check(&plb_shape_of(3, -1)));
}

// A rank that no shape can have, as a file may tell: nothing is read or written past the extents.
static void impossible_ranks_are_refused(void) {
    static const int ranks[] = {PLB_MAX_RANK + 1, 1000, -1};
    for (int i = 0; i < 3; i++) {
        plb_shape bad = {.rank = ranks[i], .dim = {1, 1, 1, 1, 1, 1, 1, 1}}, same = bad;
        struct {
            plb_shape out;
            int64_t after[64];
        } place = {0};
        char text[160];
        CHECK_FAILS(PLB_EINVAL, "rank", plb_shape_broadcast(&plb_shape_of(2, 2), &bad, &place.out));
        CHECK_FAILS(PLB_EINVAL, "rank", plb_shape_broadcast(&bad, &plb_shape_of(2, 2), &place.out));
        for (int k = 0; k < 64; k++) CHECK(place.after[k] == 0);
        CHECK(plb_shape_equal(&bad, &same) && !plb_shape_equal(&bad, &plb_scalar_shape));
        plb_shape_format(&bad, text, sizeof text);
        CHECK_SAY(!strcmp(text, ranks[i] < 0 ? "[]" : "[1, 1, 1, 1, 1, 1, 1, 1, ...]"), "%s", text);
    }
}

static const plb_layout layouts[] = {
    {PLB_LAYOUT_PLAIN, 0}, {PLB_LAYOUT_NHWC, 0}, {PLB_LAYOUT_BLOCKED, 8}, {PLB_LAYOUT_BLOCKED, 16}};

// x[n, c, h, w] moves through all layouts and back, and channels past the last are zero.
static void layouts_keep_the_elements(void) {
    plb_shape shape = plb_shape_of(2, 11, 3, 5);
    float from[2 * 11 * 15], moved[2 * 16 * 15], back[2 * 11 * 15];
    for (int i = 0; i < 2 * 11 * 15; i++) from[i] = (float)i + 1;
    plb_tensor source = plb_tensor_dense(from, PLB_F32, &shape, layouts[0]);
    for (size_t l = 0; l < sizeof layouts / sizeof *layouts; l++) {
        memset(moved, 0xff, sizeof moved);
        plb_tensor middle = plb_tensor_dense(moved, PLB_F32, &shape, layouts[l]);
        plb_tensor end = plb_tensor_dense(back, PLB_F32, &shape, layouts[0]);
        CHECK_OK(plb_tensor_copy(&middle, &source));
        CHECK_OK(plb_tensor_copy(&end, &middle));
        CHECK(memcmp(from, back, sizeof from) == 0);
        CHECK(plb_tensor_is_dense(&middle));
        if (layouts[l].kind == PLB_LAYOUT_NHWC) CHECK(moved[1] == from[15]);
        if (layouts[l].block == 16) CHECK(moved[11] == 0 && moved[1] == from[15]);
    }
    CHECK(plb_layout_bytes(&shape, PLB_F32, layouts[3]) == sizeof moved);
}

static void strided_views_reach_their_elements(void) {
    float data[12];
    for (int i = 0; i < 12; i++) data[i] = (float)i;
    plb_tensor t = plb_tensor_dense(data, PLB_F32, &plb_shape_of(3, 4), layouts[0]);
    plb_tensor flipped = t; // rows reversed
    flipped.data = data + 8, flipped.stride[0] = -4;
    float copy[12];
    plb_tensor out = plb_tensor_dense(copy, PLB_F32, &t.shape, layouts[0]);
    CHECK(!plb_tensor_is_dense(&flipped));
    CHECK_OK(plb_tensor_copy(&out, &flipped));
    CHECK(copy[0] == 8 && copy[11] == 3);
    plb_tensor scalar = plb_tensor_dense(data, PLB_F32, &plb_scalar_shape, layouts[0]);
    CHECK(plb_tensor_offset_linear(&scalar, 0) == 0 && plb_tensor_is_dense(&scalar));
}

static const check_test tests[] = {
    {"f16 rounds as IEEE", f16_rounds_as_ieee},
    {"bf16 rounds as IEEE", bf16_rounds_as_ieee},
    {"stores saturate", stores_saturate},
    {"integers round once", integers_round_once},
    {"shapes broadcast and refuse", shapes_broadcast_and_refuse},
    {"impossible ranks are refused", impossible_ranks_are_refused},
    {"layouts keep the elements", layouts_keep_the_elements},
    {"strided views reach their elements", strided_views_reach_their_elements},
};
CHECK_MAIN(tests)
