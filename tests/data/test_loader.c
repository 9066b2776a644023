// SPDX-License-Identifier: Apache-2.0
#include "data/loader.h"

#include <pthread.h>
#include <sched.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/hash.h"
#include "base/core/status.h"
#include "check.h"
#include "data/gather.h"
#include "data/order.h"
#include "faults.h"

// A set in memory: pixel k of sample i is (i * 7 + k) % 256, its label i % 10.
static plb_dataset *memory_set(int64_t count, int64_t channels, int64_t height, int64_t width) {
    plb_dataset_info info = {.name = "memory",
                             .kind = "test",
                             .count = count,
                             .classes = 10,
                             .channels = channels,
                             .height = height,
                             .width = width,
                             .dtype = PLB_U8};
    int64_t elements = channels * height * width;
    uint8_t *pixels = plb_alloc_slab((size_t)(count * elements));
    int64_t *labels = plb_alloc_array((size_t)count, sizeof *labels);
    for (int64_t i = 0; i < count; i++) {
        labels[i] = i % 10;
        for (int64_t k = 0; k < elements; k++) pixels[i * elements + k] = (uint8_t)(i * 7 + k);
    }
    plb_dataset *set = NULL;
    CHECK_OK(plb_memory_dataset_new(&info, pixels, labels, &set));
    return set;
}

// A set that must be read: f32, x = index, and some samples fail.
typedef struct read_set {
    plb_dataset base;
    int64_t fails_every; // 0: never
    int yields;          // how slow a read is
} read_set;

static plb_status read_get(const plb_dataset *set, int64_t i, plb_scratch *scratch, void *sample) {
    const read_set *self = (const read_set *)set;
    for (int k = 0; k < self->yields; k++) sched_yield();
    float *x = plb_scratch_reserve(scratch, 0, sizeof(float));
    if (!x) return plb_fail(PLB_ENOMEM, "scratch");
    if (self->fails_every && i % self->fails_every == self->fails_every - 1)
        return plb_fail(PLB_EINVAL, "/data/%lld.jpg: truncated", (long long)i);
    *x = (float)i;
    memcpy(sample, x, sizeof *x);
    return PLB_OK;
}

static int64_t read_label(const plb_dataset *set, int64_t i) {
    return i % set->info.classes;
}

static const plb_dataset_ops read_ops = {.get = read_get, .label = read_label};

static plb_dataset *new_read_set(int64_t count, int64_t fails_every, int yields) {
    plb_dataset_info info = {.name = "read",
                             .kind = "test",
                             .count = count,
                             .classes = 10,
                             .channels = 1,
                             .height = 1,
                             .width = 1,
                             .dtype = PLB_F32};
    read_set *set = NULL;
    CHECK_OK(plb_dataset_new(&info, &read_ops, sizeof *set, &set));
    set->fails_every = fails_every, set->yields = yields;
    return &set->base;
}

static plb_loader *new_loader(const plb_dataset *set, plb_loader_options options) {
    plb_loader *loader = NULL;
    CHECK_OK(plb_loader_new(set, &options, &loader));
    return loader;
}

// A hash of everything that the next `count` batches hold.
static uint64_t hash_batches(plb_loader *loader, int64_t elements, int64_t count) {
    uint64_t hash = PLB_HASH_SEED;
    plb_batch batch;
    for (int64_t i = 0; i < count; i++) {
        CHECK_OK(plb_loader_next(loader, &batch));
        hash = plb_hash_bytes(hash, batch.x, (size_t)(batch.size * elements) * sizeof *batch.x);
        hash = plb_hash_bytes(hash, batch.y, (size_t)batch.size * sizeof *batch.y);
        hash = plb_hash_bytes(hash, &batch.epoch, sizeof batch.epoch);
        hash = plb_hash_bytes(hash, &batch.number, sizeof batch.number);
    }
    return hash;
}

static void shuffles_are_uniform_permutations(void) {
    uint32_t order[1000];
    uint8_t seen[1000] = {0};
    plb_order_shuffle(order, 1000, 1, 0);
    for (int i = 0; i < 1000; i++) seen[order[i]]++;
    for (int i = 0; i < 1000; i++) CHECK(seen[i] == 1);
    // Every one of the 24 orders of four about equally often: chi-squared with 23 degrees of
    // freedom is below 49.7 with probability 0.999.
    int found[256] = {0};
    for (int64_t epoch = 0; epoch < 24000; epoch++) {
        plb_order_shuffle(order, 4, 7, epoch);
        found[order[0] | order[1] << 2 | order[2] << 4 | order[3] << 6]++;
    }
    double chi = 0;
    for (int i = 0; i < 256; i++)
        if (found[i]) chi += (found[i] - 1000.0) * (found[i] - 1000.0) / 1000.0;
    CHECK_SAY(chi < 49.7, "chi-squared %g", chi);
}

static void normalisation_is_torchvisions(void) {
    plb_dataset_info info = {.name = "x",
                             .channels = 1,
                             .height = 1,
                             .width = 256,
                             .dtype = PLB_U8,
                             .mean = {0.1307f},
                             .std = {0.3081f}};
    plb_gather gather;
    uint8_t pixels[256];
    float x[256];
    for (int i = 0; i < 256; i++) pixels[i] = (uint8_t)i;
    CHECK_OK(plb_gather_init(&gather, &info, NULL, NULL));
    plb_gather_sample(&gather, pixels, 0, 0, x);
    // torchvision.transforms: Normalize((.1307,), (.3081,))(ToTensor(v)), PyTorch's bits.
    CHECK(x[0] == -0x1.b264e20000000p-2f && x[1] == -0x1.a55c400000000p-2f &&
          x[100] == 0x1.b27d100000000p-1f && x[255] == 0x1.69267a0000000p+1f);
    float zero = 0;
    CHECK_FAILS(PLB_EINVAL, "positive standard deviation",
                plb_gather_init(&gather, &info, NULL, &zero));
}

static void an_epoch_visits_each_sample_once(void) {
    plb_dataset *set = new_read_set(103, 0, 0);
    for (int threads = 0; threads <= 2; threads++) {
        plb_loader *loader = new_loader(
            set, (plb_loader_options){
                     .batch = 10, .threads = threads, .epochs = 2, .shuffle = true, .seed = 3});
        CHECK(plb_loader_batches(loader) == 11 && plb_loader_samples(loader) == 103);
        int seen[103] = {0}, out_of_place = 0;
        plb_batch batch;
        for (int i = 0; i < 22; i++) {
            CHECK_OK(plb_loader_next(loader, &batch));
            CHECK(batch.epoch == i / 11 && batch.number == i % 11);
            CHECK(batch.size == (i % 11 == 10 ? 3 : 10));
            for (int64_t k = 0; k < batch.size; k++) {
                int index = (int)batch.x[k];
                seen[index]++;
                out_of_place += index != i % 11 * 10 + (int)k;
                CHECK(batch.y[k] == index % 10);
            }
        }
        for (int i = 0; i < 103; i++) CHECK(seen[i] == 2);
        CHECK(out_of_place > 150);
        CHECK_OK(plb_loader_next(loader, &batch));
        CHECK(batch.size == 0);
        CHECK_OK(plb_loader_next(loader, &batch));
        CHECK(batch.size == 0);
        plb_loader_free(loader);
    }
    plb_dataset_free(set);
}

static void limit_and_drop_last_cut_the_epoch(void) {
    plb_dataset *set = new_read_set(103, 0, 0);
    plb_loader *loader = new_loader(
        set, (plb_loader_options){.batch = 10, .limit = 35, .drop_last = true, .epochs = 1});
    CHECK(plb_loader_batches(loader) == 3 && plb_loader_samples(loader) == 30);
    plb_batch batch;
    for (int i = 0; i < 3; i++) {
        CHECK_OK(plb_loader_next(loader, &batch));
        CHECK(batch.size == 10 && batch.x[0] == (float)(10 * i));
    }
    CHECK_OK(plb_loader_next(loader, &batch));
    CHECK(batch.size == 0);
    plb_loader_free(loader);
    loader = new_loader(set, (plb_loader_options){.batch = 1000}); // larger than the set
    CHECK_OK(plb_loader_next(loader, &batch));
    CHECK(batch.size == 103 && plb_loader_batches(loader) == 1);
    plb_loader_free(loader);
    plb_dataset_free(set);
}

static void threads_prefetch_and_resume_change_nothing(void) {
    plb_dataset *sets[2] = {memory_set(50, 3, 8, 8), new_read_set(50, 0, 1)};
    for (int which = 0; which < 2; which++) {
        int64_t elements = plb_dataset_elements(sets[which]);
        plb_loader_options options = {
            .batch = 8, .shuffle = true, .flip = true, .crop_padding = which ? 0 : 4, .seed = 11};
        plb_loader *loader = new_loader(sets[which], options);
        uint64_t all = hash_batches(loader, elements, 30); // 7 batches an epoch
        CHECK_OK(plb_loader_seek(loader, 2, 3));
        uint64_t tail = hash_batches(loader, elements, 13);
        plb_loader_free(loader);
        for (int threads = 0; threads <= 5; threads++) {
            options.threads = threads, options.prefetch = threads == 5 ? 40 : threads;
            loader = new_loader(sets[which], options);
            CHECK(hash_batches(loader, elements, 30) == all);
            CHECK_OK(plb_loader_seek(loader, 2, 3));
            CHECK(hash_batches(loader, elements, 13) == tail);
            CHECK_OK(plb_loader_seek(loader, 0, 0));
            CHECK(hash_batches(loader, elements, 30) == all);
            CHECK_OK(plb_loader_seek(loader, 1, 7)); // is batch 0 of epoch 2
            CHECK_OK(plb_loader_seek(loader, 2, 3));
            CHECK(hash_batches(loader, elements, 13) == tail);
            plb_loader_free(loader);
        }
        plb_dataset_free(sets[which]);
    }
}

static void augmentation_shifts_and_mirrors(void) {
    enum { SIDE = 8, PADDING = 2 };
    plb_dataset_info info = {
        .name = "x", .channels = 1, .height = SIDE, .width = SIDE, .dtype = PLB_U8, .std = {1.0f}};
    plb_gather gather;
    uint8_t pixels[SIDE * SIDE];
    float x[SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) pixels[i] = (uint8_t)(i + 1); // 0 is the padding
    CHECK_OK(plb_gather_init(&gather, &info, NULL, NULL));
    gather.flip = true, gather.crop_padding = PADDING, gather.seed = 5;
    int found[5][5][2] = {0}, unexplained = 0;
    for (int64_t index = 0; index < 5000; index++) {
        plb_gather_sample(&gather, pixels, 1, index, x);
        int matches = 0;
        for (int shift = 0; shift < 50; shift++) {
            int dy = shift / 10 - PADDING, dx = shift / 2 % 5 - PADDING, flip = shift % 2;
            bool equal = true;
            for (int r = 0; r < SIDE && equal; r++)
                for (int c = 0; c < SIDE && equal; c++) {
                    int sy = r + dy, sx = (flip ? SIDE - 1 - c : c) + dx;
                    bool inside = sy >= 0 && sy < SIDE && sx >= 0 && sx < SIDE;
                    equal = x[r * SIDE + c] == (inside ? (float)pixels[sy * SIDE + sx] / 255 : 0);
                }
            if (equal) matches++, found[dy + PADDING][dx + PADDING][flip]++;
        }
        unexplained += matches != 1;
    }
    CHECK(unexplained == 0);
    for (int i = 0; i < 50; i++) CHECK(found[i / 10][i / 2 % 5][i % 2] > 50); // 100 expected
    float again[SIDE * SIDE];
    plb_gather_sample(&gather, pixels, 1, 4999, again);
    CHECK(memcmp(again, x, sizeof x) == 0);
}

static void a_bad_sample_fails_its_batch_alone(void) {
    plb_dataset *set = new_read_set(40, 15, 0); // 14 and 29 fail
    for (int threads = 0; threads <= 3; threads++) {
        plb_loader *loader =
            new_loader(set, (plb_loader_options){.batch = 10, .threads = threads, .epochs = 1});
        plb_batch batch;
        CHECK_OK(plb_loader_next(loader, &batch));
        CHECK_FAILS(PLB_EINVAL, "/data/14.jpg: truncated", plb_loader_next(loader, &batch));
        CHECK_FAILS(PLB_EINVAL, "/data/29.jpg: truncated", plb_loader_next(loader, &batch));
        CHECK_OK(plb_loader_next(loader, &batch));
        CHECK(batch.number == 3 && batch.x[9] == 39.0f);
        plb_loader_free(loader);
    }
    plb_dataset_free(set);
}

static void next_into_fills_the_callers_memory(void) {
    plb_dataset *set = new_read_set(20, 0, 0);
    for (int threads = 0; threads <= 2; threads += 2) {
        plb_loader *loader =
            new_loader(set, (plb_loader_options){.batch = 8, .threads = threads, .epochs = 1});
        float x[9];
        int64_t y[9];
        plb_batch batch;
        for (int i = 0; i < 3; i++) {
            x[8] = -1, y[8] = -1;
            CHECK_OK(plb_loader_next_into(loader, x, y, &batch));
            CHECK(batch.x == x && batch.y == y && batch.size == (i == 2 ? 4 : 8));
            CHECK(x[0] == (float)(8 * i) && y[3] == (8 * i + 3) % 10 && x[8] == -1 && y[8] == -1);
        }
        CHECK_OK(plb_loader_next_into(loader, x, y, &batch));
        CHECK(batch.size == 0);
        plb_loader_free(loader);
    }
    plb_dataset_free(set);
}

static void the_steady_state_allocates_nothing(void) {
    plb_dataset *set = new_read_set(100, 0, 0);
    plb_dataset *memory = memory_set(100, 1, 28, 28);
    for (int threads = 0; threads <= 2; threads++) {
        plb_loader_options options = {
            .batch = 16, .threads = threads, .shuffle = true, .flip = true};
        plb_loader *reads = new_loader(set, options), *peeks = new_loader(memory, options);
        hash_batches(reads, 1, 20);
        // A slow thread may meet its first sample late, and take memory for it while others are
        // counted: with several, only a set that needs none is.
        if (threads == 2) plb_loader_free(reads);
        uint64_t before = plb_alloc_count();
        hash_batches(peeks, 784, 50);
        if (threads < 2) hash_batches(reads, 1, 50);
        CHECK(plb_alloc_count() - before == 0);
        if (threads < 2) plb_loader_free(reads);
        plb_loader_free(peeks);
    }
    plb_dataset_free(set);
    plb_dataset_free(memory);
}

static void a_loader_may_be_freed_at_any_moment(void) {
    plb_dataset *set = new_read_set(64, 0, 20);
    for (int round = 0; round < 60; round++) {
        plb_loader *loader = new_loader(set, (plb_loader_options){.batch = 4,
                                                                  .threads = 1 + round % 4,
                                                                  .prefetch = 3,
                                                                  .epochs = round % 2,
                                                                  .shuffle = true});
        plb_batch batch;
        for (int i = 0; i < round % 7; i++) CHECK_OK(plb_loader_next(loader, &batch));
        for (int i = 0; i < round % 5; i++) sched_yield();
        plb_loader_free(loader);
    }
    plb_dataset_free(set);
    plb_loader_free(NULL);
}

static void *cancel_later(void *context) {
    struct timespec some = {.tv_nsec = 2000000};
    nanosleep(&some, NULL);
    plb_loader_cancel(context);
    return NULL;
}

static void cancel_ends_a_waiting_consumer(void) {
    plb_dataset *set = new_read_set(64, 0, 200);
    for (int threads = 0; threads <= 2; threads++) {
        plb_loader *loader = new_loader(set, (plb_loader_options){.batch = 64, .threads = threads});
        pthread_t canceller;
        pthread_create(&canceller, NULL, cancel_later, loader);
        plb_batch batch;
        plb_status status;
        while (!(status = plb_loader_next(loader, &batch))) {}
        CHECK(status == PLB_ECANCELLED);
        pthread_join(canceller, NULL);
        CHECK_FAILS(PLB_ECANCELLED, "stopped on request", plb_loader_next(loader, &batch));
        plb_loader_free(loader);
    }
    plb_dataset_free(set);
}

// A busy machine may let the reader finish before anyone asks: then there was nothing to wait for;
// or keep it from its work while we sleep.
static void waiting_is_counted(void) {
    const struct timespec enough = {.tv_nsec = 100000000};
    plb_dataset *set = new_read_set(64, 0, 50);
    int64_t first_ns = 0;
    for (int i = 0; i < 20 && first_ns == 0; i++) {
        plb_loader *loader = new_loader(set, (plb_loader_options){.batch = 16, .threads = 1});
        plb_batch batch;
        int64_t begin_ns = plb_now_ns();
        CHECK_OK(plb_loader_next(loader, &batch));
        first_ns = plb_loader_wait_ns(loader);
        CHECK(first_ns >= 0 && first_ns <= plb_now_ns() - begin_ns);
        nanosleep(&enough, NULL); // the next ones are ready by then
        CHECK_OK(plb_loader_next(loader, &batch));
        if (plb_loader_wait_ns(loader) != first_ns) first_ns = 0; // they were not: another try
        plb_loader_free(loader);
    }
    CHECK(first_ns > 0);
    plb_dataset_free(set);
}

static void bad_options_are_refused(void) {
    plb_dataset *set = new_read_set(10, 0, 0), *empty = memory_set(0, 1, 2, 2);
    plb_loader *loader = NULL;
    plb_loader_options none = {0}, threads = {.batch = 1, .threads = -1};
    plb_loader_options drop = {.batch = 11, .drop_last = true}, fine = {.batch = 1};
    plb_loader_options padding = {.batch = 1, .crop_padding = 2};
    plb_loader_options huge = {.batch = INT64_MAX, .prefetch = 10, .threads = 1};
    CHECK_FAILS(PLB_EINVAL, "batch: expected at least 1, found 0",
                plb_loader_new(set, &none, &loader));
    CHECK_FAILS(PLB_EINVAL, "loader threads", plb_loader_new(set, &threads, &loader));
    CHECK_FAILS(PLB_EINVAL, "a batch of 11 or more samples, found 10",
                plb_loader_new(set, &drop, &loader));
    CHECK_FAILS(PLB_EINVAL, "crop padding", plb_loader_new(set, &padding, &loader));
    CHECK_FAILS(PLB_EINVAL, "found 0", plb_loader_new(empty, &fine, &loader));
    CHECK_OK(plb_loader_new(set, &huge, &loader)); // at most the whole set is a batch
    CHECK_FAILS(PLB_EINVAL, "batch 2 of epoch 0", plb_loader_seek(loader, 0, 2));
    CHECK_FAILS(PLB_EINVAL, "epoch -1", plb_loader_seek(loader, -1, 0));
    plb_loader_free(loader);
    plb_dataset_free(set);
    plb_dataset_free(empty);
}

static plb_status make_and_free(void *context) {
    plb_loader *loader = NULL;
    plb_loader_options options = {.batch = 4, .shuffle = true};
    PLB_TRY(plb_loader_new(context, &options, &loader));
    plb_batch batch;
    plb_status status = plb_loader_next(loader, &batch);
    plb_loader_free(loader);
    return status;
}

static plb_status materialise(void *context) {
    plb_dataset *copy = NULL;
    PLB_TRY(plb_dataset_materialise(context, 1, NULL, &copy));
    plb_dataset_free(copy);
    return PLB_OK;
}

static void every_failed_allocation_is_a_status(void) {
    plb_dataset *set = new_read_set(10, 0, 0);
    CHECK(fault_every_allocation(make_and_free, set) > 5);
    CHECK(fault_every_allocation(materialise, set) > 5);
    plb_dataset_free(set);
}

static void a_materialised_set_is_the_same(void) {
    plb_dataset *set = new_read_set(300, 0, 0), *bad = new_read_set(300, 99, 0), *copy = NULL;
    CHECK_OK(plb_dataset_materialise(set, 3, NULL, &copy));
    CHECK(copy->ops->peek && copy->info.count == 300 && copy->info.dtype == PLB_F32);
    for (int64_t i = 0; i < 300; i++) {
        CHECK(*(const float *)copy->ops->peek(copy, i) == (float)i);
        CHECK(copy->ops->label(copy, i) == i % 10);
    }
    plb_dataset_free(copy);
    CHECK_FAILS(PLB_EINVAL, "/data/98.jpg", plb_dataset_materialise(bad, 1, NULL, &copy));
    plb_dataset_free(set);
    plb_dataset_free(bad);
}

static void bench_gather(void) {
    if (!getenv("PLB_TEST_BENCH")) SKIP("set PLB_TEST_BENCH for times");
    plb_dataset *set = memory_set(60000, 1, 28, 28);
    plb_loader *loader = new_loader(set, (plb_loader_options){.batch = 64, .shuffle = true});
    static float x[64 * 784];
    static int64_t y[64];
    int64_t best = INT64_MAX;
    plb_batch batch;
    CHECK_OK(plb_loader_next_into(loader, x, y, &batch));
    for (int i = 0; i < 900; i++) {
        int64_t begin = plb_now_ns();
        CHECK_OK(plb_loader_next_into(loader, x, y, &batch));
        int64_t took = plb_now_ns() - begin;
        if (took < best) best = took;
    }
    printf("64 of 1x28x28 gathered in %.1f us\n", (double)best / 1e3);
    plb_loader_free(loader);
    plb_dataset_free(set);
}

// What raw batches hold becomes what others hold by the normalisation alone; black is pixel 0.
static void raw_batches_are_the_same_pixels(void) {
    plb_dataset *set = memory_set(40, 3, 8, 8);
    plb_dataset *floats = new_read_set(40, 0, 0);
    const int64_t elements = plb_dataset_elements(set);
    plb_loader *loader = NULL;
    plb_gather gather;
    CHECK_OK(plb_gather_init(&gather, &set->info, NULL, NULL));
    for (int augmented = 0; augmented < 2; augmented++) {
        plb_loader_options options = {.batch = 16, .shuffle = true, .seed = 4};
        if (augmented) options.flip = true, options.crop_padding = 3;
        plb_loader *plain = new_loader(set, options);
        options.raw = true, options.threads = augmented;
        plb_loader *raw = new_loader(set, options);
        for (int b = 0; b < 6; b++) {
            plb_batch x, pixels;
            CHECK_OK(plb_loader_next(plain, &x));
            CHECK_OK(plb_loader_next(raw, &pixels));
            CHECK(x.size == pixels.size && x.x && !x.pixels && pixels.pixels && !pixels.x);
            int64_t differ = 0;
            for (int64_t i = 0; i < x.size * elements; i++) {
                int64_t channel = i / 64 % 3;
                differ += x.x[i] != gather.table[channel][pixels.pixels[i]];
            }
            CHECK(differ == 0);
            CHECK(memcmp(x.y, pixels.y, (size_t)x.size * sizeof *x.y) == 0);
        }
        plb_loader_free(plain);
        plb_loader_free(raw);
    }
    plb_loader_options options = {.batch = 4, .raw = true};
    CHECK_FAILS(PLB_EINVAL, "pixels", plb_loader_new(floats, &options, &loader));
    plb_dataset_free(floats);
    plb_dataset_free(set);
}

static const check_test tests[] = {
    {"raw batches are the same pixels", raw_batches_are_the_same_pixels},
    {"shuffles are uniform permutations", shuffles_are_uniform_permutations},
    {"normalisation is torchvision's", normalisation_is_torchvisions},
    {"an epoch visits each sample once", an_epoch_visits_each_sample_once},
    {"limit and drop-last cut the epoch", limit_and_drop_last_cut_the_epoch},
    {"threads, prefetch and resume change nothing", threads_prefetch_and_resume_change_nothing},
    {"augmentation shifts and mirrors", augmentation_shifts_and_mirrors},
    {"a bad sample fails its batch alone", a_bad_sample_fails_its_batch_alone},
    {"next-into fills the caller's memory", next_into_fills_the_callers_memory},
    {"the steady state allocates nothing", the_steady_state_allocates_nothing},
    {"a loader may be freed at any moment", a_loader_may_be_freed_at_any_moment},
    {"cancel ends a waiting consumer", cancel_ends_a_waiting_consumer},
    {"waiting is counted", waiting_is_counted},
    {"bad options are refused", bad_options_are_refused},
    {"every failed allocation is a status", every_failed_allocation_is_a_status},
    {"a materialised set is the same", a_materialised_set_is_the_same},
    {"gathering is timed", bench_gather},
};
CHECK_MAIN(tests)
