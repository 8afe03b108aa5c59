# The front door. CMake builds; this file installs what is missing and names what can be done: `make help`.
BUILD ?= build
BENCH_VENV ?= $(BUILD)/venv-bench
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
CHECK = bash tests/project/check.sh $(BUILD)

MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
.PHONY: all setup demo check check-native check-address check-thread check-aarch64 check-fuzz check-python check-exhaustive
.PHONY: bench check-gpu bench-gpu install clean help

all: ## build/softmax and the libraries (the default)
	@command -v cmake >/dev/null || { echo "cmake is missing: 'make setup' installs what is needed"; exit 1; }
	@mkdir -p $(BUILD)
	@cmake -S . -B $(BUILD) >$(BUILD)/configure.log || { cat $(BUILD)/configure.log; exit 1; }
	@cmake --build $(BUILD) -j $(JOBS) --target softmax_shared softmax_static softmax_command

setup: ## installs the packages of packages.apt (root or sudo) and a Python environment in build/venv
	@mkdir -p $(BUILD)
	@sh cmake/setup.sh packages.apt requirements-check.txt $(BUILD)/venv

demo: setup all ## softmax on real scores, with proof beside it
	@bash examples/demo.sh

check: setup ## every test (native, sanitizers, 64-bit Arm under qemu, an outside project, fuzzers, Python)
	@$(CHECK) native python address fuzz thread aarch64

check-native check-address check-thread check-aarch64 check-fuzz check-python: check-%: setup ## one part of check
	@$(CHECK) $*

check-exhaustive: setup ## the tests that take very long, such as exp over all floats
	@$(CHECK) exhaustive

bench: ## the CPU library beside its rivals and the ceilings; ARGS="--op softmax --shape 8x4096 --rivals numpy" asks one question
	@mkdir -p $(BUILD)
	@sh bench/cpu/setup.sh packages-bench.apt requirements-bench.txt $(BENCH_VENV)
	@cmake -S . -B $(BUILD) >$(BUILD)/configure.log || { cat $(BUILD)/configure.log; exit 1; }
	@cmake --build $(BUILD) -j $(JOBS) --target softmax_bench softmax_bench_rivals >$(BUILD)/bench.log || { tail -20 $(BUILD)/bench.log; exit 1; }
	@$(BENCH_VENV)/bin/python bench/cpu/bench.py --folder $(BUILD)/bench $(ARGS)

check-gpu: ## the tests on the GPU; says so and ends well where there is none
	@bash tests/cuda/build_gpu.sh check-gpu $(BUILD) gpu_tests softmax_command; status=$$?; [ $$status -ne 77 ] || exit 0; [ $$status -eq 0 ] && bash tests/cuda/check_gpu.sh $(BUILD)/on-gpu/gpu

bench-gpu: ## the CUDA kernels beside rivals and ceilings (PyTorch's python3); ARGS="--quick --only softmax" asks for less
	@bash tests/cuda/build_gpu.sh bench-gpu $(BUILD) softmax_shared softmax_command; status=$$?; [ $$status -ne 77 ] || exit 0; [ $$status -eq 0 ] && \
		PYTHONPATH=$(abspath $(BUILD))/on-gpu/gpu/python:$$PYTHONPATH python3 bench/gpu/run.py --library $(BUILD)/on-gpu/libsoftmax.so --out $(BUILD)/bench-gpu $(ARGS)

install: all ## to PREFIX (/usr/local); DESTDIR is obeyed
	@cmake --install $(BUILD) --prefix $(PREFIX)

clean: ## removes the build folder
	rm -rf $(BUILD)

help: ## this list
	@grep -hE '^[a-z0-9 -]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9 -]+):.*## /\1:/' | \
		awk -F: '{ n = split($$1, names, " "); for (i = 1; i <= n; i++) printf "  make %-17s %s\n", names[i], $$2 }'
