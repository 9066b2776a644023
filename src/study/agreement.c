// SPDX-License-Identifier: Apache-2.0
// Whether two stacks train to the same accuracy. Seeds make accuracies differ, and so do the
// samples of the test:
//
//     s^2     = sum over stacks of sum over seeds (accuracy - its stack's mean)^2 / dof
//     allowed = max(t(0.975, dof) s sqrt(1/n_a + 1/n_b), what chance in the samples makes)
//
// Student's test with the spread of all stacks of the part as one (they draw from one file of
// weights and one order, so what seeds do to one they do to another): three seeds of four stacks
// are eight degrees of freedom, where those of two would be four. One of twenty pairs that are
// alike lies outside.
#include <math.h>
#include <string.h>

#include "bench/stats.h"
#include "study/results.h"

// What two shares of `samples` test samples differ by, by chance alone, in one of twenty trials.
static double chance(double share, double samples) {
    return samples > 0 ? 2 * sqrt(2 * share * (1 - share) / samples) + 0.5 / samples : 1;
}

plb_seed_spread plb_pools_spread(const plb_pool *pools, int count, const char *model) {
    double squares = 0, dof = 0;
    for (int i = 0; i < count; i++) {
        if (strcmp(pools[i].first->model, model) != 0) continue;
        double mean = plb_pool_epoch(&pools[i], -1, "test_accuracy").mean;
        for (int k = 0; k < pools[i].count; k++)
            squares +=
                pow(plb_result_epoch(pools[i].items[k], pools[i].last, "test_accuracy") - mean, 2);
        dof += pools[i].count - 1;
    }
    return (plb_seed_spread){dof > 0 ? sqrt(squares / dof) : NAN, dof};
}

plb_agreement plb_pools_agreement(const plb_seed_spread *spread, const plb_pool *a,
                                  const plb_pool *b) {
    double x = plb_pool_epoch(a, -1, "test_accuracy").mean;
    double y = plb_pool_epoch(b, -1, "test_accuracy").mean;
    plb_agreement out = {.difference = y - x,
                         .allowed = chance(x, plb_result_number(a->first, "test_samples"))};
    if (spread->dof > 0)
        out.allowed = fmax(out.allowed, plb_student_quantile(0.975, spread->dof) * spread->seeds *
                                            sqrt(1.0 / a->count + 1.0 / b->count));
    out.apart = fabs(out.difference) > out.allowed;
    return out;
}
