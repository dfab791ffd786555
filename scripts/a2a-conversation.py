"""The official Python client of A2A (a2a-sdk 1.3.0) against a network of ours: cards, tasks, streams, webhooks and
errors over every binding, and version 0.3.

    a2a-conversation.py A2A_SUBJECT     # the program target/…/examples/a2a_subject

It prints a line for each conversation, and ends with an error at the first thing that is not as it should be.
"""

import asyncio
import http.server
import json
import queue
import socket
import subprocess
import sys
import threading
import uuid

import httpx

from a2a.client import ClientConfig, ClientFactory
from a2a.client.auth import AuthInterceptor
from a2a.client.auth.credentials import CredentialService
from a2a.client.card_resolver import A2ACardResolver
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors
import grpc.aio

TOKEN = "a-token-of-this-test"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Token(CredentialService):
    async def get_credentials(self, security_scheme_name, context):
        return TOKEN


class Hook(http.server.BaseHTTPRequestHandler):
    """Takes every webhook and keeps what it was told."""

    told = queue.Queue()

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        Hook.told.put((self.headers, json.loads(body)))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args):
        pass


def message(prefix, **fields):
    parts = [pb.Part(text="hello")]
    return pb.Message(message_id=f"{prefix}-{uuid.uuid4()}", role=pb.Role.ROLE_USER, parts=parts, **fields)


async def replies(client, text, **configuration):
    request = pb.SendMessageRequest(message=text)
    if configuration:
        request.configuration.CopyFrom(pb.SendMessageConfiguration(**configuration))
    return [reply async for reply in client.send_message(request)]


def kinds(updates):
    return [update.WhichOneof("payload") for update in updates]


async def conversation(client, hook):
    seen = await replies(client, message("tck-stream-001"))
    assert kinds(seen) == ["task", "status_update", "artifact_update", "status_update"], kinds(seen)
    assert seen[2].artifact_update.artifact.parts[0].text == "Stream hello from TCK"
    assert seen[3].status_update.status.state == pb.TaskState.TASK_STATE_COMPLETED

    # A task is asked back, told of by webhook, followed, gone on with and found again.
    config = pb.TaskPushNotificationConfig(
        id="hook", url=hook, token="t0k", authentication=pb.AuthenticationInfo(scheme="Bearer", credentials="s3cret")
    )
    seen = await replies(client, message("tck-input-required"), task_push_notification_config=config)
    task = seen[0].task
    followed = []

    async def follow():
        async for update in client.subscribe(pb.SubscribeToTaskRequest(id=task.id)):
            followed.append(update)
            if update.WhichOneof("payload") == "task":
                going.set()

    going = asyncio.Event()
    following = asyncio.create_task(follow())
    await asyncio.wait_for(going.wait(), 10)
    await replies(client, message("tck-complete-task", task_id=task.id, context_id=task.context_id))
    await asyncio.wait_for(following, 10)
    assert followed[-1].status_update.status.state == pb.TaskState.TASK_STATE_COMPLETED
    found = await client.get_task(pb.GetTaskRequest(id=task.id))
    assert found.status.message.parts[0].text == "Hello from TCK" and len(found.history) == 2, found
    listed = await client.list_tasks(pb.ListTasksRequest(context_id=task.context_id))
    assert [one.id for one in listed.tasks] == [task.id] and listed.total_size == 1
    states = []
    while not states or states[-1] != "TASK_STATE_COMPLETED":
        headers, told = await asyncio.to_thread(Hook.told.get, True, 10)
        assert headers["authorization"] == "Bearer s3cret" and told["statusUpdate"]["taskId"] == task.id, told
        states.append(told["statusUpdate"]["status"]["state"])
    assert states == ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"], states
    configs = await client.list_task_push_notification_configs(
        pb.ListTaskPushNotificationConfigsRequest(task_id=task.id)
    )
    assert [one.id for one in configs.configs] == ["hook"]

    # What cannot be done is told as the error that it is.
    seen = await replies(client, message("tck-input-required"))
    canceled = await client.cancel_task(pb.CancelTaskRequest(id=seen[0].task.id))
    assert canceled.status.state == pb.TaskState.TASK_STATE_CANCELED
    for call, expected in [
        (client.cancel_task(pb.CancelTaskRequest(id=task.id)), errors.TaskNotCancelableError),
        (client.get_task(pb.GetTaskRequest(id="none")), errors.TaskNotFoundError),
        (replies(client, message("x", task_id=task.id)), errors.UnsupportedOperationError),
    ]:
        try:
            await call
        except expected:
            continue
        raise AssertionError(f"no {expected.__name__}")

    card = await client.get_extended_agent_card(pb.GetExtendedAgentCardRequest())
    assert any(skill.id == "subject" for skill in card.skills), card


async def older(client):
    seen = await replies(client, message("tck-stream-001"))
    assert kinds(seen) == ["task", "status_update", "artifact_update", "status_update"], kinds(seen)
    found = await client.get_task(pb.GetTaskRequest(id=seen[0].task.id))
    assert found.status.state == pb.TaskState.TASK_STATE_COMPLETED
    assert found.artifacts[0].parts[0].text == "Stream hello from TCK"


async def main(subject):
    http_port, grpc_port = free_port(), free_port()
    receiver = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=receiver.serve_forever, daemon=True).start()
    hook = f"http://127.0.0.1:{receiver.server_port}/"
    started = subprocess.Popen(
        [subject, str(http_port), str(grpc_port), "full", "1.0.1", TOKEN], stdout=subprocess.PIPE, text=True
    )
    try:
        ready = started.stdout.readline()
        assert ready.startswith("ready at "), ready
        url = ready.removeprefix("ready at ").strip()
        auth = AuthInterceptor(Token())
        for binding in ["JSONRPC", "HTTP+JSON", "GRPC"]:
            config = ClientConfig(
                supported_protocol_bindings=[binding], grpc_channel_factory=grpc.aio.insecure_channel
            )
            client = await ClientFactory(config).create_from_url(url, [auth])
            await asyncio.wait_for(conversation(client, hook), 60)
            await client.close()
            print(f"test a conversation over {binding} ... ok", flush=True)

        async with httpx.AsyncClient() as plain:
            card = await A2ACardResolver(plain, url).get_agent_card(relative_card_path="/.well-known/agent.json")
            refused = await plain.post(f"{url}/a2a", json={"jsonrpc": "2.0", "id": 1, "method": "tasks/get"})
            assert refused.status_code == 401 and "www-authenticate" in refused.headers, refused
        assert [one.protocol_version for one in card.supported_interfaces][0].startswith("0.3"), card
        client = ClientFactory(ClientConfig(supported_protocol_bindings=["JSONRPC"])).create(card, [auth])
        await asyncio.wait_for(older(client), 60)
        print("test a conversation in version 0.3 ... ok", flush=True)
        print("test result: ok. 4 passed; 0 failed")
    finally:
        started.kill()
        started.wait()


asyncio.run(main(sys.argv[1]))
