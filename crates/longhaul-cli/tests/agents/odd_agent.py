"""Agents over the Agent Client Protocol that do one odd thing each. Usage: python3 odd_agent.py MODE [ARGUMENT]"""

import json
import os
import subprocess
import sys
import time


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)


def update(**fields):
    send({"method": "session/update", "params": {"sessionId": "s", "update": fields}})


def say(text):
    update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})


def ask(identity, method, **params):
    send({"id": identity, "method": method, "params": {"sessionId": "s", **params}})
    while True:
        message = read()
        if message.get("id") == identity and "method" not in message:
            return message


def permission(command):
    answer = ask("p", "session/request_permission", toolCall={
        "toolCallId": "t1", "title": f"Run {command}", "kind": "execute", "rawInput": {"command": command},
    }, options=[
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ])
    return answer["result"]["outcome"]


def inside(project):
    """What an agent can see and do; each line is one finding."""
    found = [f"uid {os.getuid()}", f"key {os.environ.get('ANTHROPIC_API_KEY', 'none')}"]
    for name, path in [("git", ".git/config"), ("home", "/root/.ssh"), ("etc", "/etc/shadow")]:
        try:
            open(f"{project}/{path}" if not path.startswith("/") else path, "a").close()
            found.append(f"{name} writable")
        except OSError:
            found.append(f"{name} refused")
    outside = ask("f", "fs/read_text_file", path="/etc/passwd")
    found.append("fs refused" if "error" in outside else "fs readable")
    return "; ".join(found)


def turn(mode, prompt, project):
    if mode == "nonsense":
        print("Traceback (most recent call last): no model", flush=True)
        time.sleep(600)
    elif mode == "crash":
        open(f"{project}/half.txt", "w").write("half\n")
        print("out of luck", file=sys.stderr, flush=True)
        os._exit(7)
    elif mode == "silent":
        open(f"{project}/half.txt", "w").write("half\n")
        while True:
            message = read()
            if message.get("method") == "session/cancel":
                return "cancelled"
    elif mode == "ask":
        outcome = permission("git push")
        if outcome["outcome"] == "cancelled":
            return "cancelled"
        known = "was told" if "Decided by a person" in prompt else "was not told"
        say(f"HAND OVER: push {outcome['optionId']}, {known}")
    elif mode == "inside":
        say("HAND OVER: " + inside(project))
    elif mode == "background":
        # Something of it runs on while the work is verified: it would change what is being looked at.
        subprocess.Popen(["sh", "-c", "i=0; while :; do i=$((i+1)); echo $i > ticks.txt; done"], cwd=project)
        say("finished")
    else:
        say("HAND OVER: nothing to do")
    return "end_turn"


def main():
    mode, project = sys.argv[1], None
    while True:
        message = read()
        method, params = message.get("method"), message.get("params", {})
        if method == "initialize":
            version = 2 if mode == "version" else 1
            if mode == "login":
                send({"id": message["id"], "error": {"code": -32000, "message": "Authentication required"}})
                continue
            send({"id": message["id"], "result": {"protocolVersion": version, "agentInfo": {"name": "odd"}}})
        elif method == "session/new":
            project = params["cwd"]
            send({"id": message["id"], "result": {"sessionId": "s"}})
        elif method == "session/prompt":
            reason = turn(mode, params["prompt"][0]["text"], project)
            send({"id": message["id"], "result": {"stopReason": reason}})


main()
