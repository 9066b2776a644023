// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>

#include "base/atomic_file.h"
#include "base/file.h"
#include "check.h"
#include "faults.h"

static bool holds(const char *path, const char *text) {
    uint8_t *bytes;
    size_t size;
    if (plb_file_read(path, 1000, &bytes, &size)) return false;
    bool same = size == strlen(text) && memcmp(bytes, text, size) == 0;
    plb_free(bytes);
    return same;
}

static void a_commit_replaces_and_an_abort_leaves_nothing(void) {
    const char *folder = fault_folder();
    char path[128];
    snprintf(path, sizeof path, "%s/target", folder);
    CHECK_OK(plb_atomic_write_all(path, "old", 3));
    plb_atomic_file *file;
    CHECK_OK(plb_atomic_open(path, &file));
    CHECK_OK(plb_atomic_write(file, "ne", 2));
    CHECK(holds(path, "old") && fault_count_files(folder) == 2);
    CHECK_OK(plb_atomic_write(file, "w", 1));
    CHECK_OK(plb_atomic_commit(file));
    CHECK(holds(path, "new") && fault_count_files(folder) == 1);
    CHECK_OK(plb_atomic_open(path, &file));
    CHECK_OK(plb_atomic_write(file, "half", 4));
    plb_atomic_abort(file);
    plb_atomic_abort(NULL);
    CHECK(holds(path, "new") && fault_count_files(folder) == 1);
    CHECK_OK(plb_atomic_write_all(path, NULL, 0));
    CHECK(holds(path, "") && fault_count_files(folder) == 1);
    fault_folder_remove(folder);
}

static void the_umask_holds(void) {
    const char *folder = fault_folder();
    char path[128];
    snprintf(path, sizeof path, "%s/target", folder);
    mode_t before = umask(027);
    CHECK_OK(plb_atomic_write_all(path, "x", 1));
    umask(before);
    struct stat info;
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0640);
    fault_folder_remove(folder);
}

static void the_mode_of_what_was_there_stays(void) {
    const char *folder = fault_folder();
    char path[128];
    struct stat info;
    snprintf(path, sizeof path, "%s/target", folder);
    CHECK_OK(plb_atomic_write_all(path, "x", 1));
    CHECK(chmod(path, 0600) == 0);
    CHECK_OK(plb_atomic_write_all(path, "y", 1));
    CHECK(stat(path, &info) == 0 && (info.st_mode & 0777) == 0600 && holds(path, "y"));
    fault_folder_remove(folder);
}

static void a_link_leads_to_the_file(void) {
    const char *folder = fault_folder();
    char path[128], link[128], nowhere[128];
    struct stat info;
    snprintf(path, sizeof path, "%s/target", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(nowhere, sizeof nowhere, "%s/nowhere", folder);
    CHECK_OK(plb_atomic_write_all(path, "old", 3));
    CHECK(symlink("target", link) == 0 && symlink("lost", nowhere) == 0);
    CHECK_OK(plb_atomic_write_all(link, "new", 3));
    CHECK(holds(path, "new") && lstat(link, &info) == 0 && S_ISLNK(info.st_mode));
    CHECK_OK(plb_atomic_write_all(nowhere, "here", 4)); // one that leads nowhere is replaced
    CHECK(holds(nowhere, "here") && fault_count_files(folder) == 3);
    fault_folder_remove(folder);
}

static void a_bad_target_is_refused(void) {
    const char *folder = fault_folder();
    CHECK_FAILS(PLB_EIO, "/nowhere/x", plb_atomic_write_all("/nowhere/x", "x", 1));
    char path[128];
    snprintf(path, sizeof path, "%s/folder", folder);
    CHECK(mkdir(path, 0777) == 0);
    CHECK_FAILS(PLB_EIO, "found a directory",
                plb_atomic_write_all(path, "x", 1));                   // and is not replaced
    CHECK_FAILS(PLB_EIO, "found a directory", plb_atomic_check(path)); // nor found too late
    CHECK(fault_count_files(folder) == 1);
    rmdir(path);
    fault_folder_remove(folder);
}

static void a_pipe_is_written_and_not_replaced(void) {
    const char *folder = fault_folder();
    char path[128], link[128], text[16] = "";
    struct stat info;
    plb_atomic_file *file;
    snprintf(path, sizeof path, "%s/pipe", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    CHECK(mkfifo(path, 0600) == 0 && symlink(path, link) == 0);
    CHECK_OK(plb_atomic_check(path)); // does not wait for a reader
    int reader = open(path, O_RDONLY | O_NONBLOCK);
    CHECK(reader >= 0);
    CHECK_OK(plb_atomic_write_all(path, "whole", 5));
    CHECK_OK(plb_atomic_write_all(link, " again", 6));
    CHECK(read(reader, text, sizeof text) == 11 && strcmp(text, "whole again") == 0);
    CHECK_OK(plb_atomic_open(path, &file));
    plb_atomic_abort(file);
    CHECK(stat(path, &info) == 0 && S_ISFIFO(info.st_mode));
    CHECK(lstat(link, &info) == 0 && S_ISLNK(info.st_mode) && fault_count_files(folder) == 2);
    close(reader);
    fault_folder_remove(folder);
}

static void a_bare_name_is_in_the_working_folder(void) {
    const char *folder = fault_folder();
    int before = open(".", O_RDONLY | O_DIRECTORY);
    CHECK(before >= 0 && chdir(folder) == 0);
    CHECK_OK(plb_atomic_write_all("bare", "x", 1));
    CHECK(holds("bare", "x") && fault_count_files(".") == 1);
    CHECK(fchdir(before) == 0);
    close(before);
    fault_folder_remove(folder);
}

static plb_status write_and_read(void *context) {
    uint8_t *bytes;
    size_t size;
    plb_status status = plb_atomic_write_all(context, "text", 4);
    if (!status) status = plb_file_read(context, 1000, &bytes, &size);
    if (!status) plb_free(bytes);
    return status;
}

static void no_memory_is_an_answer(void) {
    const char *folder = fault_folder();
    char path[128];
    snprintf(path, sizeof path, "%s/target", folder);
    CHECK(fault_every_allocation(write_and_read, path) == 4);
    CHECK(holds(path, "text") && fault_count_files(folder) == 1);
    fault_folder_remove(folder);
}

static void files_are_read_whole_and_within_limits(void) {
    const char *folder = fault_folder();
    char path[128];
    uint8_t *bytes;
    size_t size;
    plb_file_map map;
    snprintf(path, sizeof path, "%s/target", folder);
    CHECK_OK(plb_atomic_write_all(path, "", 0));
    CHECK_OK(plb_file_map_open(path, &map));
    CHECK(!map.bytes && map.size_bytes == 0);
    plb_file_map_close(&map);
    CHECK_OK(plb_file_read(path, 0, &bytes, &size));
    CHECK(bytes && size == 0);
    plb_free(bytes);
    CHECK_OK(plb_atomic_write_all(path, "text", 4));
    CHECK_OK(plb_file_map_open(path, &map));
    CHECK(map.size_bytes == 4 && memcmp(map.bytes, "text", 4) == 0);
    plb_file_map_close(&map);
    CHECK(holds(path, "text"));
    CHECK_OK(plb_file_read(path, 4, &bytes, &size));
    plb_free(bytes);
    CHECK_FAILS(PLB_EINVAL, "at most 3", plb_file_read(path, 3, &bytes, &size));
    CHECK_FAILS(PLB_EINVAL, "at most 100000", plb_file_read("/dev/zero", 100000, &bytes, &size));
    CHECK_FAILS(PLB_EIO, "No such file", plb_file_read("/nowhere/x", 9, &bytes, &size));
    CHECK_FAILS(PLB_EIO, "No such file", plb_file_map_open("/nowhere/x", &map));
    CHECK_FAILS(PLB_EINVAL, "directory", plb_file_map_open(folder, &map));
    CHECK_FAILS(PLB_EINVAL, "a device", plb_file_map_open("/dev/zero", &map));
    fault_folder_remove(folder);
}

static void a_full_disk_keeps_the_old_file(void) {
    const char *folder = fault_folder();
    if (!fault_small_disk(folder, "64k")) {
        rmdir(folder);
        SKIP("mounting a small disk is not permitted");
    }
    char path[128];
    snprintf(path, sizeof path, "%s/target", folder);
    CHECK_OK(plb_atomic_write_all(path, "old", 3));
    static const char large[1 << 20];
    CHECK_FAILS(PLB_EFULL, "No space", plb_atomic_write_all(path, large, sizeof large));
    CHECK(holds(path, "old") && fault_count_files(folder) == 1);
    umount(folder);
    rmdir(folder);
}

static const check_test tests[] = {
    {"a commit replaces and an abort leaves nothing",
     a_commit_replaces_and_an_abort_leaves_nothing},
    {"the umask holds", the_umask_holds},
    {"the mode of what was there stays", the_mode_of_what_was_there_stays},
    {"a link leads to the file", a_link_leads_to_the_file},
    {"a bad target is refused", a_bad_target_is_refused},
    {"a pipe is written and not replaced", a_pipe_is_written_and_not_replaced},
    {"a bare name is in the working folder", a_bare_name_is_in_the_working_folder},
    {"no memory is an answer", no_memory_is_an_answer},
    {"files are read whole and within limits", files_are_read_whole_and_within_limits},
    {"a full disk keeps the old file", a_full_disk_keeps_the_old_file}, // last: it unshares
};
CHECK_MAIN(tests)
