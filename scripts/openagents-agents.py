#!/usr/bin/env python3
"""Lets agents of the real OpenAgents SDK, unmodified, join a network of Longhaul's, and checks what they come to.

    scripts/peers.sh openagents                          installs both versions of the SDK, once
    PYTHON scripts/openagents-agents.py LONGHAUL         both ways: HTTP, then gRPC
    PYTHON scripts/openagents-agents.py LONGHAUL --transport grpc --short
    PYTHON scripts/openagents-agents.py --url http://127.0.0.1:8700 --transport http

PYTHON is ~/.cache/longhaul/peers/openagents-0.9.3.post20/bin/python or the one of 0.6.16, LONGHAUL the program. The
network is made in a folder of its own and ends with this program; with `--url` one that runs already is used. Where the
SDK itself loses an answer (its wiki and cache tools wait for an event that nothing sends, its list of channels too), the
same event is sent through its client, and the answer is looked at there.
"""

import argparse
import asyncio
import base64
import contextlib
import hashlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.metadata import version
from pathlib import Path

OUT = sys.stdout
PASSWORD = hashlib.sha256(b"correct horse battery staple").hexdigest()
MESSAGING = "openagents.mods.workspace.messaging"
MODS = [
    (MESSAGING, "{default_channels: [{name: general, description: everything}, {name: dev, description: code}]}"),
    ("openagents.mods.workspace.forum", "{}"),
    ("openagents.mods.workspace.wiki", "{}"),
    ("openagents.mods.workspace.feed", "{}"),
    ("openagents.mods.coordination.task_delegation", "{}"),
    ("openagents.mods.discovery.agent_discovery", "{}"),
    ("openagents.mods.core.shared_cache", "{}"),
]
# How long something that was sent may take to arrive: the SDK asks once a second and looks once a second.
ARRIVES = 25.0


def say(text):
    print(text, file=OUT, flush=True)


class Checks:
    """What held and what did not."""

    def __init__(self, name):
        self.name, self.passed, self.failed = name, 0, 0

    def that(self, holds, what, told=None):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            say(f"FAILED {self.name}: {what}" + (f": {told!r}" if told is not None else ""))
        return bool(holds)

    def ended(self):
        word = "FAILED" if self.failed else "ok"
        say(f"{self.name}: {self.passed} of {self.passed + self.failed} expectations held")
        say(f"test result: {word}. {self.passed} passed; {self.failed} failed; 0 ignored")
        return self.failed == 0


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


class Server:
    """The program, serving a network in a folder of its own."""

    def __init__(self, longhaul, folder, recommended):
        self.longhaul, self.folder, self.process = longhaul, folder, None
        self.http, self.grpc = free_ports(2)
        mods = "\n".join(f"    - {{name: {name}, enabled: true, config: {config}}}" for name, config in MODS)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "network.yaml").write_text(
            f"""network:
  name: SdkAgents
  mode: centralized
  node_id: sdk-agents
  transports:
    - type: http
      config: {{host: 127.0.0.1, port: {self.http}}}
    - type: grpc
      config: {{host: 127.0.0.1, port: {self.grpc}}}
  manifest_transport: http
  recommended_transport: {recommended}
  default_agent_group: guest
  agent_groups:
    guest: {{description: whoever comes, metadata: {{permissions: []}}}}
    admin: {{description: who keeps order, password_hash: {PASSWORD}, metadata: {{permissions: [admin]}}}}
  mods:
{mods}
network_profile:
  name: SdkAgents
  description: agents of the SDK, in a network of another program's
"""
        )

    @property
    def url(self):
        return f"http://127.0.0.1:{self.http}"

    def start(self):
        log = open(self.folder / "server.log", "ab")  # noqa: SIM115
        home = {**os.environ, "LONGHAUL_HOME": str(self.folder / "home")}
        args = [self.longhaul, "network", "start", str(self.folder)]
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=home)
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                if json.load(urllib.request.urlopen(f"{self.url}/api/health", timeout=2))["success"]:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise SystemExit("the network did not start:\n" + (self.folder / "server.log").read_text()[-4000:])

    def end(self, how=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(how)
            try:
                self.process.wait(15)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def quiet():
    """The SDK draws boxes on standard output for each event."""
    logging.disable(logging.CRITICAL)
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    sys.stderr = sys.stdout if not os.environ.get("SDK_STDERR") else sys.stderr


async def holds(condition, seconds=ARRIVES):
    """Waits until it is true."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        await asyncio.sleep(0.05)
    return bool(condition())


def sdk():
    """The parts of the SDK that are used; where they are differs between versions."""
    try:
        from openagents.sdk.client import AgentClient
    except ImportError:
        from openagents.core.client import AgentClient
    from openagents.agents.worker_agent import WorkerAgent, on_event
    from openagents.models.event import Event

    return AgentClient, WorkerAgent, on_event, Event


def worker(agent_id):
    """A worker as people write them: it hears, answers, and keeps what it heard."""
    _, WorkerAgent, on_event, _ = sdk()

    class Worker(WorkerAgent):
        default_agent_id = agent_id

        def __init__(self):
            super().__init__(agent_id=agent_id)
            self.heard = []

        def note(self, kind, context):
            self.heard.append((kind, context.source_id, context.text, context.incoming_event))

        def of(self, kind, text=None):
            return [one for one in self.heard if one[0] == kind and (text is None or one[2] == text)]

        async def on_direct(self, context):
            self.note("direct", context)
            if context.text.startswith("ping"):
                await self.send_direct(to=context.source_id, text=f"pong of {context.text}")

        async def on_channel_post(self, context):
            self.note("post", context)

        async def on_channel_mention(self, context):
            self.note("mention", context)
            await self.reply_to_message(context.channel, original(context.incoming_event), text="I am here")

        async def on_channel_reply(self, context):
            self.note("reply", context)

        async def on_reaction(self, context):
            self.heard.append(("reaction", context.reactor_id, context.reaction_type, context))

        @on_event("task.notification.*")
        async def on_task(self, context):
            self.note(context.incoming_event.event_name, context)

        @on_event("forum.*")
        async def on_forum(self, context):
            self.note(context.incoming_event.event_name, context)

        @on_event("feed.*")
        async def on_feed(self, context):
            self.note(context.incoming_event.event_name, context)

        @on_event("custom.*")
        async def on_custom(self, context):
            self.note("custom", context)

    return Worker()


def original(event):
    return event.payload.get("original_event_id") or event.event_id


class Person:
    """An agent made of the SDK's client and the adapters of the mods, which keeps what is answered."""

    def __init__(self, agent_id):
        AgentClient, _, _, self.Event = sdk()
        self.client, self.events, self.answers = AgentClient(agent_id=agent_id), [], []

        async def heard(event):
            self.events.append(event)

        self.client.register_event_handler(heard)

    async def join(self, host, port, **more):
        joined = await self.client.connect_to_server(network_host=host, network_port=port, **more)
        if joined:
            send = self.client.connector.send_event

            async def noted(event):
                answer = await send(event)
                self.answers.append((event, answer))
                return answer

            self.client.connector.send_event = noted
            self.adapters()
        return joined

    def adapters(self):
        """Those that this version of the SDK has; by hand, as the reference says of its mods that they need none."""
        from openagents.utils.mod_loaders import load_mod_adapters

        for name, _ in MODS:
            with contextlib.suppress(Exception):
                for one in load_mod_adapters([name]):
                    self.client.register_mod_adapter(one)

    def mod(self, short):
        return next((one for name, one in self.client.mod_adapters.items() if name.endswith(short)), None)

    async def send(self, name, to=None, payload=None, **more):
        event = self.Event(
            event_name=name, source_id=self.client.agent_id, destination_id=to, payload=payload or {}, **more
        )
        return await self.client.send_event(event)

    def answer(self, name):
        """The answer to the newest event of this name."""
        return next((answer for event, answer in reversed(self.answers) if event.event_name == name), None)

    def got(self, name, **fields):
        return [
            one
            for one in self.events
            if one.event_name == name and all(one.payload.get(key) == value for key, value in fields.items())
        ]


async def part(checks, work):
    """One part; what it stumbles over is one expectation that did not hold."""
    name = work.__name__
    try:
        await asyncio.wait_for(work, 90)
    except Exception as error:  # noqa: BLE001
        checks.that(False, f"{name} runs to its end", error)


async def start(one, host, port):
    await one.async_start(network_host=host, network_port=port)


async def all_of_it(checks, server, host, port, transport, short):
    alice, carol, bob = Person("alice"), Person("carol"), worker("bob")
    checks.that(await alice.join(host, port, metadata={"name": "Alice"}), "alice joins")
    await start(bob, host, port)
    checks.that(bob.client.connector.is_connected, "bob joins")
    checks.that(type(alice.client.connector).__name__.lower().startswith(transport), "over the recommended transport")
    checks.that(len(alice.client.connector.secret or "") == 64, "a secret of 64 characters")
    try:
        await part(checks, who_is_there(checks, alice))
        await part(checks, direct(checks, alice, bob))
        await part(checks, channels(checks, alice, bob))
        await part(checks, reactions(checks, alice, bob))
        await part(checks, files(checks, alice))
        await part(checks, forum(checks, alice, bob))
        await part(checks, feed(checks, alice, bob))
        checks.that(await carol.join(host, port), "carol joins later")
        await part(checks, delegation(checks, alice, carol))
        await part(checks, wiki(checks, alice))
        await part(checks, refusals(checks, alice, carol))
        if not short:
            await part(checks, bursts(checks, alice, carol))
            await part(checks, custom(checks, alice, bob))
            await part(checks, groups(checks, host, port))
            if server:
                await part(checks, killed(checks, server, alice, carol))
        await part(checks, leaving(checks, alice, carol, host, port))
    finally:
        for one in (alice.client, carol.client):
            with contextlib.suppress(Exception):
                await one.disconnect()
        with contextlib.suppress(Exception):
            await bob.async_stop()


async def who_is_there(checks, alice):
    agents = await alice.client.list_agents()
    names = {agent.get("agent_id") for agent in agents}
    checks.that({"alice", "bob"} <= names, "list_agents names both", agents)
    mods = {mod["name"] for mod in await alice.client.list_mods()}
    checks.that({name for name, _ in MODS} <= mods, "list_mods names the mods", mods)
    manifest = await alice.client.get_mod_manifest(MESSAGING)
    checks.that(isinstance(manifest, dict) and manifest, "get_mod_manifest gives one", manifest)


async def direct(checks, alice, bob):
    messaging = alice.mod("messaging")
    checks.that(messaging is not None, "the adapter of the messaging mod is loaded", list(alice.client.mod_adapters))
    await messaging.send_direct_message("bob", "ping 1")
    checks.that(await holds(lambda: bob.of("direct", "ping 1")), "a direct message arrives", bob.heard)
    pong = lambda: [e for e in alice.events if e.payload.get("content", {}).get("text") == "pong of ping 1"]  # noqa: E731
    checks.that(await holds(pong), "its answer comes back", [e.event_name for e in alice.events])
    if pong():
        event = pong()[0]
        checks.that(event.event_name == "thread.direct_message.notification", "as a notice", event.event_name)
        checks.that(event.source_id.removeprefix("agent:") == "bob" and event.secret is None, "from bob, without secret")
        checks.that(event.payload.get("sender_id") == "bob", "which names its sender", event.payload)
    told = await alice.client.send_agent_message("bob", {"text": "plain", "content": {"text": "plain"}})
    checks.that(told and told.success, "a plain agent.message is taken", told)
    checks.that(await holds(lambda: bob.of("direct", "plain")), "and arrives", bob.heard)
    await messaging.retrieve_direct_messages("bob")
    told = alice.answer("thread.direct_messages.retrieve")
    texts = [(m.get("payload") or m).get("content", {}).get("text") for m in ((told.data or {}).get("messages") or [])]
    checks.that(told.success and "ping 1" in texts and "pong of ping 1" in texts, "the conversation is read back", texts)


async def channels(checks, alice, bob):
    messaging = alice.mod("messaging")
    await messaging.send_channel_message("#general", "hello general")
    posted = alice.answers[-1]
    checks.that(posted[1] and posted[1].success, "a post is taken", posted[1])
    checks.that(await holds(lambda: bob.of("post", "hello general")), "a post arrives", bob.heard)
    if bob.of("post"):
        payload = bob.of("post")[0][3].payload
        checks.that(payload.get("original_event_id") == posted[0].event_id, "with the id of the post", payload)
        checks.that(payload.get("channel") == "general", "and its channel", payload)
    checks.that(not alice.got("thread.channel_message.notification"), "not to its sender")
    await messaging.send_channel_message("dev", "are you there, bob?", mentioned_agent_id="bob")
    mention = alice.answers[-1][0].event_id
    checks.that(await holds(lambda: bob.of("mention")), "a mention arrives as one", bob.heard)
    replied = lambda: alice.got("thread.reply.notification", reply_to_id=mention)  # noqa: E731
    checks.that(await holds(replied), "a reply in the thread comes back", [(e.event_name, e.payload) for e in alice.events[-3:]])
    reply = replied()[0].event_id if replied() else mention
    await messaging.reply_channel_message("dev", mention, "good")
    told = alice.answers[-1][1]
    checks.that(told and told.success, "a reply through the adapter is taken", told)
    checks.that(await holds(lambda: bob.of("reply", "good")), "and arrives", bob.heard)
    await messaging.retrieve_channel_messages("dev", limit=10)
    told = alice.answer("thread.channel_messages.retrieve")
    messages = (told.data or {}).get("messages") or []
    found = {m.get("content", {}).get("text") for m in messages}
    checks.that(told.success and {"are you there, bob?", "I am here", "good"} <= found, "history is read back", told)
    threaded = [m for m in messages if m.get("reply_to_id") == mention]
    checks.that(len(threaded) == 2, "with its replies", messages)
    told = await alice.send("thread.channels.list", f"mod:{MESSAGING}", {"action": "list_channels"})
    names = {c.get("name") for c in (told.data or {}).get("channels") or []}
    checks.that({"general", "dev"} <= names, "channels are listed", told)
    return reply


async def reactions(checks, alice, bob):
    messaging = alice.mod("messaging")
    bobs = await bob.post_to_channel("general", text="react to me")
    checks.that(bobs and bobs.success, "a worker posts", bobs)
    seen = lambda: [e for e in alice.got("thread.channel_message.notification") if e.payload.get("content", {}).get("text") == "react to me"]  # noqa: E731
    checks.that(await holds(seen), "its post arrives")
    if not seen():
        return
    target = original(seen()[0])
    await messaging.react_to_message(target, "like")
    told = alice.answer("thread.reaction.add")
    checks.that(told and told.success and (told.data or {}).get("total_reactions") == 1, "a reaction is counted", told)
    checks.that(await holds(lambda: bob.of("reaction", "like")), "and told to the author", bob.heard[-2:])
    await messaging.react_to_message(target, "like", "remove")
    told = alice.answer("thread.reaction.remove")
    checks.that(told and told.success and (told.data or {}).get("total_reactions") == 0, "and taken back", told)
    await alice.send("thread.reaction.add", None, {"target_message_id": target, "reaction_type": "heart", "action": "add"})
    await messaging.retrieve_channel_messages("general")
    messages = (alice.answer("thread.channel_messages.retrieve").data or {}).get("messages") or []
    one = next((m for m in messages if m.get("message_id") == target), {})
    checks.that((one.get("reactions") or {}).get("heart") == 1, "history shows reactions", one)


async def files(checks, alice):
    messaging, content = alice.mod("messaging"), os.urandom(3_000)
    with tempfile.NamedTemporaryFile(suffix="report.bin") as file:
        file.write(content)
        file.flush()
        uploading = asyncio.create_task(messaging.upload_file(file.name))
        await holds(lambda: alice.answer("thread.file.upload"))
        # The adapter waits for an event that tells it the id; the answer has it already.
        uploading.cancel()
    told = alice.answer("thread.file.upload")
    file_id = (told.data or {}).get("file_id") if told else None
    checks.that(told and told.success and file_id, "a file is uploaded", told)
    told = await alice.send("thread.file.download", f"mod:{MESSAGING}", {"file_id": file_id, "action": "download"})
    got = base64.b64decode((told.data or {}).get("content") or "")
    checks.that(told.success and got == content, "and comes back as it was", (told.success, told.message, len(got)))
    for other in ("../../etc/passwd", f"../{file_id}"):
        told = await alice.send("thread.file.download", f"mod:{MESSAGING}", {"file_id": other, "action": "download"})
        checks.that(not told.success, "a path is no id of a file", told)


async def forum(checks, alice, bob):
    adapter = alice.mod("forum")
    topic = await adapter.create_forum_topic("Which index?", "HNSW or IVF for 10 million vectors? 向量数据库")
    checks.that(topic, "a topic is made", alice.answers[-1][1])
    checks.that(await holds(lambda: bob.of("forum.topic.created")), "everybody is told", bob.heard[-2:])
    comment = await adapter.post_forum_topic_comment(topic, "HNSW if it fits into memory")
    checks.that(comment, "a comment is made", alice.answers[-1][1])
    nested = await adapter.post_forum_topic_comment(topic, "else IVF", parent_comment_id=comment)
    checks.that(nested, "a comment on a comment", alice.answers[-1][1])
    checks.that(await adapter.vote_on_forum_topic(topic, "upvote"), "a vote is cast", alice.answers[-1][1])
    checks.that(await adapter.vote_on_forum_comment(comment, "downvote"), "a vote on a comment", alice.answers[-1][1])
    got = await adapter.get_forum_topic(topic)
    checks.that(got and got.get("upvotes") == 1 and got.get("comment_count") == 2, "the topic shows them", got)
    if got:
        first = (got.get("comments") or [{}])[0]
        replies = first.get("replies") or first.get("children") or first.get("comments") or []
        checks.that(first.get("vote_score") == -1 and len(replies) == 1, "comments are nested", got.get("comments"))
    listed = await adapter.list_forum_topics()
    checks.that(listed and listed.get("total_count", 0) >= 1, "topics are listed", listed)
    for words in ("IVF", "向量"):
        found = await adapter.search_forum_topics(words)
        checks.that(found and any(t["topic_id"] == topic for t in found.get("topics", [])), f"{words} is found", found)
    checks.that(await adapter.edit_forum_topic(topic, title="Which index, then?"), "a topic is edited")
    checks.that(await adapter.delete_forum_topic(topic), "and deleted", alice.answers[-1][1])


async def feed(checks, alice, bob):
    adapter = alice.mod("feed")
    post = {"title": "Release", "content": "0.9 is out", "tags": ["news"], "allowed_groups": [], "attachments": []}
    if adapter:
        made = await adapter.create_post(post["title"], post["content"], tags=post["tags"])
        post_id = (made or {}).get("post_id")
    else:  # the older SDK has no adapter for it
        told = await alice.send("feed.post.create", None, post)
        post_id = (told.data or {}).get("post_id")
    checks.that(post_id, "a post in the feed", alice.answers[-1][1])
    checks.that(await holds(lambda: bob.of("feed.notification.post_created")), "everybody is told", bob.heard[-2:])
    if adapter:
        recent, one = await adapter.get_recent_posts(), await adapter.get_post(post_id)
        found = await adapter.search_posts("Release")
        checks.that(recent and recent.get("posts"), "recent posts", recent)
        checks.that(one and one.get("title") == "Release", "one post", one)
        checks.that(found and any(p.get("post_id") == post_id for p in found.get("posts", [])), "is found", found)


async def delegation(checks, alice, carol):
    told = await task(alice, "delegate_task", "task.delegate", assignee_id="carol", description="count the rows",
                      payload={"table": "events"}, timeout_seconds=60)
    task_id = (told.get("data") or {}).get("task_id")
    checks.that(told["success"] and task_id, "a task is delegated", told)
    if not task_id:
        return
    assigned = lambda: carol.got("task.notification.assigned", task_id=task_id)  # noqa: E731
    checks.that(await holds(assigned), "its assignee is told", [e.event_name for e in carol.events])
    # The adapter may accept by itself; a second acceptance is refused or the same.
    accepted = lambda: alice.got("task.notification.accepted", task_id=task_id)  # noqa: E731
    adapter = carol.mod("task_delegation")
    if not getattr(adapter, "auto_accept_tasks", False):
        told = await task(carol, "accept_task", "task.accept", task_id=task_id)
        checks.that(told["success"], "accepted", told)
    checks.that(await holds(accepted), "the delegator is told of it", [e.event_name for e in alice.events[-3:]])
    told = await task(carol, "report_progress", "task.report", ("progress", {"message": "half", "data": {"rows": 7}}),
                      task_id=task_id, message="half", data={"rows": 7})
    checks.that(told["success"], "progress is reported", told)
    checks.that(await holds(lambda: alice.got("task.notification.progress", task_id=task_id)), "and told")
    told = await task(carol, "complete_task", "task.complete", task_id=task_id, result={"rows": 14})
    checks.that(told["success"], "completed", told)
    done = lambda: alice.got("task.notification.completed", task_id=task_id)  # noqa: E731
    checks.that(await holds(done) and (done()[0].payload.get("result") or {}).get("rows") == 14, "the result comes back",
                [e.payload for e in done()])
    told = await task(alice, "get_task", "task.get", task_id=task_id)
    checks.that(told["success"] and "completed" in json.dumps(told["data"]), "it is looked up", told)


async def task(who, method, name, replaced=None, **arguments):
    """Through the adapter where the SDK has one; else the same event."""
    adapter = who.mod("task_delegation")
    if adapter:
        return await getattr(adapter, method)(**arguments)
    if replaced:
        arguments = {"task_id": arguments["task_id"], replaced[0]: replaced[1]}
    told = await who.send(name, None, arguments)
    return {"success": told.success, "message": told.message, "data": told.data}


async def wiki(checks, alice):
    """The adapter sends, and then waits in vain: its answer is looked at where it came."""
    adapter = alice.mod("wiki")

    async def ask(name, coroutine):
        before = len(alice.answers)
        asking = asyncio.create_task(coroutine)
        await holds(lambda: any(event.event_name == name for event, _ in alice.answers[before:]))
        asking.cancel()
        return alice.answer(name)

    told = await ask("wiki.page.create", adapter.create_wiki_page("guides/milvus", "Milvus", "# Milvus\nstart here"))
    checks.that(told and told.success, "a page is made", told)
    told = await ask("wiki.page.edit", adapter.edit_wiki_page("guides/milvus", "# Milvus\nstart there"))
    checks.that(told and told.success, "and edited", told)
    told = await ask("wiki.page.get", adapter.get_wiki_page("guides/milvus"))
    data = (told and told.data) or {}
    checks.that("start there" in str(data.get("wiki_content")) and data.get("version") == 2, "and read", data)
    told = await ask("wiki.pages.search", adapter.search_wiki_pages("there"))
    checks.that(told and told.success and (told.data or {}).get("pages"), "and found", told)
    told = await ask("wiki.page.history", adapter.get_wiki_page_history("guides/milvus"))
    checks.that(told and len((told.data or {}).get("versions") or []) == 2, "its history", told)
    told = await ask("wiki.page.proposal.create", adapter.propose_wiki_page_edit("guides/milvus", "# M", "shorter"))
    proposal = ((told and told.data) or {}).get("proposal_id")
    checks.that(proposal, "a proposal", told)
    told = await ask("wiki.proposal.resolve", adapter.resolve_wiki_edit_proposal(proposal, "approve", "fine"))
    checks.that(told and told.success, "approved by the page's maker", told)
    told = await ask("wiki.page.revert", adapter.revert_wiki_page_version("guides/milvus", 1))
    checks.that(told and told.success, "and reverted", told)


async def refusals(checks, alice, carol):
    told = await alice.client.send_agent_message("nobody-of-this-name", {"text": "?"})
    checks.that(told is not None and not told.success, "a receiver that does not exist is said to be none", told)
    connector, secret = alice.client.connector, alice.client.connector.secret
    connector.secret = "x" * 64
    told = await alice.client.send_agent_message("carol", {"text": "forged"})
    checks.that(told is not None and not told.success, "a wrong secret is refused", told)
    connector.secret = secret
    event = alice.Event(event_name="agent.message", source_id="carol", destination_id="bob", payload={"text": "forged"})
    told = await alice.client.connector.send_event(event)
    checks.that(told is not None and not told.success, "nobody speaks for another", told)
    told = await alice.send("system.kick_agent", "system:system", {"agent_id": "alice", "target_agent_id": "carol"})
    checks.that(told is not None and not told.success, "a guest kicks nobody", told)
    checks.that(not carol.got("agent.message"), "and nothing of it arrived", carol.events[-2:])


async def bursts(checks, alice, carol):
    """Forty messages at once: each once, in order."""
    before = len(carol.got("agent.message"))
    for number in range(40):
        await alice.client.send_agent_message("carol", {"number": number})
    numbers = lambda: [e.payload.get("number") for e in carol.got("agent.message")][before:]  # noqa: E731
    await holds(lambda: len(numbers()) >= 40)
    await asyncio.sleep(1.5)
    checks.that(numbers() == list(range(40)), "forty messages, each once and in order", numbers())
    event = alice.Event(event_name="agent.message", source_id="alice", destination_id="carol", payload={"number": "twice"})
    first, again = await alice.client.connector.send_event(event), await alice.client.connector.send_event(event)
    checks.that(first.success and again.success, "an event sent twice is taken twice", (first, again))
    await holds(lambda: "twice" in numbers())
    await asyncio.sleep(1.5)
    checks.that(numbers().count("twice") == 1, "and arrives once", numbers()[-3:])


async def custom(checks, alice, bob):
    told = await alice.client.subscribe_events(["thread.*", "custom.*", "agent.*"])
    checks.that(told and told.success and (told.data or {}).get("subscription_id"), "a subscription", told)
    told = await alice.client.unsubscribe_events(((told and told.data) or {}).get("subscription_id", ""))
    checks.that(told and told.success, "and its end", told)
    told = await alice.send("custom.thing.happened", "agent:bob", {"text": "of our own", "content": {"text": "of our own"}})
    checks.that(told and told.success, "an event of one's own is taken", told)
    checks.that(await holds(lambda: bob.of("custom", "of our own")), "and arrives", bob.heard[-2:])
    told = await alice.send("custom.thing.told", "agent:broadcast", {"content": {"text": "to all"}})
    checks.that(told and told.success and await holds(lambda: bob.of("custom", "to all")), "to everybody too", told)


async def groups(checks, host, port):
    keeper, wrong = Person("keeper"), Person("wrong")
    checks.that(await keeper.join(host, port, password_hash=PASSWORD), "with its credential one is in a group")
    told = await keeper.send("thread.announcement.set", None, {"channel": "general", "text": "maintenance at noon"})
    checks.that(told and told.success, "which may announce", told)
    told = await keeper.send("thread.announcement.get", None, {"channel": "general"})
    checks.that(told and (told.data or {}).get("text") == "maintenance at noon", "and is read", told)
    if await wrong.join(host, port, password_hash="0" * 64):  # as a guest, which the contract has
        told = await wrong.send("thread.announcement.set", None, {"channel": "general", "text": "mine"})
        checks.that(told is not None and not told.success, "a wrong credential opens nothing", told)
        await wrong.client.disconnect()
    await keeper.client.disconnect()


async def killed(checks, server, alice, carol):
    """The server dies without a word; agents go on where they were."""
    told = await alice.client.send_agent_message("carol", {"number": "before"})
    checks.that(told.success, "taken before the kill", told)
    server.end(signal.SIGKILL)
    server.start()
    numbers = lambda: [e.payload.get("number") for e in carol.got("agent.message")]  # noqa: E731
    checks.that(await holds(lambda: "before" in numbers(), 25), "what was taken arrives after a kill -9", numbers()[-2:])
    told = None
    for _ in range(40):
        told = await alice.client.send_agent_message("carol", {"number": "after"})
        if told and told.success:
            break
        await asyncio.sleep(0.25)
    checks.that(told and told.success, "and its sender goes on without registering again", told)
    checks.that(await holds(lambda: "after" in numbers(), 25), "as does its receiver", numbers()[-2:])
    checks.that(numbers().count("before") == 1, "and has it once", numbers())


async def leaving(checks, alice, carol, host, port):
    await carol.client.disconnect()
    gone = lambda agents: "carol" not in {agent.get("agent_id") for agent in agents}  # noqa: E731
    checks.that(gone(await alice.client.list_agents()), "who leaves is not listed")
    told = await alice.client.send_agent_message("carol", {"text": "?"})
    checks.that(told is not None and not told.success, "and cannot be written to", told)
    again = Person("carol")
    checks.that(await again.join(host, port), "and comes back")
    told = await alice.client.send_agent_message("carol", {"number": "welcome"})
    checks.that(told.success and await holds(lambda: again.got("agent.message", number="welcome")), "and hears again", told)
    await again.client.disconnect()


def main():
    wanted = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    wanted.add_argument("longhaul", nargs="?", help="the program; without it --url")
    wanted.add_argument("--url", help="a network that runs: http://127.0.0.1:8700")
    wanted.add_argument("--transport", choices=["http", "grpc"], help="one only")
    wanted.add_argument("--short", action="store_true", help="without bursts, groups and kills")
    wanted = wanted.parse_args()
    if not wanted.longhaul and not wanted.url:
        raise SystemExit("give the program, or --url of a network that runs")
    quiet()
    fine = True
    for transport in [wanted.transport] if wanted.transport else ["http", "grpc"]:
        with tempfile.TemporaryDirectory(prefix="longhaul-openagents-") as folder:
            server = None if wanted.url else Server(wanted.longhaul, Path(folder) / "network", transport)
            try:
                if server:
                    server.start()
                url = (server.url if server else wanted.url).removeprefix("http://").rstrip("/")
                host, port = url.rsplit(":", 1)
                checks = Checks(f"openagents {version('openagents')} over {transport}")
                asyncio.run(all_of_it(checks, server, host, int(port), transport, wanted.short))
                fine = checks.ended() and fine
            finally:
                if server:
                    server.end()
                    if not fine and os.environ.get("KEEP_LOG"):
                        say((server.folder / "server.log").read_text()[-6000:])
    # The SDK leaves tasks of its own behind.
    OUT.flush()
    os._exit(0 if fine else 1)


if __name__ == "__main__":
    main()
