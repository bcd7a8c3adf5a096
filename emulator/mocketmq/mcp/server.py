"""The server: offers the tools to an agent by its standard input and output."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.tools import Tool
from mcp.types import ToolAnnotations
from pydantic import create_model

from mocketmq import __version__
from mocketmq.client.answer import JsonObject
from mocketmq.client.asynchronous import Client
from mocketmq.errors import EmulatorError
from mocketmq.mcp.bounds import bounded
from mocketmq.mcp.tools import BrokerTools

_INSTRUCTIONS: Final = (
    "mocketmq is RocketMQ for test environments, with a clock that moves on request. Send delayed messages,"
    " then advance_clock instead of waiting. After a failed test, begin with read_story, then show_message."
    " Fields that end in _ms are epoch milliseconds or durations, on the broker's clock. Reset between tests."
)

_READS: Final = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_ADDS: Final = ToolAnnotations(destructive_hint=False, open_world_hint=False)
_REMOVES: Final = ToolAnnotations(destructive_hint=True, open_world_hint=False)


def serve(url: str, token: str | None) -> None:
    """Serve until the input ends. Raises InvalidArgumentError for an invalid address or token."""
    anyio.run(_serve, url, token)


async def _serve(url: str, token: str | None) -> None:
    async with Client(url, token) as client:
        await make_server(client).run_stdio_async()


def make_server(client: Client) -> MCPServer:
    """Make the server with all tools, for the broker of the client."""
    tools = BrokerTools(client)
    return MCPServer(
        "mocketmq",
        instructions=_INSTRUCTIONS,
        version=__version__,
        log_level="WARNING",
        tools=[
            _tool(tools.show_broker, _READS),
            _tool(tools.send_message, _ADDS),
            _tool(tools.find_messages, _READS),
            _tool(tools.wait_for_messages, _ADDS),  # waiting can move the clock
            _tool(tools.show_message, _READS),
            _tool(tools.list_delayed, _READS),
            _tool(tools.advance_clock, _ADDS),
            _tool(tools.move_clock_to, _ADDS),
            _tool(tools.move_clock_to_next_due, _ADDS),
            _tool(tools.inject_fault, _ADDS),
            _tool(tools.list_faults, _READS),
            _tool(tools.remove_fault, _REMOVES),
            _tool(tools.list_groups, _READS),
            _tool(tools.list_leaks, _READS),
            _tool(tools.read_story, _READS),
            _tool(tools.read_events, _READS),
            _tool(tools.reset, _REMOVES),
        ],
    )


def _tool(ask: Callable[..., Awaitable[JsonObject]], annotations: ToolAnnotations) -> Tool:
    """Make a tool that returns bounded JSON, or the broker's own text of an error."""

    @functools.wraps(ask)
    async def answer(**arguments: Any) -> str:
        try:
            return bounded(await ask(**arguments))
        except EmulatorError as error:
            raise ToolError(str(error)) from error

    tool = Tool.from_function(
        answer, description=inspect.getdoc(ask), annotations=annotations, structured_output=False
    )
    lenient = tool.fn_metadata.arg_model
    # The SDK ignores unknown arguments: a misspelt delay would send a message without any.
    strict = create_model(lenient.__name__, __base__=lenient, __cls_kwargs__={"extra": "forbid"})
    tool.fn_metadata.arg_model = strict
    tool.parameters = strict.model_json_schema()
    return tool
