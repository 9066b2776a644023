// SPDX-License-Identifier: Apache-2.0
// The one way to fail: `return plb_fail(PLB_EINVAL, "%s: offset %zu: expected …, found …", …);`.
// PLB_TRY returns from the function, PLB_TRY_OUT jumps to its single `out:` label, where `status`
// holds the reason and releasing NULL is legal.
#ifndef PLB_BASE_CORE_STATUS_H
#define PLB_BASE_CORE_STATUS_H

#include "plumb/status.h"

// Stores the formatted text for this thread and returns `code`.
PLB_API plb_status plb_fail(plb_status code, const char *format, ...) PLB_PRINTF(2);

// Fails with PLB_EFULL, PLB_ENOMEM, PLB_ECANCELLED or PLB_EIO as errno asks; the text ends in
// strerror's words.
PLB_API plb_status plb_fail_errno(const char *format, ...) PLB_PRINTF(1);

// Puts "prefix: " before this thread's current text, for a caller that knows the place.
PLB_API plb_status plb_fail_context(plb_status code, const char *format, ...) PLB_PRINTF(2);

#define PLB_TRY(expression)                          \
    do {                                             \
        plb_status plb_try_status_ = (expression);   \
        if (plb_try_status_) return plb_try_status_; \
    } while (0)

#define PLB_TRY_OUT(expression) \
    do {                        \
        status = (expression);  \
        if (status) goto out;   \
    } while (0)

#endif
