# One command for everything one does often; the gate (.ci/run) calls `make test`.
.PHONY: help run test test-peers lint unit sim crash hotpath live live-throttled build dist bench bench-maps fuzz soak docs measure lab-evidence clean root

CARGO ?= cargo
export CARGO_TERM_COLOR ?= auto
# The tests' Python leaves no bytecode in the tree.
export PYTHONDONTWRITEBYTECODE = 1
# On a terminal cargo shows what it builds; in a log only what fails.
QUIET := $(shell [ -t 2 ] || echo -q)
SIM = $(CARGO) run -q --profile sim -p sim --
TARGET = $(shell $(CARGO) metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
LOLIGO = $(TARGET)/release/loligo
DIST = $(TARGET)/dist/loligo

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

root:
	@[ "$$(id -u)" = 0 ] || { echo "This needs root (packages, network namespaces): run it with sudo." >&2; exit 1; }

run: root ## a small study: Loligo and Ceph 16.2 side by side, with a report to look at (results/first-look)
	@bash tests/peers/install-debian.sh ceph
	@echo "== building (release): a few minutes the first time"; $(CARGO) build --release $(QUIET) -p loligo
	@"$(LOLIGO)" lab run studies/first-look.yaml

test: root ## install what the tests need and run all of them
	@bash tests/peers/install-debian.sh
	@bash tests/peers/peer-root.sh 18.2
	@$(MAKE) --no-print-directory lint unit hotpath live

test-peers: root ## the live tests with the clients of 20.2 too ('not run' where they can't be had)
	@bash tests/peers/install-debian.sh
	@bash tests/peers/peer-root.sh 18.2
	@$(MAKE) --no-print-directory build
	@bash tests/peers/peer-root.sh 20.2 && python3 tests/live/run.py --loligo "$(LOLIGO)" --peers 16.2,18.2,20.2 \
	  || { [ -e "$${LOLIGO_PEERS:-/var/cache/loligo/peers}/20.2/.loligo-peer-complete" ] && exit 1; echo "20.2: not run (no root of that release to be had)"; }

lint: ## formatting, clippy, the pure layers' rules, xtask tidy
	@echo "== lint"; $(CARGO) fmt --all --check
	@$(CARGO) clippy $(QUIET) --workspace --all-targets -- -D warnings
	@$(CARGO) run -q -p xtask -- tidy

unit: ## every test that needs no peer
	@# The build is the one of the whole workspace throughout: for a part of it cargo would build some crates again.
	@echo "== building the unit tests"; $(CARGO) test $(QUIET) --workspace --all-targets --no-run
	@# The tests leave a core idle now and then; the simulator takes what they leave.
	@echo "== unit tests, 200 power losses of the block store, and the simulator (it reports at the end)"
	@nice -n 19 "$(TARGET)/debug/sim" run --seeds 200 >"$(TARGET)/sim-run.log" 2>&1 & simulator=$$!; \
	  trap 'kill $$simulator 2>/dev/null' INT TERM; \
	  LOLIGO_CRASH_SEEDS=1..201 $(CARGO) test $(QUIET) --workspace --all-targets; tests=$$?; \
	  wait $$simulator; simulated=$$?; echo "== simulator"; cat "$(TARGET)/sim-run.log"; \
	  [ $$tests = 0 ] && [ $$simulated = 0 ]
	@$(CARGO) test $(QUIET) --doc -p options

sim: ## the simulator: SEEDS=n runs (from FROM=n), or SECONDS=n of them; SEED=n replays one and writes its trace; KIND=trims: of snapshots and restarts
ifdef SEED
	@$(SIM) replay $(SEED) $(if $(KIND),--kind $(KIND)) $(if $(OBJECT),--object $(OBJECT))
else
	@$(SIM) run $(if $(KIND),--kind $(KIND)) $(if $(FROM),--from $(FROM)) $(if $(SEEDS),--seeds $(SEEDS)) $(if $(SECONDS),--seconds $(SECONDS))
endif

crash: ## power losses of the block store: SEEDS=n of them (from FROM=n), each with other options
	@LOLIGO_CRASH_SEEDS=$(or $(FROM),1)..$$(( $(or $(FROM),1) + $(or $(SEEDS),300) )) \
	  $(CARGO) test $(QUIET) --release -p blockstore --test it seeds -- --nocapture

build: ## the release build
	@echo "== building (release)"; $(CARGO) build --release $(QUIET) -p loligo -p hotpath --bins --example nbd

dist: ## the program to install: optimised as a whole and by a load of its own, some 15 minutes (target/dist/loligo)
	@CARGO="$(CARGO)" bash crates/programs/loligo/dist.sh

hotpath: build ## instructions an operation, against tests/hotpath.json (needs valgrind)
	@echo "== instructions an operation"; "$(dir $(LOLIGO))hotpath" check tests/hotpath.json

live: root build ## unmodified Ceph clients against a live cluster
	@echo "== live tests"; python3 tests/live/run.py --loligo "$(LOLIGO)" --peers 16.2,18.2

live-throttled: root build ## the same on a disk held to 26 MB/s and 500 operations a second: no test may take slowness for failure
	@bash tests/throttled.sh 26000000 500 python3 tests/live/run.py --loligo "$(LOLIGO)" --peers 16.2

bench-maps: ## the longest turns of an OSD of 16,384 PGs that goes through 40 epochs, by the clock
	@$(CARGO) build --release $(QUIET) -p hotpath
	@"$(dir $(LOLIGO))hotpath" maps

bench: build dist ## instructions an operation; CPU per operation of the MemStore beside Ceph's, and of both clients, in one run
	@"$(dir $(LOLIGO))hotpath" print
	@python3 tests/measure.py --loligo "$(DIST)" cpu
	@python3 tests/measure.py --loligo "$(DIST)" --rounds 3 client

measure: root dist ## start time, idle memory and CPU per operation, ours and Ceph's
	@python3 tests/measure.py --loligo "$(DIST)" all

lab-evidence: ## the lab's statistics on 10,000 studies drawn from recorded real trials (minutes)
	@$(CARGO) test --release $(QUIET) -p labstats --test evidence -- --ignored --nocapture --test-threads 1

fuzz: ## every decoder's fuzz target for a minute each (needs cargo-fuzz)
	@cd fuzz && for t in $$($(CARGO) fuzz list); do $(CARGO) fuzz run -s none $$t -- -max_total_time=60 || exit 1; done

soak: root build ## the long forms: 50 rounds of kill -9, 10,000 appends through a cutting proxy, every left-out flush
	@python3 tests/live/run.py --loligo "$(LOLIGO)" --soak

docs: ## the crates' documentation
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

clean: ## remove what was built
	@$(CARGO) clean
