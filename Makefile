# The common commands. Meson builds and tests; each script in tests/ says at its top what it proves.
# On Debian, missing packages (packaging/debian-deps.txt) are installed first.
BUILD ?= build
JOBS ?= $(shell nproc)
SEEDS ?= 1..10000
TRIALS ?= 10000
MATRIX_JOBS ?= 4
ROUNDS ?= 10
SECONDS ?= 600
DISK_SEEDS ?= 1..1000
DISK_ORDERS ?= 1..40
SNAPSHOT_SEEDS ?= 1..200
prefix ?= /usr/local
INSTALL_BUILD ?= build-install
DEB_BUILD ?= build-deb

.PHONY: soak playground disk-model adversary tsan torture killed swim calm help build run test test-long test-all mutants check-full storm trials matrix histories crashes bench crowd serve-crowds serve-bound format clean install uninstall deb image arm64 deps-deb deps-image deps-build deps-test branches

help:
	@echo "make build       build the program build/bellwether"
	@echo "make run         build, then run three candidates: the leader is killed, another one takes over"
	@echo "make install     build without tests and install below prefix=$(prefix) (in DESTDIR, if given)"
	@echo "make uninstall   remove what make install installed below prefix=$(prefix)"
	@echo "make deb         build the Debian packages in $(DEB_BUILD)/ and check them with lintian"
	@echo "make image       build the packages, and from them an OCI image in build/image (build/image.tar for podman or docker load)"
	@echo "make arm64       build for arm64 in a Debian in build-arm64/; run the unit tests and a smoke test under qemu-user (needs root)"
	@echo "make test        run the tests that take ten minutes; the last line is: N passed, N failed"
	@echo "make test-long   run the other tests: long ones, sanitizers, clang-tidy, branches, planted bugs"
	@echo "make test-all    run both"
	@echo "make mutants     check that the tests catch every planted bug; list the test that caught each"
	@echo "make branches    measure the branch coverage of src/core per file; list the branches that no unit test takes"
	@echo "make check-full  measure the published figures at full size"
	@echo "make storm       run random faults under the checkers, SEEDS=$(SEEDS)"
	@echo "make trials      inject TRIALS=$(TRIALS) faults into real processes; check that two leaders never run at once"
	@echo "make histories   check that three and five nodes stay linearizable under kills, pauses and cuts (needs root)"
	@echo "make crashes     crash the service at every crash point, alone and in a cluster"
	@echo "make disk-model  crash the log and the snapshots of a node and the files of a peer at every change, random plans DISK_SEEDS=$(DISK_SEEDS) and SNAPSHOT_SEEDS=$(SNAPSHOT_SEEDS), in every order of threads DISK_ORDERS=$(DISK_ORDERS)"
	@echo "make killed      kill all nodes of a cluster under 1 GB of large writes, ROUNDS=$(ROUNDS); check that no acknowledged write is lost"
	@echo "make tsan        look for data races in all parts that have a second thread, with ThreadSanitizer"
	@echo "make torture     fail every allocation and system call in turn, one per call stack; check what the programs do"
	@echo "make soak        elections, faults, drains and upgrades for SECONDS=$(SECONDS); memory, descriptors and disk must stay flat"
	@echo "make adversary   attack every listener with random clients for SECONDS=$(SECONDS), under the sanitizers; check a client beside them"
	@echo "make matrix      test peers on five hosts with each algorithm and each fault (needs root)"
	@echo "make bench       measure the speed on this machine against the promised figures"
	@echo "make serve-crowds  test the service with 10,000 idle connections and 1,000 watchers, and with five times its maximum load"
	@echo "make serve-bound   kill 400 lease holders on the service; a witness process checks their successors"
	@echo "make crowd       measure 1,000 waiting candidates on every store, and the order in which they lead"
	@echo "make swim        run SWIM with 12, 50 and 200 real processes; check detection time and traffic"
	@echo "make calm        run peers with 20 % message loss for ten minutes; check that no election happens"
	@echo "make playground  build the playground for the browser: build/playground/index.html"
	@echo "make format      format all C files with clang-format"
	@echo "make clean       remove every build directory"

deps-build:
	@packaging/install-deps.sh build

deps-deb:
	@packaging/install-deps.sh deb

deps-image:
	@packaging/install-deps.sh image

deps-test:
	@packaging/install-deps.sh test

$(BUILD)/build.ninja: | deps-build
	@meson setup $(BUILD) >/dev/null || { cat $(BUILD)/meson-logs/meson-log.txt; exit 1; }

build: deps-build $(BUILD)/build.ninja
	@ninja -j$(JOBS) -C $(BUILD) --quiet

run: build
	@examples/failover.sh $(BUILD)/bellwether

install: deps-build
	@packaging/install.sh install "$(prefix)" "$(INSTALL_BUILD)"

deb: deps-deb
	@packaging/deb.sh "$(DEB_BUILD)"

image: deb deps-image
	@packaging/image.sh "$(DEB_BUILD)" build/image

arm64: deps-image
	@packaging/arm64.sh build-arm64

uninstall:
	@packaging/install.sh uninstall "$(prefix)"

test: deps-test
	@tests/all.sh short

test-long: deps-test
	@tests/all.sh long

test-all: deps-test
	@tests/all.sh

mutants: deps-test build
	@tests/mutants.py $(BUILD)

branches: deps-test build
	@tests/branches.py --missing $(BUILD)

check-full: build
	@$(BUILD)/bellwether sim check --size 1

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

tsan: deps-test
	@tests/tsan.py --long

soak: deps-test build
	@tests/soak.py $(BUILD)/bellwether $(BUILD)/tests/run-witness $(BUILD)/tests/serve-crash --seconds $(SECONDS)

torture: deps-test build build-asan/build.ninja
	@ninja -j$(JOBS) -C build-asan --quiet
	@tests/torture.py build-asan --stacks

build-asan/build.ninja: | deps-build
	@meson setup build-asan -Db_sanitize=address,undefined -Db_lundef=false >/dev/null

adversary: deps-test build-asan/build.ninja
	@ninja -j$(JOBS) -C build-asan --quiet
	@tests/system/serve/serve_adversary.py build-asan/bellwether --seconds $(SECONDS)
	@tests/system/run/run_adversary.py build-asan/bellwether build-asan/tests/run-witness --seconds $$(($(SECONDS) / 4))
	@tests/system/peer/peer_adversary.py build-asan/bellwether build-asan/tests/run-witness --seconds $$(($(SECONDS) / 4))

disk-model: deps-test build
	@$(BUILD)/tests/system-disk_wal --seeds $(DISK_SEEDS)
	@$(BUILD)/tests/system-disk_wal --orders $(DISK_ORDERS)
	@$(BUILD)/tests/system-disk_snapshot --seeds $(SNAPSHOT_SEEDS)
	@$(BUILD)/tests/system-disk_peer --seeds $(DISK_SEEDS)

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
	@tests/system/peer/peer_lossy.py $(BUILD)/bellwether $(BUILD)/tests/run-witness $(BUILD)/tests/relay --seconds 600

playground: deps-deb
	@web/build.py $(BUILD)

format: deps-test
	@git ls-files '*.c' '*.h' | xargs clang-format -i

clean:
	@rm -rf build build-asan build-tsan build-mutants build-install build-deb build-arm64
