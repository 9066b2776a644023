// SPDX-License-Identifier: Apache-2.0
// The list of lists, made once from kernels.def.
#include "engine/device/cpu/cpu.h"

#include <pthread.h>

#define PLB_CPU_KERNEL(op, kernel) extern const plb_kernel plb_cpu_##kernel;
#include "engine/device/cpu/kernels.def"
#undef PLB_CPU_KERNEL
extern const plb_kernel plb_cpu_ref;

typedef struct entry {
    plb_op_id op;
    const plb_kernel *kernel;
} entry;

static const entry entries[] = {
#define PLB_CPU_KERNEL(op, kernel) {PLB_OP_##op, &plb_cpu_##kernel},
#include "engine/device/cpu/kernels.def"
#undef PLB_CPU_KERNEL
    {PLB_OP_COUNT, &plb_cpu_ref},
};
enum { N_ENTRIES = sizeof entries / sizeof *entries };

// One op's kernels after another's, the reference and a NULL after each op's: however many an op
// has, all have room.
static const plb_kernel *all[N_ENTRIES + 2 * PLB_OP_COUNT];
static const plb_kernel *const *lists[PLB_OP_COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void fill(void) {
    int n = 0;
    for (int op = 0; op < PLB_OP_COUNT; op++) {
        lists[op] = &all[n];
        for (int i = 0; i < N_ENTRIES; i++) {
            if (entries[i].op == (plb_op_id)op || entries[i].op == PLB_OP_COUNT) {
                all[n++] = entries[i].kernel;
            }
        }
        n++; // past the NULL
    }
}

const plb_kernel *const *plb_cpu_kernels(plb_op_id op) {
    pthread_once(&once, fill);
    return lists[op];
}
