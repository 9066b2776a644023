// SPDX-License-Identifier: Apache-2.0
// Everything public.
#ifndef PLUMB_H
#define PLUMB_H

#include "plumb/graph.h"
#include "plumb/ops.h"
#include "plumb/plan.h"
#include "plumb/status.h"
#include "plumb/tensor.h"
#include "plumb/weights.h"

#endif
