#!/usr/bin/env python3
"""Speaks with a network's gRPC port through the official Python implementation: the calls of the agent service, streams
in both directions, health, reflection, bounds; and says how many expectations held.

    scripts/peers.sh grpc                                installs it, once
    PYTHON scripts/grpc-conversation.py LONGHAUL

PYTHON is ~/.cache/longhaul/peers/grpcio-1.76.0/bin/python, LONGHAUL the program. The network is made in a folder of its
own and ends with this program.
"""

import contextlib
import importlib
import json
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import uuid
from pathlib import Path

import grpc
from google.protobuf import any_pb2, struct_pb2
from google.protobuf.json_format import MessageToDict
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from grpc_tools import protoc

PROTO = Path(__file__).resolve().parent.parent / "crates/longhaul-transports/proto"
passed = failed = 0


def expect(holds, what, told=None):
    global passed, failed
    if holds:
        passed += 1
    else:
        failed += 1
        print(f"FAILED: {what}: {told!r}", flush=True)


def generated(folder):
    """The messages, made from the very file that the server is made from."""
    import grpc_tools

    own = Path(grpc_tools.__file__).parent / "_proto"
    ended = protoc.main(
        ["protoc", f"-I{PROTO}", f"-I{own}", f"--python_out={folder}", f"--grpc_python_out={folder}", "openagents.proto"]
    )
    if ended:
        raise SystemExit("the proto cannot be compiled")
    sys.path.insert(0, str(folder))
    return importlib.import_module("openagents_pb2"), importlib.import_module("openagents_pb2_grpc")


class Server:
    def __init__(self, longhaul, folder):
        self.longhaul, self.folder, self.process = longhaul, folder, None
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.http, self.grpc = (one.getsockname()[1] for one in held)
        for one in held:
            one.close()
        folder.mkdir()
        (folder / "network.yaml").write_text(
            f"""network:
  name: GrpcNet
  node_id: grpc-net
  transports:
    - {{type: http, config: {{host: 127.0.0.1, port: {self.http}}}}}
    - {{type: grpc, config: {{host: 127.0.0.1, port: {self.grpc}}}}}
  default_agent_group: guest
  mods:
    - {{name: openagents.mods.workspace.messaging, enabled: true, config: {{default_channels: [{{name: general}}]}}}}
"""
        )

    def start(self):
        log = open(self.folder / "server.log", "ab")  # noqa: SIM115
        env = {**os.environ, "LONGHAUL_HOME": str(self.folder / "home")}
        command = [self.longhaul, "network", "start", str(self.folder)]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env)
        until = time.monotonic() + 30
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{self.http}/api/health", timeout=2).close()
                return
            time.sleep(0.05)
        raise SystemExit("the network did not start:\n" + (self.folder / "server.log").read_text()[-4000:])

    def end(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
            self.process.wait(15)


def packed(payload):
    fields, wrapped = struct_pb2.Struct(), any_pb2.Any()
    fields.update(payload)
    wrapped.Pack(fields)
    return wrapped


def payload(event):
    fields = struct_pb2.Struct()
    return MessageToDict(fields) if event.payload.Unpack(fields) else None


class Agent:
    def __init__(self, pb, stub, name):
        self.pb, self.stub, self.name = pb, stub, name
        self.secret = stub.RegisterAgent(pb.RegisterAgentRequest(agent_id=name, capabilities=["sql"])).secret

    @property
    def authorization(self):
        return [("authorization", f"Bearer {self.name}:{self.secret}")]

    def event(self, name, to="", fields=None, **more):
        more = {"event_id": str(uuid.uuid4()), "source_id": self.name, "secret": self.secret, **more}
        return self.pb.Event(event_name=name, target_agent_id=to, payload=packed(fields or {}), **more)

    def send(self, *args, **more):
        return self.stub.SendEvent(self.event(*args, **more), timeout=10)

    def poll(self):
        told = self.stub.SendEvent(self.event("system.poll_messages", "system:system", {"agent_id": self.name}), timeout=25)
        return json.loads(told.data.value)["messages"]


class Stream:
    """A stream whose events come into a queue."""

    def __init__(self, agent, first=None, metadata=None):
        self.out, self.told, self.status = queue.Queue(), queue.Queue(), None
        if first is not None:
            self.out.put(first)
        self.call = agent.stub.StreamEvents(iter(self.out.get, None), metadata=metadata)
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        try:
            for event in self.call:
                self.told.put(event)
        except grpc.RpcError as error:
            self.status = error.code()
        self.told.put(None)

    def next(self, name=None, seconds=5):
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            with contextlib.suppress(queue.Empty):
                event = self.told.get(timeout=left)
                if event is None or name is None or event.event_name == name:
                    return event
        return None

    def close(self):
        self.out.put(None)


def calls(pb, stub, channel):
    expect(stub.Heartbeat(pb.HeartbeatRequest(agent_id="x", timestamp=1)).success, "a heartbeat before one is known")
    alice, bob = Agent(pb, stub, "alice"), Agent(pb, stub, "bob")
    expect(len(alice.secret) == 64, "a secret of 64 characters", len(alice.secret))
    told = alice.send("agent.message", "agent:bob", {"text": "你好", "list": [1, {"half": 0.5}]})
    expect(told.success, "an event is taken", told)
    got = bob.poll()
    expect(len(got) == 1 and got[0]["payload"] == {"text": "你好", "list": [1, {"half": 0.5}]}, "and arrives as it was", got)
    expect(got[0]["source_id"] == "alice" and got[0]["secret"] is None, "from alice, without a secret", got)
    event = alice.event("agent.message", "bob", {"text": "twice"})
    first, again = stub.SendEvent(event), stub.SendEvent(event)
    expect(first.success and again.success and again.repeated_event, "the same id is done once", again)
    expect([one["payload"]["text"] for one in bob.poll()] == ["twice"], "and arrives once")
    info = stub.GetNetworkInfo(pb.NetworkInfoRequest())
    expect(info.network_id == "grpc-net" and info.is_running and info.agent_count == 2, "the network tells of itself", info)
    found = stub.DiscoverAgents(pb.DiscoverAgentsRequest(required_capabilities=["sql"]), metadata=alice.authorization)
    expect({"alice", "bob"} == {agent.agent_id for agent in found.agents}, "agents are found by what they can do", found)
    none = stub.DiscoverAgents(pb.DiscoverAgentsRequest(required_capabilities=["sql", "poetry"]))
    expect(not none.agents, "all of it is meant", none)
    one = stub.GetAgentInfo(pb.GetAgentInfoRequest(agent_id="bob"))
    expect(one.found and one.agent.transport_type == "grpc" and one.agent.present, "one agent", one)
    expect(not stub.GetAgentInfo(pb.GetAgentInfoRequest(agent_id="nobody")).found, "or none")
    beat = pb.HeartbeatRequest(agent_id="alice", secret=alice.secret)
    expect(stub.Heartbeat(beat).success, "a heartbeat with the secret")
    expect(not stub.Heartbeat(pb.HeartbeatRequest(agent_id="alice", secret="x" * 64)).success, "none with another")
    return alice, bob


def refused(pb, stub, alice, bob):
    told = alice.send("agent.message", "bob", {}, secret="x" * 64)
    expect(not told.success and told.refusal == "unauthenticated", "a wrong secret", told)
    told = stub.SendEvent(alice.event("agent.message", "alice", {}, source_id="bob", secret=alice.secret))
    expect(not told.success, "another's name with one's own secret", told)
    forged = alice.event("agent.message", "alice", {}, source_id="bob", secret="")
    told = stub.SendEvent(forged, metadata=alice.authorization)
    expect(not told.success and told.refusal == "forbidden", "another's name beside one's own authorization", told)
    told = alice.send("system.poll_messages", "system:system", {"agent_id": "bob"})
    expect(not told.success, "another's events", told)
    expect(not alice.send("Not A Name", "bob", {}).success, "a name that is none")
    expect(not alice.send("agent.message", "nobody", {}).success, "a receiver that is none")
    told = stub.RegisterAgent(pb.RegisterAgentRequest(agent_id="bob", force_reconnect=True))
    expect(not told.success and not told.secret, "a name that somebody has", told)
    told = stub.UnregisterAgent(pb.UnregisterAgentRequest(agent_id="bob", secret=alice.secret))
    expect(not told.success, "sending another away", told)
    with contextlib.suppress(grpc.RpcError):
        told = alice.send("agent.message", "bob", {"text": "x" * 80_000_000})
        expect(not told.success, "eighty megabytes", told.message)
    try:
        stub.DiscoverAgents(pb.DiscoverAgentsRequest(), metadata=[("authorization", "Bearer alice:wrong")])
        expect(False, "a wrong authorization")
    except grpc.RpcError as error:
        expect(error.code() == grpc.StatusCode.UNAUTHENTICATED, "a wrong authorization", error.code())


def numbered(stream):
    """The next message with a number: what the last poll gave is not acknowledged yet, and comes again."""
    while (event := stream.next("agent.message")) is not None and "number" not in payload(event):
        pass
    return event


def streams(pb, stub, alice, bob):
    hearing = Stream(bob, bob.event("system.stream_open"))
    opened = hearing.next("system.stream_reply")
    expect(opened and payload(opened)["success"], "a stream is opened", opened)
    sent = time.perf_counter()
    alice.send("agent.message", "bob", {"number": 1})
    pushed = numbered(hearing)
    took = (time.perf_counter() - sent) * 1000
    expect(pushed and payload(pushed) == {"number": 1.0} and pushed.seq > 0, "an event is pushed", pushed)
    expect(took < 500, "at once", took)
    alice.send("agent.message", "bob", {"number": 2})
    second = numbered(hearing)
    hearing.out.put(bob.event("system.stream_ack", "", {"cursor": pushed.seq}))
    answer = bob.event("agent.message", "alice", {"text": "over the stream"})
    hearing.out.put(answer)
    told = hearing.next("system.stream_reply")
    expect(told and told.response_to == answer.event_id and payload(told)["success"], "an event is sent in it", told)
    expect([one["payload"]["text"] for one in alice.poll()] == ["over the stream"], "and arrives")
    hearing.out.put(bob.event("agent.message", "alice", {}, source_id="alice"))
    told = hearing.next("system.stream_reply")
    expect(told and payload(told)["success"] is False, "nobody speaks for another in it", told)
    hearing.close()
    expect(hearing.next(seconds=5) is None and hearing.status is None, "it ends with the client's half", hearing.status)
    again = Stream(bob, metadata=bob.authorization)
    repeated = again.next("agent.message")
    expect(repeated and repeated.seq == second.seq, "what was not acknowledged comes again", repeated)
    again.call.cancel()
    later = Stream(bob, metadata=[*bob.authorization, ("resume-after", str(second.seq))])
    alice.send("agent.message", "bob", {"number": 3})
    third = later.next("agent.message")
    expect(third and payload(third) == {"number": 3.0}, "or what comes behind a number", third)
    later.close()
    stranger = Stream(bob, bob.event("system.stream_open", secret="x" * 64))
    stranger.next(seconds=5)
    expect(stranger.status == grpc.StatusCode.UNAUTHENTICATED, "a stranger has no stream", stranger.status)


def described(channel):
    health = health_pb2_grpc.HealthStub(channel)
    for service in ("", "openagents.AgentService"):
        status = health.Check(health_pb2.HealthCheckRequest(service=service)).status
        expect(status == health_pb2.HealthCheckResponse.SERVING, f"health of {service!r}", status)
    database = ProtoReflectionDescriptorDatabase(channel)
    services = set(database.get_services())
    expect({"openagents.AgentService", "grpc.health.v1.Health"} <= services, "reflection lists services", services)
    file = database.FindFileContainingSymbol("openagents.AgentService")
    methods = {method.name for service in file.service for method in service.method}
    expect({"SendEvent", "StreamEvents", "DiscoverAgents", "GetNetworkInfo"} <= methods, "and their calls", methods)


def bounds(port):
    """What is no HTTP/2 is closed; a peer that says nothing does not keep others away."""
    with socket.create_connection(("127.0.0.1", port)) as one:
        one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        one.settimeout(5)
        try:
            got = one.recv(1)
        except ConnectionResetError:  # closed with what was sent unread
            got = b""
        expect(got == b"", "HTTP/1.1 is not spoken here", got)


def restarted(pb, server, stub, alice, bob):
    alice.send("agent.message", "bob", {"text": "kept"})
    server.end(signal.SIGKILL)
    server.start()
    for _ in range(50):
        with contextlib.suppress(grpc.RpcError):
            texts = [one["payload"].get("text") for one in bob.poll()]
            expect("kept" in texts, "what was taken is there after a kill -9, for the same secret", texts)
            return
        time.sleep(0.1)
    expect(False, "the channel comes back after a restart")


def main():
    with tempfile.TemporaryDirectory(prefix="longhaul-grpc-") as folder:
        pb, services = generated(Path(folder))
        server = Server(sys.argv[1], Path(folder) / "network")
        try:
            server.start()
            options = [("grpc.max_send_message_length", -1), ("grpc.min_reconnect_backoff_ms", 100),
                       ("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200)]
            with grpc.insecure_channel(f"127.0.0.1:{server.grpc}", options=options) as channel:
                stub = services.AgentServiceStub(channel)
                alice, bob = calls(pb, stub, channel)
                refused(pb, stub, alice, bob)
                streams(pb, stub, alice, bob)
                described(channel)
                bounds(server.grpc)
                restarted(pb, server, stub, alice, bob)
        finally:
            server.end()
    word = "FAILED" if failed else "ok"
    print(f"test result: {word}. {passed} passed; {failed} failed; 0 ignored", flush=True)
    os._exit(1 if failed else 0)


if __name__ == "__main__":
    main()
