// SPDX-License-Identifier: Apache-2.0
// Functions by place in a file, held against what the dynamic loader knows of the same file, and
// files that lie.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/file.h"
#include "check.h"
#include "probe/elf_symbols.h"

// Where in its file an address of this process comes from.
typedef struct place {
    uintptr_t address;
    uint64_t file_offset;
    char path[512];
} place;

static int find_place(struct dl_phdr_info *info, size_t size, void *user) {
    place *p = user;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        const uintptr_t begin = info->dlpi_addr + h->p_vaddr;
        if (h->p_type != PT_LOAD || p->address < begin || p->address - begin >= h->p_filesz)
            continue;
        p->file_offset = p->address - begin + h->p_offset;
        snprintf(p->path, sizeof p->path, "%s",
                 info->dlpi_name[0] ? info->dlpi_name : "/proc/self/exe");
        return 1;
    }
    return 0;
}

static place place_of(const void *address) {
    place p = {.address = (uintptr_t)address};
    CHECK(dl_iterate_phdr(find_place, &p) == 1);
    return p;
}

// The loader's own table of the same library: names of one address are aliases.
static void check_library(const char *const *names, size_t count) {
    plb_elf_symbols *symbols = NULL;
    void *library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD); // not what may stand before it
    CHECK(library != NULL);
    const place first = place_of(dlsym(library, names[0]));
    CHECK_OK(plb_elf_symbols_open(first.path, &symbols));
    for (size_t i = 0; i < count; i++) {
        const char *at = dlsym(library, names[i]);
        Dl_info begin;
        for (int inside = 0; inside < 2; inside++) { // its first byte, and a later one
            const char *found = plb_elf_symbols_at(symbols, place_of(at + inside).file_offset);
            CHECK(found != NULL);
            void *alias = found ? dlsym(library, found) : NULL;
            CHECK(dladdr(at, &begin) && (alias == begin.dli_saddr || !strcmp(found, names[i])));
        }
    }
    CHECK(plb_elf_symbols_at(symbols, 0) == NULL); // the file's head is no function
    CHECK(plb_elf_symbols_at(symbols, UINT64_MAX) == NULL);
    plb_elf_symbols_free(symbols);
    dlclose(library);
}

static void test_library(void) {
    static const char *const names[] = {"fopen", "getenv", "strtol", "fputs"};
    check_library(names, sizeof names / sizeof *names);
}

// Static functions are in no dynamic table.
static int add_one(int x) {
    return x + 1;
}

static void test_program(void) {
    int (*volatile function)(int) = add_one;
    plb_elf_symbols *symbols = NULL;
    const place at = place_of((const void *)(uintptr_t)function);
    CHECK_OK(plb_elf_symbols_open(at.path, &symbols));
    const char *found = plb_elf_symbols_at(symbols, at.file_offset);
    CHECK(found && strcmp(found, "add_one") == 0 && function(1) == 2);
    plb_elf_symbols_free(symbols);
}

static void try_file(const char *path, const uint8_t *bytes, size_t size_bytes) {
    plb_elf_symbols *symbols = NULL;
    int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
    CHECK(fd >= 0 && write(fd, bytes, size_bytes) == (ssize_t)size_bytes);
    close(fd);
    if (plb_elf_symbols_open(path, &symbols)) return;
    for (uint64_t i = 0; i < 64; i++) {
        const char *name = plb_elf_symbols_at(symbols, i * size_bytes / 64);
        CHECK(!name || strlen(name) < size_bytes);
    }
    plb_elf_symbols_free(symbols);
}

// Cut anywhere, and with any byte of its heads changed: an error or names, never a read outside.
static void test_damaged(void) {
    char path[] = "/tmp/plumb-elf-XXXXXX";
    plb_file_map map = {0};
    CHECK_OK(plb_file_map_open(place_of(dlsym(RTLD_DEFAULT, "dladdr")).path, &map));
    const size_t size = map.size_bytes < 1 << 18 ? map.size_bytes : 1 << 18;
    uint8_t *copy = plb_alloc(size);
    int fd = mkstemp(path);
    CHECK(copy && fd >= 0 && size > 4096);
    close(fd);
    for (size_t cut = 0; cut < 40; cut++) try_file(path, map.bytes, size * cut / 40);
    for (size_t i = 0; i < 64; i++) {
        memcpy(copy, map.bytes, size);
        copy[i] ^= 0xff;
        try_file(path, copy, size);
    }
    unlink(path);
    plb_free(copy);
    plb_file_map_close(&map);
}

// The section table of this program's own file, where every field of every table's head lies.
static void test_damaged_tables(void) {
    char path[] = "/tmp/plumb-elf-XXXXXX";
    plb_file_map map = {0};
    CHECK_OK(plb_file_map_open("/proc/self/exe", &map));
    ElfW(Ehdr) head;
    memcpy(&head, map.bytes, sizeof head);
    uint8_t *copy = plb_alloc(map.size_bytes);
    int fd = mkstemp(path);
    CHECK(copy && fd >= 0);
    close(fd);
    for (int i = 1; i < head.e_shnum; i++) {
        ElfW(Shdr) table;
        const size_t at = head.e_shoff + (size_t)i * sizeof table;
        memcpy(&table, map.bytes + at, sizeof table);
        if (table.sh_type != SHT_SYMTAB && table.sh_type != SHT_STRTAB) continue;
        for (size_t field = 0; field < sizeof table; field += 8) {
            memcpy(copy, map.bytes, map.size_bytes);
            memset(copy + at + field, 0x7f, 8);
            try_file(path, copy, map.size_bytes);
        }
    }
    unlink(path);
    plb_free(copy);
    plb_file_map_close(&map);
}

static const check_test tests[] = {
    {"a library's functions are those that the loader finds", test_library},
    {"a program's own functions are found", test_program},
    {"damaged heads", test_damaged},
    {"damaged tables", test_damaged_tables},
};
CHECK_MAIN(tests)
