"""A tool server of the Python SDK that asks the member: a form, and a link (revision 2026-07-28), over `stdio`."""

from typing import Annotated

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import AcceptedElicitation, Elicit, ElicitationResult, Resolve
from mcp_types import ElicitRequest, ElicitRequestURLParams, InputRequiredResult
from pydantic import BaseModel, Field

server = MCPServer("asking")


class Trip(BaseModel):
    city: str = Field(min_length=2, description="the city")
    nights: int = Field(ge=1, le=14)


class Login(BaseModel):
    password: str


async def trip() -> Elicit[Trip]:
    return Elicit("Where to?", Trip)


async def login() -> Elicit[Login]:
    return Elicit("Who are you?", Login)


@server.tool()
async def book(hotel: str, trip: Annotated[ElicitationResult[Trip], Resolve(trip)]) -> str:
    """Books a hotel."""
    if isinstance(trip, AcceptedElicitation):
        return f"booked {hotel} in {trip.data.city} for {trip.data.nights} nights"
    return f"not booked: {trip.action}"


@server.tool()
async def enter(login: Annotated[ElicitationResult[Login], Resolve(login)]) -> str:
    """Asks for a secret in a form, which the protocol forbids."""
    return f"entered: {login.action}"


@server.tool()
async def pay(ctx: Context) -> str | InputRequiredResult:
    """Leads to a page."""
    if not ctx.input_responses:
        params = ElicitRequestURLParams(message="Pay here", url="https://pay.example/now?x=1")
        return InputRequiredResult(input_requests={"page": ElicitRequest(params=params)}, request_state="unpaid")
    return f"{ctx.request_state}, then {ctx.input_responses['page'].action}"


server.run("stdio")
