// SPDX-License-Identifier: Apache-2.0
// Weights of a model in safetensors files, under the variables' names, so that a state dict goes
// to and from PyTorch as it is.
#ifndef PLUMB_WEIGHTS_H
#define PLUMB_WEIGHTS_H

#include "plumb/graph.h"

// Fills the model's parameters and buffers from a file, on up to `threads` threads (0: as many as
// this process may use). Each must be there with its shape, in a dtype of its kind (floats for
// floats, integers for integers); values are converted. May be missing: what `program` does not
// use (NULL: nothing), as heads that only training runs, and "….num_batches_tracked". May be
// there without being asked for: num_batches_tracked and what a training checkpoint adds. Any
// other difference is PLB_EINVAL, naming the first variable that is wrong and how many others are;
// then no variable was touched. Further errors: those of plb_safetensors_open, PLB_ENOMEM.
//
// Values go from the mapped file straight into the variables; call it before plb_plan_new, so that
// nobody draws first values that are overwritten.
PLB_API PLB_MUST_USE plb_status plb_weights_load(const char *path, plb_model *model,
                                                 const plb_graph *program, int threads);

// Writes parameters and buffers, the model's own and no others, whole or not at all: PLB_EFULL,
// PLB_EIO, PLB_ENOMEM.
PLB_API PLB_MUST_USE plb_status plb_weights_write(const char *path, plb_model *model);

#endif
