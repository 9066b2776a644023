// SPDX-License-Identifier: Apache-2.0
// Learning rates against those of PyTorch 2.15's schedulers, stepped once an epoch:
//   o = torch.optim.SGD([p], lr=0.1); s = StepLR(o, 4, 0.1) or CosineAnnealingLR(o, 10)
#include "check.h"
#include "train/schedule.h"

enum { EPOCHS = 10 };
static const double step[EPOCHS] = {0.1,
                                    0.1,
                                    0.1,
                                    0.1,
                                    0.010000000000000002,
                                    0.010000000000000002,
                                    0.010000000000000002,
                                    0.010000000000000002,
                                    0.0010000000000000002,
                                    0.0010000000000000002};
static const double cosine[EPOCHS] = {0.1,
                                      0.09755282581475769,
                                      0.09045084971874738,
                                      0.07938926261462367,
                                      0.06545084971874739,
                                      0.05000000000000001,
                                      0.03454915028125264,
                                      0.020610737385376353,
                                      0.009549150281252635,
                                      0.002447174185242324};

static void schedules_are_pytorchs(void) {
    plb_schedule s, c, k;
    CHECK_OK(plb_schedule_for("step", 0.1, EPOCHS, &s));
    CHECK_OK(plb_schedule_for("cosine", 0.1, EPOCHS, &c));
    CHECK_OK(plb_schedule_for("constant", 0.1, EPOCHS, &k));
    for (int e = 0; e < EPOCHS; e++) {
        CHECK_NEAR(plb_schedule_lr(&s, e), step[e], 1e-16);
        CHECK_NEAR(plb_schedule_lr(&c, e), cosine[e], 1e-16);
        CHECK_NEAR(plb_schedule_lr(&k, e), 0.1, 0);
    }
}

static void short_runs_have_schedules_too(void) {
    plb_schedule s;
    CHECK_OK(plb_schedule_for("step", 0.5, 1, &s));
    CHECK_NEAR(plb_schedule_lr(&s, 0), 0.5, 0);
    CHECK_OK(plb_schedule_for("cosine", 0.5, 1, &s));
    CHECK_NEAR(plb_schedule_lr(&s, 0), 0.5, 0);
    CHECK_OK(plb_schedule_for("step", 0.5, 2, &s));
    CHECK_NEAR(plb_schedule_lr(&s, 1), 0.05, 1e-17);
}

static void unknown_names_are_refused(void) {
    plb_schedule s;
    CHECK_FAILS(PLB_EINVAL, "did you mean cosine?", plb_schedule_for("cosin", 1, 1, &s));
    CHECK_FAILS(PLB_EINVAL, "constant, step or cosine", plb_schedule_for("xylophone", 1, 1, &s));
}

static const check_test tests[] = {
    {"schedules are PyTorch's", schedules_are_pytorchs},
    {"short runs have schedules too", short_runs_have_schedules_too},
    {"unknown names are refused", unknown_names_are_refused},
};
CHECK_MAIN(tests)
