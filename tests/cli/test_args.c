// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "cli/args.h"
#include "cli/cli.h"

typedef struct options {
    int64_t batch, seed;
    double lr, any;
    const char *save, *optimizer;
    bool quick;
} options;

static const plb_flag flags[] = {
    {.name = "batch",
     .kind = PLB_FLAG_INT,
     .offset = offsetof(options, batch),
     .value = "N",
     .min = 1,
     .max = 65536,
     .fallback = "64",
     .help = "samples of a step"},
    {.name = "seed",
     .kind = PLB_FLAG_INT,
     .offset = offsetof(options, seed),
     .value = "N",
     .min = INT64_MIN,
     .max = INT64_MAX,
     .help = "of random numbers"},
    {.name = "lr",
     .kind = PLB_FLAG_DOUBLE,
     .offset = offsetof(options, lr),
     .value = "X",
     .low = 0,
     .high = HUGE_VAL,
     .fallback = "0.01",
     .help = "learning rate"},
    {.name = "any",
     .kind = PLB_FLAG_DOUBLE,
     .offset = offsetof(options, any),
     .value = "X",
     .low = -HUGE_VAL,
     .high = HUGE_VAL,
     .help = "any number"},
    {.name = "save",
     .kind = PLB_FLAG_FILE,
     .offset = offsetof(options, save),
     .value = "FILE",
     .help = "where to"},
    {.name = "optimizer",
     .kind = PLB_FLAG_CHOICE,
     .offset = offsetof(options, optimizer),
     .value = "sgd|adam|adamw",
     .fallback = "sgd",
     .help = "which one"},
    {.name = "quick",
     .kind = PLB_FLAG_SWITCH,
     .offset = offsetof(options, quick),
     .help = "less of it"},
};
enum { FLAGS = sizeof flags / sizeof *flags, MAX_WORDS = 16 };

static options got;
static char *words[MAX_WORDS];
static int operands;

// Parses words that end with NULL into `got`, `words` and `operands`.
static plb_status parse(const char *const *line) {
    int n = 0;
    for (; line[n]; n++) words[n] = (char *)line[n];
    plb_args_reset(flags, FLAGS, &got);
    return plb_args_parse(flags, FLAGS, &got, n, words, &operands);
}

#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

static void defaults_and_both_spellings(void) {
    CHECK_OK(parse((const char *const[]){NULL}));
    CHECK(got.batch == 64 && got.lr == 0.01 && !got.save && !got.quick && operands == 0);
    CHECK(strcmp(got.optimizer, "sgd") == 0);
    CHECK_OK(PARSE("one", "--batch", "32", "--lr=1e-3", "two", "--quick", "--optimizer=adamw",
                   "--save", "a=b.bin", "--seed", "-9223372036854775808", "--any", "-2.5"));
    CHECK(got.batch == 32 && got.lr == 1e-3 && got.quick && got.seed == INT64_MIN);
    CHECK(got.any == -2.5 && strcmp(got.optimizer, "adamw") == 0);
    CHECK(strcmp(got.save, "a=b.bin") == 0);
    CHECK(operands == 2 && strcmp(words[0], "one") == 0 && strcmp(words[1], "two") == 0);
    CHECK_OK(PARSE("--batch", "1", "--batch=2"));
    CHECK(got.batch == 2);
}

static void two_dashes_end_flags(void) {
    CHECK_OK(PARSE("-", "--", "--batch", "--", "-x"));
    CHECK(operands == 4 && got.batch == 64);
    CHECK(strcmp(words[0], "-") == 0 && strcmp(words[1], "--batch") == 0);
    CHECK(strcmp(words[2], "--") == 0 && strcmp(words[3], "-x") == 0);
}

static void bad_integers_are_refused(void) {
    static const char *const bad[] = {"",     "x",     "1x",   "1.5", " 1",
                                      "0",    "65537", "0x10", "1e3", "99999999999999999999",
                                      "--lr", "-1",    "1 ",   "\t1", "-99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_FAILS(PLB_EINVAL, "--batch: expected an integer from 1 to 65536, found \"",
                    PARSE("--batch", bad[i]));
        CHECK(got.batch == 64);
    }
    CHECK_FAILS(PLB_EINVAL, "expected an integer", PARSE("--seed=9223372036854775808"));
}

static void bad_numbers_are_refused(void) {
    static const char *const bad[] = {"", "nan", "inf", "-inf", "0x1p3", "1e999", "1..2", "-", "e"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_FAILS(PLB_EINVAL, "--any: expected a number, found \"", PARSE("--any", bad[i]));
        CHECK(got.any == 0);
    }
    CHECK_FAILS(PLB_EINVAL, "--lr: expected a number of at least 0", PARSE("--lr", "-0.1"));
}

static void misspelt_flags_meet_their_nearest(void) {
    CHECK_FAILS(PLB_EINVAL, "unknown flag --bacth; did you mean --batch?", PARSE("--bacth", "3"));
    CHECK_FAILS(PLB_EINVAL, "unknown flag --optimiser; did you mean --optimizer?",
                PARSE("--optimiser=sgd"));
    CHECK_FAILS(PLB_EINVAL, "unknown flag -b", PARSE("-b"));
    CHECK_FAILS(PLB_EINVAL, "unknown flag --", PARSE("--=3"));
    CHECK_FAILS(PLB_EINVAL, "unknown flag --xylophone", PARSE("--xylophone"));
    CHECK(!strstr(plb_error_text(), "mean"));
}

static void values_must_fit_their_flag(void) {
    CHECK_FAILS(PLB_EINVAL, "--quick takes no value", PARSE("--quick=1"));
    CHECK_FAILS(PLB_EINVAL, "--batch needs a value", PARSE("--batch"));
    CHECK_FAILS(PLB_EINVAL, "--optimizer: expected one of sgd|adam|adamw, found \"ad\"",
                PARSE("--optimizer", "ad"));
    CHECK_FAILS(PLB_EINVAL, "found \"sgd|adam\"", PARSE("--optimizer", "sgd|adam"));
    CHECK_FAILS(PLB_EINVAL, "--optimizer", PARSE("--optimizer="));
    CHECK_FAILS(PLB_EINVAL, "--save: expected a value", PARSE("--save="));
}

static void help_states_limits_and_defaults(void) {
    plb_strbuf text = {0};
    plb_args_help(flags, FLAGS, &text);
    CHECK(text.text && strstr(text.text, "  --batch N                   samples of a step "
                                         "(1 to 65536, default 64)\n"));
    CHECK(text.text && strstr(text.text, "learning rate (at least 0, default 0.01)\n"));
    CHECK(text.text && strstr(text.text, "which one (default sgd)\n"));
    CHECK(text.text && strstr(text.text, "of random numbers\n"));
    CHECK(text.text && strstr(text.text, "  --quick                     less of it\n"));
    plb_strbuf_free(&text);
}

static void status_becomes_the_agreed_exit_code(void) {
    CHECK(plb_cli_exit_code(PLB_OK) == 0);
    CHECK(plb_cli_exit_code(PLB_EINVAL) == 2 && plb_cli_exit_code(PLB_EUNSUPPORTED) == 2);
    CHECK(plb_cli_exit_code(PLB_EIO) == 2 && plb_cli_exit_code(PLB_EMISSING) == 3);
    CHECK(plb_cli_exit_code(PLB_EFULL) == 3 && plb_cli_exit_code(PLB_ENOMEM) == 3);
    CHECK(plb_cli_exit_code(PLB_ECANCELLED) == 130 && plb_cli_exit_code(PLB_EBROKEN) == 6);
}

// The first Ctrl-C sets the flag, the second kills. In a child, which exits 1 if it lives on.
static void interrupt_is_asked_for_then_kills(void) {
    CHECK(!plb_cli_interrupted());
    pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_DFL); // whoever runs us may have it ignored
        plb_cli_catch_interrupt();
        raise(SIGINT);
        if (!plb_cli_interrupted()) _exit(2);
        raise(SIGINT);
        _exit(1);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_SAY(WIFSIGNALED(status) && WTERMSIG(status) == SIGINT, "status %#x", status);
}

// As in a shell's background job.
static void ignored_interrupts_stay_ignored(void) {
    static const int numbers[] = {SIGINT, SIGTERM};
    for (int i = 0; i < 2; i++) {
        pid_t child = fork();
        if (child == 0) {
            signal(numbers[i], SIG_IGN);
            plb_cli_catch_interrupt();
            raise(numbers[i]);
            _exit(plb_cli_interrupted());
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
}

static const check_test tests[] = {
    {"defaults_and_both_spellings", defaults_and_both_spellings},
    {"two_dashes_end_flags", two_dashes_end_flags},
    {"bad_integers_are_refused", bad_integers_are_refused},
    {"bad_numbers_are_refused", bad_numbers_are_refused},
    {"misspelt_flags_meet_their_nearest", misspelt_flags_meet_their_nearest},
    {"values_must_fit_their_flag", values_must_fit_their_flag},
    {"help_states_limits_and_defaults", help_states_limits_and_defaults},
    {"status_becomes_the_agreed_exit_code", status_becomes_the_agreed_exit_code},
    {"interrupt_is_asked_for_then_kills", interrupt_is_asked_for_then_kills},
    {"ignored_interrupts_stay_ignored", ignored_interrupts_stay_ignored},
};

CHECK_MAIN(tests)
