// SPDX-License-Identifier: Apache-2.0
#include <omp.h>

#include "base/spin_wait.h"
#include "cli/cli.h"

enum { MOST_THREADS = 1024 }; // as --threads has it

int main(int argc, char **argv) {
    plb_bound_spin_wait(argv);
    // OpenMP keeps a few bytes a thread on the stack, which OMP_NUM_THREADS=99999 overflows.
    if (omp_get_max_threads() > MOST_THREADS) omp_set_num_threads(MOST_THREADS);
    return plb_cli_main(argc, argv);
}
