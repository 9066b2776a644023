# SPDX-License-Identifier: Apache-2.0
# The short way in; CMake does the work (CMakePresets.json, CMakeLists.txt).
#   make build      the release build alone: build/plumb
#   make run        installs what is missing, builds, runs the main job
#   make test       installs what is missing, builds, runs all checks and tests
#   make test-full  the same with the long tests; again after an interruption: it goes on
#   make bench      times whole models, one JSON line a case
#   make dist       dist/plumb, a folder that runs wherever it is put, and its .tar.xz
#   make install    into PREFIX (/usr/local), below DESTDIR if that is set
#   make format     clang-format on every C file
#   make setup      what `run` and `test` install, and nothing else
PREFIX ?= /usr/local
BUILD = build
JOBS ?= $(shell nproc)
MAIN_JOB = train mnist_cnn --epochs 1 --data auto
# The same model at every level that is installed: proven equal, then timed.
MAIN_COMPARISON = bench mnist_cnn --task infer,train --batch 64 --time 1 --label "make run"

.PHONY: build run test test-full bench dist install format setup configure clean
build: configure
	@cmake --build $(BUILD) -j $(JOBS) --target plumb_cli plumb_library

configure:
	@mkdir -p $(BUILD)
	@cmake --preset release -B $(BUILD) > $(BUILD)/configure.log 2>&1 || \
	    { cat $(BUILD)/configure.log; exit 1; }

run:
	@tools/setup build
	@$(MAKE) --no-print-directory build
	@$(BUILD)/plumb $(MAIN_JOB)
	@$(BUILD)/plumb $(MAIN_COMPARISON)
	@echo; echo "The report of this run:"; $(BUILD)/plumb report "label:make run"

test test-full:
	@tools/setup all
	@$(MAKE) --no-print-directory configure
	@cmake --build $(BUILD) -j $(JOBS)
	@$(if $(filter test-full,$@),PLB_TEST_FULL=1 PLB_TEST_TIMEOUT_S=7200) tools/run_tests $(BUILD) \
	    $(if $(filter test-full,$@),--resume)

bench: configure
	@cmake --build $(BUILD) -j $(JOBS) --target plumb_bench
	@$(BUILD)/plumb_bench $(CASES)

dist: configure
	@cmake --build $(BUILD) -j $(JOBS) --target plumb_cli plumb_library plumb_manual
	@tools/dist $(BUILD) dist

install: configure
	@cmake --build $(BUILD) -j $(JOBS) --target plumb_cli plumb_library plumb_manual
	@cmake --install $(BUILD) --prefix $(PREFIX)

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i

setup:
	@tools/setup all

clean:
	rm -rf $(BUILD) dist
