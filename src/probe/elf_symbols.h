// SPDX-License-Identifier: Apache-2.0
// The functions of an ELF file (64 bits, this machine's byte order), by place in the file.
#ifndef PLB_PROBE_ELF_SYMBOLS_H
#define PLB_PROBE_ELF_SYMBOLS_H

#include <stdint.h>

#include "plumb/status.h"

typedef struct plb_elf_symbols plb_elf_symbols;

// Reads the full table of symbols, or where the file was stripped the dynamic one. The file is
// taken as hostile: PLB_EINVAL says what is wrong with it. Freed by plb_elf_symbols_free.
PLB_MUST_USE plb_status plb_elf_symbols_open(const char *path, plb_elf_symbols **out);
void plb_elf_symbols_free(plb_elf_symbols *symbols);

// The function that holds this byte of the file, mangled, borrowed; NULL: none does.
const char *plb_elf_symbols_at(const plb_elf_symbols *symbols, uint64_t file_offset);

#endif
