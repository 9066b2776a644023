// SPDX-License-Identifier: Apache-2.0
// A small study, as a file.
#ifndef PLB_TESTS_STUDY_TINY_H
#define PLB_TESTS_STUDY_TINY_H

static const char text[] =
    "name: tiny\n"
    "title: A tiny study\n"
    "findings: [c_accuracy, order_of_magnitude, cpu_threads, table1, initialisation]\n"
    "parts:\n"
    "  - name: train\n"
    "    kind: train\n"
    "    models: mnist_cnn\n"
    "    data: digits\n"
    "    stand_in: shapes\n"
    "    stacks: [torch-eager, plumb-plan]\n"
    "    devices: cpu\n"
    "    threads: [1..4, all]\n"
    "    seeds: [1, 2]\n"
    "    batch: 64\n"
    "    lr: 0.05\n"
    "  - name: sizes\n"
    "    kind: sweep\n"
    "    models: resnet18\n"
    "    stacks: [torch-eager, plumb-plan]\n"
    "    devices: cpu\n"
    "    batch: 2\n"
    "    size: 8..32\n"
    "  - name: again\n"
    "    kind: sweep\n"
    "    models: resnet18\n"
    "    stacks: [torch-eager, plumb-plan]\n"
    "    devices: cpu\n"
    "    batch: 2\n"
    "    size: 8\n"
    "quick:\n"
    "  parts:\n"
    "    - name: train\n"
    "      seeds: 7\n"
    "      epochs: 3\n";

#endif
