// SPDX-License-Identifier: Apache-2.0
// Between fork and exec only calls that are safe there; the keeper never returns into the program.
#include "bench/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/core/alloc.h"
#include "base/core/status.h"

// What keeper and worker write. Pipes deliver it whole. The worker itself says that it has started,
// so that nothing it says later can come before that.
typedef struct news {
    enum { NEWS_STARTED = 1, NEWS_EXEC_FAILED, NEWS_ENDED } what;
    pid_t worker;
    int value; // errno, wait status
} news;

static void tell(int fd, int what, pid_t worker, int value) {
    const news n = {.what = what, .worker = worker, .value = value};
    ssize_t written = write(fd, &n, sizeof n);
    (void)written; // nobody is left to hear it
}

// ---------------------------------------------------------------------------- the keeper
// Kills the children that this process has now; those of the dead become ours.
static void kill_children(void) {
    char path[64], text[4096];
    snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0) close(fd);
    if (n <= 0) return;
    text[n] = '\0';
    for (char *at = text; *at;) {
        long pid = strtol(at, &at, 10);
        if (pid > 1) kill((pid_t)pid, SIGKILL);
        while (*at == ' ') at++;
    }
}

static void kill_everything(pid_t worker) {
    enum { ROUNDS = 400 };
    const struct timespec nap = {.tv_nsec = 5000000};
    kill(-worker, SIGKILL);
    for (int i = 0; i < ROUNDS; i++) {
        kill_children();
        pid_t pid;
        while ((pid = waitpid(-1, NULL, WNOHANG)) > 0) continue;
        if (pid < 0 && errno == ECHILD) return;
        nanosleep(&nap, NULL);
    }
}

// Reaps whoever ended; true once the worker is among them.
static bool reap(pid_t worker, int *out_status) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == worker) {
            *out_status = status;
            return true;
        }
    }
    return false;
}

static _Noreturn void keep(pid_t worker, int keep_fd, int news_fd) {
    int status = 0, pid_fd = (int)syscall(SYS_pidfd_open, worker, 0);
    struct pollfd p[2] = {{.fd = keep_fd, .events = POLLIN}, {.fd = pid_fd, .events = POLLIN}};
    for (;;) {
        // Without pidfds (an old kernel) look ten times a second.
        int n = poll(p, pid_fd >= 0 ? 2 : 1, pid_fd >= 0 ? -1 : 100);
        if (n < 0 && errno != EINTR) break;
        if (n > 0 && p[0].revents) break;
        if (reap(worker, &status)) {
            tell(news_fd, NEWS_ENDED, worker, status);
            break;
        }
    }
    kill_everything(worker);
    _exit(0);
}

// ---------------------------------------------------------------------------- the worker
typedef struct launch {
    const plb_process_options *options;
    char **environment;
    int null_fd, keep_fd, news_fd; // keep_fd: the end that the keeper reads
} launch;

// Moves descriptors out of the way of 0 to 5 first, then into place.
static void place_descriptors(const launch *l) {
    enum { FREE = 6 };
    const plb_process_options *o = l->options;
    int null = fcntl(l->null_fd, F_DUPFD, FREE), log = fcntl(o->log_fd, F_DUPFD, FREE);
    int message = fcntl(o->message_fd, F_DUPFD, FREE), in = fcntl(o->in_fd, F_DUPFD, FREE);
    int out = fcntl(o->out_fd, F_DUPFD, FREE), from[] = {null, log, log, message, in, out};
    for (int i = 0; i < FREE; i++) dup2(from[i], i);
}

static _Noreturn void become_worker(const launch *l, pid_t keeper) {
    int news_fd = fcntl(l->news_fd, F_DUPFD_CLOEXEC, 100);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) _exit(127); // it died before that
    setsid();
    tell(news_fd, NEWS_STARTED, getpid(), 0);
    place_descriptors(l);
    syscall(SYS_close_range, 6u, (unsigned)(news_fd - 1), 0u);
    syscall(SYS_close_range, (unsigned)(news_fd + 1), ~0u, 0u);
    for (int s = 1; s < NSIG; s++) signal(s, SIG_DFL);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (!l->options->folder || chdir(l->options->folder) == 0) {
        execvpe(l->options->command[0], (char *const *)l->options->command, l->environment);
    }
    tell(news_fd, NEWS_EXEC_FAILED, getpid(), errno);
    _exit(127);
}

static const char keeper_name[] = "plumb-keeper"; // at most 15 letters

static _Noreturn void become_keeper(const launch *l) {
    setpgid(0, 0); // Ctrl-C at the terminal is for plumb alone
    prctl(PR_SET_NAME, keeper_name);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (int s = 1; s < NSIG; s++) signal(s, SIG_DFL);
    signal(SIGINT, SIG_IGN), signal(SIGTERM, SIG_IGN), signal(SIGHUP, SIG_IGN);
    signal(SIGQUIT, SIG_IGN), signal(SIGPIPE, SIG_IGN);
    const pid_t me = getpid();
    pid_t worker = fork();
    if (worker == 0) become_worker(l, me);
    if (worker < 0) {
        tell(l->news_fd, NEWS_EXEC_FAILED, 0, errno);
        _exit(1);
    }
    // Only the two pipes: nobody else's descriptors may live on in here.
    int keep_fd = fcntl(l->keep_fd, F_DUPFD_CLOEXEC, 100);
    int news_fd = fcntl(l->news_fd, F_DUPFD_CLOEXEC, keep_fd + 1);
    syscall(SYS_close_range, 0u, (unsigned)(keep_fd - 1), 0u);
    if (news_fd > keep_fd + 1) {
        syscall(SYS_close_range, (unsigned)(keep_fd + 1), (unsigned)(news_fd - 1), 0u);
    }
    syscall(SYS_close_range, (unsigned)(news_fd + 1), ~0u, 0u);
    keep(worker, keep_fd, news_fd);
}

// ---------------------------------------------------------------------------- our side
extern char **environ;

static bool same_name(const char *a, const char *b) {
    size_t n = strcspn(a, "=");
    return strncmp(a, b, n + 1) == 0;
}

// Ours with `more` over it. The array is the caller's to free, the strings are not.
static char **merge_environment(const char *const *more) {
    size_t n = 0, m = 0, used = 0;
    while (environ[n]) n++;
    while (more && more[m]) m++;
    char **out = plb_alloc_array(n + m + 1, sizeof *out);
    if (!out) return NULL;
    for (size_t i = 0; i < n; i++) {
        bool replaced = false;
        for (size_t k = 0; k < m; k++) replaced |= same_name(environ[i], more[k]);
        if (!replaced) out[used++] = environ[i];
    }
    for (size_t k = 0; k < m; k++) out[used++] = (char *)more[k];
    out[used] = NULL;
    return out;
}

static void close_pair(int *pair) {
    for (int i = 0; i < 2; i++) {
        if (pair[i] >= 0) close(pair[i]);
    }
}

// Waits for the first news, which tells the worker's pid.
static plb_status hear_start(plb_process *p) {
    news n;
    ssize_t got;
    do {
        got = read(p->news_fd, &n, sizeof n);
    } while (got < 0 && errno == EINTR);
    if (got != sizeof n) return plb_fail(PLB_EBROKEN, "a worker's keeper has died");
    if (n.what == NEWS_EXEC_FAILED) {
        errno = n.value;
        return plb_fail_errno("cannot start a worker");
    }
    p->worker = n.worker;
    if (n.what == NEWS_ENDED) p->ended = true, p->wait_status = n.value; // killed before it spoke
    fcntl(p->news_fd, F_SETFL, O_NONBLOCK);
    return PLB_OK;
}

plb_status plb_process_start(const plb_process_options *options, plb_process *out) {
    int keep_pipe[2] = {-1, -1}, news_pipe[2] = {-1, -1};
    launch l = {.options = options, .null_fd = -1};
    plb_status status = PLB_OK;
    *out = (plb_process){.keep_fd = -1, .news_fd = -1};
    l.environment = merge_environment(options->environment);
    if (!l.environment) return plb_fail(PLB_ENOMEM, "out of memory for a worker");
    l.null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (l.null_fd < 0 || pipe2(keep_pipe, O_CLOEXEC) || pipe2(news_pipe, O_CLOEXEC)) {
        status = plb_fail_errno("cannot start a worker");
        goto out;
    }
    l.keep_fd = keep_pipe[0], l.news_fd = news_pipe[1];
    out->keeper = fork();
    if (out->keeper == 0) {
        close(keep_pipe[1]), close(news_pipe[0]);
        become_keeper(&l);
    }
    if (out->keeper < 0) {
        out->keeper = 0;
        status = plb_fail_errno("cannot start a worker");
        goto out;
    }
    out->keep_fd = keep_pipe[1], keep_pipe[1] = -1;
    out->news_fd = news_pipe[0], news_pipe[0] = -1;
    close(news_pipe[1]), news_pipe[1] = -1; // so that a keeper's death is an end
    status = hear_start(out);
out:
    close_pair(keep_pipe);
    close_pair(news_pipe);
    if (l.null_fd >= 0) close(l.null_fd);
    plb_free(l.environment);
    if (status) plb_process_stop(out);
    return status;
}

void plb_process_look(plb_process *p) {
    news n;
    while (p->worker && !p->ended) {
        ssize_t got = read(p->news_fd, &n, sizeof n);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return;
        if (got != sizeof n) { // somebody killed the keeper; the worker died with it
            p->ended = true, p->wait_status = SIGKILL;
        } else if (n.what == NEWS_EXEC_FAILED) {
            p->exec_errno = n.value;
        } else if (n.what == NEWS_ENDED) {
            p->ended = true, p->wait_status = n.value;
        }
    }
}

void plb_process_pause(plb_process *p, bool paused) {
    if (!p->worker || p->ended || p->paused == paused) return;
    kill(-p->worker, paused ? SIGSTOP : SIGCONT);
    p->paused = paused;
}

void plb_process_stop(plb_process *p) {
    if (p->keeper) {
        if (p->keep_fd >= 0) close(p->keep_fd);
        int status = 0;
        while (waitpid(p->keeper, &status, 0) < 0 && errno == EINTR) continue;
        // Somebody killed the keeper itself: the worker died with it, its children may not have.
        if (WIFSIGNALED(status) && p->worker) kill(-p->worker, SIGKILL);
        if (p->news_fd >= 0) close(p->news_fd);
    }
    p->keeper = p->worker = 0, p->keep_fd = p->news_fd = -1;
}

void plb_process_describe_end(const plb_process *p, char *out, size_t size) {
    int status = p->wait_status;
    if (p->exec_errno) {
        snprintf(out, size, "cannot be started: %s", strerror(p->exec_errno));
    } else if (WIFSIGNALED(status)) {
        snprintf(out, size, "killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else {
        snprintf(out, size, "ended with status %d", WEXITSTATUS(status));
    }
}

bool plb_process_is_program(const plb_process *p) {
    char path[64], name[32] = "";
    snprintf(path, sizeof path, "/proc/%d/comm", (int)p->worker);
    FILE *file = fopen(path, "re");
    if (!file) return false;
    const bool known = fgets(name, sizeof name, file) != NULL;
    fclose(file);
    name[strcspn(name, "\n")] = '\0';
    return known && strcmp(name, keeper_name) != 0;
}
