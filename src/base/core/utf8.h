// SPDX-License-Identifier: Apache-2.0
#ifndef PLB_BASE_CORE_UTF8_H
#define PLB_BASE_CORE_UTF8_H

#include <stddef.h>

#include "plumb/status.h"

// Bytes of the character at `text`, a string that has not ended; 0 if it is none (RFC 3629: no
// overlong forms, no surrogates, nothing beyond U+10FFFF).
PLB_API size_t plb_utf8_length(const char *text);

// Makes one line of UTF-8, in place, of what another program wrote, or of what was cut to fit:
// controls become blanks, bytes that belong to no character question marks, and a character whose
// end is missing at the end of the text goes.
PLB_API void plb_utf8_make_line(char *text);

#endif
