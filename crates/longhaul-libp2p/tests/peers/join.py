"""An agent that joins a network with py-libp2p, as somebody would write it from docs/libp2p.md. The tests start it:
    python join.py ADDRESS AGENT COUNT
It says {"ready":true} on standard output once it listens to the gossip of "general", waits for COUNT posts there and as
many events on its stream, posts COUNT itself, and ends with one line that says what it saw."""

import contextlib
import json
import logging
import sys

import multiaddr
import trio
from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.custom_types import TProtocol
from libp2p.host.ping import PingService
from libp2p.identity.identify.identify import ID as IDENTIFY, parse_identify_response
from libp2p.peer.peerinfo import info_from_p2p_addr
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import background_trio_service
from libp2p.utils.varint import encode_varint_prefixed, read_varint_prefixed_bytes

logging.disable(logging.CRITICAL)
EVENTS = TProtocol("/longhaul/events/1.0.0")


class EventStream:
    """Frames of JSON, each behind its length as a varint; answers are found by their request id."""

    def __init__(self, stream):
        self.stream, self.requests, self.waiting, self.pushed = stream, 0, {}, []
        self.changed = trio.Condition()
        self.writing = trio.Lock()

    async def write(self, frame):
        async with self.writing:
            await self.stream.write(encode_varint_prefixed(json.dumps(frame).encode()))

    async def read(self):
        while True:
            try:
                frame = json.loads(await read_varint_prefixed_bytes(self.stream))
            except Exception:  # the stream has ended, in one of the library's many ways
                for waits in self.waiting.values():
                    with contextlib.suppress(trio.WouldBlock):
                        waits.send_nowait({"type": "ended"})
                return
            if frame["type"] == "event":
                self.pushed.append(frame)
                await self.write({"type": "ack", "seq": frame["seq"]})
                async with self.changed:
                    self.changed.notify_all()
            elif frame.get("request_id") in self.waiting:
                await self.waiting[frame["request_id"]].send(frame)

    async def ask(self, frame):
        self.requests += 1
        request = str(self.requests)
        send, receive = trio.open_memory_channel(1)
        self.waiting[request] = send
        await self.write(frame | {"request_id": request})
        return await receive.receive()


async def run(address, agent, count):
    host = new_host(key_pair=create_new_key_pair(), muxer_preference="YAMUX")
    # Its guards against spam are for strangers in a mesh; here the one peer is the node.
    gossip = GossipSub(
        protocols=[TProtocol("/meshsub/1.1.0")], degree=6, degree_low=4, degree_high=12, heartbeat_interval=1,
        spam_protection_enabled=False, eclipse_protection_enabled=False,
    )
    pubsub = Pubsub(host, gossip)
    info = info_from_p2p_addr(multiaddr.Multiaddr(address))
    listen = [multiaddr.Multiaddr("/ip4/127.0.0.1/tcp/0")]
    async with host.run(listen_addrs=listen), trio.open_nursery() as nursery:
        async with background_trio_service(pubsub), background_trio_service(gossip):
            await pubsub.wait_until_ready()
            await host.connect(info)
            asked = await host.new_stream(info.peer_id, [IDENTIFY])
            identity = parse_identify_response(await asked.read(64 * 1024))
            await asked.close()
            pings = await PingService(host).ping(info.peer_id, 1)
            events = EventStream(await host.new_stream(info.peer_id, [EVENTS]))
            nursery.start_soon(events.read)
            registered = await events.ask({"type": "register", "agent_id": agent, "metadata": {"name": "a peer in Python"}})
            assert registered["type"] == "registered", registered
            joined = await events.ask({"type": "send", "event": {
                "event_id": f"{agent}-joins", "event_name": "system.add_channel_member",
                "destination_id": "system:system", "payload": {"channel_id": "general", "agent_id": agent},
            }})
            assert joined["success"], joined
            topic = (await events.ask({"type": "topic", "channel": "general"}))["topic"]
            subscription = await pubsub.subscribe(topic)
            while not pubsub.peer_topics.get(topic):
                await trio.sleep(0.01)
            # The node is in the mesh once the two have grafted each other.
            while not gossip.mesh.get(topic):
                await trio.sleep(0.01)
            await events.ask({"type": "receive"})
            await PingService(host).ping(info.peer_id, 1)
            print(json.dumps({"ready": True}), flush=True)

            async def heard():
                """The next event that the node put on the topic: the log's, which is signed by the node."""
                while True:
                    message = await subscription.get()
                    if message.from_id == info.peer_id.to_bytes():
                        return json.loads(message.data)["event"]

            gossiped = []
            while len(gossiped) < count:
                event = await heard()
                if event["source_id"] != agent:
                    gossiped.append(event["payload"]["number"])
            async with events.changed:
                while len(events.pushed) < count:
                    await events.changed.wait()
            come_back = 0
            for number in range(count):
                await pubsub.publish(topic, json.dumps({
                    "event_id": f"{agent}-post-{number}", "event_name": "thread.channel_message.post",
                    "payload": {"channel": "general", "content": {"text": f"post {number}"}, "number": number},
                }).encode())
                # The library drops what is published while 32 messages wait; its own posts come back from the node.
                while number - come_back >= 16:
                    come_back += (await heard())["source_id"] == agent
            direct = {"event_id": f"{agent}-direct", "event_name": "agent.message", "destination_id": "agent:ear",
                      "payload": {"done": True}}
            first = await events.ask({"type": "send", "event": direct})
            second = await events.ask({"type": "send", "event": direct})
            spoofed = await events.ask({"type": "send", "event": direct | {"event_id": "x", "source_id": "ear"}})
            # Its gossip is on the way; the test says when it has come.
            await trio.to_thread.run_sync(sys.stdin.readline)
            left = await events.ask({"type": "unregister"})
            pushed = [frame["event"]["payload"]["number"] for frame in events.pushed]
            print(json.dumps({
                "agent_version": identity.agent_version,
                "speaks_events": EVENTS in identity.protocols,
                "pinged": len(pings) == 1,
                "gossiped": len(set(gossiped)),
                "gossip_twice": len(gossiped) - len(set(gossiped)),
                "pushed": len(pushed),
                "pushed_in_order": pushed == list(range(len(pushed))),
                "sent": first["success"] and not first["repeated"],
                "repeated": second["success"] and second["repeated"],
                "spoof": spoofed.get("code"),
                "left": left["type"] == "unregistered",
            }), flush=True)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(run, sys.argv[1], sys.argv[2], int(sys.argv[3]))
