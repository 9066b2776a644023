// SPDX-License-Identifier: Apache-2.0
#include "bench/git.h"

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/folder.h"

enum { LINE_BYTES = PLB_GIT_PATH_BYTES };

// The first line of folder/name; false if there is none.
static bool read_line(const char *folder, const char *name, char *line) {
    char path[2 * LINE_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    bool found = fgets(line, LINE_BYTES, file) != NULL;
    fclose(file);
    if (found) line[strcspn(line, "\r\n")] = '\0';
    return found;
}

// `path` as it stands if it is absolute, else below `folder`.
static void join(const char *folder, const char *path, char *out) {
    if (path[0] == '/')
        snprintf(out, LINE_BYTES, "%s", path);
    else
        snprintf(out, LINE_BYTES, "%.2000s/%.2000s", folder, path);
}

// The repository's folder is ".git" in `folder` or above; a file of that name says where it is.
bool plb_git_find(const char *folder, char out[PLB_GIT_PATH_BYTES], char root[PLB_GIT_PATH_BYTES]) {
    char at[PATH_MAX], line[LINE_BYTES], path[2 * LINE_BYTES];
    if (!realpath(folder, at)) return false;
    for (;;) {
        snprintf(root, LINE_BYTES, "%s", at);
        snprintf(path, sizeof path, "%s/.git", strcmp(at, "/") == 0 ? "" : at);
        if (plb_folder_exists(path)) {
            snprintf(out, LINE_BYTES, "%.4000s", path);
            return true;
        }
        if (read_line(at, ".git", line) && strncmp(line, "gitdir: ", 8) == 0) {
            join(at, line + 8, out);
            return true;
        }
        char *slash = strrchr(at, '/');
        if (!slash || !at[1]) return false;
        slash[slash == at] = '\0';
    }
}

static bool is_revision(const char *text) {
    size_t length = strspn(text, "0123456789abcdef");
    return (length == 40 || length == 64) && (!text[length] || text[length] == ' ');
}

static bool find_packed(const char *folder, const char *ref, char *out) {
    char path[2 * LINE_BYTES], line[LINE_BYTES];
    bool found = false;
    snprintf(path, sizeof path, "%s/packed-refs", folder);
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = '\0';
        char *name = strchr(line, ' ');
        found = is_revision(line) && name && strcmp(name + 1, ref) == 0;
        if (found) snprintf(out, PLB_GIT_BYTES, "%.*s", (int)(name - line), line);
    }
    if (file) fclose(file);
    return found;
}

void plb_git_revision(const char *folder, char out[PLB_GIT_BYTES]) {
    char repository[LINE_BYTES], common[LINE_BYTES], line[LINE_BYTES], ref[LINE_BYTES];
    char root[LINE_BYTES];
    out[0] = '\0';
    if (!plb_git_find(folder, repository, root) || !read_line(repository, "HEAD", line)) return;
    if (strncmp(line, "ref: ", 5) == 0) {
        // A linked work tree has its own HEAD; branches lie in the common folder.
        snprintf(ref, sizeof ref, "%s", line + 5);
        if (read_line(repository, "commondir", line))
            join(repository, line, common);
        else
            snprintf(common, sizeof common, "%s", repository);
        if (!read_line(common, ref, line)) {
            (void)find_packed(common, ref, out);
            return;
        }
    }
    if (is_revision(line)) snprintf(out, PLB_GIT_BYTES, "%.64s", line);
}
