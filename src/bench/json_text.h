// SPDX-License-Identifier: Apache-2.0
// What jansson has read, written again as src/base/json.c writes: the shortest digits that read
// back the same, so that texts that were equal stay equal and numbers stay what they were.
#ifndef PLB_BENCH_JSON_TEXT_H
#define PLB_BENCH_JSON_TEXT_H

#include <jansson.h>

#include "plumb/status.h"

// In the order of its keys, on one line; *out is the caller's to plb_free. PLB_EINVAL where it is
// nested too deeply, PLB_ENOMEM.
PLB_MUST_USE plb_status plb_json_text(const json_t *object, char **out);

#endif
