// SPDX-License-Identifier: Apache-2.0
#include "base/core/alloc.h"
#include "base/core/arena.h"
#include "base/core/hash.h"
#include "base/core/philox.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "check.h"

static plb_status fails_inside(void) {
    PLB_TRY(plb_fail(PLB_EINVAL, "line %d: expected a number", 3));
    return PLB_OK;
}

static void status_keeps_text_and_place(void) {
    CHECK_FAILS(PLB_EINVAL, "line 3: expected a number", fails_inside());
    CHECK_FAILS(PLB_EINVAL, "a.txt: line 3", plb_fail_context(fails_inside(), "a.txt"));
}

// Known answers of the authors' own test vectors (Random123, kat_vectors: philox4x32 10).
static void philox_gives_the_known_answers(void) {
    plb_philox_block zero = plb_philox(0, 0, 0);
    CHECK(zero.word[0] == 0x6627e8d5u && zero.word[1] == 0xe169c58du);
    CHECK(zero.word[2] == 0xbc57ac4cu && zero.word[3] == 0x9b00dbd8u);
    plb_philox_block ones = plb_philox(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    CHECK(ones.word[0] == 0x408f276du && ones.word[1] == 0x41c83b0eu);
    CHECK(ones.word[2] == 0xa20bc7c6u && ones.word[3] == 0x6d5451fdu);
    plb_philox_block pi = plb_philox(0x299f31d0a4093822u, 0x85a308d3243f6a88u, 0x0370734413198a2eu);
    CHECK(pi.word[0] == 0xd16cfe09u && pi.word[1] == 0x94fdccebu);
    CHECK(pi.word[2] == 0x5001e420u && pi.word[3] == 0x24126ea1u);
}

static void arena_gives_zeroed_aligned_memory(void) {
    plb_arena *arena = plb_arena_new();
    for (size_t size = 1; size < 100000; size = size * 3 + 1) {
        unsigned char *p = plb_arena_alloc(arena, size);
        CHECK(p && (uintptr_t)p % 16 == 0 && p[0] == 0 && p[size - 1] == 0);
        memset(p, 0xff, size);
    }
    CHECK(strcmp(plb_arena_printf(arena, "%s.%d", "layer", 7), "layer.7") == 0);
    CHECK(!plb_arena_alloc(arena, SIZE_MAX - 8));
    plb_arena_free(arena);
}

static void map_holds_many_keys(void) {
    plb_map *map = plb_map_new();
    char key[32];
    for (int i = 0; i < 5000; i++) {
        snprintf(key, sizeof key, "layer%d.weight", i);
        CHECK_OK(plb_map_set(map, key, i));
    }
    CHECK_OK(plb_map_set(map, "layer7.weight", -7));
    CHECK(plb_map_get(map, "layer7.weight", 0) == -7);
    CHECK(plb_map_get(map, "layer4999.weight", 0) == 4999);
    CHECK(plb_map_get(map, "layer5000.weight", -1) == -1);
    plb_map_free(map);
}

static bool refuse_all(void *context, size_t size_bytes) {
    (void)context, (void)size_bytes;
    return false;
}

static void allocation_hook_makes_allocations_fail(void) {
    uint64_t before = plb_alloc_count();
    plb_alloc_set_hook(refuse_all, NULL);
    CHECK(!plb_alloc(8) && !plb_alloc_slab(8) && !plb_realloc_array(NULL, 1, 1));
    plb_alloc_set_hook(NULL, NULL);
    CHECK(plb_alloc_count() == before + 3);
    CHECK(!plb_alloc_array(SIZE_MAX / 2, 3));
}

static void nearest_name_suggests_only_near_ones(void) {
    static const char *const names[] = {"resnet18", "resnet50", "vgg16"};
    CHECK(plb_edit_distance("kitten", "sitting") == 3);
    CHECK(plb_edit_distance("ab", "ba") == 1);
    CHECK(strcmp(plb_nearest_name("resnet5", names, 3), "resnet50") == 0);
    CHECK(plb_nearest_name("transformer", names, 3) == NULL);
}

static void strbuf_grows(void) {
    plb_strbuf buf = {0};
    for (int i = 0; i < 1000; i++) plb_strbuf_printf(&buf, "%d,", i % 10);
    CHECK(buf.length == 2000 && !buf.failed && strncmp(buf.text, "0,1,2,", 6) == 0);
    plb_strbuf_free(&buf);
}

static const check_test tests[] = {
    {"status keeps text and place", status_keeps_text_and_place},
    {"philox gives the known answers", philox_gives_the_known_answers},
    {"arena gives zeroed aligned memory", arena_gives_zeroed_aligned_memory},
    {"map holds many keys", map_holds_many_keys},
    {"allocation hook makes allocations fail", allocation_hook_makes_allocations_fail},
    {"nearest name suggests only near ones", nearest_name_suggests_only_near_ones},
    {"strbuf grows", strbuf_grows},
};
CHECK_MAIN(tests)
