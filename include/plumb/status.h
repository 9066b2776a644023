// SPDX-License-Identifier: Apache-2.0
// How every fallible call of Plumb answers. A call returns PLB_OK or the reason of its failure;
// the text that belongs to it (place, expected, found) is kept per thread until the next failure.
#ifndef PLUMB_STATUS_H
#define PLUMB_STATUS_H

// Before every public function: what it is called by is its C name, in C++ too.
#ifdef __cplusplus
#define PLB_LINKAGE extern "C"
#else
#define PLB_LINKAGE
#endif

#if defined(__GNUC__)
#define PLB_API       PLB_LINKAGE __attribute__((visibility("default")))
#define PLB_MUST_USE  __attribute__((warn_unused_result))
#define PLB_PRINTF(f) __attribute__((format(printf, f, f + 1)))
#else
#define PLB_API PLB_LINKAGE
#define PLB_MUST_USE
#define PLB_PRINTF(f)
#endif

typedef enum plb_status {
    PLB_OK = 0,
    PLB_EINVAL,       // the caller's or the user's input is wrong: file, flag, shape, dtype
    PLB_EUNSUPPORTED, // well-formed, but nothing here can do it
    PLB_ENOMEM,       // an allocation failed
    PLB_EIO,          // the system refused to read or write
    PLB_EFULL,        // no space is left on a device
    PLB_EMISSING,     // the machine lacks a library, a device, a file that should be installed
    PLB_ECANCELLED,   // stopped by the user
    PLB_EBROKEN,      // a part of ours broke a promise: a bug, or a worker that died
} plb_status;

// Text of the last failure on this thread, one line without a newline. Borrowed; never NULL;
// valid until this thread's next failure.
PLB_API const char *plb_error_text(void);

// Name of a status, "PLB_EINVAL". Static.
PLB_API const char *plb_status_name(plb_status status);

#endif
