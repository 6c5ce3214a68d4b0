#!/usr/bin/env python3
"""Writes to the bot of a playground at 127.0.0.1:8420 as its first member. Exits 0 once the bot answers, within 30 s."""

import json
import time
import urllib.request

SITE = "http://127.0.0.1:8420"
TIMEOUT_S = 30


def state():
    """Returns the members, channels and messages of the playground."""
    return json.load(urllib.request.urlopen(SITE + "/playground/state", timeout=10))


def main():
    """Asks once, and polls for the answer."""
    now = state()
    member = next(one for one in now["members"] if not one.get("bot"))
    channel = now["channels"][0]["id"]
    body = {"member": member["id"], "channel": channel, "text": f"<@{now['bot']}> hello"}
    headers = {"Content-Type": "application/json"}
    deadline = time.time() + TIMEOUT_S
    # The bot also answers a mention from before its session began.
    urllib.request.urlopen(urllib.request.Request(SITE + "/playground/messages", json.dumps(body).encode(), headers), timeout=10)
    while not any(one["author"] == now["bot"] for one in state()["messages"][channel]):
        assert time.time() < deadline, "the bot did not answer"
        time.sleep(0.2)


main()
