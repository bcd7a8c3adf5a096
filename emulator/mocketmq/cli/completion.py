"""Shell completion of names in the broker and of words that an option accepts."""

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, get_args

import click

from mocketmq import DEFAULT_URL
from mocketmq.errors import EmulatorError

if TYPE_CHECKING:
    from mocketmq.client.answer import JsonObject
    from mocketmq.client.blocking import BlockingClient

Completer = Callable[[click.Context, click.Parameter, str], list[str]]
"""Type of click's parameter ``shell_complete``."""

_ANSWER_S = 1.0


def complete_words(words: Iterable[str]) -> Completer:
    """Complete one of these words."""
    return lambda _context, _parameter, begun: [word for word in words if word.startswith(begun)]


def complete_topics(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Complete the name of a topic. System topics are offered only if the word begins like their names."""
    topics = _ask(context, lambda broker: broker.topics())
    names = [topic["name"] for topic in topics if begun or not topic["system"]]
    return complete_words(names)(context, parameter, begun)


def _complete_names(ask: "Callable[[BlockingClient], list[JsonObject]]") -> Completer:
    """Complete one of the names in the broker's answer."""

    def complete(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
        return complete_words(each["name"] for each in _ask(context, ask))(context, parameter, begun)

    return complete


complete_groups = _complete_names(lambda broker: broker.groups())
complete_brokers = _complete_names(lambda broker: broker.brokers())
complete_faults = _complete_names(lambda broker: broker.faults())
complete_snapshots = _complete_names(lambda broker: broker.snapshots())


def complete_fault_kinds(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """Complete the kind of a fault rule."""
    from mocketmq.faults.rule import Kind  # noqa: PLC0415 - slow

    return complete_words(get_args(Kind))(context, parameter, begun)


def _ask(context: click.Context, act: "Callable[[BlockingClient], list[JsonObject]]") -> "list[JsonObject]":
    """Ask the broker that the command would use. Returns an empty list if no broker answers."""
    from mocketmq.client.blocking import BlockingClient  # noqa: PLC0415 - `serve` completes, but needs no client

    url = context.params.get("url") or os.environ.get("MOCKETMQ_URL") or DEFAULT_URL
    token = context.params.get("token") or os.environ.get("MOCKETMQ_TOKEN")
    try:
        with BlockingClient(url, token, answer_s=_ANSWER_S) as broker:
            return act(broker)
    except EmulatorError:
        return []
