#!/usr/bin/env python3
"""Starts a network, lets the graph of examples/langgraph_joins take part, asks it between two and in a channel, ends it
without a word and asks again; and says how many expectations held.

    scripts/peers.sh langgraph                           installs LangGraph, once
    PYTHON scripts/langgraph-joins.py LONGHAUL

PYTHON is ~/.cache/longhaul/peers/langgraph-1.2.22/bin/python, LONGHAUL the program.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import uuid
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parent.parent / "examples/langgraph_joins"
passed = failed = 0


def expect(holds, what, told=None):
    global passed, failed
    if holds:
        passed += 1
    else:
        failed += 1
        print(f"FAILED: {what}: {told!r}", flush=True)


def call(url, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=40) as answer:
        return json.load(answer)


def network(longhaul, folder):
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    folder.mkdir()
    (folder / "network.yaml").write_text(
        f"""network:
  name: Library
  node_id: library
  transports: [{{type: http, config: {{host: 127.0.0.1, port: {port}}}}}]
  mods: [{{name: openagents.mods.workspace.messaging, config: {{default_channels: [{{name: general}}]}}}}]
"""
    )
    log = open(folder / "server.log", "wb")  # noqa: SIM115
    env = {**os.environ, "LONGHAUL_HOME": str(folder / "home")}
    process = subprocess.Popen([longhaul, "network", "start", str(folder)], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
    url, until = f"http://127.0.0.1:{port}", time.monotonic() + 30
    while time.monotonic() < until and process.poll() is None:
        with contextlib.suppress(OSError):
            call(url, "/api/health")
            return process, url
        time.sleep(0.05)
    raise SystemExit("the network did not start:\n" + (folder / "server.log").read_text()[-4000:])


def joined(url, folder):
    command = [sys.executable, str(EXAMPLE / "join.py"), "graph:graph", "--agent", "librarian", "--network", url]
    env = {**os.environ, "JOIN_STATE": str(folder), "PYTHONPATH": str(EXAMPLE), "LANGSMITH_TRACING": "false"}
    process = subprocess.Popen(command, cwd=EXAMPLE, env=env, stdout=subprocess.PIPE, text=True)
    expect("is in" in process.stdout.readline(), "the graph is let in")
    return process


class Reader:
    """Somebody who asks."""

    def __init__(self, url):
        self.url, self.heard = url, []
        self.secret = call(url, "/api/register", {"agent_id": "reader"})["secret"]

    def say(self, name, to, payload):
        body = {"event_id": str(uuid.uuid4()), "event_name": name, "source_id": "reader", "target_agent_id": to}
        return call(self.url, "/api/send_event", {**body, "payload": payload, "secret": self.secret})

    def ask(self, text):
        self.say("thread.direct_message.send", "agent:librarian", {"content": {"text": text}, "target_agent_id": "librarian"})

    def hears(self, text):
        until = time.monotonic() + 15
        while time.monotonic() < until:
            told = call(self.url, f"/api/poll?agent_id=reader&secret={self.secret}")
            self.heard += [m["payload"].get("content", {}).get("text") for m in told["messages"] if m["source_id"] == "librarian"]
            if text in self.heard:
                return True
        return False


def main():
    with tempfile.TemporaryDirectory(prefix="longhaul-langgraph-") as folder:
        process, url = network(sys.argv[1], Path(folder) / "network")
        graph = None
        try:
            graph, reader = joined(url, Path(folder)), Reader(url)
            reader.ask("When are you open?")
            expect(reader.hears("Which branch: main, north, harbour?"), "it asks back", reader.heard)
            reader.ask("The north one")
            expect(reader.hears("The north branch is open 10–18."), "and knows what was asked", reader.heard)
            told = reader.say("thread.channel_message.post", "channel:general",
                              {"message_type": "channel_message", "channel": "general",
                               "content": {"text": "@librarian and the harbour?"}, "mentioned_agent_id": "librarian"})
            expect(told["success"], "a post", told)
            expect(reader.hears("The harbour branch is open 12–17."), "it answers in a channel when it is meant", reader.heard)
            graph.kill()
            graph.wait()
            reader.ask("main branch?")
            graph = joined(url, Path(folder))
            expect(reader.hears("The main branch is open 9–20."), "killed, it comes back to its queue", reader.heard)
            expect(len(reader.heard) == len(set(reader.heard)) == 4, "and says nothing twice", reader.heard)
        finally:
            for one in (graph, process):
                if one:
                    one.kill()
                    one.wait()
    word = "FAILED" if failed else "ok"
    print(f"test result: {word}. {passed} passed; {failed} failed; 0 ignored", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
