"""A mod that is a process of its own: it rolls dice. Python's standard library is all it needs.

    python3 external_mod.py http://127.0.0.1:8700 GROUP PASSWORD

It joins as an agent of a group with the permission `mod`, under the name of the mod:

    network:
      agent_groups:
        mods: {password_hash: <hex SHA-256 of the password>, metadata: {permissions: [mod]}}

Events addressed to `mod:example.mods.dice` then reach it as they reach any agent. What it sends with `response_to` is the
answer of whoever sent the event with `requires_response`.
"""

import hashlib
import json
import random
import sys
import urllib.error
import urllib.parse
import urllib.request

AGENT, MOD = "dice", "example.mods.dice"


def call(url, body=None, timeout=60):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        return json.load(error)


def answer(event):
    """What the mod does: payload in, answer out."""
    if event["event_name"] != "dice.roll":
        return {"success": False, "message": f"no {event['event_name']} here: send dice.roll"}
    sides = event["payload"].get("sides", 6)
    if not isinstance(sides, (int, float)) or not 2 <= sides <= 1000:
        return {"success": False, "message": "payload.sides is no number from 2 to 1000"}
    # The event's id decides: asked again, it is the same roll.
    roll = random.Random(event["event_id"]).randint(1, int(sides))
    return {"success": True, "message": "rolled", "data": {"roll": roll, "sides": int(sides)}}


def main():
    network, group, password = sys.argv[1:4]
    joined = call(f"{network}/api/register", {
        "agent_id": AGENT,
        "agent_group": group,
        "password_hash": hashlib.sha256(password.encode()).hexdigest(),
        "metadata": {"name": "Dice", "mod": MOD},
    })
    if not joined.get("success"):
        sys.exit(joined.get("error_message", "the network did not let us in"))
    secret = joined["secret"]
    print("ready", flush=True)
    query = urllib.parse.urlencode({"agent_id": AGENT, "secret": secret, "wait": 20})
    while True:
        received = call(f"{network}/api/poll?{query}")
        if not received.get("success"):
            sys.exit(received.get("error_message", "the network has ended"))
        for event in received["messages"]:
            if event.get("destination_id") != f"mod:{MOD}":
                continue
            # The answer's id comes from the event's: delivered twice, it is answered once.
            call(f"{network}/api/send_event", {
                "event_id": f"answer-{event['event_id']}",
                "event_name": "dice.answered",
                "source_id": AGENT,
                "target_agent_id": f"agent:{event['source_id']}",
                "response_to": event["event_id"],
                "payload": answer(event),
                "secret": secret,
            })


if __name__ == "__main__":
    main()
