// SPDX-License-Identifier: Apache-2.0
// A model's variables away from the host: a device that runs its plans holds a copy of each. A
// variable says which copies are true (plb_variable.valid); whoever writes one makes it the only
// true one, and whoever reads another fetches it first. So weights cross the bus when somebody on
// the other side asks for them, and not with every run.
#ifndef PLB_ENGINE_GRAPH_HOME_H
#define PLB_ENGINE_GRAPH_HOME_H

#include "engine/device/device.h"
#include "engine/graph/graph.h"

enum { PLB_HOST_HOME = 0 };

// One device's copies, and the stream in which all plans of the model run there.
struct plb_home {
    const plb_backend *backend;
    plb_device *device;
    plb_stream *stream;
    void **slabs; // of variables: one more each time some were added
    int n_slabs, slabs_capacity;
    size_t bytes[PLB_ROLE_COUNT];
};

// The home of `model` on a device that has its own memory: found, or made with room for every
// variable. Its index is 1 or more. Takes over one open of `device`.
PLB_MUST_USE plb_status plb_home_on(plb_model *model, const plb_backend *backend,
                                    plb_device *device, int *out_index);
// Copies to the device what is not true there; PLB_OK at once when all is.
PLB_MUST_USE plb_status plb_home_update(plb_model *model, int home);
// The device wrote this variable.
void plb_home_wrote(plb_model *model, int home, int variable);
// Fetches the variable to the host unless it is true there.
PLB_MUST_USE plb_status plb_home_fetch(plb_model *model, int variable);
void plb_homes_free(plb_model *model);

// Where plans on that home find a variable: the host's storage for PLB_HOST_HOME.
static inline void *plb_home_data(const plb_variable *v, int home) {
    return home == PLB_HOST_HOME ? v->data : v->away[home - 1];
}

#endif
