// SPDX-License-Identifier: Apache-2.0
// What a mark is called without what differs from call to call. PyTorch's emit_nvtx puts numbers
// into its names ("aten::add, seq = 12, op_id = 345"), with which every call would be a range of
// its own, and a table of operators as long as the run.
#ifndef PLB_PROBE_MARK_NAME_H
#define PLB_PROBE_MARK_NAME_H

#include <stddef.h>

// `name` itself where nothing is to be taken out, else a copy in `room`, cut to its size.
const char *plb_mark_name(const char *name, char *room, size_t room_bytes);

#endif
