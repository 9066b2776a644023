// SPDX-License-Identifier: Apache-2.0
// What is told of an epoch, and the sums that it is made of. Sums are f64 and over samples, so that
// a last batch that is not full counts for what it holds.
#ifndef PLB_TRAIN_METRICS_H
#define PLB_TRAIN_METRICS_H

#include <stdint.h>

#include "plumb/status.h"

typedef struct plb_metrics {
    double loss_sum; // over samples
    double correct;  // samples whose class was found
    int64_t samples;
} plb_metrics;

// Adds a batch of `size` samples with this sum of losses.
static inline void plb_metrics_add(plb_metrics *m, double loss_sum, double correct, int64_t size) {
    m->loss_sum += loss_sum;
    m->correct += correct;
    m->samples += size;
}

// NaN without samples.
static inline double plb_metrics_loss(const plb_metrics *m) {
    return m->loss_sum / (double)m->samples;
}

static inline double plb_metrics_accuracy(const plb_metrics *m) {
    return m->correct / (double)m->samples;
}

// An epoch, or the part of one that a limit of steps left.
typedef struct plb_train_epoch {
    int64_t epoch;         // from 1
    int64_t samples;       // trained on
    double lr;             // its learning rate
    double loss, accuracy; // of training: means over the samples, in training mode, as they came
    double test_loss, test_accuracy;
    int64_t test_count;
    double majority_baseline; // accuracy of always answering the test set's most frequent class
    int64_t train_ns;         // training alone: no evaluation, no checkpoints
    int64_t wait_ns;          // of these, waiting for data
} plb_train_epoch;

#endif
