// SPDX-License-Identifier: Apache-2.0
// A model's variables on a device that is made up here, which runs out of something.
#include "engine/graph/home.h"

#include <stdlib.h>

#include "check.h"
#include "plumb/plumb.h"

struct plb_device {
    int users;
};
struct plb_stream {
    int unused;
};

static bool no_streams;

static void close_device(plb_device *device) {
    device->users--;
}

static plb_status stream_new(plb_device *device, plb_stream **out) {
    (void)device;
    *out = no_streams ? NULL : calloc(1, sizeof **out);
    return *out ? PLB_OK : PLB_ENOMEM;
}

static void stream_free(plb_stream *stream) {
    free(stream);
}

static plb_status take(plb_device *device, size_t size_bytes, void **out) {
    (void)device;
    *out = calloc(1, size_bytes);
    return *out ? PLB_OK : PLB_ENOMEM;
}

static void give(plb_device *device, void *memory) {
    (void)device;
    free(memory);
}

static const plb_backend backend = {.name = "made up",
                                    .close = close_device,
                                    .stream_new = stream_new,
                                    .stream_free = stream_free,
                                    .alloc = take,
                                    .free = give};

static void a_device_without_a_stream_is_no_home(void) {
    const plb_type type = {PLB_F32, plb_shape_of(7)};
    plb_device device = {1};
    plb_model *model = plb_model_new();
    int variable = -1, home = 0;
    CHECK_OK(plb_model_variable(model, "w", &type, PLB_ROLE_PARAMETER,
                                (plb_init){PLB_INIT_NORMAL, 0, 1}, &variable));
    no_streams = true;
    CHECK(plb_home_on(model, &backend, &device, &home) == PLB_ENOMEM);
    CHECK(home == 0 && device.users == 0);
    no_streams = false;
    device.users++;
    CHECK_OK(plb_home_on(model, &backend, &device, &home));
    CHECK(home == 1 && device.users == 1 && model->homes[home - 1].stream);
    plb_model_free(model);
    CHECK(device.users == 0);
}

static const check_test tests[] = {
    {"a device without a stream is no home", a_device_without_a_stream_is_no_home},
};

CHECK_MAIN(tests)
