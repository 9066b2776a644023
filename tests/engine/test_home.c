// SPDX-License-Identifier: Apache-2.0
// A model's variables on devices that are made up here: one that runs out of something, and two
// that hand them to each other.
#include "engine/graph/home.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "plumb/plumb.h"

struct plb_device {
    int users;
};
struct plb_stream {
    plb_device *device;
};

static bool no_streams;
static plb_device *current; // that work may be given to

static void close_device(plb_device *device) {
    device->users--;
}

static plb_status enter(plb_device *device) {
    current = device;
    return PLB_OK;
}

static plb_status stream_new(plb_device *device, plb_stream **out) {
    *out = no_streams ? NULL : calloc(1, sizeof **out);
    if (*out) (*out)->device = device;
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

static plb_status copy(plb_stream *stream, void *to, const void *from, size_t size_bytes) {
    CHECK_SAY(stream->device == current, "a copy in the stream of a device that is not current");
    memcpy(to, from, size_bytes);
    return PLB_OK;
}

static plb_status wait(plb_stream *stream) {
    (void)stream;
    return PLB_OK;
}

static const plb_backend backend = {.name = "made up",
                                    .close = close_device,
                                    .enter = enter,
                                    .copy = copy,
                                    .wait = wait,
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

static void a_device_stays_current_when_another_had_the_variable(void) {
    const plb_type type = {PLB_F32, plb_shape_of(7)};
    plb_device first = {1}, second = {1};
    plb_model *model = plb_model_new();
    int variable = -1, one = 0, two = 0;
    CHECK_OK(plb_model_variable(model, "w", &type, PLB_ROLE_PARAMETER,
                                (plb_init){PLB_INIT_NORMAL, 0, 1}, &variable));
    CHECK_OK(plb_model_init(model, 3));
    CHECK_OK(plb_home_on(model, &backend, &first, &one));
    CHECK_OK(plb_home_on(model, &backend, &second, &two));
    CHECK_OK(enter(&second));
    CHECK_OK(plb_home_update(model, two));
    float *there = model->variables[variable].away[two - 1];
    there[6] = 42; // as a step on the second device does
    plb_home_wrote(model, two, variable);
    CHECK_OK(enter(&first));
    CHECK_OK(plb_home_update(model, one));
    CHECK(current == &first); // where the launch that follows belongs
    CHECK(((const float *)model->variables[variable].away[one - 1])[6] == 42);
    plb_model_free(model);
}

static const check_test tests[] = {
    {"a device without a stream is no home", a_device_without_a_stream_is_no_home},
    {"a device stays current when another had the variable",
     a_device_stays_current_when_another_had_the_variable},
};

CHECK_MAIN(tests)
