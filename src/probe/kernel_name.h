// SPDX-License-Identifier: Apache-2.0
// Names of kernels for people: demangled, shortened, and sorted into classes.
#ifndef PLB_PROBE_KERNEL_NAME_H
#define PLB_PROBE_KERNEL_NAME_H

#include <stddef.h>

#include "plumb/status.h"

// The C++ name without its arguments' types; as it is where it is no C++ name. Always terminated.
void plb_kernel_demangle(const char *mangled, char *out, size_t out_bytes);

// For a column: without return type, template arguments beyond the first level and arguments;
// at most `columns` characters, with ".." where something was cut.
void plb_kernel_shorten(const char *demangled, int columns, char *out, size_t out_bytes);

// Classes of the built-in table or of a file with lines "CLASS PATTERN"; # begins a remark.
typedef struct plb_kernel_classes plb_kernel_classes;
PLB_MUST_USE plb_status plb_kernel_classes_new(const char *file, plb_kernel_classes **out);
void plb_kernel_classes_free(plb_kernel_classes *classes);
// Borrowed; "other" where no pattern fits.
const char *plb_kernel_class(const plb_kernel_classes *classes, const char *demangled);

#endif
