"""A tool server on standard input and output with one tool, whose description is read from a file; it notifies clients of changes."""

import json
import sys
import threading
import time

page = sys.argv[1]


def about():
    return open(page).read()


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def watch():
    before = about()
    while True:
        time.sleep(0.1)
        now = about()
        if now != before:
            before = now
            send({"method": "notifications/tools/list_changed"})


for line in sys.stdin:
    message = json.loads(line)
    ident, method = message.get("id"), message.get("method")
    if method == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": {"name": "changing", "version": "1"},
        }
        send({"id": ident, "result": result})
    elif method == "notifications/initialized":
        threading.Thread(target=watch, daemon=True).start()
    elif method == "tools/list":
        send({"id": ident, "result": {"tools": [{"name": "add", "description": about(), "inputSchema": {"type": "object"}}]}})
    elif method == "tools/call":
        send({"id": ident, "result": {"content": [{"type": "text", "text": "done"}]}})
    elif method == "ping":
        send({"id": ident, "result": {}})
    elif ident is not None and method:
        send({"id": ident, "error": {"code": -32601, "message": "Method not found"}})
