// SPDX-License-Identifier: Apache-2.0
#include "probe/command.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/clock.h"
#include "base/core/status.h"
#include "base/core/strbuf.h"
#include "probe/cards.h"
#include "probe/counters.h"
#include "probe/obstacle.h"
#include "probe/rapl.h"

// False when there is no memory for it.
static bool preload(const char *library) {
    const char *before = getenv("LD_PRELOAD");
    plb_strbuf list = {0};
    plb_strbuf_printf(&list, "%s%s%s", library, before && *before ? ":" : "", before ? before : "");
    bool done = !list.failed && setenv("LD_PRELOAD", list.text, 1) == 0;
    plb_strbuf_free(&list);
    return done;
}

static bool set_environment(const plb_command_options *o) {
    if (!o->library) return true;
    setenv("CUDA_INJECTION64_PATH", o->library, 1);
    setenv("PLUMB_PROBE_DIR", o->folder, 1);
    setenv("PLUMB_PROBE_OPTIONS", o->words ? o->words : "", 1);
    if (o->cupti) setenv("PLUMB_PROBE_CUPTI", o->cupti, 1);
    if (o->ranges) setenv("NVTX_INJECTION64_PATH", o->library, 1);
    return !o->preload || preload(o->library);
}

// What somebody had ignored stays so, as over any exec: a shell's background job is not for Ctrl-C.
static void reset(int signal_number) {
    struct sigaction now;
    if (sigaction(signal_number, NULL, &now) == 0 && now.sa_handler != SIG_IGN)
        signal(signal_number, SIG_DFL);
}

// Waits for `go` so that counters are in place, then becomes the program. What stops it from that
// goes back through `failed`, which closes by itself when it succeeds.
_Noreturn static void become(const plb_command_options *o, char *const *argv, const int go[2],
                             int failed, const sigset_t *mask) {
    char byte;
    close(go[1]); // or its end would never be seen
    if (read(go[0], &byte, 1) < 0) _exit(127);
    reset(SIGINT), reset(SIGQUIT); // what is pending is the program's
    sigprocmask(SIG_SETMASK, mask, NULL);
    int code = ENOMEM;
    if (set_environment(o)) {
        execvp(argv[0], argv);
        code = errno;
    }
    if (write(failed, &code, sizeof code) < 0) _exit(127);
    _exit(code == ENOENT ? 127 : 126);
}

enum { THREAD_NUMBERS = 1 << 22 }; // Linux gives out no higher ones

typedef struct thread_watch {
    plb_command_result *out;
    pid_t pid;
    uint8_t *unseen; // a bit for each number that was met and has no row; NULL: none was
} thread_watch;

// Each counts once, at however many looks it is met.
static void count_unseen(thread_watch *w, int tid) {
    if (!w->unseen) w->unseen = plb_alloc(THREAD_NUMBERS / 8);
    if (!w->unseen) w->out->threads_unseen = 1; // at least
    if (!w->unseen || tid < 0 || tid >= THREAD_NUMBERS) return;
    const uint8_t bit = (uint8_t)(1u << tid % 8);
    w->out->threads_unseen += !(w->unseen[tid / 8] & bit);
    w->unseen[tid / 8] |= bit;
}

static plb_command_thread *thread_row(thread_watch *w, int tid) {
    plb_command_result *out = w->out;
    for (int i = 0; i < out->threads; i++)
        if (out->thread[i].tid == tid) return &out->thread[i];
    if (out->threads == PLB_COMMAND_THREADS) {
        count_unseen(w, tid);
        return NULL;
    }
    out->thread[out->threads] = (plb_command_thread){.tid = tid};
    return &out->thread[out->threads++];
}

static bool read_text(const char *path, char *text, size_t size_bytes) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, size_bytes - 1);
    if (fd >= 0) close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n > 0;
}

static void sample_thread(thread_watch *w, int tid) {
    char path[64], text[128];
    int64_t on_cpu_ns, waiting_ns;
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)w->pid, tid);
    if (!read_text(path, text, sizeof text) ||
        sscanf(text, "%" SCNd64 " %" SCNd64, &on_cpu_ns, &waiting_ns) != 2)
        return;
    plb_command_thread *row = thread_row(w, tid);
    if (!row) return;
    row->on_cpu_ns = on_cpu_ns, row->waiting_ns = waiting_ns;
    snprintf(path, sizeof path, "/proc/%d/task/%d/comm", (int)w->pid, tid);
    if (read_text(path, text, sizeof text))
        snprintf(row->name, sizeof row->name, "%.*s", (int)strcspn(text, "\n"), text);
}

// Of the program itself: its children are counted in its resource use, but not row by row.
static void sample_threads(thread_watch *w) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)w->pid);
    DIR *folder = opendir(path);
    if (!folder) return;
    for (struct dirent *e; (e = readdir(folder));)
        if (e->d_name[0] != '.') sample_thread(w, atoi(e->d_name));
    closedir(folder);
}

static int wait_signal(const sigset_t *signals, int64_t most_ns) {
    const int64_t ns = most_ns > 0 ? most_ns : 0;
    const struct timespec wait = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    return sigtimedwait(signals, NULL, &wait);
}

// Until the program ends. SIGCHLD, SIGTERM and SIGHUP are blocked and taken here.
static void watch(const plb_command_options *o, pid_t pid, const sigset_t *signals, int *status,
                  plb_cards *cards, plb_sampler *sampler, plb_rapl *rapl, plb_command_result *out) {
    const int64_t room_ns = plb_sampler_room_ns(sampler);
    thread_watch threads = {.out = out, .pid = pid};
    for (int64_t look_ns = plb_now_ns();;) { // when to look at threads and cards again
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid) {
            sample_threads(&threads); // a zombie's threads are gone, but its first one tells
            break;
        }
        if (plb_now_ns() >= look_ns) {
            sample_threads(&threads);
            plb_cards_sample(cards);
            plb_rapl_sample(rapl);
            look_ns = plb_now_ns() + o->sample_ms * 1000000;
        }
        plb_sampler_drain(sampler);
        const int64_t rest_ns = look_ns - plb_now_ns();
        const int got = wait_signal(signals, rest_ns < room_ns ? rest_ns : room_ns);
        if (got == SIGTERM || got == SIGHUP) kill(pid, got);
    }
    plb_free(threads.unseen);
    while (wait4(pid, status, 0, &out->use) < 0 && errno == EINTR) continue;
}

// Ctrl-C that came before there was a program. It holds such signals back until it may go, so that
// one which came to both counts once.
static void hand_on_pending(pid_t pid) {
    sigset_t pending;
    if (sigpending(&pending)) return;
    if (sigismember(&pending, SIGINT) == 1) kill(pid, SIGINT);
    if (sigismember(&pending, SIGQUIT) == 1) kill(pid, SIGQUIT);
}

static plb_status run(const plb_command_options *o, char *const *argv, const sigset_t *signals,
                      const sigset_t *before, plb_command_result *out) {
    int go[2], failed[2], code = 0, status = 0;
    if (pipe2(go, O_CLOEXEC)) return plb_fail_errno("pipe");
    if (pipe2(failed, O_CLOEXEC)) {
        close(go[0]), close(go[1]);
        return plb_fail_errno("pipe");
    }
    pid_t pid = fork();
    if (pid == 0) become(o, argv, go, failed[1], before);
    close(go[0]), close(failed[1]);
    if (pid < 0) {
        close(go[1]), close(failed[0]);
        return plb_fail_errno("fork");
    }
    hand_on_pending(pid);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, interrupt, quit;
    sigaction(SIGINT, &ignore, &interrupt);
    sigaction(SIGQUIT, &ignore, &quit);
    plb_counters counters;
    plb_counters_open(&counters, pid);
    plb_cards *cards = plb_cards_open();
    plb_sampler *sampler =
        o->sampled ? plb_sampler_open(pid, o->function_ms, o->folded != NULL) : NULL;
    plb_rapl *rapl = plb_rapl_open(o->powercap);
    out->begin_ns = plb_now_ns();
    close(go[1]);
    out->started = read(failed[0], &code, sizeof code) != (ssize_t)sizeof code;
    close(failed[0]);
    watch(o, pid, signals, &status, cards, sampler, rapl, out);
    out->wall_ns = plb_now_ns() - out->begin_ns;
    out->exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGQUIT, &quit, NULL);
    plb_counters_close(&counters, out);
    if (o->sampled) plb_sampler_close(sampler, o->sampled, o->folded);
    plb_cards_close(cards, out);
    plb_rapl_close(rapl, out);
    if (!out->started)
        snprintf(out->error_text, sizeof out->error_text, "%s: %s", argv[0], strerror(code));
    else if (o->library)
        plb_obstacle_find(argv[0], out->error_text, sizeof out->error_text);
    return PLB_OK;
}

plb_status plb_command_run(const plb_command_options *o, char *const *argv,
                           plb_command_result *out) {
    sigset_t signals, before;
    *out = (plb_command_result){0};
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGTERM);
    sigaddset(&signals, SIGHUP);
    sigset_t blocked = signals; // no Ctrl-C gets lost between us and the program
    sigaddset(&blocked, SIGINT);
    sigaddset(&blocked, SIGQUIT);
    sigprocmask(SIG_BLOCK, &blocked, &before);
    plb_status status = o->interrupted && o->interrupted() ? plb_fail(PLB_ECANCELLED, "interrupted")
                                                           : run(o, argv, &signals, &before, out);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return status;
}
