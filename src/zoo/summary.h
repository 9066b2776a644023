// SPDX-License-Identifier: Apache-2.0
// What a model costs, from its graph alone: nothing is run.
#ifndef PLB_ZOO_SUMMARY_H
#define PLB_ZOO_SUMMARY_H

#include "plumb/zoo.h"

// One node of the forward pass in inference, for the whole batch.
typedef struct plb_zoo_row {
    const char *scope;  // "layer1.0.conv1"; borrowed from the summary
    const char *op;     // "conv"; static
    plb_type type;      // of its first output
    int64_t parameters; // elements of the parameters that it reads
    double flops;       // arithmetic operations; a multiply-add is two
    double bytes;       // of its inputs and outputs
} plb_zoo_row;

typedef struct plb_zoo_summary {
    int64_t batch;
    int64_t parameters; // elements of all trained variables, those of auxiliary heads included
    int64_t buffers;    // elements of running statistics
    // A sample. Training is forward and backward with the auxiliary heads, without the optimizer,
    // whose cost does not depend on the batch.
    double flops_infer, flops_train;
    double products_infer; // multiply-adds of convolutions and matrix products alone
    int n_rows;
    plb_zoo_row *rows;
    plb_model *model; // keeps the rows' names
} plb_zoo_summary;

// options.batch 0 is one sample here. Free with plb_zoo_summary_free, also after a failure.
PLB_API PLB_MUST_USE plb_status plb_zoo_summarize(const char *name, const plb_zoo_options *options,
                                                  plb_zoo_summary *out);
PLB_API void plb_zoo_summary_free(plb_zoo_summary *summary);

#endif
