// SPDX-License-Identifier: Apache-2.0
// The ranges that a program marks through NVTX, which loads what NVTX_INJECTION64_PATH names at its
// first mark and lets it replace its functions. No part of CUPTI: a push costs little.
#ifndef PLB_PROBE_NVTX_H
#define PLB_PROBE_NVTX_H

#include <stdint.h>

// What is done with a mark; none may wait or print.
typedef struct plb_nvtx_sink {
    void (*push)(const char *name);
    void (*pop)(void);
    uint64_t (*start)(const char *name);
    void (*end)(uint64_t id);
} plb_nvtx_sink;

// Puts our functions into NVTX's tables, which `get_table` tells (NvtxGetExportTableFunc_t).
// 1: in place. `sink` is borrowed for good.
int plb_nvtx_take(const void *(*get_table)(uint32_t id), const plb_nvtx_sink *sink);

#endif
