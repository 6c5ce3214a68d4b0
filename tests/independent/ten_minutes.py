"""Runs Codex CLI, an agent of LangGraph and Open WebUI for some minutes with the program in place of OpenAI, and prints the results of
their tasks.

    npm install @openai/codex && pip install langgraph langchain-openai
    python tests/independent/ten_minutes.py target/release/staffai node_modules/.bin/codex [minutes] [open-webui]

Open WebUI takes about 7 GB, so it only runs if the path of its program is given.

A scripted model serves the program's playground: it streams slowly, calls one tool of the client, and answers with its result. Each
program has its default settings except for the address, the key and the model.
"""

import collections
import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

WORDS = "The tide comes in twice a day, and this took a while to say. "


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def arguments(function: dict) -> dict:
    """Returns harmless arguments for a tool: a command that prints one line, or any text."""
    wanted = function.get("parameters") or {}
    given = {}
    for name in wanted.get("required", []):
        kind = wanted.get("properties", {}).get(name, {})
        types = kind.get("type")
        if name in ("command", "cmd"):
            given[name] = ["echo", "a boat"] if types == "array" else "echo a boat"
        elif types in ("integer", "number"):
            given[name] = 1
        elif types == "boolean":
            given[name] = False
        elif types == "array":
            given[name] = []
        else:
            given[name] = "harbour"
    return given


def chosen(tools: list) -> dict | None:
    """Returns the tool that runs a command, else the first."""
    functions = [tool["function"] for tool in tools if tool.get("type") == "function"]
    shells = [function for function in functions if function["name"] in ("shell", "exec_command", "shell_command", "local_shell")]
    return (shells or functions or [None])[0]


class Model(http.server.BaseHTTPRequestHandler):
    """A provider of chat completions that calls one tool in each task."""

    protocol_version = "HTTP/1.1"
    asked = 0

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer(json.dumps({"object": "list", "data": [{"id": "scripted", "object": "model"}]}).encode())

    def answer(self, body: bytes):
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        Model.asked += 1
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = body["messages"]
        users = [at for at, message in enumerate(messages) if message["role"] == "user"]
        found = [message for message in messages[users[-1] if users else 0 :] if message["role"] == "tool"]
        function = chosen(body.get("tools") or []) if not found and "call" in json.dumps(messages[users[-1]] if users else "") else None
        if function:
            call = {"index": 0, "id": f"call_{Model.asked}", "type": "function"}
            call["function"] = {"name": function["name"], "arguments": json.dumps(arguments(function))}
            deltas, finish = [{"tool_calls": [call]}], "tool_calls"
        else:
            text = WORDS * 8 + ("It found a boat." if found else "")
            deltas, finish = [{"content": text[at : at + 12]} for at in range(0, len(text), 12)], "stop"
        if not body.get("stream"):
            message = {"role": "assistant", "content": None}
            if function:
                message["tool_calls"] = deltas[0]["tool_calls"]
            else:
                message["content"] = "".join(delta["content"] for delta in deltas)
            choice = {"index": 0, "message": message, "finish_reason": finish}
            return self.answer(json.dumps({"choices": [choice], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}).encode())
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        for delta in deltas:
            self.chunk({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            time.sleep(0.05)
        self.chunk({"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        self.chunk({"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}})
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def chunk(self, chunk: dict):
        self.wfile.write(f"data: {json.dumps({'id': 'c', 'object': 'chat.completion.chunk', 'model': 'scripted', **chunk})}\n\n".encode())
        self.wfile.flush()


def codex(program: str, base: str, home: pathlib.Path, until: float, results: collections.Counter, wrong: list):
    """Tasks of Codex, one process each, with its default settings."""
    (home / "codex").mkdir()
    work = home / "work"
    work.mkdir()
    provider = f'{{name="staffai",base_url="{base}",env_key="STAFFAI_KEY",wire_api="responses"}}'
    command = [program, "exec", "--skip-git-repo-check", "-c", f"model_providers.staffai={provider}"]
    command += ["-c", 'model_provider="staffai"', "-m", "staffai", "-s", "workspace-write", "Please call a tool and tell what it found."]
    environment = {**os.environ, "CODEX_HOME": str(home / "codex"), "STAFFAI_KEY": "none"}
    while time.monotonic() < until:
        ran = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True, timeout=180, stdin=subprocess.DEVNULL)
        if ran.returncode == 0 and "It found a boat." in ran.stdout:
            results["Codex CLI: done"] += 1
        else:
            results["Codex CLI: failed"] += 1
            wrong.append(f"codex {ran.returncode}: {ran.stdout[-1500:]}{ran.stderr[-3000:]}")


def langgraph(base: str, wire: bool, until: float, results: collections.Counter, wrong: list):
    """Tasks of a ReAct agent of LangGraph that remembers its thread, over chat completions or responses."""
    from langchain_openai import ChatOpenAI
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.prebuilt import create_react_agent

    def look(at: str) -> str:
        """Looks there and says what is seen."""
        return f"at the {at}: a boat"

    name = f"LangGraph, {'responses' if wire else 'chat completions'}"
    model = ChatOpenAI(model="staffai", base_url=base, api_key="none", use_responses_api=wire)
    agent = create_react_agent(model, [look], checkpointer=InMemorySaver())
    thread = 0
    while time.monotonic() < until:
        thread += 1
        try:
            for turn in range(5):
                said = {"messages": [("user", f"Please call look, turn {turn}.")]}
                answer = None
                for answer in agent.stream(said, {"configurable": {"thread_id": str(thread)}}, stream_mode="values"):
                    pass
                kinds = [message.type for message in answer["messages"]][-4:]
                text = str(answer["messages"][-1].text)
                assert kinds == ["human", "ai", "tool", "ai"] and "It found a boat." in text, (kinds, text)
                results[f"{name}: done"] += 1
        except Exception as error:  # Any error counts as one failed task.
            results[f"{name}: failed"] += 1
            wrong.append(f"{name}: {error!r}"[:1500])


def post(url: str, body: dict, token: str | None = None) -> dict:
    headers = {"content-type": "application/json"} | ({"authorization": f"Bearer {token}"} if token else {})
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        text = answer.read().decode()
    if not text.startswith("data:"):
        return json.loads(text)
    chunks = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    deltas = [chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk.get("choices")]
    return {"text": "".join(deltas)}


def webui(program: str, base: str, home: pathlib.Path, until: float, results: collections.Counter, wrong: list):
    """Questions over Open WebUI's own interface, as its page asks them, with the titles and tags that it requests for each chat."""
    port = free_port()
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "DATA_DIR": str(home / "webui"), "WEBUI_SECRET_KEY": "test"}
    environment |= {"OPENAI_API_BASE_URL": base, "OPENAI_API_KEY": "none", "HF_HUB_OFFLINE": "1", "OFFLINE_MODE": "true"}
    log = open(home / "webui.log", "w")
    command = [program, "serve", "--host", "127.0.0.1", "--port", str(port)]
    served = subprocess.Popen(command, cwd=home, env=environment, stdout=log, stderr=log)
    try:
        at, token = f"http://127.0.0.1:{port}", None
        while token is None and time.monotonic() < until:
            try:
                member = {"name": "Ada", "email": "ada@example.org", "password": "a-long-Password-1"}
                token = post(f"{at}/api/v1/auths/signup", member)["token"]
            except OSError as error:
                if isinstance(error, urllib.error.HTTPError) or served.poll() is not None:
                    raise
                time.sleep(1)
        listed = urllib.request.Request(f"{at}/api/models", headers={"authorization": f"Bearer {token}"})
        models = [model["id"] for model in json.loads(urllib.request.urlopen(listed, timeout=60).read())["data"]]
        assert "staffai" in models, models
        talk = []
        while time.monotonic() < until:
            talk = [*talk, {"role": "user", "content": "What of the tide?"}][-9:]
            try:
                text = post(f"{at}/api/chat/completions", {"model": "staffai", "messages": talk, "stream": True}, token)["text"]
                assert text.strip() == (WORDS * 8).strip(), text
                talk.append({"role": "assistant", "content": text})
                for task in ["title", "tags", "follow_up"]:
                    answer = post(f"{at}/api/v1/tasks/{task}/completions", {"model": "staffai", "messages": talk}, token)
                    assert answer["choices"][0]["message"]["content"], answer
                results["Open WebUI: done"] += 1
            except (OSError, AssertionError) as error:
                results["Open WebUI: failed"] += 1
                wrong.append(f"Open WebUI: {error!r}"[:1500])
    except Exception as error:  # It did not begin.
        results["Open WebUI: failed"] += 1
        wrong.append(f"Open WebUI: {error!r}: {(home / 'webui.log').read_text()[-1500:]}")
    finally:
        served.terminate()
        served.wait(60)


def main() -> int:
    staffai, program = (str(pathlib.Path(path).resolve()) for path in sys.argv[1:3])
    minutes = float(sys.argv[3]) if len(sys.argv) > 3 else 10.0
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        home, port = pathlib.Path(directory), free_port()
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": directory,
            "LITELLM_API_URL": f"http://127.0.0.1:{model.server_port}",
            "LITELLM_MODEL": "scripted",
            "STAFFAI_HTTP_ADDR": f"127.0.0.1:{port}",
        }
        bot = subprocess.Popen([staffai, "playground"], cwd=directory, env=environment, stdout=subprocess.DEVNULL)
        try:
            base = f"http://127.0.0.1:{port}/v1"
            for _ in range(200):
                try:
                    urllib.request.urlopen(f"{base}/models", timeout=2).read()
                    break
                except OSError:
                    time.sleep(0.2)
            results, wrong, until = collections.Counter(), [], time.monotonic() + minutes * 60
            work = [
                threading.Thread(target=codex, args=(program, base, home, until, results, wrong)),
                threading.Thread(target=langgraph, args=(base, False, until, results, wrong)),
                threading.Thread(target=langgraph, args=(base, True, until, results, wrong)),
            ]
            if len(sys.argv) > 4:
                page = str(pathlib.Path(sys.argv[4]).absolute())
                work.append(threading.Thread(target=webui, args=(page, base, home, until, results, wrong)))
            for thread in work:
                thread.start()
            for thread in work:
                thread.join()
        finally:
            bot.terminate()
            bot.wait(30)
    print(f"{minutes:g} minutes, {Model.asked} requests to the model\n\n| tasks | count |\n|---|---|")
    for name, count in sorted(results.items()):
        print(f"| {name} | {count} |")
    for line in wrong[:5]:
        print(f"\n{line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
