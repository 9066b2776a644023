// SPDX-License-Identifier: Apache-2.0
// Everything public.
//
// What may run at once, on threads of one process: anything on models that differ. On one model,
// and so on its graphs and plans, one call at a time, but for this: plans on the CPU of programs
// that assign nothing may run beside one another, each plan on one thread, while nobody builds,
// makes plans, or writes variables. Error texts are a thread's own (plumb/status.h).
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
