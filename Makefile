# The few commands one needs. Meson does the work; the tests are in tests/, each script says what it
# proves. On Debian, missing packages (packaging/debian-deps.txt) are installed first.
BUILD ?= build
JOBS ?= $(shell nproc)
SEEDS ?= 1..10000
TRIALS ?= 10000
MATRIX_JOBS ?= 4
ROUNDS ?= 10

.PHONY: killed swim calm help build run test mutants check-full storm trials matrix histories crashes bench crowd serve-crowds serve-bound format clean deps-build deps-test

help:
	@echo "make build       build/bellwether"
	@echo "make run         build, then three candidates: the leader is killed, another takes over"
	@echo "make test        everything that must hold; ends with: N passed, N failed"
	@echo "make mutants     every planted bug must be caught; lists what caught it"
	@echo "make check-full  the published figures at full size"
	@echo "make storm       random faults under the checkers, SEEDS=$(SEEDS)"
	@echo "make trials      TRIALS=$(TRIALS) faults against real processes, never two at once"
	@echo "make histories   three and five nodes under kills, pauses and cuts: linearizable? (as root)"
	@echo "make crashes     every crash point of the service, alone and in a cluster"
	@echo "make killed      all nodes of a cluster killed under 1 GB of large writes, ROUNDS=$(ROUNDS): nothing acknowledged is lost"
	@echo "make matrix      peers on five hosts, each algorithm, each fault; needs root"
	@echo "make bench       how fast it is on this machine, against what is promised"
	@echo "make serve-crowds  10,000 idle connections and 1,000 watchers on the service, and five times the load it can take"
	@echo "make serve-bound   400 kills of holders on the service, judged by the witness"
	@echo "make crowd       what 1,000 waiting candidates cost on every store, and who is served"
	@echo "make swim        SWIM with 12, 50 and 200 real processes: deaths known in time, traffic constant"
	@echo "make calm        ten minutes of 20 % loss between peers: no election"
	@echo "make format      clang-format over all C files"
	@echo "make clean       remove every build directory"

deps-build:
	@packaging/install-deps.sh build

deps-test:
	@packaging/install-deps.sh test

$(BUILD)/build.ninja: | deps-build
	@meson setup $(BUILD) >/dev/null || { cat $(BUILD)/meson-logs/meson-log.txt; exit 1; }

build: deps-build $(BUILD)/build.ninja
	@ninja -j$(JOBS) -C $(BUILD) --quiet

run: build
	@examples/failover.sh $(BUILD)/bellwether

test: deps-test
	@tests/all.sh

mutants: deps-test build
	@tests/mutants.py $(BUILD)

check-full: build
	@$(BUILD)/bellwether sim check

storm: build
	@$(BUILD)/bellwether sim storm --algorithm all --seeds $(SEEDS)

trials: build
	@tests/system/run/run_trials.py $(BUILD)/bellwether $(BUILD)/tests/run-witness $(BUILD)/tests/run-shim.so \
		--trials $(TRIALS) --rooms 24

histories: deps-test build
	@tests/system/serve/serve_histories.py $(BUILD)/bellwether $(BUILD)/tests/check-history --long

crashes: deps-test build
	@tests/system/serve/serve_crash.py $(BUILD)/tests/serve-crash src --long

killed: deps-test build
	@tests/system/serve/serve_killed.py $(BUILD)/bellwether $(BUILD)/tests/serve-crash $(BUILD)/bench/serve-load --long --rounds $(ROUNDS)

matrix: deps-test build
	@tests/system/peer/peer_matrix.py $(BUILD)/bellwether $(BUILD)/tests/run-witness $(BUILD)/tests/relay --all --jobs $(MATRIX_JOBS)

bench: build
	@meson test -C $(BUILD) --no-rebuild --benchmark --verbose

crowd: deps-test build
	@bench/store_crowds.py $(BUILD)/tests/store-crowd

SERVE_PROGRAMS = $(BUILD)/bellwether $(BUILD)/tests/run-witness $(BUILD)/tests/store-conformance

serve-crowds: deps-test build
	@tests/system/serve/serve_crowds.py $(SERVE_PROGRAMS) $(BUILD)/bench/serve-load --long

serve-bound: deps-test build
	@tests/system/serve/serve_bound.py $(SERVE_PROGRAMS) --trials 400

swim: deps-test build
	@tests/system/peer/peer_swim.py $(BUILD)/bellwether --sizes 12,50,200 --period-ms 1000 --seconds 20

calm: deps-test build
	@tests/system/peer/peer_calm.py $(BUILD)/bellwether $(BUILD)/tests/run-witness $(BUILD)/tests/relay --seconds 600

format: deps-test
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	@rm -rf build build-asan build-mutants
