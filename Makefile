# The front door. `make demo` and `make test` are all that most people need.
.PHONY: help demo demo-secure check test test-fake test-secure simulate scale conformance test-docker planted planted-chaos planted-store chaos bench bench-quick bench-page fuzz deny oldest-rust package

help:
	@echo "make demo    the classic example on a real HBase, which it sets up"
	@echo "make demo-secure  the same on an HBase with Kerberos and encryption"
	@echo "make check   what needs no server: lints, unit and property tests, documentation"
	@echo "make test    everything, on clusters that it starts and ends"
	@echo "make test SUITE=locks  tests of one theme, or of several, on a cluster that stays up"
	@echo "make test-fake  the suite and the command on a fake cluster: minutes, and no server"
	@echo "make simulate  the library under faults that are drawn from seeds, in virtual time (SIM_SEEDS of each scenario, SIM_SEED repeats one, SCENARIO=part of a name)"
	@echo "make scale   100,000 regions on 1,000 servers, which all move, and a cold start of 500 clients, in virtual time (SCALE_REGIONS, SCALE_SERVERS, SCALE_CLIENTS)"
	@echo "make conformance  the fake cluster against four releases of HBase, by random operations (CONFORMANCE_OPERATIONS, CONFORMANCE_SEED)"
	@echo "make test-secure  clusters with Kerberos and TLS, of each release and with each protection, in full; tickets and tokens that expire for five minutes each"
	@echo "make test-docker  the smoke suite in a container of coprocessor/Dockerfile; on Debian as root it installs what it needs"
	@echo "make planted  fixed bugs planted again, one at a time, which the simulation must find (BUGS=\"NAME…\" for some)"
	@echo "make planted-chaos  the same for short forms of the tests under faults, on a cluster that it starts and ends"
	@echo "make planted-store  bugs of the fake planted, one at a time, which the conformance must find (BUGS=\"NAME…\" for some)"
	@echo "make chaos   the tests under faults, and others of great counts, in full (CHAOS_SEED, CHAOS_ROUNDS, CHAOS_COMMITS, CHAOS_CYCLES, CHAOS_OPERATIONS, CHAOS_FLEET_SECONDS)"
	@echo "make bench   this client beside HBase's Java client and the floor; what records, group commit, a hot partition and locks cost; on clusters that it starts and ends (an hour after the build)"
	@echo "make bench-quick  a few works of this client beside the others (under 3 minutes after the build)"
	@echo "make bench-page  write docs/benchmarks.md and its charts from the reports of make bench"
	@echo "make fuzz    every decoder under a fuzzer (FUZZ_SECONDS=60 each; needs nightly Rust and cargo-fuzz)"
	@echo "make deny    licences, bans and security advisories of dependencies (needs cargo-deny, and the network for the advisories)"
	@echo "make oldest-rust  a build with the oldest supported Rust, which it installs by rustup"
	@echo "make package  every crate packed as it would be published, and built from its own files"

demo:
	@scripts/demo

demo-secure:
	@scripts/demo --kerberos --protection privacy

check:
	@scripts/check

test:
	@scripts/test $(if $(SUITE),suite $(SUITE))

test-fake:
	@scripts/test fake

SIM_SEEDS ?= 20000
simulate:
	@SIM_SEEDS=$(SIM_SEEDS) cargo test --release --all-features --test simulation -- --nocapture --test-threads 1 $(SCENARIO)

SCALE_REGIONS ?= 100000
SCALE_SERVERS ?= 1000
SCALE_CLIENTS ?= 500
scale:
	@SCALE_REGIONS=$(SCALE_REGIONS) SCALE_SERVERS=$(SCALE_SERVERS) SCALE_CLIENTS=$(SCALE_CLIENTS) \
		cargo test --release --all-features --test scale -- --nocapture

conformance:
	@scripts/test conformance

test-secure:
	@scripts/test secure

test-docker:
	@scripts/test-docker

planted:
	@scripts/planted $(BUGS)

planted-chaos:
	@scripts/planted --chaos $(BUGS)

planted-store:
	@scripts/planted --store $(BUGS)

chaos:
	@scripts/test chaos

bench:
	@scripts/bench

bench-quick:
	@scripts/bench client --quick

bench-page:
	@cargo bench --quiet --all-features --bench client -- --page

FUZZ_SECONDS ?= 60
fuzz:
	@for target in $$(ls fuzz/fuzz_targets | sed 's/\.rs$$//'); do \
		mkdir -p fuzz/target/corpus/$$target; \
		cargo +nightly fuzz run $$target fuzz/target/corpus/$$target fuzz/corpus/$$target \
			-- -max_total_time=$(FUZZ_SECONDS) || exit 1; \
	done

deny:
	@cargo deny --all-features check bans licenses sources
	@cargo deny --all-features check advisories || { \
		echo "deny: dependencies have advisories, or the database of advisories could not be fetched and NOTHING was checked" >&2; \
		exit 1; \
	}

oldest-rust:
	@rust=$$(sed -n 's/^rust-version = "\(.*\)"$$/\1/p' Cargo.toml) && \
	rustup toolchain install "$$rust" --profile minimal && \
	cargo "+$$rust" build --locked --workspace --all-features

package:
	@scripts/package
