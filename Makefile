# `make demo` and `make test` set up a Debian-like machine by themselves; everything else assumes that.

# Outside the checkout, so that an editor, git and the sandbox never walk through it.
export CARGO_TARGET_DIR ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/longhaul/target

LONGHAUL = $(CARGO_TARGET_DIR)/debug/longhaul

.DEFAULT_GOAL := help
.PHONY: help demo test test-peers build setup doctor lint tidy bench clean

help:  ## this list
	@printf 'make demo      from one sentence to a verified application: replies from a cassette, everything else real\n'
	@printf 'make test      set up, build, tidy, every test; prints how long each took\n'
	@printf 'make test-peers  the long suites: Milvus servers, agents of other SDKs, kills of the demo\n'
	@printf 'make build     set up, build the program and fetch the embedding model\n'
	@printf 'make doctor    what this machine lacks\n'
	@printf 'make lint      rustfmt and clippy, warnings refused (a second build; not part of make test)\n'
	@printf 'make tidy      the rules that compilers do not know\n'
	@printf 'make bench     the figures promised for the main job\n'
	@printf 'make clean     remove everything that was built\n\n'
	@printf 'target folder: %s (CARGO_TARGET_DIR)\n' '$(CARGO_TARGET_DIR)'

setup:
	@scripts/setup.sh

build: setup
	cargo build --workspace
	$(LONGHAUL) setup

# DIR=FOLDER builds the demonstration's application there; the folder must be new.
demo: build
	$(LONGHAUL) demo $(if $(DIR),--dir '$(DIR)')

test:
	@started=$$(date +%s); scripts/setup.sh && SETUP_SECONDS=$$(( $$(date +%s) - started )) cargo xtask test

test-peers: setup
	@cargo xtask test-peers

doctor: setup
	cargo run --quiet --package longhaul-cli -- doctor

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- --deny warnings

tidy:
	@cargo xtask tidy

bench:
	@cargo xtask bench harness

clean:
	cargo clean
