// SPDX-License-Identifier: Apache-2.0
// Also in builds without ONNX: commands read their flags before they find that out.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/status.h"
#include "plumb/onnx.h"

static plb_status one_dim(char *text, plb_onnx_dim *out) {
    char *equals = strchr(text, '='), *end = NULL;
    if (equals) *out = (plb_onnx_dim){text, strtoll(equals + 1, &end, 10)};
    bool whole = equals && equals != text && end != equals + 1 && !*end;
    if (!whole || out->extent < 1 || out->extent == INT64_MAX)
        return plb_fail(PLB_EINVAL, "--dim: expected NAME=N,..., found '%s'", text);
    *equals = '\0';
    return PLB_OK;
}

plb_status plb_onnx_dims_read(const char *text, plb_onnx_dims *out) {
    *out = (plb_onnx_dims){0};
    char *rest = NULL;
    if (!text) return PLB_OK;
    if (strlen(text) >= sizeof out->text) {
        return plb_fail(PLB_EINVAL, "--dim: more than %d characters", PLB_ONNX_DIMS_BYTES - 1);
    }
    strcpy(out->text, text);
    for (char *part = strtok_r(out->text, ",", &rest); part; part = strtok_r(NULL, ",", &rest)) {
        if (out->n == PLB_ONNX_MAX_DIMS) {
            return plb_fail(PLB_EINVAL, "--dim: more than %d names", PLB_ONNX_MAX_DIMS);
        }
        PLB_TRY(one_dim(part, &out->list[out->n++]));
    }
    return PLB_OK;
}
