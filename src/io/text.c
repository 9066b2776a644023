// SPDX-License-Identifier: Apache-2.0
#include "io/text.h"

#include <string.h>

plb_shown plb_show(const char *string, size_t length) {
    plb_shown shown;
    size_t room = sizeof shown.text - 1, n = length < room ? length : room;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)string[i];
        shown.text[i] = c < 0x20 || c == 0x7f ? '?' : (char)c;
    }
    shown.text[n] = '\0';
    if (length > room) strcpy(shown.text + room - 3, "...");
    return shown;
}
