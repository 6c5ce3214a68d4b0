"""A tool server of FastMCP: `stdio`, or `http` or `sse` with a port; `bare` has only tools, over `stdio`."""

import asyncio, sys
from fastmcp import Context, FastMCP
from fastmcp.utilities.types import Image

server = FastMCP("fast")
cancelled = []

@server.tool
def add(a: int, b: int) -> int:
    """Adds two numbers."""
    return a + b

@server.tool
async def slow(seconds: float, ctx: Context) -> str:
    """Takes its time."""
    try:
        for step in range(3):
            await ctx.report_progress(step, 3, f"step {step}")
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        cancelled.append(seconds)
        raise
    return "done"

@server.tool
def cancellations() -> int:
    return len(cancelled)

@server.tool
def dot() -> Image:
    return Image(data=bytes.fromhex("89504e470d0a1a0a"), format="png")

@server.tool
def broken() -> str:
    raise ValueError("it went wrong")

def note(name: str) -> str:
    return f"the note {name}"

def fixed() -> str:
    return "the fixed note"

def greet(name: str) -> str:
    return f"Greet {name}."

if sys.argv[1] != "bare":
    server.resource("note://{name}")(note)
    server.resource("note://fixed")(fixed)
    server.prompt(greet)

transport, port = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None
if transport in ("stdio", "bare"):
    server.run(show_banner=False)
else:
    server.run(transport=transport, host="127.0.0.1", port=port, show_banner=False)
