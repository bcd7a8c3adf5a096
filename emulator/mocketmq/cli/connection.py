"""What all client commands share: the broker's address, the token, ``--json``, and how failures end."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

import click

from mocketmq import DEFAULT_URL
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.output import Output
from mocketmq.client import BrokerError, Client, UnreachableError

_OPTIONS = (
    click.option(
        "--url", envvar="MOCKETMQ_URL", default=DEFAULT_URL, show_default=True, help="The broker's address."
    ),
    click.option("--token", envvar="MOCKETMQ_TOKEN", help="The broker's token, if it asks for one."),
    click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON."),
)
_CODES: dict[int, Exit] = {HTTPStatus.NOT_FOUND: Exit.NOTHING, HTTPStatus.SERVICE_UNAVAILABLE: Exit.NOT_READY}


def with_broker(act: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Make a command of ``act(broker, output, …)``: it gets a connected client and a place for answers."""

    @broker_options
    @functools.wraps(act)
    def command(url: str, token: str | None, as_json: bool, **arguments: Any) -> None:
        ask_broker(url, token, lambda broker: act(broker, Output(as_json), **arguments))

    return command


def broker_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command ``--url``, ``--token`` and ``--json``."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def ask_broker(url: str, token: str | None, act: Callable[[Client], Awaitable[None]]) -> None:
    """Let ``act`` talk to the broker. Raises Failure when the broker refuses or cannot be reached."""

    async def run() -> None:
        async with Client(url, token) as broker:
            await act(broker)

    try:
        asyncio.run(run())
    except BrokerError as error:
        raise Failure(str(error), _CODES.get(error.status, Exit.REFUSED)) from error
    except UnreachableError as error:
        raise Failure(str(error), Exit.NOT_READY) from error
