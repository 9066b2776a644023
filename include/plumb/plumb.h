// SPDX-License-Identifier: Apache-2.0
// Everything public.
#ifndef PLUMB_H
#define PLUMB_H

#include "plumb/graph.h"
#include "plumb/memory.h"
#include "plumb/onnx.h"
#include "plumb/ops.h"
#include "plumb/plan.h"
#include "plumb/status.h"
#include "plumb/step.h"
#include "plumb/tensor.h"
#include "plumb/version.h"
#include "plumb/weights.h"
#include "plumb/zoo.h"

#endif
