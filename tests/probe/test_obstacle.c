// SPDX-License-Identifier: Apache-2.0
// Programs that can have no probe, by heads of files made here and by programs that are there.
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "probe/obstacle.h"

static char path[] = "/tmp/plumb-obstacle-XXXXXX";

// A program whose one part is of this type.
static void write_program(int class, uint32_t type) {
    Elf64_Ehdr head = {.e_ident = {0x7f, 'E', 'L', 'F', (unsigned char)class, ELFDATA2LSB, 1},
                       .e_type = ET_DYN,
                       .e_phoff = sizeof head,
                       .e_phentsize = sizeof(Elf64_Phdr),
                       .e_phnum = 1};
    Elf64_Phdr part = {.p_type = type};
    int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT | O_CLOEXEC, 0700);
    CHECK(fd >= 0 && write(fd, &head, sizeof head) == (ssize_t)sizeof head);
    CHECK(write(fd, &part, sizeof part) == (ssize_t)sizeof part);
    close(fd);
}

static void check_words(const char *words) {
    char why[256] = "";
    CHECK(plb_obstacle_find(path, why, sizeof why) == (words != NULL));
    CHECK_SAY(!words || strstr(why, words), "%s", why);
}

static void heads_of_files(void) {
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    check_words(NULL); // an empty file is for the shell to judge
    write_program(ELFCLASS64, PT_LOAD);
    check_words("is linked statically");
    write_program(ELFCLASS64, PT_INTERP);
    check_words(NULL);
    write_program(ELFCLASS32, PT_INTERP);
    check_words("32 bits");
    write_program(ELFCLASS64, PT_INTERP);
    CHECK(truncate(path, sizeof(Elf64_Ehdr) + 8) == 0);
    check_words(NULL); // cut off: not known
    write_program(ELFCLASS64, PT_INTERP);
    if (getuid() == 0) { // of somebody else, for whom it would run
        CHECK(chown(path, 65534, 65534) == 0 && chmod(path, 04711) == 0);
        check_words("setuid");
    }
    unlink(path);
}

static void programs_that_are_there(void) {
    char why[256];
    CHECK(!plb_obstacle_find("/proc/self/exe", why, sizeof why)); // sanitized or not, dynamic
    CHECK(!plb_obstacle_find("sh", why, sizeof why));             // found as a shell finds it
    CHECK(!plb_obstacle_find("no such program", why, sizeof why));
}

static const check_test tests[] = {
    {"heads of files", heads_of_files},
    {"programs that are there", programs_that_are_there},
};
CHECK_MAIN(tests)
