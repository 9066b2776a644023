// SPDX-License-Identifier: Apache-2.0
// Moving elements between strided places of one dtype: rows by memcpy, transpositions in tiles,
// everything else element by element.
#ifndef PLB_ENGINE_DEVICE_CPU_COPY_H
#define PLB_ENGINE_DEVICE_CPU_COPY_H

#include "engine/device/cpu/nest.h"

// Every element of `from` to its place in `to`; shapes are equal, elements are `size` bytes wide
// (1, 2, 4 or 8), no blocked layout.
void plb_copy_strided(const plb_tensor *to, const plb_tensor *from, int threads);
// The bits of one element, repeated.
void plb_fill_strided(const plb_tensor *to, const void *element, int threads);

#endif
