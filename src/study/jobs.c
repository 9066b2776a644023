// SPDX-License-Identifier: Apache-2.0
// Trainings side by side: more processes of this program join the run. Nobody deals the items out:
// each process takes the next one that nobody has (plb_store_take_item), so that one which dies
// loses no more than the item that it was at, and a user may start another by hand.
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/status.h"
#include "study/work.h"

extern char **environ;

enum { MAX_WORDS = 40 };

// In a group of its own: Ctrl-C at the terminal is for this process, which tells the others.
static plb_status start(const char *const *words, pid_t *out) {
    posix_spawnattr_t how;
    int code = posix_spawnattr_init(&how);
    if (code) return plb_fail(PLB_ENOMEM, "%s: cannot start: %s", words[0], strerror(code));
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
    code = posix_spawn(out, words[0], NULL, &how, (char *const *)words, environ);
    posix_spawnattr_destroy(&how);
    return code ? plb_fail(PLB_EIO, "%s: cannot start: %s", words[0], strerror(code)) : PLB_OK;
}

plb_status plb_study_start_helpers(plb_study *s) {
    char run[24];
    const char *words[MAX_WORDS];
    int n = 0, wanted = s->options.jobs - 1;
    if (!s->options.helper) return PLB_OK;
    while (s->options.helper[n] && n < MAX_WORDS - 3) words[n] = s->options.helper[n], n++;
    snprintf(run, sizeof run, "%" PRId64, s->run_id);
    words[n++] = "--join", words[n++] = run, words[n] = NULL;
    for (; s->helper_count < wanted && s->helper_count < PLB_STUDY_JOBS; s->helper_count++)
        PLB_TRY(start(words, &s->helpers[s->helper_count]));
    return PLB_OK;
}

void plb_study_stop_helpers(plb_study *s) {
    for (int i = 0; i < s->helper_count; i++) kill(s->helpers[i], SIGINT);
    for (int i = 0; i < s->helper_count; i++)
        while (waitpid(s->helpers[i], NULL, 0) < 0 && errno == EINTR) continue;
    s->helper_count = 0;
}

plb_status plb_study_wait_helpers(plb_study *s) {
    while (s->helper_count) {
        pid_t *last = &s->helpers[s->helper_count - 1];
        pid_t ended = waitpid(*last, NULL, WNOHANG);
        if (ended == *last || (ended < 0 && errno == ECHILD)) s->helper_count--;
        if (ended) continue;
        PLB_TRY(plb_study_go_on(s));
        usleep(50000);
    }
    return PLB_OK;
}
