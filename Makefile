# The two commands a newcomer needs: `make serve` and `make test`. Both install, build and run;
# repeating them is quick.

MODEL ?= models/baton-mini
PORT ?= 8000
JOBS ?= $(shell nproc)

.PHONY: serve test build setup bench format clean

setup:
	@bash tools/setup/install.sh

build: setup
	@cmake --preset release >build-release.log 2>&1 || { cat build-release.log; exit 1; }
	@mv build-release.log build/release/configure.log
	@cmake --build build/release --target baton -j $(JOBS)

serve: build
	@build/release/baton serve --model $(MODEL) --port $(PORT)

test: setup
	@python3 tools/check/run_tests.py

bench: setup
	@cmake --preset release >/dev/null
	@cmake --build build/release -j $(JOBS) --target kernels_benchmark engine_benchmark
	@build/release/src/kernels/kernels_benchmark
	@build/release/src/engine/engine_benchmark

format:
	@git ls-files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs clang-format -i

clean:
	@rm -rf build
