// SPDX-License-Identifier: Apache-2.0
// What a fuzz target defines; libFuzzer or replay.c calls it.
#ifndef PLB_FUZZ_FUZZ_H
#define PLB_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

// Feeds one input; returns 0. What may not happen ends the process.
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size_bytes);

#endif
