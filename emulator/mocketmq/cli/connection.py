"""Connect client commands to a broker: ``--url``, ``--token``, ``--json``, and errors in the user's words."""

import functools
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import click

from mocketmq import DEFAULT_URL
from mocketmq.cli.exit_codes import Exit, Failure
from mocketmq.cli.output import Output, instant
from mocketmq.client.answer import BrokerError, UnreachableError
from mocketmq.client.blocking import BlockingClient
from mocketmq.clock import US_PER_MS
from mocketmq.duration import format_duration
from mocketmq.errors import InvalidArgumentError

_OPTIONS = (
    click.option(
        "--url", envvar="MOCKETMQ_URL", default=DEFAULT_URL, show_default=True, help="The broker's address."
    ),
    click.option("--token", envvar="MOCKETMQ_TOKEN", help="The broker's token, if it wants one."),
    click.option("--json", "as_json", is_flag=True, help="Print the answer as JSON."),
)
_PARAMETERS = {
    "by": "duration",
    "delay_level": "level",
    "delay_ms": "delay",
    "filter": "tags sql",
    "group": "group name",
    "max": "max_messages",
    "message_id": "message_id consume",
    "properties.__STARTDELIVERTIME": "at",
    "queue_id": "queue",
    "read_queues": "queues",
    "start_deliver_ms": "at",
    "topic": "topic name",
    "wait_ms": "wait",
    "write_queues": "queues",
}
"""Parameters of commands, by the field of the API that they fill, where their names differ."""
_IN_OTHER_UNITS = {"at", "delay", "wait"}
_RANGE = re.compile("a whole number from ([0-9]+) to ([0-9]+)")
_LIMIT = re.compile("up to ([0-9]+)")
_CODES: dict[int, Exit] = {HTTPStatus.NOT_FOUND: Exit.NOTHING, HTTPStatus.SERVICE_UNAVAILABLE: Exit.NOT_READY}


def with_broker(act: Callable[..., None]) -> Callable[..., None]:
    """Make a command of ``act(broker, output, …)``, which gets a connected client and an :class:`Output`."""

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


def ask_broker(
    url: str, token: str | None, act: Callable[[BlockingClient], None], *, answer_s: float | None = None
) -> None:
    """Run ``act`` with a client. Raises Failure if the broker refuses or cannot be reached."""
    try:
        with BlockingClient(url, token, answer_s=answer_s) as broker:
            act(broker)
    except BrokerError as error:
        raise Failure(_as_typed(error), _CODES.get(error.status, Exit.REFUSED)) from error
    except InvalidArgumentError as error:
        raise Failure(_as_typed(error), Exit.USAGE) from error
    except UnreachableError as error:
        raise Failure(str(error), Exit.NOT_READY) from error


def _as_typed(error: BrokerError | InvalidArgumentError) -> str:
    """The error's sentence, with option and value as they were typed instead of the API's field."""
    field, sentence = error.field or "", str(error)
    context = click.get_current_context(silent=True)
    name = re.split(r"[.\[]", field)[0]
    names = (_PARAMETERS.get(field) or _PARAMETERS.get(name, name)).split()
    if context is None:
        return sentence
    for parameter in context.command.params:
        typed = context.params.get(parameter.name or "")
        if parameter.name not in names or typed is None:
            continue
        is_option = isinstance(parameter, click.Option)
        shown = max(parameter.opts, key=len) if is_option else parameter.human_readable_name
        _, separator, allowed = sentence.partition("; allowed: ")
        if parameter.name in _IN_OTHER_UNITS and separator:
            in_words = _instants if parameter.name == "at" else _durations
            return f"{shown} is {typed!r}; allowed: {_LIMIT.sub(_instant, _RANGE.sub(in_words, allowed))}"
        if sentence.startswith(f"{field} is "):
            property_name = re.sub(r"^properties\.?|\[.*", "", field) if name == "properties" else ""
            return " ".join(filter(None, (shown, property_name))) + sentence.removeprefix(field)
    return sentence


def _durations(match: re.Match[str]) -> str:
    low, high = (format_duration(int(text) * US_PER_MS) for text in match.groups())
    return f"a duration from {low} to {high}"


def _instants(match: re.Match[str]) -> str:
    first, last = (instant(int(text)) for text in match.groups())
    return f"an instant from {first} to {last}"


def _instant(match: re.Match[str]) -> str:
    return f"up to {instant(int(match[1]))}"
