// SPDX-License-Identifier: Apache-2.0
#include "probe/obstacle.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// As a descriptor, or -1.
static int open_program(const char *program) {
    char path[PATH_MAX];
    const char *folders = getenv("PATH");
    if (strchr(program, '/')) return open(program, O_RDONLY | O_CLOEXEC);
    for (const char *at = folders ? folders : "/bin:/usr/bin"; at;) {
        const int length = (int)strcspn(at, ":");
        snprintf(path, sizeof path, "%.*s/%s", length, length ? at : ".", program);
        if (access(path, X_OK) == 0) return open(path, O_RDONLY | O_CLOEXEC);
        at = at[length] ? at + length + 1 : NULL;
    }
    return -1;
}

// Whether the loader is in charge, which a program asks for by naming it.
static bool names_loader(int fd, const Elf64_Ehdr *head) {
    for (int i = 0; i < head->e_phnum; i++) {
        Elf64_Phdr part;
        const off_t at = (off_t)head->e_phoff + i * (off_t)sizeof part;
        if (pread(fd, &part, sizeof part, at) != (ssize_t)sizeof part) return true; // not known
        if (part.p_type == PT_INTERP) return true;
    }
    return false;
}

bool plb_obstacle_find(const char *program, char *why, size_t why_bytes) {
    struct stat about;
    Elf64_Ehdr head;
    const char *what = NULL;
    const int fd = open_program(program);
    if (fd < 0) return false;
    const bool read_it = pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head;
    if (read_it && memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && fstat(fd, &about) == 0) {
        if (head.e_ident[EI_CLASS] != ELFCLASS64)
            what = "is a program of 32 bits, which cannot have the probe";
        else if (head.e_phentsize == sizeof(Elf64_Phdr) && !names_loader(fd, &head))
            what = "is linked statically: nothing can be loaded into it";
        else if ((about.st_mode & S_ISUID && about.st_uid != getuid()) ||
                 (about.st_mode & S_ISGID && about.st_gid != getgid()))
            what = "runs as another user (setuid): the loader takes nothing from its caller";
    }
    close(fd);
    if (what)
        snprintf(why, why_bytes, "%.100s %s; programs that it starts can have the probe", program,
                 what);
    return what != NULL;
}
