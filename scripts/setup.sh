#!/bin/sh
# Installs what this checkout needs and this machine lacks. Safe to run again: it changes nothing that is already there.
# Rust itself is assumed; Debian packages come through apt-get, as root or through sudo.
set -eu

say() { printf 'set-up: %s\n' "$*"; }
fail() { printf 'set-up: %s\n' "$*" >&2; exit 4; }

started=$(date +%s)

case "$(uname -s) $(uname -m)" in
    "Linux x86_64" | "Linux aarch64") ;;
    *) fail "$(uname -s) $(uname -m) is not supported: the sandbox needs Linux namespaces; use Linux on x86-64 or aarch64" ;;
esac

rust_wanted=1.95
if ! command -v cargo >/dev/null 2>&1; then
    fail "cargo is not on the PATH; install Rust $rust_wanted or newer with rustup, then run this again"
fi
rust_found=$(rustc --version | cut -d ' ' -f 2 | cut -d - -f 1)
oldest=$(printf '%s\n%s\n' "$rust_wanted" "$rust_found" | sort -V | head -n 1)
if [ "$oldest" != "$rust_wanted" ]; then
    fail "Rust $rust_found is too old; $rust_wanted or newer is needed: rustup update stable"
fi

# Each line: how to see that it is there, and the package that brings it. The sandbox shows /usr only, so Python has to be there.
missing=""
need() { # PACKAGE TEST...
    package=$1
    shift
    if ! "$@" >/dev/null 2>&1; then missing="$missing $package"; fi
}
chromium_there() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
need gcc command -v cc
need libc6-dev test -e /usr/include/stdio.h
need git command -v git
need bubblewrap command -v bwrap
need util-linux command -v unshare
need python3 test -x /usr/bin/python3
need python3-pip python3 -m pip --version
need sqlite3 command -v sqlite3
# A certificate for the test of encrypted connections.
need openssl command -v openssl
# The server programs only: the tests run a private server of their own, and never the machine's.
need postgresql sh -c 'ls /usr/lib/postgresql/*/bin/initdb'
if ! chromium_there >/dev/null; then
    # Without recommended packages a page would have no font to be drawn with.
    missing="$missing chromium chromium-sandbox fonts-liberation"
fi

if [ -n "$missing" ]; then
    say "missing:$missing"
    if ! command -v apt-get >/dev/null 2>&1; then
        fail "this machine has no apt-get: install the like of these packages by hand, then run this again:$missing"
    fi
    if grep -qs '^ID=ubuntu' /etc/os-release; then
        case "$missing" in
            *chromium*) fail "Ubuntu's chromium is a snap, which cannot be driven from outside its confinement: install Google's google-chrome-stable .deb, then run this again" ;;
        esac
    fi
    as_root=""
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null 2>&1 || fail "not root, and there is no sudo; have root run: apt-get update && apt-get install -y$missing"
        as_root="sudo"
        # Without a terminal sudo could wait for a password for ever.
        if [ ! -t 0 ]; then as_root="sudo -n"; fi
    fi
    say "apt-get update"
    $as_root apt-get update -q </dev/null || say "apt-get update failed; trying with the lists that are there"
    say "apt-get install$missing"
    # shellcheck disable=SC2086 # the list is split on purpose
    $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $missing </dev/null ||
        fail "apt-get could not install:$missing; see its messages above"
fi

# Two checkouts may share one target folder, and cargo tells their crates apart by time only: what the other one
# built is removed, what comes from the registry stays.
target=${CARGO_TARGET_DIR:-target}
here=$(pwd -P)
mkdir -p "$target"
if [ -f "$target/.checkout" ] && [ "$(cat "$target/.checkout")" != "$here" ]; then
    say "the target folder was used by $(cat "$target/.checkout"): removing that checkout's own crates from it"
    # shellcheck disable=SC2046 # one flag a crate
    cargo clean --quiet $(grep -h -m 1 '^name = ' crates/*/Cargo.toml xtask/Cargo.toml | sed 's/^name = "\(.*\)"/-p \1/')
fi
printf '%s\n' "$here" >"$target/.checkout"

say "ready after $(($(date +%s) - started)) s"
