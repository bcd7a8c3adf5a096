"""Connects client commands to a broker, with ``--url``, ``--token`` and ``--json``, and sets exit codes."""

import functools
import os
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import click

from mocketmq import DEFAULT_URL
from mocketmq.cli.as_typed import as_typed
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.output import Output
from mocketmq.client.answer import BrokerError, UnreachableError
from mocketmq.client.blocking import BlockingClient
from mocketmq.errors import InvalidArgumentError

_OPTIONS = (
    click.option(
        "--url",
        envvar="MOCKETMQ_URL",
        default=DEFAULT_URL,
        show_default=True,
        help="The broker's address. http://NAME:PASSWORD@HOST sends a user's credentials.",
    ),
    click.option("--token", envvar="MOCKETMQ_TOKEN", help="The broker's token, if it requires one."),
    click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON."),
)
_CODES: dict[int, Exit] = {HTTPStatus.NOT_FOUND: Exit.NOTHING, HTTPStatus.SERVICE_UNAVAILABLE: Exit.NOT_READY}


def with_broker(act: Callable[..., None]) -> Callable[..., None]:
    """Make a command from ``act(broker, output, …)``, which gets a client and an :class:`Output`."""

    @broker_options
    @functools.wraps(act)
    def command(url: str, token: str | None, as_json: bool, **arguments: Any) -> None:
        ask_broker(url, token, lambda broker: act(broker, Output(as_json), **arguments))

    return command


def broker_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add ``--url``, ``--token`` and ``--json`` to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def ask_broker(
    url: str, token: str | None, act: Callable[[BlockingClient], None], *, answer_s: float | None = None
) -> None:
    """Run ``act`` with a client. Raises Failure if the broker refuses or cannot be reached."""
    _warn_of_variables()
    try:
        with BlockingClient(url, token, answer_s=answer_s) as broker:
            act(broker)
    except BrokerError as error:
        raise Failure(as_typed(error), _CODES.get(error.status, Exit.REFUSED)) from error
    except InvalidArgumentError as error:
        raise Failure(as_typed(error), Exit.USAGE) from error
    except UnreachableError as error:
        raise Failure(str(error), Exit.NOT_READY) from error


def _warn_of_variables() -> None:
    """Print the variables that have no effect."""
    ours = {name for name in os.environ if name.startswith("MOCKETMQ_")}
    if ours - {"MOCKETMQ_URL", "MOCKETMQ_TOKEN"}:
        from mocketmq.settings_sources import unknown_variables  # noqa: PLC0415 - slow, and seldom needed

        for sentence in unknown_variables(os.environ):
            click.echo(f"Warning: {sentence}", err=True)
