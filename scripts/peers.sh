#!/bin/sh
# Installs what the tests talk to, below the user's cache folder. Safe to run again: what is there stays. Without
# arguments both Milvus servers; `peers.sh lite`, `peers.sh full`, `peers.sh mcp`,
# `peers.sh schemathesis`, `peers.sh models`, `peers.sh claude`, `peers.sh openagents` or `peers.sh grpc` only one of them.
#
#   milvus-lite 3.2.2  the small server in Python, which starts within two seconds
#   milvus 2.3.5       the full standalone server, with its own libraries
#   mcp 2.3.0          the official Python client of the Model Context Protocol, which `longhaul mcp` is tested with
#   claude-agent-acp 0.100.0  Claude Code as an agent over ACP, which works for us without its service
#   anthropic 2.12.0, openai 3.54.0  the official Python clients of two services, which judge the cassette server
#   schemathesis 4.32.5  sends requests made from the gateway's OpenAPI document, good ones and bad ones
#   skills-ref 0.1.1   the reference validator of Agent Skills
#   a2a-sdk 1.3.0      the official Python client of A2A; and what the compatibility kit of A2A wants (`peers.sh tck`)
#   openagents 0.9.3.post20 and 0.6.16  the SDK of OpenAgents, whose agents join our networks unmodified
#   langgraph 1.2.22   graphs of which one takes part in a network, as examples/langgraph_joins shows
#   mcp-conformance 0.2.0-alpha.12  the suite that judges servers of the Model Context Protocol, revision by revision
#   websockets 17.0    the usual Python client of WebSocket
#   grpcio 1.76.0      the official Python implementation of gRPC, with health and reflection
#   libp2p 0.8.1 (Python) and 3.3.11 (JavaScript, with gossipsub 17)  peers that join a network over libp2p
#   playwright 1.65.2  drives Chromium as people do by hand, for the bench of the verifier
#
# Nothing of this is part of the program: it speaks plain Milvus gRPC to any server.
set -eu

say() { printf 'peers: %s\n' "$*"; }
fail() { printf 'peers: %s\n' "$*" >&2; exit 4; }

peers="${XDG_CACHE_HOME:-$HOME/.cache}/longhaul/peers"
python=/usr/bin/python3
[ -x "$python" ] || python=$(command -v python3) || fail "python3 is not installed; run scripts/setup.sh first"

# A virtual environment, filled beside its place and moved there when it is whole. Two installations at once wait for
# each other; one that was killed leaves a folder with .part behind, which the next one removes.
environment() { # NAME REQUIREMENT...
    name=$1
    shift
    if [ -f "$peers/$name/.whole" ]; then return 0; fi
    say "installing $* into $peers/$name (some minutes on a slow line)"
    rm -rf "${peers:?}/$name"
    "$python" -m venv --without-pip "$peers/$name" 2>/dev/null || fail "python3 cannot make a virtual environment: install python3-venv"
    "$python" -m pip --python "$peers/$name/bin/python" install --disable-pip-version-check --quiet "$@" </dev/null ||
        fail "pip could not install $*; see its messages above, and run this again"
}

lite() {
    environment milvus-lite-3.2.2 "milvus-lite==3.2.2" "pymilvus"
    touch "$peers/milvus-lite-3.2.2/.whole"
    say "milvus-lite 3.2.2 is there"
}

# The wheel carries the server and its libraries packed; unpacked once, so that a test starts it within seconds.
full() {
    environment milvus-2.3.5 "milvus==2.3.5"
    if [ ! -f "$peers/milvus-2.3.5/.whole" ]; then
        say "unpacking the server"
        "$peers/milvus-2.3.5/bin/python" - "$peers/milvus-2.3.5/server" <<'PYTHON' || fail "the server could not be unpacked"
import glob, lzma, os, shutil, sys, milvus
data, target = os.path.join(os.path.dirname(milvus.__file__), "data"), sys.argv[1]
os.makedirs(target, exist_ok=True)
for packed in glob.glob(os.path.join(data, "bin", "*.lzma")):
    name = os.path.join(target, os.path.basename(packed)[:-5])
    with lzma.open(packed) as source, open(name, "wb") as sink:
        shutil.copyfileobj(source, sink)
    os.chmod(name, 0o755)
for name in ("config.yaml.template", "glog.conf"):
    shutil.copy(os.path.join(data, name), target)
PYTHON
        touch "$peers/milvus-2.3.5/.whole"
    fi
    say "milvus 2.3.5 is there"
}

mcp() {
    environment mcp-2.3.0 "mcp==2.3.0"
    touch "$peers/mcp-2.3.0/.whole"
    say "mcp 2.3.0 is there"
}

schemathesis() {
    environment schemathesis-4.32.5 "schemathesis==4.32.5"
    touch "$peers/schemathesis-4.32.5/.whole"
    say "schemathesis 4.32.5 is there"
}

# Claude Code behind its ACP adapter, with a Node of its own, as the adapter needs 22.
claude() {
    name=claude-agent-acp-0.100.0
    if [ ! -f "$peers/$name/.whole" ]; then
        command -v npm >/dev/null 2>&1 || fail "npm is not installed: apt-get install npm"
        say "installing @agentclientprotocol/claude-agent-acp@0.100.0 into $peers/$name (600 MB)"
        rm -rf "${peers:?}/$name"
        mkdir -p "$peers/$name"
        npm install --prefix "$peers/$name" --no-audit --no-fund --loglevel=error \
            "@agentclientprotocol/claude-agent-acp@0.100.0" "node@22.23.3" </dev/null >/dev/null ||
            fail "npm could not install the adapter; see its messages above, and run this again"
        "$peers/$name/node_modules/.bin/node" --version >/dev/null || fail "the Node of the adapter does not run"
        touch "$peers/$name/.whole"
    fi
    say "claude-agent-acp 0.100.0 is there"
}

models() {
    environment models-2.12.0-3.54.0 "anthropic==2.12.0" "openai==3.54.0"
    touch "$peers/models-2.12.0-3.54.0/.whole"
    say "anthropic 2.12.0 and openai 3.54.0 are there"
}

skills() {
    environment skills-ref-0.1.1 "skills-ref==0.1.1"
    touch "$peers/skills-ref-0.1.1/.whole"
    say "skills-ref 0.1.1 is there"
}

# Without a browser of its own: it drives the one that is there.
playwright() {
    environment playwright-1.65.2 "playwright==1.65.2"
    touch "$peers/playwright-1.65.2/.whole"
    say "playwright 1.65.2 is there"
}

a2a() {
    environment a2a-sdk-1.3.0 "a2a-sdk[http-server,grpc]==1.3.0"
    touch "$peers/a2a-sdk-1.3.0/.whole"
    say "a2a-sdk 1.3.0 is there"
}

# What the compatibility kit of A2A wants; the kit itself is a checkout that `cargo xtask tck` is told of.
tck() {
    environment a2a-tck "pytest>=8,<10" "pytest-asyncio>=0.23" "httpx>=0.27" "grpcio>=1.60" "protobuf>=4.25" \
        "googleapis-common-protos>=1.62" "jsonschema>=4.21" "pytest-html>=4.1" "gherkin-official>=29" "Jinja2>=3.1"
    touch "$peers/a2a-tck/.whole"
    say "what the compatibility kit of A2A wants is there"
}

# Two versions, as agents in use have them. Without the bounds the newer one's own modules cannot be loaded: what it
# generated needs protobuf 6.31, and its client of MCP knows the first major version only.
openagents_newer() {
    environment openagents-0.9.3.post20 "openagents[sdk]==0.9.3.post20" "protobuf>=6.31.1" "mcp<2"
    touch "$peers/openagents-0.9.3.post20/.whole"
    say "openagents 0.9.3.post20 is there"
}

openagents() {
    openagents_newer
    environment openagents-0.6.16 "openagents==0.6.16" "protobuf>=6.31.1" "mcp<2"
    touch "$peers/openagents-0.6.16/.whole"
    say "openagents 0.6.16 is there"
}

websockets() {
    environment websockets-17.0 "websockets==17.0"
    touch "$peers/websockets-17.0/.whole"
    say "websockets 17.0 is there"
}

# The suite that judges servers of the Model Context Protocol, with a Node of its own, as it needs 22.
conformance() {
    name=mcp-conformance-0.2.0-alpha.12
    if [ ! -f "$peers/$name/.whole" ]; then
        command -v npm >/dev/null 2>&1 || fail "npm is not installed: apt-get install npm"
        say "installing @modelcontextprotocol/conformance@0.2.0-alpha.12 into $peers/$name (140 MB)"
        rm -rf "${peers:?}/$name"
        mkdir -p "$peers/$name"
        npm install --prefix "$peers/$name" --no-audit --no-fund --loglevel=error \
            "@modelcontextprotocol/conformance@0.2.0-alpha.12" "node@22.23.3" </dev/null >/dev/null ||
            fail "npm could not install the suite; see its messages above, and run this again"
        "$peers/$name/node_modules/.bin/node" --version >/dev/null || fail "the Node of the suite does not run"
        touch "$peers/$name/.whole"
    fi
    say "@modelcontextprotocol/conformance 0.2.0-alpha.12 is there"
}

grpc() {
    environment grpcio-1.76.0 "grpcio==1.76.0" "grpcio-tools==1.76.0" "grpcio-health-checking==1.76.0" \
        "grpcio-reflection==1.76.0"
    touch "$peers/grpcio-1.76.0/.whole"
    say "grpcio 1.76.0 is there"
}

# Both in one folder; the JavaScript one with a Node of its own, as it needs 22.
libp2p() {
    environment libp2p-0.8.1 "libp2p==0.8.1"
    name=libp2p-0.8.1
    if [ ! -f "$peers/$name/.whole" ]; then
        command -v npm >/dev/null 2>&1 || fail "npm is not installed: apt-get install npm"
        say "installing libp2p@3.3.11 into $peers/$name (230 MB)"
        npm install --prefix "$peers/$name" --no-audit --no-fund --loglevel=error \
            "libp2p@3.3.11" "@libp2p/gossipsub@17.1.1" "@libp2p/tcp@11.0.28" "@libp2p/noise@17.0.3" \
            "@libp2p/yamux@8.0.3" "@libp2p/identify@4.1.14" "@libp2p/ping@3.1.13" "@chainsafe/libp2p-quic@2.1.1" \
            "@libp2p/utils@7.4.1" "@multiformats/multiaddr@13.0.3" "node@22.23.3" </dev/null >/dev/null ||
            fail "npm could not install js-libp2p; see its messages above, and run this again"
        "$peers/$name/node_modules/.bin/node" --version >/dev/null || fail "the Node of js-libp2p does not run"
        touch "$peers/$name/.whole"
    fi
    say "libp2p 0.8.1 (Python) and 3.3.11 (JavaScript) are there"
}

langgraph() {
    environment langgraph-1.2.22 "langgraph==1.2.22"
    touch "$peers/langgraph-1.2.22/.whole"
    say "langgraph 1.2.22 is there"
}

mkdir -p "$peers"
# One installation at a time, whoever asks.
if [ "${LONGHAUL_PEERS_LOCKED:-}" != 1 ] && command -v flock >/dev/null 2>&1; then
    LONGHAUL_PEERS_LOCKED=1 exec flock "$peers/.lock" "$0" "$@"
fi
[ $# -gt 0 ] || set -- lite full
for which in "$@"; do
    case $which in
        lite) lite ;;
        full) full ;;
        mcp) mcp ;;
        schemathesis) schemathesis ;;
        skills) skills ;;
        models) models ;;
        claude) claude ;;
        playwright) playwright ;;
        a2a) a2a ;;
        tck) tck ;;
        openagents) openagents ;;
        openagents-newer) openagents_newer ;;
        grpc) grpc ;;
        langgraph) langgraph ;;
        conformance) conformance ;;
        websockets) websockets ;;
        libp2p) libp2p ;;
        *) fail "there is no $which: lite, full, mcp, schemathesis, models, skills, claude, playwright, openagents, grpc, langgraph, libp2p, a2a, tck, conformance or websockets" ;;
    esac
done
