// SPDX-License-Identifier: Apache-2.0
// Adds and removes stacks in the user's own folder (stacks/place.h). An environment is made beside
// its place and put there when it is whole; the stack.json files come last. Whatever ends an `add`,
// what was there before still works. One program at a time: a lock refuses the second.
//
//     HOME/torch/venv/            the environment, unless --python named one
//     HOME/torch-eager/stack.json and the family's others
//     HOME/torch.log              what the last installation printed
#ifndef PLB_STACKS_INSTALL_H
#define PLB_STACKS_INSTALL_H

#include "stacks/child.h"

typedef struct plb_stack_add {
    const char *name;        // of a family, or of a stack, which means its family
    const char *torch_index; // where pip gets torch and torchvision; NULL: where it gets all else
    const char *python;      // a Python that has the packages; NULL: make an environment
    // Told what is being done ("installing torch"), then what the programs print.
    void (*step)(void *context, const char *title);
    plb_child_callback line;
    void *context;
} plb_stack_add;

// PLB_EINVAL: no such family. PLB_EMISSING: no Python, no packages, a compiler that fails: the text
// says where the log is. PLB_ECANCELLED, PLB_EFULL, PLB_EIO.
PLB_API PLB_MUST_USE plb_status plb_stacks_add(const plb_stack_add *add);
// A family with its environment, or one stack alone. PLB_EINVAL: it is not there.
PLB_API PLB_MUST_USE plb_status plb_stacks_remove(const char *name);

#endif
