"""A tool server that speaks MCP on standard input and output, and misbehaves as its first argument says."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

mode = sys.argv[1]
out = sys.stdout
lock = threading.Lock()
cancelled = []


def write(text):
    with lock:
        out.write(text)
        out.flush()


def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def text(ident, words, **more):
    send({"id": ident, "result": {"content": [{"type": "text", "text": words}], **more}})


def tool(name, **more):
    return {"name": name, "description": "does " + name, "inputSchema": {"type": "object"}, **more}


TOOLS = ["echo", "slow", "cancelled", "environment", "meta", "big", "blocks", "images", "pids", "die", "asks", "loris", "noise", "bare", "fails", "null", "joined", "latin", "half", "forks"]


VERSIONS = {"first-revision": "2024-11-05", "unknown-revision": "1999-01-01"}


def wide():
    """Returns a schema of 22 kB that is many times as long once its references are expanded."""
    parts = {f"p{n}": {"type": "string", "description": "\U000e0069" + "x" * 500} for n in range(40)}
    properties = {f"a{n}": {"$ref": "#/$defs/part"} for n in range(40)}
    return {"type": "object", "properties": properties, "$defs": {"part": {"type": "object", "properties": parts}}}


def bomb(number):
    """Returns a tool of 5 kB whose expanded references have 2,400 patterns."""
    leaf = {f"p{n}": {"type": "string", "pattern": "^(\\w{1,20}|%d){1,9}$" % n} for n in range(40)}
    properties = {f"a{n}": {"$ref": "#/$defs/many"} for n in range(60)}
    many = {"type": "object", "properties": leaf}
    return tool(f"tool_{number:03}", inputSchema={"type": "object", "properties": properties, "$defs": {"many": many}})


def listing(ident, params):
    if mode == "bomb":
        with open("bombs") as file:
            return send({"id": ident, "result": {"tools": [bomb(n) for n in range(int(file.read()))]}})
    if mode == "hang-list":
        return
    if mode == "bare-list":
        broken = [{"description": "without a name"}, 7]
        return send({"id": ident, "result": [tool("echo"), *broken, {"name": "plain"}]})
    if mode == "many":
        at = int(params.get("cursor", 0))
        page = [tool(f"tool_{n}") for n in range(at, at + 1000)]
        return send({"id": ident, "result": {"tools": page, "nextCursor": str(at + 1000)}})
    if mode == "cursors":
        return send({"id": ident, "result": {"tools": [], "nextCursor": str(time.time()) + "c" * 7_500_000}})
    if mode == "padded":
        at = int(params.get("cursor", 0))
        padding = "x" * 1_000_000
        return send({"id": ident, "result": {"tools": [], "padding": padding, "nextCursor": str(at + 1)}})
    if mode == "wide":
        return send({"id": ident, "result": {"tools": [tool(f"tool_{n}", inputSchema=wide()) for n in range(20)]}})
    if mode == "circle":
        return send({"id": ident, "result": {"tools": [tool("echo")], "nextCursor": "again"}})
    send({"id": ident, "result": {"tools": [tool(name) for name in TOOLS]}})


def slow(ident, arguments, token):
    seconds = arguments.get("seconds", 5)
    if token is not None:
        for step in range(3):
            send({"method": "notifications/progress", "params": {"progressToken": token, "progress": step, "total": 3}})
    time.sleep(seconds)
    text(ident, "late")


def loris(ident):
    for letter in json.dumps({"jsonrpc": "2.0", "id": ident, "result": {"content": []}}):
        write(letter)
        time.sleep(1)
    write("\n")


def call(ident, params):
    if mode == "hang-call":
        return
    name, arguments, meta = params["name"], params.get("arguments", {}), params.get("_meta", {})
    if name == "echo":
        text(ident, arguments.get("text", ""))
    elif name == "fails":
        text(ident, "it went wrong", isError=True)
    elif name == "slow":
        threading.Thread(target=slow, args=(ident, arguments, meta.get("progressToken")), daemon=True).start()
    elif name == "loris":
        threading.Thread(target=loris, args=(ident,), daemon=True).start()
    elif name == "cancelled":
        text(ident, json.dumps(cancelled))
    elif name == "environment":
        text(ident, json.dumps(dict(os.environ)))
    elif name == "meta":
        text(ident, json.dumps(meta))
    elif name == "bare":
        send({"id": ident, "result": {"structuredContent": {"answer": 42}}})
    elif name == "null":
        send({"id": ident, "result": None})
    elif name == "joined":
        first = json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}})
        write(first + json.dumps({"jsonrpc": "2.0", "id": ident, "result": {"content": "joined"}}) + "\n")
    elif name == "latin":
        with lock:
            out.buffer.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":"caf\xe9"}}\n' % ident)
            out.buffer.flush()
    elif name == "half":
        write('{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"cut \\ud83d"}]}}\n' % ident)
    elif name == "big":
        write('{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"begin' % ident)
        piece = "x" * (1024 * 1024)
        for _ in range(arguments["megabytes"]):
            write(piece)
        write('end"}]}}\n')
    elif name == "nodes":
        head = '{"jsonrpc":"2.0","id":%d,"result":{"structuredContent":[' % ident
        write(head + "[],{}," * 1_300_000 + "0]}}\n")
    elif name == "deep":
        write('{"jsonrpc":"2.0","id":%d,"result":{"content":%s%s}}\n' % (ident, "[" * 4_000_000, "]" * 4_000_000))
    elif name == "blocks":
        write('{"jsonrpc":"2.0","id":%d,"result":{"content":[' % ident)
        block = '{"type":"text","text":"block"},' * 1000
        for _ in range(arguments["thousands"]):
            write(block)
        write('{"type":"text","text":"end"}]}}\n')
    elif name == "images":
        image = {"type": "image", "mimeType": "image/png", "data": "A" * arguments["bytes"]}
        send({"id": ident, "result": {"content": [image] * arguments["count"]}})
    elif name == "pids":
        child = subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 1000 & wait"])
        text(ident, json.dumps([os.getpid(), child.pid]))
    elif name == "forks":
        inside = subprocess.Popen(["sleep", "1000"])
        outside = subprocess.Popen(["sleep", "1000"], start_new_session=True)
        # Its parent ends at once, so that the process is detached from the server.
        daemon = subprocess.run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE)
        text(ident, json.dumps([os.getpid(), inside.pid, outside.pid, int(daemon.stdout)]))
    elif name == "die":
        print("Error: the disk is full, token is " + os.environ.get("SECRET", ""), file=sys.stderr, flush=True)
        os._exit(3)
    elif name == "asks":
        send({"id": "s1", "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 10}})
        send({"id": "s2", "method": "roots/list"})
        request = {"message": "your password?", "requestedSchema": {"type": "object", "properties": {}}}
        send({"id": "s3", "method": "elicitation/create", "params": request})
        answers = [json.loads(sys.stdin.readline()) for _ in range(3)]
        text(ident, json.dumps(sorted(answers, key=lambda answer: str(answer.get("id")))))
    elif name == "noise":
        write("Listening on port 3000\n\n{]\n[1, 2]\nnull\n\"text\"\n")
        text(ident + 1000, "of another")
        text("x", "unrelated")
        send({"result": {"content": []}})
        send({"id": ident + 1, "error": {"code": 1, "message": "of another"}})
        write("\x1b[32mdone\x1b[0m ")
        text(ident, arguments["text"])
        text(ident, "once more")
    else:
        send({"id": ident, "error": {"code": -32602, "message": "Unknown tool: " + name}})


def storm():
    while True:
        for _ in range(10):
            send({"method": "notifications/tools/list_changed"})
        time.sleep(0.01)


def requests():
    """Sends all kinds of requests as fast as the pipe accepts them."""
    methods = ["ping", "sampling/createMessage", "roots/list", "elicitation/create"]
    ask = lambda n: json.dumps({"jsonrpc": "2.0", "id": f"q{n}", "method": methods[n % 4], "params": {"messages": []}})
    piece = "".join(ask(n) + "\n" for n in range(500))
    while True:
        write(piece)


FLOODS = {
    "notices": json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}) + "\n",
    "changes": json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}) + "\n",
    "batches": "[" + ",".join(['{"jsonrpc":"2.0","method":"notifications/message"}'] * 900) + "]\n",
    "strangers": json.dumps({"jsonrpc": "2.0", "id": 123456789, "result": {}}) + "\n",
    "blank": "\n",
    "junk": "x\n",
    "endless": "x",
}


def flood():
    """Sends unsolicited messages as fast as the pipe accepts them."""
    piece = FLOODS[mode] * max(1, 65536 // len(FLOODS[mode]))
    while True:
        write(piece)


def lines():
    yield from sys.stdin
    while mode == "stubborn":
        time.sleep(1000)


def main():
    if mode == "hang-start":
        time.sleep(1000)
    if mode == "installs":
        ready = time.monotonic() + 7
        while time.monotonic() < ready:
            with open(os.devnull, "wb") as package:
                package.write(bytes(64 * 1024))
            time.sleep(0.05)
    if mode == "crash":
        print("Error: API_KEY is not set", file=sys.stderr, flush=True)
        sys.exit(2)
    if mode == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    broken = False
    for line in lines():
        message = json.loads(line)
        ident, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if method == "server/discover":
            if mode == "strict":
                sys.exit(1)
            if mode == "silent":
                continue
            if mode == "stunned":
                time.sleep(1000)
            if mode == "empty":
                # Some libraries fail at a request before the handshake.
                broken = True
                send({"id": ident, "result": {}})
                continue
            if mode == "picky":
                send({"id": ident, "error": {"code": -32022, "message": "Unsupported", "data": {"supported": ["2025-06-18"]}}})
                continue
            send({"id": ident, "error": {"code": -32601, "message": "Method not found"}})
        elif method == "initialize":
            if mode == "hang-initialize" or broken:
                continue
            if mode == "picky" and params["protocolVersion"] != "2025-06-18":
                send({"id": ident, "error": {"code": -32022, "message": "Unsupported", "data": {"supported": ["2025-06-18"]}}})
                continue
            about = {"name": "hostile", "version": "1"}
            announces = {"tools": {"listChanged": True}}
            version = VERSIONS.get(mode, params["protocolVersion"])
            result = {"protocolVersion": version, "capabilities": announces, "serverInfo": about}
            if mode == "shy":
                result = {"protocolVersion": version, "capabilities": {"tools": []}}
            send({"id": ident, "result": result})
        elif method == "notifications/initialized":
            if mode == "storm":
                threading.Thread(target=storm, daemon=True).start()
            if mode in FLOODS:
                threading.Thread(target=flood, daemon=True).start()
            if mode in ("requests", "requests-deaf"):
                threading.Thread(target=requests, daemon=True).start()
            if mode in ("deaf", "requests-deaf"):
                time.sleep(1000)
        elif method == "notifications/cancelled":
            cancelled.append(params["requestId"])
        elif method == "tools/list":
            listing(ident, params)
        elif method == "tools/call":
            call(ident, params)
        elif method == "ping":
            if mode == "hang-ping":
                continue
            send({"id": ident, "result": {}})
        elif ident is not None and method:
            send({"id": ident, "error": {"code": -32601, "message": "Method not found"}})


main()
