// SPDX-License-Identifier: Apache-2.0
#include "probe/kernel_name.h"

#include <dlfcn.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/arena.h"
#include "base/core/status.h"

// __cxa_demangle of the C++ library, which oneDNN brings along; where there is none, names stay.
static char *demangle(const char *mangled) {
    static char *(*function)(const char *, char *, size_t *, int *);
    static int looked;
    if (!looked) {
        looked = 1;
        void *library = dlopen("libstdc++.so.6", RTLD_NOW);
        void *symbol = library ? dlsym(library, "__cxa_demangle") : NULL;
        memcpy(&function, &symbol, sizeof symbol);
    }
    int code = 0;
    return function && strncmp(mangled, "_Z", 2) == 0 ? function(mangled, NULL, NULL, &code) : NULL;
}

// Cuts "(int, float*)" off the end, however it nests.
static void cut_arguments(char *name) {
    size_t length = strlen(name);
    int depth = 0;
    if (!length || name[length - 1] != ')') return;
    for (size_t i = length; i-- > 0;) {
        if (name[i] == ')') depth++;
        if (name[i] == '(' && --depth == 0) {
            if (i) name[i] = '\0';
            return;
        }
    }
}

void plb_kernel_demangle(const char *mangled, char *out, size_t out_bytes) {
    char *name = demangle(mangled);
    snprintf(out, out_bytes, "%s", name ? name : mangled);
    free(name); // of the C++ library, not of our allocator
    cut_arguments(out);
}

// "void at::native::f<a<b>, c>" becomes "at::native::f<a, c>".
void plb_kernel_shorten(const char *demangled, int columns, char *out, size_t out_bytes) {
    size_t n = 0;
    int depth = 0;
    const char *from = strncmp(demangled, "void ", 5) == 0 ? demangled + 5 : demangled;
    for (; *from && n + 1 < out_bytes; from++) {
        if (*from == '<') depth++;
        if (depth < 2) out[n++] = *from;
        if (*from == '>' && depth > 0) depth--;
    }
    out[n] = '\0';
    if (columns < 4 || n <= (size_t)columns) return;
    size_t head = ((size_t)columns - 2) * 2 / 3, tail = (size_t)columns - 2 - head;
    memcpy(out + head, "..", 2);
    memmove(out + head + 2, out + n - tail, tail + 1);
}

typedef struct rule {
    const char *name, *pattern;
    struct rule *next;
} rule;

struct plb_kernel_classes {
    plb_arena *arena;
    rule *first, **last;
};

static plb_status add_rule(plb_kernel_classes *c, const char *name, const char *pattern) {
    rule *r = plb_arena_alloc(c->arena, sizeof *r);
    char *copy = plb_arena_strdup(c->arena, pattern);
    char *class = plb_arena_strdup(c->arena, name);
    if (!r || !copy || !class) return plb_fail(PLB_ENOMEM, "no memory for classes of kernels");
    *r = (rule){.name = class, .pattern = copy};
    *c->last = r;
    c->last = &r->next;
    return PLB_OK;
}

static plb_status read_file(plb_kernel_classes *c, const char *path) {
    char line[512], name[128], pattern[256], extra[2];
    plb_status status = PLB_OK;
    FILE *file = fopen(path, "re");
    if (!file) return plb_fail_errno("%s", path);
    for (int n = 1; !status && fgets(line, sizeof line, file); n++) {
        line[strcspn(line, "#\n")] = '\0';
        int words = sscanf(line, "%127s %255s %1s", name, pattern, extra);
        if (words < 1) continue;
        if (words == 2)
            status = add_rule(c, name, pattern);
        else
            status = plb_fail(PLB_EINVAL, "%s:%d: expected a class and a pattern, found \"%s\"",
                              path, n, line);
    }
    fclose(file);
    return status;
}

static plb_status add_built_in(plb_kernel_classes *c) {
    static const char *const table[][2] = {
#define PLB_KERNEL_CLASS(name, pattern) {name, pattern},
#include "probe/kernel_class.def"
#undef PLB_KERNEL_CLASS
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        PLB_TRY(add_rule(c, table[i][0], table[i][1]));
    return PLB_OK;
}

plb_status plb_kernel_classes_new(const char *file, plb_kernel_classes **out) {
    *out = NULL;
    plb_arena *arena = plb_arena_new();
    plb_kernel_classes *c = arena ? plb_arena_alloc(arena, sizeof *c) : NULL;
    if (!c) {
        plb_arena_free(arena);
        return plb_fail(PLB_ENOMEM, "no memory for classes of kernels");
    }
    *c = (plb_kernel_classes){.arena = arena, .last = &c->first};
    plb_status status = file ? read_file(c, file) : PLB_OK;
    if (!status) status = add_built_in(c); // a file's rules come first
    if (status)
        plb_kernel_classes_free(c);
    else
        *out = c;
    return status;
}

void plb_kernel_classes_free(plb_kernel_classes *c) {
    if (c) plb_arena_free(c->arena);
}

const char *plb_kernel_class(const plb_kernel_classes *c, const char *demangled) {
    for (const rule *r = c->first; r; r = r->next)
        if (fnmatch(r->pattern, demangled, FNM_CASEFOLD) == 0) return r->name;
    return "other";
}
