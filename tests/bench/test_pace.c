// SPDX-License-Identifier: Apache-2.0
// A machine that is slower than it was must be seen: four processes that share our processor make a
// copy take several times as long, however fast the machine is.
#include "check.h"

#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/disturbance.h"
#include "store/store.h"

enum { NEIGHBOURS = 4, LOOKS = 20 };

static void stay_here(void) {
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET(sched_getcpu(), &here);
    CHECK(!sched_setaffinity(0, sizeof here, &here));
}

static double worst_of(plb_pace *pace, int looks) {
    double worst = 0;
    for (int i = 0; i < looks; i++) {
        const double slowdown = plb_pace_look(pace);
        if (slowdown > worst) worst = slowdown;
    }
    return worst;
}

static void copy_beside_neighbours(void) {
    plb_pace pace = {0};
    pid_t neighbours[NEIGHBOURS];
    stay_here();
    CHECK(worst_of(&pace, LOOKS) >= 1);
    for (int i = 0; i < NEIGHBOURS; i++) {
        neighbours[i] = fork(); // has our processor alone, too
        if (!neighbours[i]) prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (volatile int on = 1; !neighbours[i] && on;) continue;
    }
    const double worst = worst_of(&pace, LOOKS);
    CHECK_SAY(worst > 2, "%.2f", worst);
    for (int i = 0; i < NEIGHBOURS; i++) kill(neighbours[i], SIGKILL), waitpid(neighbours[i], 0, 0);
    plb_pace_free(&pace);
}

static void test_neighbours(void) {
    check_again(copy_beside_neighbours);
}

// What a look finds marks the blocks that follow: a best that no machine reaches makes all slow.
static void test_mark(void) {
    plb_disturbance d = {0};
    CHECK(!(plb_disturbance_look(&d) & PLB_MARK_SLOW)); // the first is its own best
    CHECK(d.slowdown == 1);
    d.looked_ns = d.paced_ns = 1; // as if seconds had gone by
    d.pace.best_ns = 1;
    CHECK(plb_disturbance_look(&d) & PLB_MARK_SLOW);
    CHECK(d.slowdown > 1000);
    d.looked_ns = 1; // a second later, before the next copy
    CHECK(plb_disturbance_look(&d) & PLB_MARK_SLOW);
    plb_disturbance_free(&d);
}

static const check_test tests[] = {
    {"a copy takes longer beside neighbours", test_neighbours},
    {"slowness is a mark", test_mark},
};
CHECK_MAIN(tests)
