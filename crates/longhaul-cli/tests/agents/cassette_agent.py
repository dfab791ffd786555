"""An agent over the Agent Client Protocol that plays the coding sessions of a cassette: it does what the cassette's model
asks of its tools, with the client's files and terminals, and ends its turn where the model claims.

Usage: python3 cassette_agent.py CASSETTE.toml [LOG.jsonl]

It stands in for a coding agent and for nothing else; standard library only.
"""

import json
import sys
import tomllib


class Client:
    """The other side, over standard input and output."""

    def __init__(self):
        self.asked = 0
        self.waiting = []
        self.cancelled = False

    def send(self, message):
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()

    def read(self):
        if self.waiting:
            return self.waiting.pop(0)
        return self.receive()

    def receive(self):
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        message = json.loads(line)
        if message.get("method") == "session/cancel":
            self.cancelled = True
        return message

    def ask(self, method, **params):
        self.asked += 1
        self.send({"id": f"a{self.asked}", "method": method, "params": {"sessionId": "s1", **params}})
        while True:
            message = self.receive()
            if message.get("id") == f"a{self.asked}" and "method" not in message:
                if "error" in message:
                    raise RuntimeError(message["error"]["message"])
                return message["result"]
            self.waiting.append(message)

    def tell(self, **update):
        self.send({"method": "session/update", "params": {"sessionId": "s1", "update": update}})

    def say(self, text):
        self.tell(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


class Player:
    def __init__(self, client, cassette, folder):
        self.client, self.cassette, self.folder = client, cassette, folder
        self.left = []
        self.calls = 0

    def begin(self, prompt):
        mine = [e for e in self.cassette["entry"] if all(text in prompt for text in e.get("prompt", []))]
        self.left = sorted(mine, key=lambda entry: entry.get("turn", 0))

    def turn(self):
        """Plays until the next claim."""
        while self.left:
            for call in self.left.pop(0).get("call", []):
                if call["tool"] == "claim_done":
                    self.client.say(call["arguments"]["summary"])
                    return
                if call["tool"] == "hand_over":
                    self.client.say("HAND OVER: " + call["arguments"]["note"])
                    return
                self.carry_out(call["tool"], call["arguments"])
                if self.client.cancelled:
                    return
        self.client.say("HAND OVER: the cassette has nothing more for this feature")

    def carry_out(self, tool, arguments):
        self.calls += 1
        shown = {"toolCallId": f"c{self.calls}", "title": f"{tool} {arguments.get('path', '')}".strip()}
        kind = {"write_file": "edit", "edit_file": "edit", "shell": "execute"}.get(tool, "read")
        self.client.tell(sessionUpdate="tool_call", kind=kind, status="in_progress", rawInput=arguments, **shown)
        try:
            self.do(tool, arguments)
            status = "completed"
        except RuntimeError:
            status = "failed"
        self.client.tell(sessionUpdate="tool_call_update", status=status, **shown)

    def do(self, tool, arguments):
        ask, path = self.client.ask, f"{self.folder}/{arguments.get('path', '')}"
        if tool == "write_file":
            ask("fs/write_text_file", path=path, content=arguments["content"])
        elif tool == "edit_file":
            text = ask("fs/read_text_file", path=path)["content"]
            if arguments["old"] not in text:
                raise RuntimeError("not there")
            ask("fs/write_text_file", path=path, content=text.replace(arguments["old"], arguments["new"]))
        elif tool == "shell":
            terminal = ask("terminal/create", command="/bin/sh", args=["-c", arguments["command"]])["terminalId"]
            ask("terminal/wait_for_exit", terminalId=terminal)
            ask("terminal/output", terminalId=terminal)
            ask("terminal/release", terminalId=terminal)


def main():
    with open(sys.argv[1], "rb") as file:
        cassette = tomllib.load(file)
    client, player, turns = Client(), None, 0
    while True:
        message = client.read()
        method, params = message.get("method"), message.get("params", {})
        if method == "initialize":
            client.send({"id": message["id"], "result": {
                "protocolVersion": 1, "agentCapabilities": {}, "agentInfo": {"name": "cassette-agent", "version": "1"},
            }})
        elif method == "session/new":
            player = Player(client, cassette, params["cwd"])
            client.send({"id": message["id"], "result": {"sessionId": "s1"}})
        elif method == "session/prompt":
            turns += 1
            if turns == 1:
                player.begin(params["prompt"][0]["text"])
            player.turn()
            reason = "cancelled" if client.cancelled else "end_turn"
            client.send({"id": message["id"], "result": {"stopReason": reason}})
        elif "id" in message and method:
            client.send({"id": message["id"], "error": {"code": -32601, "message": f"no {method}"}})


main()
