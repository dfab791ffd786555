"""Two agents talk over WebSocket, with the `websockets` package of PyPI: python websocket-conversation.py ws://HOST:PORT/ws

Bob's connection breaks after each of his messages; he comes back with the number of the last one and misses nothing.
"""

import asyncio
import json
import sys

import websockets

MESSAGES = 20


async def said(socket):
    return json.loads(await asyncio.wait_for(socket.recv(), 10))


async def register(url, name):
    socket = await websockets.connect(url)
    await socket.send(json.dumps({"type": "register", "agent_id": name, "metadata": {"name": name}}))
    welcome = await said(socket)
    assert welcome["success"] and len(welcome["secret"]) == 64, welcome
    return socket, welcome["secret"]


async def main(url):
    alice, _ = await register(url, "alice")
    bob, secret = await register(url, "bob")
    await bob.close()

    async def talk():
        for number in range(MESSAGES):
            event = {"event_id": f"m{number}", "event_name": "agent.message", "target_agent_id": "agent:bob",
                     "payload": {"text": f"Grüße, 会話 {number}"}}
            await alice.send(json.dumps({"type": "event", "data": event}))
            while (reply := await said(alice))["type"] != "reply":
                pass
            assert reply["success"] and reply["event_id"] == f"m{number}", reply

    talking = asyncio.create_task(talk())
    heard, last = [], 0
    while len(heard) < MESSAGES:
        async with websockets.connect(url) as socket:
            hello = {"type": "hello", "agent_id": "bob", "secret": secret, "resume_after": last, "ack": "manual"}
            await socket.send(json.dumps(hello))
            assert (await said(socket))["type"] == "welcome"
            while True:
                message = await said(socket)
                last = message["seq"]
                if message["data"]["event_name"] == "agent.message":
                    heard.append(message["data"]["payload"]["text"])
                    break
    await talking
    assert heard == [f"Grüße, 会話 {number}" for number in range(MESSAGES)], heard
    try:
        async with websockets.connect(url, origin="https://evil.example"):
            raise SystemExit("a page of another origin was let in")
    except websockets.exceptions.InvalidStatus as refused:
        assert refused.response.status_code == 403, refused
    await alice.close()
    print(f"{MESSAGES} messages over {MESSAGES} connections, none missed and none twice")


asyncio.run(main(sys.argv[1]))
