"""How long a direct message takes between unmodified agents of the OpenAgents SDK, over HTTP, at random phases.

usage: openagents_latency.py PORT MESSAGES; prints one JSON object. Five pairs work side by side in one process, so that
both ends read the same clock.
"""
import asyncio
import json
import logging
import random
import sys
import time

logging.disable(logging.WARNING)

from openagents.agents.worker_agent import WorkerAgent  # noqa: E402

PORT, MESSAGES = int(sys.argv[1]), int(sys.argv[2])
PAIRS = 5
SENT, TOOK = {}, []


class Receiver(WorkerAgent):
    async def on_direct(self, context):
        now = time.monotonic()
        text = json.dumps(context.incoming_event.payload)
        for number in [number for number in SENT if f"number {number}." in text]:
            TOOK.append((now - SENT.pop(number)) * 1000)


class Sender(WorkerAgent):
    pass


async def pair(index, random_phase):
    receiver, sender = Receiver(agent_id=f"receiver-{index}"), Sender(agent_id=f"sender-{index}")
    for agent in (receiver, sender):
        await agent.async_start(network_host="127.0.0.1", network_port=PORT)
    await asyncio.sleep(2)
    for number in range(index, MESSAGES, PAIRS):
        await asyncio.sleep(random_phase.uniform(0.2, 1.4))
        SENT[number] = time.monotonic()
        await sender.send_direct(f"receiver-{index}", f"number {number}.")
    return receiver, sender


async def main():
    agents = await asyncio.gather(*(pair(index, random.Random(index)) for index in range(PAIRS)))
    deadline = time.monotonic() + 15
    while SENT and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    for both in agents:
        for agent in both:
            await agent.async_stop()
    TOOK.sort()
    print(json.dumps({
        "messages": len(TOOK), "missing": len(SENT), "p50_ms": TOOK[len(TOOK) // 2], "max_ms": TOOK[-1],
    }))


asyncio.run(main())
