// SPDX-License-Identifier: Apache-2.0
// Functions of libraries that are loaded at run time.
#ifndef PLB_BASE_CORE_SYMBOL_H
#define PLB_BASE_CORE_SYMBOL_H

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

// Puts the address of `name` into the function pointer that `function` points to; false and NULL
// when the library has none. Through memcpy: ISO C has no cast from what dlsym returns.
static inline bool plb_find_symbol(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

#endif
