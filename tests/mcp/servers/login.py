"""A tool server of FastMCP that requires a login, with its own authorization server. Arguments: a port, and the lifetime of a token in seconds."""

import sys
from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions
from fastmcp.server.auth.providers import in_memory

port, life = int(sys.argv[1]), int(sys.argv[2])
in_memory.DEFAULT_ACCESS_TOKEN_EXPIRY_SECONDS = life
address = f"http://127.0.0.1:{port}"
options = ClientRegistrationOptions(enabled=True, valid_scopes=["tools"])
provider = in_memory.InMemoryOAuthProvider(
    base_url=address, client_registration_options=options, required_scopes=["tools"]
)
server = FastMCP("login", auth=provider)
used = []
exchange = provider.exchange_refresh_token

async def counted(*args, **named):
    used.append(1)
    return await exchange(*args, **named)

provider.exchange_refresh_token = counted

@server.tool
def add(a: int, b: int) -> int:
    return a + b

@server.tool
def renewals() -> int:
    return len(used)

@server.tool
def forget_access() -> str:
    provider.access_tokens.clear()
    return "done"

@server.tool
def forget_all() -> str:
    provider.access_tokens.clear()
    provider.refresh_tokens.clear()
    return "done"

server.run(transport="http", host="127.0.0.1", port=port, show_banner=False, log_level="error")
