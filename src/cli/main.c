// SPDX-License-Identifier: Apache-2.0
#include "base/spin_wait.h"
#include "cli/cli.h"

int main(int argc, char **argv) {
    plb_bound_spin_wait(argv);
    return plb_cli_main(argc, argv);
}
