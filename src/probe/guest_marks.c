// SPDX-License-Identifier: Apache-2.0
// The program's own NVTX ranges, pushed and popped or started and ended.
#include <sys/syscall.h>
#include <unistd.h>

#include "probe/guest.h"
#include "probe/mark_name.h"
#include "probe/nvtx.h"

enum { MARK_BYTES = 512 };

static plb_guest *const probe = &plb_guest_here;

static uint32_t thread_number(void) {
    return (uint32_t)syscall(SYS_gettid);
}

static void tell_range(bool ended, plb_record *range, uint32_t name) {
    if (!ended || !probe->options.trace_bytes) return;
    pthread_mutex_lock(&probe->lock);
    range->thread = thread_number();
    if (probe->trace) plb_trace_write(probe->trace, range, name); // gone when the program ends
    pthread_mutex_unlock(&probe->lock);
}

static bool marks_are_heard(void) {
    return atomic_load(&probe->armed) && probe->ranges;
}

static bool marks_count(void) {
    return marks_are_heard() && atomic_load(&probe->recording.on);
}

// Also while nothing is recorded: its end may not be taken for that of the range around it.
static void on_push(const char *name) {
    char room[MARK_BYTES];
    if (!marks_are_heard()) return;
    if (marks_count())
        plb_ranges_push(probe->ranges, thread_number(), plb_guest_cupti_now_ns(),
                        plb_mark_name(name, room, sizeof room));
    else
        plb_ranges_push_unrecorded(probe->ranges, thread_number());
}

static void on_pop(void) {
    plb_record range;
    uint32_t name;
    if (!marks_are_heard()) return;
    bool ended =
        plb_ranges_pop(probe->ranges, thread_number(), plb_guest_cupti_now_ns(), &range, &name);
    tell_range(ended, &range, name);
}

static uint64_t on_start(const char *name) {
    char room[MARK_BYTES];
    if (!marks_count()) return 0;
    return plb_ranges_start(probe->ranges, plb_guest_cupti_now_ns(),
                            plb_mark_name(name, room, sizeof room));
}

static void on_end(uint64_t id) {
    plb_record range;
    uint32_t name;
    if (!marks_are_heard()) return;
    bool ended = plb_ranges_end(probe->ranges, id, plb_guest_cupti_now_ns(), &range, &name);
    tell_range(ended, &range, name);
}

// NVTX loads us at the program's first mark, which may be before or after its first work.
PLB_API int InitializeInjectionNvtx2(const void *(*get_table)(uint32_t id)) {
    static const plb_nvtx_sink sink = {on_push, on_pop, on_start, on_end};
    return plb_nvtx_take(get_table, &sink);
}
