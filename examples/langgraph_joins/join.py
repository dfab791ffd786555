#!/usr/bin/env python3
"""Lets a compiled LangGraph graph take part in a network, over plain HTTP and with the standard library only.

    python join.py graph:graph --agent librarian --network http://127.0.0.1:8700

The graph stays as it is: each message that is for it becomes one `invoke` with the messages it expects, in a thread of
the graph's own for each conversation (a channel, or a person), and its last message becomes the answer. It answers
direct messages, and in channels those that mention it. An answer's id is made from the id of the question: told twice,
it is one answer.
"""

import argparse
import importlib
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid
from pathlib import Path


class Network:
    """The four calls that an agent needs."""

    def __init__(self, url, agent):
        self.url, self.agent = url.rstrip("/"), agent
        self.kept = Path(os.environ.get("JOIN_STATE", ".")) / f".{agent}.secret"
        self.secret = self.kept.read_text() if self.kept.exists() else None

    def call(self, path, body=None, **query):
        query = f"?{urllib.parse.urlencode(query)}" if query else ""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}{path}{query}", data, {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=40) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as refusal:
            return json.load(refusal)

    def register(self, **metadata):
        body = {"agent_id": self.agent, "metadata": metadata, "capabilities": ["library"]}
        told = self.call("/api/register", {**body, "secret": self.secret} if self.secret else body)
        if not told.get("success"):
            raise SystemExit(f"not let in: {told.get('error_message')}")
        self.secret = told["secret"]
        self.kept.touch(0o600)
        self.kept.write_text(self.secret)

    def send(self, event_id, name, to, payload, **more):
        body = {"event_id": event_id, "event_name": name, "source_id": self.agent, "target_agent_id": to}
        return self.call("/api/send_event", {**body, "payload": payload, "secret": self.secret, **more})

    def events(self):
        """What is for us, for ever. The network holds the question until there is something."""
        while True:
            try:
                told = self.call("/api/poll", agent_id=self.agent, secret=self.secret)
            except OSError:
                time.sleep(1)  # the network is being restarted; who we are holds
                continue
            if not told.get("success"):
                raise SystemExit(f"no longer known: {told.get('error_message')}")
            yield from told["messages"]

    def leave(self):
        self.call("/api/unregister", {"agent_id": self.agent, "secret": self.secret})
        self.kept.unlink(missing_ok=True)


def said(event):
    """Whom and where to answer, and what was said; nothing where it is not for us to answer."""
    payload, name = event["payload"], event["event_name"]
    text = (payload.get("content") or {}).get("text") or payload.get("text")
    if name == "agent.message":
        return f"direct:{event['source_id']}", None, text
    if name == "thread.direct_message.notification":
        return f"direct:{event['source_id']}", None, text
    if name in ("thread.channel_message.notification", "thread.reply.notification"):
        return f"channel:{payload.get('channel')}", payload.get("channel"), text
    return None, None, None


def answer(network, graph, event):
    conversation, channel, text = said(event)
    if not text:
        return
    if channel and event["payload"].get("mentioned_agent_id") != network.agent and f"@{network.agent}" not in text:
        return
    config = {"configurable": {"thread_id": conversation}}
    told = graph.invoke({"messages": [("user", text)]}, config)["messages"][-1].content
    event_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{network.agent}/{event['event_id']}"))
    content = {"content": {"text": str(told)}}
    if channel:
        asked = event["payload"].get("original_event_id") or event["event_id"]
        payload = {**content, "message_type": "reply_message", "channel": channel, "reply_to_id": asked}
        done = network.send(event_id, "thread.reply.post", f"channel:{channel}", payload)
    else:
        to = event["source_id"].removeprefix("agent:")
        payload = {**content, "message_type": "direct_message", "target_agent_id": to}
        done = network.send(event_id, "thread.direct_message.send", f"agent:{to}", payload, response_to=event["event_id"])
    print(f"{conversation}: {text!r} → {told!r}" + ("" if done.get("success") else f" ({done.get('message')})"), flush=True)


def main():
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("graph", help="MODULE:NAME of the compiled graph")
    wanted.add_argument("--agent", default="librarian")
    wanted.add_argument("--network", default="http://127.0.0.1:8700")
    wanted = wanted.parse_args()
    sys.path.insert(0, str(Path.cwd()))
    module, _, name = wanted.graph.partition(":")
    graph = getattr(importlib.import_module(module), name or "graph")
    network = Network(wanted.network, wanted.agent)
    network.register(name=wanted.agent, type="langgraph", description=(graph.name or "a LangGraph graph"))
    print(f"{wanted.agent} is in {wanted.network}", flush=True)
    try:
        for event in network.events():
            answer(network, graph, event)
    except KeyboardInterrupt:
        network.leave()


if __name__ == "__main__":
    main()
