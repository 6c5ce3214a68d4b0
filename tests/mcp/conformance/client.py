"""The client of the conformance suite: the program itself, used as an operator uses it. The last argument is the address of the suite's server.

It lists the tools, logs in if the server requires it, and calls each tool once.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

PROGRAM = os.environ["STAFFAI_PROGRAM"]
URL = sys.argv[-1]
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
# The address of the client metadata that the suite expects.
DESCRIBED_AT = "https://conformance-test.local/client-metadata.json"
LOGINS_MAX = 3


class Client:
    def __init__(self, folder):
        self.folder = folder
        self.logins = 0
        keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        own = {"STAFFAI_STORE__DIR": os.path.join(folder, "data"), "MCP_CONFIG_PATH": os.path.join(folder, "mcp.json")}
        self.env = {**keep, **own, "CONFORMANCE_SECRET": CONTEXT.get("client_secret", "")}
        with open(own["MCP_CONFIG_PATH"], "w", encoding="utf-8") as file:
            json.dump({"mcpServers": {"server": {"url": URL, "allow_http": True}}}, file)

    def run(self, *args):
        done = subprocess.run([PROGRAM, *args], cwd=self.folder, env=self.env, capture_output=True, text=True, timeout=60)
        print("$", *args, done.returncode, done.stdout, done.stderr, flush=True)
        return done.returncode, done.stdout, done.stderr

    def with_login(self, *args):
        """Runs a command, and repeats it after each login that it requires."""
        code, out, err = self.run(*args)
        while "mcp login" in err and self.logins < LOGINS_MAX:
            self.logins += 1
            if not self.login(re.findall(r"--scope '([^']+)'", err)):
                break
            code, out, err = self.run(*args)
        return code, out, err

    def login(self, scopes):
        args = ["mcp", "login", "server", *(word for scope in scopes for word in ("--scope", scope))]
        known = CONTEXT.get("client_id") or (DESCRIBED_AT if SCENARIO == "auth/basic-cimd" else None)
        if known:
            args += ["--client-id", known, "--port", str(free_port())]
            if "client_secret" in CONTEXT:
                args += ["--client-secret-env", "CONFORMANCE_SECRET"]
        with subprocess.Popen(
            [PROGRAM, *args], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True,
        ) as login:
            asked = False
            for line in login.stdout:
                print("login:", line, end="", flush=True)
                asked = asked or "mcp login" in line
                if re.match(r"https?://", line):
                    try:
                        urllib.request.urlopen(line.strip(), timeout=20).read()
                    except (urllib.error.URLError, ConnectionError) as error:
                        print("the browser met", error, flush=True)
            # A login may report that another one is required, for example if the server changed its authorization server.
            return login.wait() == 0 or asked


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def without_nulls(arguments):
    """Removes them as the program does in model output."""
    return {name: value for name, value in arguments.items() if value is not None}


def sample(schema):
    """Returns a value that matches a schema."""
    if "default" in schema:
        return schema["default"]
    if schema.get("enum"):
        return schema["enum"][0]
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = kind[0]
    if kind == "object":
        return {name: sample(of) for name, of in (schema.get("properties") or {}).items()}
    return {"string": "text", "integer": 1, "number": 1, "boolean": True, "array": [], "null": None}.get(kind)


def calls(client, names):
    """Returns the calls that the suite requires, else one per tool."""
    if "toolCalls" in CONTEXT:
        return [(f"server__{call['name']}", without_nulls(call["arguments"])) for call in CONTEXT["toolCalls"]]
    wanted = []
    for name in names:
        _, shown, _ = client.run("tools", "show", name)
        schema = json.loads(shown[shown.index("\n{") :].split("\n\nsome of its")[0])
        wanted.append((name, sample({"type": "object", **schema})))
    if SCENARIO == "json-schema-2020-12-preservation":
        # The schema as received, in place of the one for models.
        _, shown, _ = client.run("tools", "show", "--server", URL, "json_schema_2020_12_tool")
        wanted = [("server__json_schema_echo", {"schema": json.loads(shown[shown.index("\n{") :])})]
    return wanted


def main():
    with tempfile.TemporaryDirectory() as folder:
        client = Client(folder)
        code, out, _ = client.with_login("tools", "list")
        for name, arguments in calls(client, re.findall(r"^(server__\S+) \(", out, re.M)):
            client.with_login("tools", "call", name, json.dumps(arguments))
        return code


sys.exit(main())
