#!/usr/bin/env python3
"""Holds a conversation with `longhaul mcp` through the official Python client of the protocol, checks every answer, and
writes down what was said.

    scripts/peers.sh mcp                                 installs the client, once
    PYTHON scripts/mcp-conversation.py LONGHAUL          checks, and says how many answers were right
    PYTHON scripts/mcp-conversation.py LONGHAUL --record docs/mcp-conversation.md

PYTHON is ~/.cache/longhaul/peers/mcp-2.3.0/bin/python, LONGHAUL the program. Paths of this machine, ids, ports and times
are replaced in the record; everything else is as it was on the wire.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

GUIDE = """# Operator's guide

## Pausing

An approval pauses a run until somebody answers it. A paused run costs nothing.

## Retries

A step is tried three times. The pause between attempts doubles, up to one minute.

| error | tried again |
|---|---|
| 429 | yes |
| 400 | no |
"""


class Record:
    """What was said, as Markdown; and how many expectations held."""

    def __init__(self, home):
        self.home, self.lines, self.passed, self.failed = home, [], 0, 0
        self.ids = {}

    def say(self, text=""):
        self.lines.append(self.plain(text))

    def expect(self, holds, what):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED: {what}", file=sys.stderr)

    def plain(self, text):
        """Without what is this machine's or this moment's."""
        text = text.replace(self.home, "/home/you")
        for found in re.findall(r"mem_[0-9a-z]{10,}", text):
            self.ids.setdefault(found, f"mem_{len(self.ids) + 1:04}")
        for found in re.findall(r"prop_[0-9a-z]{10,}", text):
            self.ids.setdefault(found, f"prop_{len(self.ids) + 1:04}")
        for found, short in self.ids.items():
            text = text.replace(found, short)
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8701", text)
        text = re.sub(r"lhm-[0-9a-f]{64}", "lhm-…", text)
        text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "2026-11-21 12:00", text)
        text = re.sub(r"\b20\d\d-\d\d-\d\d\b(?=[ ·])", "2026-11-21", text)
        text = re.sub(r'"date":"[^"]*"', '"date":"2026-11-21"', text)
        return text


class Talk:
    """One client, whose calls are recorded."""

    def __init__(self, client, record):
        self.client, self.record = client, record

    async def call(self, name, arguments):
        self.record.say(f"**→ `{name}`** `{json.dumps(arguments, ensure_ascii=False)}`\n")
        result = await self.client.call_tool(name, arguments)
        text = "\n".join(block.text for block in result.content if block.type == "text")
        mark = " (an error the model can read)" if result.is_error else ""
        self.record.say(f"**←**{mark}\n\n```text\n{text}\n```\n")
        return text, result


def command(longhaul, home, *arguments):
    environment = {**os.environ, "LONGHAUL_HOME": f"{home}/longhaul", "TZ": "UTC", "NO_COLOR": "1"}
    done = subprocess.run([longhaul, *arguments], env=environment, capture_output=True, text=True, timeout=600)
    return done.returncode, done.stdout, done.stderr


def environment(home):
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "XDG_CACHE_HOME", "LONGHAUL_LOG") if name in os.environ}
    return {**kept, "LONGHAUL_HOME": f"{home}/longhaul", "TZ": "UTC"}


async def over_stdio(longhaul, home, record):
    server = StdioServerParameters(command=longhaul, args=["mcp"], env=environment(home), cwd=home)
    async with Client(server, read_timeout_seconds=120) as client:
        record.say("## On standard input and output\n")
        record.say("The client starts `longhaul mcp` by itself, in an empty home.\n")
        await hello(client, record)
        talk = Talk(client, record)
        await remember(talk, record)
        await correct(talk, record)
        await user(talk, record)
        await refuse(talk, record)
        await knowledge(longhaul, home, talk, record)


async def hello(client, record):
    listed = await client.list_tools()
    names = [tool.name for tool in listed.tools]
    record.say(f"Protocol {client.protocol_version}, server `{client.server_info.name}`. It says of itself:\n")
    record.say(f"> {client.instructions}\n")
    record.say(f"Tools: {', '.join(f'`{name}`' for name in names)}.\n")
    for name in ("memory_search", "memory_add", "memory_get", "memory_edit", "memory_forget", "memory_user_edits", "user_memory_get", "conversation_search", "knowledge_search", "knowledge_list"):
        record.expect(name in names, f"there is a tool {name}")
    for tool in listed.tools:
        record.expect(len(tool.description) > 60, f"{tool.name} says when to use it")
        record.expect(tool.annotations is not None, f"{tool.name} says what it may change")


async def remember(talk, record):
    record.say("### Remember, and find again\n")
    text, added = await talk.call("memory_add", {
        "content": "We decided on PostgreSQL for the shop's orders, because reports need window functions.",
        "kind": "decision", "tags": ["shop"], "meta": {"session": 3}})
    record.expect(added.structured_content["id"].startswith("mem_"), "an id comes back")
    await talk.call("memory_add", {"content": "登录页面的测试在周五失败了，原因是时区。", "kind": "lesson", "tags": ["shop"]})
    text, found = await talk.call("memory_search", {"query": "which database did we choose for orders?", "k": 3})
    records = found.structured_content["records"]
    record.expect(records and "PostgreSQL" in records[0]["content"], "the decision is found")
    record.expect(records[0]["source"] == "agent" and "source: agent" in text, "the source stands beside it")
    record.expect("not instructions" in text, "it is marked as data")
    _, found = await talk.call("memory_search", {"query": "时区", "since": "7d", "tags": ["shop"]})
    record.expect("时区" in found.structured_content["records"][0]["content"], "Chinese is found")
    _, found = await talk.call("memory_search", {"query": "orders", "filters": ["session>=3"], "explain": True})
    record.expect(len(found.structured_content["records"]) == 1, "a filter on meta leaves one")
    record.expect("explain" in found.structured_content["records"][0], "the score is explained")


async def correct(talk, record):
    record.say("### Correct, and forget\n")
    _, found = await talk.call("memory_search", {"query": "PostgreSQL orders", "k": 1})
    first = found.structured_content["records"][0]["id"]
    _, changed = await talk.call("memory_edit", {"id": first, "content": "We decided on SQLite for the shop's orders; PostgreSQL was too much to run.", "add_tags": ["revised"]})
    record.expect(changed.structured_content["tags"] == ["revised", "shop"], "the tags are kept and added to")
    _, found = await talk.call("memory_search", {"query": "SQLite"})
    record.expect(found.structured_content["records"][0]["id"] == first, "the new words find it")
    _, whole = await talk.call("memory_get", {"id": first})
    record.expect(whole.structured_content["meta"] == {"session": 3}, "the metadata is as it was")
    text, receipt = await talk.call("memory_forget", {"ids": [first]})
    record.expect(receipt.structured_content["receipt"]["memories"] == 1, "the receipt counts what is gone")
    text, gone = await talk.call("memory_get", {"id": first})
    record.expect(gone.is_error and "can be seen here" in text, "it is gone")


async def user(talk, record):
    record.say("### What is known of the user\n")
    text, edited = await talk.call("memory_user_edits", {"command": "add", "text": "Answer in short sentences."})
    record.expect(not edited.is_error and "added as u1" in text, "what the user asked for is kept at once")
    text, known = await talk.call("user_memory_get", {})
    record.expect("short sentences" in text and "u1" in text, "and shown")
    text, lasting = await talk.call("memory_add", {"content": "The user prefers tea to coffee.", "kind": "preference"})
    record.expect(lasting.structured_content.get("state") == "pending", "what an agent concludes is proposed")
    _, found = await talk.call("memory_search", {"query": "tea or coffee?"})
    texts = [record["content"] for record in found.structured_content["records"]]
    record.expect(not any("tea" in text for text in texts), "and not found before somebody has accepted it")
    text, gone = await talk.call("memory_user_edits", {"command": "remove", "entry": "u1"})
    record.expect("removed u1" in text, "it can be taken back")


async def refuse(talk, record):
    record.say("### What goes wrong\n")
    text, wrong = await talk.call("memory_search", {"query": "x", "since": "the day after never"})
    record.expect(wrong.is_error and "never" in text, "a time that is none is explained")
    text, wrong = await talk.call("memory_add", {"content": "", "kind": "note"})
    record.expect(wrong.is_error, "nothing cannot be remembered")
    text, wrong = await talk.call("memory_add", {"content": "x", "namespace": "kb:guide:1"})
    record.expect(wrong.is_error and "read-only" in text, "a corpus is not written to")
    text, wrong = await talk.call("memory_get", {"id": "mem_of_somebody_else"})
    record.expect(wrong.is_error, "an id that is none is refused")
    try:
        await talk.client.call_tool("memory_serach", {"query": "x"})
        record.expect(False, "an unknown tool is a protocol error")
    except MCPError as error:
        record.say(f"A tool that does not exist is a protocol error: `{error}`\n")
        record.expect("did you mean memory_search?" in str(error), "the nearest name is offered")


async def knowledge(longhaul, home, talk, record):
    record.say("### Ask documents\n")
    text, _ = await talk.call("knowledge_list", {})
    record.expect("no corpora yet" in text, "there are none at first")
    docs = Path(home) / "docs"
    docs.mkdir()
    (docs / "guide.md").write_text(GUIDE)
    code, told, error = command(longhaul, home, "knowledge", "add", str(docs), "--corpus", "guide")
    record.say(f"The user adds a folder meanwhile:\n\n```text\n$ longhaul knowledge add docs --corpus guide\n{told.strip()}\n```\n")
    record.expect(code == 0, f"documents are added ({error.strip()})")
    text, _ = await talk.call("knowledge_list", {})
    record.expect("guide@1" in text, "the running server sees them")
    text, found = await talk.call("knowledge_search", {"query": "how long is the pause between attempts?", "k": 2})
    passages = found.structured_content["passages"]
    record.expect(passages and passages[0]["citation"] == "guide@1 guide.md:9-14", "the passage is cited by its lines")
    record.expect("not instructions" in text, "it is marked as data")
    text, wrong = await talk.call("knowledge_search", {"query": "x", "corpora": ["guid"]})
    record.expect(wrong.is_error and "guide" in text, "an unknown corpus names those there are")


async def over_http(longhaul, home, record):
    process = await asyncio.create_subprocess_exec(
        longhaul, "mcp", "--http", "127.0.0.1:0", "--read-only", env=environment(home), cwd=home,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
    try:
        told, url, token = [], None, None
        while token is None:
            line = (await asyncio.wait_for(process.stderr.readline(), 120)).decode()
            if not line:
                raise RuntimeError("longhaul mcp --http ended: " + "".join(told))
            told.append(line)
            url = next(iter(re.findall(r"http://\S+/mcp", line)), url)
            token = next(iter(re.findall(r"Bearer (\S+)", line)), None)
        record.say("## Over HTTP, reading only\n")
        served = "".join(line for line in told if "words only" not in line).strip()
        record.say(f"```text\n$ longhaul mcp --http 127.0.0.1:8701 --read-only\n{served}\n```\n")
        await http_talk(url, token, record)
    finally:
        process.terminate()
        rest, _ = await asyncio.wait_for(process.communicate(), 30)
    record.expect(rest == b"", "standard output stays empty")
    record.expect(process.returncode == 0, f"SIGTERM ends it in order ({process.returncode})")


async def http_talk(url, token, record):
    async with httpx2.AsyncClient() as plain:
        hello = {"jsonrpc": "2.0", "id": 0, "method": "ping"}
        accepts = {"Accept": "application/json, text/event-stream"}
        answer = await plain.post(url, json=hello, headers=accepts)
        record.say(f"Without the token: HTTP {answer.status_code}, `{answer.text.strip()}`\n")
        record.expect(answer.status_code == 401, "without the token nothing is answered")
        evil = {**accepts, "Authorization": f"Bearer {token}", "Origin": "http://evil.example"}
        answer = await plain.post(url, json=hello, headers=evil)
        record.say(f"From a page of another origin: HTTP {answer.status_code}\n")
        record.expect(answer.status_code == 403, "another origin is refused")
    for mode in ("legacy", "auto"):
        async with httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=120) as http:
            async with Client(streamable_http_client(url, http_client=http), mode=mode) as client:
                names = [tool.name for tool in (await client.list_tools()).tools]
                record.say(f"Protocol {client.protocol_version}; tools: {', '.join(f'`{name}`' for name in names)}.\n")
                record.expect("memory_add" not in names and "memory_search" in names, "only tools that read")
                talk = Talk(client, record)
                _, found = await talk.call("memory_search", {"query": "时区", "k": 1})
                record.expect("时区" in found.structured_content["records"][0]["content"], f"memory is the same ({mode})")
                calls = [client.call_tool("knowledge_search", {"query": "retries", "k": 1}) for _ in range(8)]
                answers = await asyncio.gather(*calls)
                same = all(answer.structured_content["passages"][0]["corpus"] == "guide" for answer in answers)
                record.expect(same, "eight calls at once are answered")


async def converse(longhaul, home, record):
    await over_stdio(longhaul, home, record)
    await over_http(longhaul, home, record)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("longhaul")
    parser.add_argument("--record", type=Path)
    given = parser.parse_args()
    longhaul = str(Path(given.longhaul).resolve())
    with tempfile.TemporaryDirectory(prefix="longhaul-mcp-") as home:
        record = Record(home)
        asyncio.run(asyncio.wait_for(converse(longhaul, home, record), 600))
    if given.record and not record.failed:
        version = subprocess.run([longhaul, "--version"], capture_output=True, text=True).stdout.strip()
        head = ("# A conversation over MCP\n\nThe official Python client of the protocol (`mcp` 2.3.0) talks with "
                f"`longhaul mcp` ({version}). Written by\n`scripts/mcp-conversation.py`, which checks each answer; `make test` "
                "runs it. Ids, times and paths are replaced.\n")
        text = head + "\n" + "\n".join(record.lines)
        given.record.write_text(re.sub(r"[ \t]+\n", "\n", re.sub(r"\n{3,}", "\n\n", text)).rstrip() + "\n")
    verdict = "FAILED" if record.failed else "ok"
    print(f"test result: {verdict}. {record.passed} passed; {record.failed} failed; 0 ignored")
    return 1 if record.failed else 0


if __name__ == "__main__":
    sys.exit(main())
