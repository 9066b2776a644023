// SPDX-License-Identifier: Apache-2.0
// The statements of the works that are reproduced, each answered from the data at hand. A finding
// is a function that looks for the numbers it needs; without them it says so. Verdicts come from
// thresholds that stand beside the numbers, never from what was hoped for. Private to src/study.
#ifndef PLB_STUDY_FINDING_H
#define PLB_STUDY_FINDING_H

#include "study/results.h"

typedef struct plb_finder {
    const plb_results *r;
    plb_document *d;
} plb_finder;

typedef enum plb_answer {
    PLB_REPRODUCED, // the data show what was stated
    PLB_EXPLAINED,  // what was stated follows from a difference between what was compared
    PLB_REFUTED,    // the data show otherwise
    PLB_OPEN,       // the data do not tell
} plb_answer;

void plb_find_say(const plb_finder *f, plb_answer answer, const char *format, ...) PLB_PRINTF(3);

// ---- looking up
typedef struct plb_wanted {
    bool train;
    const char *part, *model, *stack, *device, *task, *region; // NULL: any
    int64_t threads, batch, size;                              // 0: any
} plb_wanted;

bool plb_find_fits(const plb_result *item, const plb_wanted *wanted);
const plb_result *plb_find(const plb_finder *f, plb_wanted wanted); // the first; NULL: none
double plb_find_sample_ns(const plb_result *item); // median time of a sample; NaN: none

// ---- what is answered: on threads (find_threads.c), levels (find_levels.c), training
// (find_training.c)
void plb_find_cpu_threads(const plb_finder *f);
void plb_find_gpu_threads(const plb_finder *f);
void plb_find_gpu_speedup(const plb_finder *f);
void plb_find_profiler_cost(const plb_finder *f);
void plb_find_conv_share(const plb_finder *f);
void plb_find_table1(const plb_finder *f);
void plb_find_order_of_magnitude(const plb_finder *f);
void plb_find_copy_sizes(const plb_finder *f);
void plb_find_relu_grids(const plb_finder *f);
void plb_find_memory_crossover(const plb_finder *f);
void plb_find_initialisation(const plb_finder *f);
void plb_find_c_accuracy(const plb_finder *f);

#endif
