// SPDX-License-Identifier: Apache-2.0
#include "data/registry.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/core/status.h"
#include "base/folder.h"
#include "check.h"
#include "data/loader.h"
#include "faults.h"

static char test_data[512]; // real data, if there is any

static bool have_mnist(void) {
    const char *given = getenv("PLUMB_TEST_DATA");
    char path[600];
    if (!test_data[0])
        snprintf(test_data, sizeof test_data, "%s", given ? given : "../shared/data");
    snprintf(path, sizeof path, "%s/mnist/train-images-idx3-ubyte.gz", test_data);
    return plb_file_exists(path);
}

static void names_are_suggested(void) {
    plb_dataset *set = NULL;
    CHECK_FAILS(PLB_EINVAL, "no dataset mnst; did you mean mnist?",
                plb_dataset_open("mnst", PLB_TRAIN, NULL, &set));
    CHECK_FAILS(PLB_EINVAL, "did you mean digits?",
                plb_dataset_open("digit", PLB_TEST, NULL, &set));
    CHECK_FAILS(PLB_EINVAL, "known are mnist",
                plb_dataset_open("something-else", PLB_TRAIN, NULL, &set));
    CHECK(plb_known_dataset_count == 10 && !plb_known_dataset_at(10));
    for (size_t i = 0; i < plb_known_dataset_count; i++) CHECK(plb_known_dataset_at(i)->summary[0]);
}

static void drawn_sets_are_always_there(void) {
    plb_dataset *set = NULL;
    plb_dataset_options options = {.seed = 3, .count = 50, .size = 32};
    CHECK_OK(plb_dataset_open("shapes", PLB_TEST, &options, &set));
    CHECK(set->info.count == 50 && set->info.height == 32 && set->info.channels == 3);
    plb_dataset_free(set);
    CHECK_OK(plb_dataset_open("digits", PLB_TRAIN, NULL, &set));
    CHECK(set->info.count == 60000 && set->info.width == 28);
    plb_dataset_free(set);
    CHECK_FAILS(PLB_EUNSUPPORTED, "nothing to download",
                plb_dataset_download("digits", "/tmp", NULL));
    CHECK_FAILS(PLB_EUNSUPPORTED, "no published checksums",
                plb_dataset_check("digits", NULL, NULL));
}

static void places_are_looked_at_in_order(void) {
    const char *root = fault_folder();
    char saved[512] = "", path[256];
    if (getenv("PLUMB_TEST_DATA")) snprintf(saved, sizeof saved, "%s", getenv("PLUMB_TEST_DATA"));
    plb_arena *arena = plb_arena_new();
    const char *found;
    plb_dataset *set = NULL;
    unsetenv("PLUMB_DATA"), unsetenv("PLUMB_TEST_DATA");
    setenv("XDG_DATA_HOME", "/xdg", 1);
    CHECK_OK(plb_data_root(arena, &found));
    CHECK(!strcmp(found, "/xdg/plumb/data"));
    unsetenv("XDG_DATA_HOME"), setenv("HOME", "/home/me", 1);
    CHECK_OK(plb_data_root(arena, &found));
    CHECK(!strcmp(found, "/home/me/.local/share/plumb/data"));
    CHECK_FAILS(PLB_EMISSING,
                "mnist: not on this machine: looked for /home/me/.local/share/plumb/data/mnist; "
                "plumb data get mnist downloads it",
                plb_dataset_open("mnist", PLB_TRAIN, NULL, &set));
    setenv("PLUMB_DATA", "/mine", 1), setenv("PLUMB_TEST_DATA", root, 1);
    CHECK_OK(plb_data_root(arena, &found));
    CHECK(!strcmp(found, "/mine"));
    snprintf(path, sizeof path, "looked for /mine/cifar10 and %s/cifar10", root);
    CHECK_FAILS(PLB_EMISSING, path, plb_dataset_open("cifar10", PLB_TRAIN, NULL, &set));
    snprintf(path, sizeof path, "looked for /mine/voc2012 and %s/voc2012;", root);
    CHECK_FAILS(PLB_EMISSING, path, plb_dataset_open("voc2012-images", PLB_TRAIN, NULL, &set));
    snprintf(path, sizeof path, "%s/mnist", root);
    CHECK_OK(plb_folder_make(path));
    snprintf(path, sizeof path, "%s/mnist/t10k-labels-idx1-ubyte", root);
    FILE *file = fopen(path, "wb");
    if (file) fclose(file);
    CHECK_OK(plb_dataset_locate("mnist", NULL, arena, &found));
    CHECK(!strncmp(found, root, strlen(root)));
    CHECK_FAILS(PLB_EMISSING, "expected t10k-images-idx3-ubyte or t10k-images-idx3-ubyte.gz in",
                plb_dataset_open("mnist", PLB_TEST, NULL, &set));
    plb_arena_free(arena);
    unlink(path);
    snprintf(path, sizeof path, "%s/mnist", root);
    rmdir(path), rmdir(root);
    unsetenv("PLUMB_DATA"), unsetenv("PLUMB_TEST_DATA");
    if (saved[0]) setenv("PLUMB_TEST_DATA", saved, 1);
}

// The sum of the labels: from numpy, over the published file.
static void real_mnist_is_loaded(void) {
    if (!have_mnist()) SKIP("no MNIST under PLUMB_TEST_DATA");
    plb_dataset *set = NULL;
    plb_loader *loader = NULL;
    plb_dataset_options options = {.root = test_data};
    plb_loader_options load = {.batch = 64, .epochs = 1, .shuffle = true};
    CHECK_OK(plb_dataset_open("mnist", PLB_TRAIN, &options, &set));
    if (!set) return;
    CHECK(set->info.count == 60000 && !strcmp(set->info.class_names[7], "7"));
    CHECK_OK(plb_loader_new(set, &load, &loader));
    CHECK(plb_loader_batches(loader) == 938);
    double sum = 0, squares = 0;
    int64_t labels = 0, count = 0;
    plb_batch batch;
    for (;;) {
        CHECK_OK(plb_loader_next(loader, &batch));
        if (!batch.size) break;
        for (int64_t i = 0; i < batch.size; i++) labels += batch.y[i];
        for (int64_t i = 0; i < batch.size * 784; i++) {
            sum += (double)batch.x[i];
            squares += (double)batch.x[i] * (double)batch.x[i];
        }
        count += batch.size;
        if (batch.number == 937) CHECK(batch.size == 32);
    }
    CHECK(count == 60000 && labels == 267236);
    CHECK_NEAR(sum / 47040000, 0, 1e-3); // the normalisation is of this very set
    CHECK_NEAR(squares / 47040000, 1, 1e-3);
    plb_loader_free(loader);
    plb_dataset_free(set);
}

static void real_mnist_is_what_was_published(void) {
    if (!have_mnist()) SKIP("no MNIST under PLUMB_TEST_DATA");
#ifdef PLB_HAVE_CURL
    CHECK_OK(plb_dataset_check("mnist", test_data, NULL));
    CHECK_OK(plb_dataset_download("mnist", test_data, NULL)); // all there: no net is touched
#else
    CHECK_FAILS(PLB_EMISSING, "no libcrypto", plb_dataset_check("mnist", test_data, NULL));
#endif
}

static void a_changed_file_is_noticed(void) {
#ifdef PLB_HAVE_CURL
    const char *root = fault_folder();
    char path[256];
    snprintf(path, sizeof path, "%s/mnist", root);
    CHECK_OK(plb_folder_make(path));
    snprintf(path, sizeof path, "%s/mnist/train-images-idx3-ubyte", root);
    FILE *file = fopen(path, "wb");
    if (file) fputs("abc", file), fclose(file);
    CHECK_FAILS(PLB_EINVAL,
                "expected 6bbc9ace898e44ae57da46a324031adb, found 900150983cd24fb0d6963f7d28e17f72",
                plb_dataset_check("mnist", root, NULL));
    unlink(path);
    snprintf(path, sizeof path, "%s/mnist", root);
    rmdir(path), rmdir(root);
#else
    SKIP("this build has no libcrypto");
#endif
}

// Of Fashion-MNIST the packed files' checksums alone are published.
static void an_unpacked_file_is_not_called_damaged(void) {
#ifdef PLB_HAVE_CURL
    const char *root = fault_folder();
    char command[1024];
    snprintf(command, sizeof command,
             "mkdir '%s/fashion-mnist' && cd '%s/fashion-mnist' && for f in train-images-idx3 "
             "train-labels-idx1 t10k-images-idx3 t10k-labels-idx1; do echo x >$f-ubyte; done",
             root, root);
    CHECK(system(command) == 0);
    CHECK_FAILS(PLB_EUNSUPPORTED,
                "train-images-idx3-ubyte: cannot be checked: the checksum published is that of "
                "train-images-idx3-ubyte.gz (and 3 more files)",
                plb_dataset_check("fashion-mnist", root, NULL));
    // The packed file beside it is what is compared.
    snprintf(command, sizeof command, "printf abc >'%s/fashion-mnist/t10k-labels-idx1-ubyte.gz'",
             root);
    CHECK(system(command) == 0);
    CHECK_FAILS(PLB_EINVAL,
                "t10k-labels-idx1-ubyte.gz: MD5: expected bb300cfdad3c16e7a12a480ee83cd310, found "
                "900150983cd24fb0d6963f7d28e17f72",
                plb_dataset_check("fashion-mnist", root, NULL));
    snprintf(command, sizeof command, "rm -r '%s'", root);
    CHECK(system(command) == 0);
#else
    SKIP("this build has no libcrypto");
#endif
}

// CIFAR-10 as pictures: two classes of the real set, unpacked for this test.
static void real_pictures_are_loaded(void) {
    char command[1500];
    have_mnist();
    snprintf(command, sizeof command, "%s/images/cifar10-jpeg.tar.gz", test_data);
    if (!plb_file_exists(command)) SKIP("no CIFAR-10 under PLUMB_TEST_DATA");
    const char *root = fault_folder();
    snprintf(command, sizeof command,
             "mkdir -p %s/cifar10 && tar xzf '%s/images/cifar10-jpeg.tar.gz' -C %s/cifar10 "
             "--wildcards 'train/airplane/00*' 'train/cat/00*' 'test/cat/000*'",
             root, test_data, root);
    CHECK(system(command) == 0);
    plb_dataset *set = NULL;
    plb_loader *loader = NULL;
    plb_dataset_options options = {.root = root};
    CHECK_OK(plb_dataset_open("cifar10", PLB_TRAIN, &options, &set));
    if (set) {
        CHECK(set->info.classes == 2 && set->info.height == 32 && set->info.count > 20);
        CHECK(!strcmp(set->info.name, "cifar10") && set->info.std[0] == 0.2470f);
        plb_loader_options load = {.batch = 16, .threads = 2, .epochs = 1};
        CHECK_OK(plb_loader_new(set, &load, &loader));
        double sum = 0;
        int64_t count = 0;
        plb_batch batch;
        do {
            CHECK_OK(plb_loader_next(loader, &batch));
            for (int64_t i = 0; i < batch.size * 3072; i++) sum += (double)batch.x[i];
            count += batch.size;
        } while (batch.size);
        CHECK(count == set->info.count);
        CHECK_NEAR(sum / (double)(count * 3072), 0, 0.5);
        plb_loader_free(loader);
        plb_dataset_free(set);
    }
    CHECK_OK(plb_dataset_open("cifar10", PLB_TEST, &options, &set));
    CHECK(set->info.classes == 1);
    plb_dataset_free(set);
    snprintf(command, sizeof command, "%s/cifar10", root); // as a folder of the user's
    options = (plb_dataset_options){.size = 24, .resize_short = 28};
    CHECK_OK(plb_dataset_open(command, PLB_TRAIN, &options, &set));
    CHECK(set->info.height == 24 && set->info.classes == 2);
    plb_dataset_free(set);
    snprintf(command, sizeof command, "rm -r '%s'", root);
    CHECK(system(command) == 0);
}

static const check_test tests[] = {
    {"names are suggested", names_are_suggested},
    {"drawn sets are always there", drawn_sets_are_always_there},
    {"real MNIST is loaded", real_mnist_is_loaded},
    {"real MNIST is what was published", real_mnist_is_what_was_published},
    {"a changed file is noticed", a_changed_file_is_noticed},
    {"an unpacked file is not called damaged", an_unpacked_file_is_not_called_damaged},
    {"real pictures are loaded", real_pictures_are_loaded},
    {"places are looked at in order", places_are_looked_at_in_order},
};
CHECK_MAIN(tests)
