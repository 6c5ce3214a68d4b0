"""Starts the most used tool servers concurrently from empty npm and uv caches, each with the block of its README, and prints which are
ready and the errors of the others.

    python3 tests/independent/cold_servers.py target/release/staffai

Needs npx (Node.js 20), Python 3 and the package registries. It installs uv from PyPI into a temporary directory. The directory is the
home of every started process, so no file of the user is read or written.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import venv

# The blocks of the READMEs, with their placeholders.
SERVERS = {
    "filesystem": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "{folder}"]},
    "memory": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]},
    "sequential-thinking": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-sequential-thinking"]},
    "everything": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-everything"]},
    "playwright": {"command": "npx", "args": ["@playwright/mcp@latest"]},
    "chrome-devtools": {"command": "npx", "args": ["-y", "chrome-devtools-mcp@latest"]},
    "context7": {"command": "npx", "args": ["-y", "@upstash/context7-mcp", "--api-key", "YOUR_API_KEY"]},
    "firecrawl-mcp": {"command": "npx", "args": ["-y", "firecrawl-mcp"], "env": {"FIRECRAWL_API_KEY": "YOUR-API-KEY"}},
    "tavily-mcp": {"command": "npx", "args": ["-y", "tavily-mcp@latest"], "env": {"TAVILY_API_KEY": "your-api-key-here"}},
    "exa": {"command": "npx", "args": ["-y", "exa-mcp-server"], "env": {"EXA_API_KEY": "your_api_key"}},
    "notionApi": {"command": "npx", "args": ["-y", "@notionhq/notion-mcp-server"], "env": {"NOTION_TOKEN": "ntn_****"}},
    "brave-search": {
        "command": "npx",
        "args": ["-y", "@brave/brave-search-mcp-server", "--transport", "stdio"],
        "env": {"BRAVE_API_KEY": "YOUR_API_KEY_HERE"},
    },
    "MongoDB": {"command": "npx", "args": ["-y", "mongodb-mcp-server@latest", "--readOnly"]},
    "desktop-commander": {"command": "npx", "args": ["-y", "@wonderwhy-er/desktop-commander@latest"]},
    "fetch": {"command": "uvx", "args": ["mcp-server-fetch"]},
    "git": {"command": "uvx", "args": ["mcp-server-git"]},
    "time": {"command": "uvx", "args": ["mcp-server-time"]},
    "awslabs.aws-documentation-mcp-server": {
        "command": "uvx",
        "args": ["awslabs.aws-documentation-mcp-server@latest"],
        "env": {"FASTMCP_LOG_LEVEL": "ERROR", "AWS_DOCUMENTATION_PARTITION": "aws"},
        "disabled": False,
        "autoApprove": [],
    },
    "ddg-search": {"command": "uvx", "args": ["duckduckgo-mcp-server"]},
    "mcp-atlassian": {
        "command": "uvx",
        "args": ["mcp-atlassian"],
        "env": {
            "JIRA_URL": "https://your-company.atlassian.net",
            "JIRA_USERNAME": "your.email@company.com",
            "JIRA_API_TOKEN": "your_api_token",
        },
    },
}


def prepare(home: pathlib.Path) -> dict[str, str]:
    """Creates an empty home with uv next to it, with the certificates that the machine trusts."""
    tools = home / "tools"
    venv.create(tools, with_pip=True)
    subprocess.run([tools / "bin/pip", "install", "-q", "uv"], check=True)
    certificates = os.environ.get("NODE_EXTRA_CA_CERTS") or os.environ.get("SSL_CERT_FILE")
    if certificates:
        (home / ".npmrc").write_text(f"cafile={certificates}\n")
        (home / ".config/uv").mkdir(parents=True)
        (home / ".config/uv/uv.toml").write_text("native-tls = true\n")
    return {"HOME": str(home), "PATH": f"{tools}/bin:{os.environ['PATH']}", "TMPDIR": str(home / "tmp"), "LANG": "C.UTF-8"}


def configure(home: pathlib.Path) -> None:
    folder = home / "folder"
    folder.mkdir()
    (home / "tmp").mkdir()
    servers = json.loads(json.dumps(SERVERS).replace("{folder}", str(folder)))
    (home / "mcp.json").write_text(json.dumps({"mcpServers": servers}, indent=2))


def package(server: dict) -> str:
    return next(arg for arg in server["args"] if not arg.startswith("-"))


def version(home: pathlib.Path, server: dict) -> str:
    """Returns the installed version; empty if there is none."""
    name = package(server).removesuffix("@latest")
    if server["command"] == "npx":
        for installed in home.glob(f".npm/_npx/*/node_modules/{name}/package.json"):
            return json.loads(installed.read_text())["version"]
    plain = name.replace("-", "_").replace(".", "_")
    for installed in home.glob(".cache/uv/archive-v0/*/*.dist-info"):
        found, number = installed.name.removesuffix(".dist-info").rsplit("-", 1)
        if found.replace("-", "_").replace(".", "_") == plain:
            return number
    return ""


def main() -> int:
    staffai = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        home = pathlib.Path(directory)
        environment = prepare(home)
        configure(home)
        environment |= {"STAFFAI_MCP_CONFIG": str(home / "mcp.json"), "STAFFAI_DATA_DIR": str(home / "data")}
        for run in ["empty caches", "the same caches again"]:
            began = time.monotonic()
            ran = subprocess.run([staffai, "tools", "list"], cwd=home, env=environment, capture_output=True, text=True)
            seconds = time.monotonic() - began
            print(f"\n{run}: {seconds:.0f} s, exit code {ran.returncode}\n\n| package | version | result |\n|---|---|---|")
            ready = 0
            for name, server in SERVERS.items():
                # Models call tools by the name of their server and their own.
                prefix = "".join(c if c.isalnum() else "_" for c in name).lower()
                tools = sum("".join(c if c.isalnum() else "_" for c in line).lower().startswith(f"{prefix}__") for line in ran.stdout.splitlines())
                said = [line for line in ran.stderr.splitlines() if line.startswith(f"{name}: ")]
                ready += tools > 0
                result = f"ready, {tools} tools" if tools else (said or ["says nothing"])[-1].removeprefix(f"{name}: ")[:200]
                print(f"| `{server['command']} {package(server)}` | {version(home, server)} | {result} |")
            print(f"\n{ready} of {len(SERVERS)} are ready")
            if "-v" in sys.argv:
                print(ran.stdout, ran.stderr, sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
