// SPDX-License-Identifier: Apache-2.0
#include "probe/elf_symbols.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/alloc.h"
#include "base/core/status.h"
#include "base/file.h"

typedef struct symbol {
    uint64_t begin, end; // addresses as the file numbers them
    bool no_size;        // of hand-written code: it reaches to the next one, or its section's end
    uint32_t name;       // offset into the strings
} symbol;

struct plb_elf_symbols {
    plb_file_map map;
    const char *path; // borrowed while the file is read
    Elf64_Ehdr head;
    const char *strings; // end in a NUL
    symbol *symbol;      // by begin
    size_t count;
};

static plb_status damaged(const plb_elf_symbols *e, const char *what) {
    return plb_fail(PLB_EINVAL, "%s: no symbols: %s", e->path, what);
}

// `count` things of `each_bytes` from `offset`, or NULL where the file does not have them.
static const uint8_t *part(const plb_elf_symbols *e, uint64_t offset, uint64_t count,
                           uint64_t each_bytes) {
    if (offset > e->map.size_bytes || (each_bytes && count > e->map.size_bytes / each_bytes) ||
        count * each_bytes > e->map.size_bytes - offset)
        return NULL;
    return e->map.bytes + offset;
}

static plb_status read_head(plb_elf_symbols *e) {
    const uint8_t *head = part(e, 0, 1, sizeof e->head);
    if (!head || memcmp(head, ELFMAG, SELFMAG) != 0) return damaged(e, "not an ELF file");
    memcpy(&e->head, head, sizeof e->head);
    const int order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    if (e->head.e_ident[EI_CLASS] != ELFCLASS64 || e->head.e_ident[EI_DATA] != order)
        return damaged(e, "of another kind of machine");
    if (e->head.e_shentsize != sizeof(Elf64_Shdr) || e->head.e_phentsize != sizeof(Elf64_Phdr))
        return damaged(e, "its headers have another size");
    return PLB_OK;
}

static bool section(const plb_elf_symbols *e, uint32_t i, Elf64_Shdr *out) {
    const uint8_t *at = part(e, e->head.e_shoff, e->head.e_shnum, sizeof *out);
    if (!at || i >= e->head.e_shnum) return false;
    memcpy(out, at + i * sizeof *out, sizeof *out);
    return true;
}

static bool find_table(const plb_elf_symbols *e, uint32_t type, Elf64_Shdr *out) {
    for (uint32_t i = 0; section(e, i, out); i++)
        if (out->sh_type == type && out->sh_entsize == sizeof(Elf64_Sym)) return true;
    return false;
}

static int by_begin(const void *left, const void *right) {
    const symbol *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return b->no_size - a->no_size; // of aliases the one with a size last, where it is found first
}

static void add_symbol(plb_elf_symbols *e, const Elf64_Sym *s) {
    const int type = ELF64_ST_TYPE(s->st_info);
    uint64_t end = s->st_value + s->st_size;
    Elf64_Shdr around;
    if ((type != STT_FUNC && type != STT_GNU_IFUNC) || s->st_shndx == SHN_UNDEF) return;
    if (!s->st_size && section(e, s->st_shndx, &around)) end = around.sh_addr + around.sh_size;
    if (end < s->st_value) return;
    e->symbol[e->count++] = (symbol){s->st_value, end, !s->st_size, s->st_name};
}

static plb_status read_table(plb_elf_symbols *e, const Elf64_Shdr *table) {
    Elf64_Shdr strings;
    const uint64_t count = table->sh_size / sizeof(Elf64_Sym);
    const uint8_t *at = part(e, table->sh_offset, count, sizeof(Elf64_Sym));
    if (!at || !section(e, table->sh_link, &strings)) return damaged(e, "a table past its end");
    const uint8_t *text = part(e, strings.sh_offset, strings.sh_size, 1);
    if (!text || !strings.sh_size || text[strings.sh_size - 1])
        return damaged(e, "its strings have no end");
    e->strings = (const char *)text;
    e->symbol = plb_alloc_array(count + 1, sizeof *e->symbol);
    if (!e->symbol) return plb_fail(PLB_ENOMEM, "%s: no memory for symbols", e->path);
    for (uint64_t i = 0; i < count; i++) {
        Elf64_Sym s;
        memcpy(&s, at + i * sizeof s, sizeof s);
        if (s.st_name < strings.sh_size) add_symbol(e, &s);
    }
    qsort(e->symbol, e->count, sizeof *e->symbol, by_begin);
    return PLB_OK;
}

static plb_status read_all(plb_elf_symbols *e) {
    Elf64_Shdr table;
    PLB_TRY(plb_file_map_open(e->path, &e->map));
    PLB_TRY(read_head(e));
    if (!find_table(e, SHT_SYMTAB, &table) && !find_table(e, SHT_DYNSYM, &table))
        return damaged(e, "it was stripped of them");
    return read_table(e, &table);
}

plb_status plb_elf_symbols_open(const char *path, plb_elf_symbols **out) {
    *out = NULL;
    plb_elf_symbols *e = plb_alloc(sizeof *e);
    if (!e) return plb_fail(PLB_ENOMEM, "%s: no memory for symbols", path);
    *e = (plb_elf_symbols){.path = path};
    plb_status status = read_all(e);
    if (status)
        plb_elf_symbols_free(e);
    else
        *out = e;
    return status;
}

void plb_elf_symbols_free(plb_elf_symbols *e) {
    if (!e) return;
    plb_file_map_close(&e->map);
    plb_free(e->symbol);
    plb_free(e);
}

// Symbols are at addresses, of which loaded parts of the file have a stretch each.
static bool address_of(const plb_elf_symbols *e, uint64_t offset, uint64_t *out) {
    const uint8_t *at = part(e, e->head.e_phoff, e->head.e_phnum, sizeof(Elf64_Phdr));
    for (uint32_t i = 0; at && i < e->head.e_phnum; i++) {
        Elf64_Phdr p;
        memcpy(&p, at + i * sizeof p, sizeof p);
        if (p.p_type != PT_LOAD || offset < p.p_offset || offset - p.p_offset >= p.p_filesz)
            continue;
        *out = offset - p.p_offset + p.p_vaddr;
        return true;
    }
    return false;
}

const char *plb_elf_symbols_at(const plb_elf_symbols *e, uint64_t file_offset) {
    uint64_t address;
    size_t low = 0, high = e->count; // the first that begins beyond it
    if (!address_of(e, file_offset, &address)) return NULL;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (e->symbol[middle].begin <= address)
            low = middle + 1;
        else
            high = middle;
    }
    // What begins last before it may end before it, too: one around both may still hold it.
    for (size_t back = 0; back < 8 && low > back; back++) {
        const symbol *s = &e->symbol[low - 1 - back];
        if (address < s->end && (!s->no_size || !back)) return e->strings + s->name;
    }
    return NULL;
}
