// SPDX-License-Identifier: Apache-2.0
#include "probe/mark_name.h"

#include <string.h>

// Length of a number of a call at `at`, or 0: ", seq = 12", ", op_id = 345" and what came out of
// other operators, ", input_op_ids = [(1,0), (2,0)]". Shapes (", sizes = [...]") stay: whoever asks
// for them wants operators apart by them.
static size_t number_at(const char *at) {
    static const char *const keys[] = {", seq = ", ", op_id = "};
    static const char inputs[] = ", input_op_ids = [";
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const size_t length = strlen(keys[i]);
        if (strncmp(at, keys[i], length) != 0) continue;
        const size_t digits = strspn(at + length, "0123456789");
        return digits ? length + digits : 0;
    }
    if (strncmp(at, inputs, sizeof inputs - 1) != 0) return 0;
    const size_t length = sizeof inputs - 1 + strspn(at + sizeof inputs - 1, "0123456789(), -");
    return at[length] == ']' ? length + 1 : 0;
}

const char *plb_mark_name(const char *name, char *room, size_t room_bytes) {
    if (!strstr(name, ", seq = ") && !strstr(name, ", op_id = ")) return name;
    size_t n = 0;
    while (*name && n + 1 < room_bytes) {
        const size_t skip = *name == ',' ? number_at(name) : 0;
        if (skip)
            name += skip;
        else
            room[n++] = *name++;
    }
    room[n] = 0;
    return room;
}
