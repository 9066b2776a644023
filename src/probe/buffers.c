// SPDX-License-Identifier: Apache-2.0
#include "probe/buffers.h"

#include <pthread.h>

#include "base/core/alloc.h"

enum { KEPT = 32 }; // more than are ever on their way at once at 100,000 launches a second

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *kept[KEPT];
static int kept_count;

uint8_t *plb_probe_buffer_take(void) {
    uint8_t *buffer = NULL;
    pthread_mutex_lock(&lock);
    if (kept_count) buffer = kept[--kept_count];
    pthread_mutex_unlock(&lock);
    return buffer ? buffer : plb_alloc_slab(PLB_PROBE_BUFFER_BYTES);
}

void plb_probe_buffer_give(uint8_t *buffer) {
    pthread_mutex_lock(&lock);
    if (kept_count < KEPT) kept[kept_count++] = buffer, buffer = NULL;
    pthread_mutex_unlock(&lock);
    plb_free(buffer);
}
