// SPDX-License-Identifier: Apache-2.0
// Pieces of the CPU backend, gathered into plb_backend_cpu by cpu.c.
#ifndef PLB_ENGINE_DEVICE_CPU_CPU_H
#define PLB_ENGINE_DEVICE_CPU_CPU_H

#include "engine/device/device.h"

// stream.c
plb_status plb_cpu_stream_new(plb_device *device, plb_stream **out);
void plb_cpu_stream_free(plb_stream *stream);
plb_status plb_cpu_enqueue(plb_stream *stream, plb_status (*work)(void *context), void *context);
plb_status plb_cpu_copy(plb_stream *stream, void *to, const void *from, size_t size_bytes);
plb_status plb_cpu_wait(plb_stream *stream);
plb_status plb_cpu_event_new(plb_device *device, plb_event **out);
void plb_cpu_event_free(plb_event *event);
plb_status plb_cpu_record(plb_stream *stream, plb_event *event);
plb_status plb_cpu_wait_event(plb_stream *stream, plb_event *event);
plb_status plb_cpu_elapsed_ns(const plb_event *from, const plb_event *to, int64_t *out_ns);
plb_status plb_cpu_capture_begin(plb_stream *stream);
plb_status plb_cpu_capture_end(plb_stream *stream, plb_capture **out);
plb_status plb_cpu_replay(plb_stream *stream, plb_capture *capture);
void plb_cpu_capture_free(plb_capture *capture);

// kernels.c: every kernel of the CPU, best first within an op.
const plb_kernel *const *plb_cpu_kernels(plb_op_id op);

// dnnl.c: "dnnl2.6.3", or "no-dnnl".
const char *plb_dnnl_version(void);

// The widest vectors that this processor and this build can use.
typedef enum plb_isa { PLB_ISA_PORTABLE, PLB_ISA_AVX2, PLB_ISA_AVX512 } plb_isa;
// PLUMB_ISA=portable|avx2|avx512 in the environment lowers it, for tests.
PLB_API plb_isa plb_cpu_isa(void);
PLB_API const char *plb_isa_name(plb_isa isa);

#endif
