"""Which broker a test needs: by the settings of the project, and by the marker ``mocketmq``."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest

from mocketmq.own_command import own_command

_START = ("clock", "profile", "levels")
_MARKER = (*_START, "topics", "strict", "forget")
_LONG_POLLS = ("--max-long-poll", "1s")
"""Push consumers of RocketMQ 5 wait for their long polls when they close, and tests for these consumers."""


class StartOptions(NamedTuple):
    """With what a broker is started: as in the settings of the same names, empty for the broker's default."""

    clock: str
    profile: str
    levels: str

    @property
    def flags(self) -> list[str]:
        """The options of ``mocketmq serve``."""
        given = zip(_START, self, strict=True)
        return [part for name, text in given if text for part in (f"--{name}", text)]


class WantedBroker(NamedTuple):
    """The broker of a test and its topics.

    ``is_strict``: all that is delivered has to be acknowledged. ``forgets``: topics and groups of the tests
    before are deleted.
    """

    start: StartOptions
    topics: Sequence[str]
    is_strict: bool
    forgets: bool


def command(config: pytest.Config) -> list[str]:
    """The command line of ``mocketmq serve``, without its start options."""
    given = config.getini("mocketmq_command")
    # A container without its standard input would stop at once.
    until = [] if given else ["--until-eof"]
    always = ("serve", "--data", ":memory:", *_LONG_POLLS)
    return [*(given or own_command()), *always, *until, *config.getini("mocketmq_options")]


def of_settings(config: pytest.Config) -> StartOptions:
    """The start options of a test without a marker."""
    texts = {name: config.getini(f"mocketmq_{name}") for name in _START}
    return StartOptions(**{**texts, "clock": texts["clock"] or "manual"})


def wanted(node: pytest.Item) -> WantedBroker:
    """The settings, changed by the markers of the test, its class and its module; of two, the nearer one."""
    start, topics = of_settings(node.config), list(node.config.getini("mocketmq_topics"))
    is_strict, forgets = (bool(node.config.getini(f"mocketmq_{name}")) for name in ("strict", "forget"))
    for marker in reversed(list(node.iter_markers("mocketmq"))):
        _check(marker)
        given = marker.kwargs
        start = start._replace(**{name: _text(given[name]) for name in _START if name in given})
        topics += given.get("topics", [])
        is_strict, forgets = given.get("strict", is_strict), given.get("forget", forgets)
    return WantedBroker(start, topics, is_strict, forgets)


def _check(marker: pytest.Mark) -> None:
    unknown = [*map(repr, marker.args), *(name for name in marker.kwargs if name not in _MARKER)]
    if unknown:
        allowed = ", ".join(f"{name}=…" for name in _MARKER)
        pytest.fail(f"marker mocketmq has {', '.join(unknown)}; allowed: {allowed}", pytrace=False)
    if isinstance(marker.kwargs.get("topics"), str):
        pytest.fail("marker mocketmq has a text as topics; allowed: a list of names", pytrace=False)


def _text(value: Any) -> str:
    """Levels may be a list of durations."""
    return value if isinstance(value, str) else " ".join(map(str, value))
