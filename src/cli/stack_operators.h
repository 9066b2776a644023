// SPDX-License-Identifier: Apache-2.0
// The operators that a case's stack recorded itself, with the memory that they took: of an
// iteration, those with most time of their own first.
#ifndef PLB_CLI_STACK_OPERATORS_H
#define PLB_CLI_STACK_OPERATORS_H

#include <jansson.h>
#include <stdint.h>

#include "base/json.h"

// `rows` as the workers' protocol has them, or NULL: then there is no table. `top` 0: all.
void plb_stack_operators_print(const json_t *rows, int64_t iterations, int top);
// A member "stack_operators": null without rows; what the stack could not tell is null in a row.
void plb_stack_operators_json(const json_t *rows, int64_t iterations, int top, plb_json *json);

#endif
