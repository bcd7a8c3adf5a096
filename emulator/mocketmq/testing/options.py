"""The start options of a test's broker, from pytest's settings and the marker ``mocketmq``."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mocketmq.testing.finding import find_program

_START = ("clock", "profile", "levels", "brokers")
_MARKER = (*_START, "topics", "seed", "snapshot", "strict", "forget")
_LONG_POLLS = ("--max-long-poll", "1s")
"""Short, because a push consumer of RocketMQ 5, and so its test, waits for its long polls when it closes."""


class StartOptions(NamedTuple):
    """Start options of a broker, named like pytest's settings; empty means the broker's default."""

    clock: str
    profile: str
    levels: str
    brokers: str

    @property
    def flags(self) -> list[str]:
        """The options of ``mocketmq serve``."""
        given = zip(_START, self)
        return [part for name, text in given if text for part in (f"--{name}", text)]


class WantedBroker(NamedTuple):
    """The options, topics and seed files that a test asks for.

    ``snapshot`` names the snapshot with which the test begins; empty for an empty broker. ``is_strict`` fails
    the test if it leaves delivered messages unacknowledged. ``forgets`` deletes the topics and groups of
    earlier tests.
    """

    start: StartOptions
    topics: Sequence[str]
    seeds: Sequence[Path]
    snapshot: str
    is_strict: bool
    forgets: bool


def command(config: pytest.Config) -> list[str]:
    """The command line of ``mocketmq serve``, without its start options. Raises StartError."""
    given, image = config.getini("mocketmq_command"), config.getini("mocketmq_image")
    program = given or find_program(config.getini("mocketmq_install"), image)
    always = ["serve", "--data", ":memory:", *_LONG_POLLS]
    if not given:  # a given command may run a container without standard input
        always.append("--until-eof")
        if image:
            always += ["--host", "0.0.0.0"]  # noqa: S104 - inside a container
    return [*program, *always, *config.getini("mocketmq_options")]


def of_settings(config: pytest.Config) -> StartOptions:
    """Return the start options of a test without a marker."""
    texts = {name: config.getini(f"mocketmq_{name}") for name in _START}
    return StartOptions(**{**texts, "clock": texts["clock"] or "manual"})


def wanted(node: pytest.Item) -> WantedBroker:
    """Return pytest's settings, overridden by the markers of module, class and test, in this order.

    Topics and seeds add up instead. A marker's paths of seed files are relative to the test's file, and paths
    in the settings to the root directory.
    """
    start, topics = of_settings(node.config), list(node.config.getini("mocketmq_topics"))
    seeds = [node.config.rootpath / name for name in node.config.getini("mocketmq_seed")]
    snapshot = node.config.getini("mocketmq_snapshot")
    is_strict, forgets = (bool(node.config.getini(f"mocketmq_{name}")) for name in ("strict", "forget"))
    for marker in reversed(list(node.iter_markers("mocketmq"))):
        _check(marker)
        given = marker.kwargs
        start = start._replace(**{name: _text(given[name]) for name in _START if name in given})
        topics += given.get("topics", [])
        seeds += [node.path.parent / name for name in _listed(given.get("seed", []))]
        snapshot = given.get("snapshot", snapshot) or ""
        is_strict, forgets = given.get("strict", is_strict), given.get("forget", forgets)
    return WantedBroker(start, topics, seeds, snapshot, is_strict, forgets)


def _check(marker: pytest.Mark) -> None:
    unknown = [*map(repr, marker.args), *(name for name in marker.kwargs if name not in _MARKER)]
    if unknown:
        allowed = ", ".join(f"{name}=…" for name in _MARKER)
        pytest.fail(
            f"the marker mocketmq does not accept {', '.join(unknown)}; allowed: {allowed}", pytrace=False
        )
    if isinstance(marker.kwargs.get("topics"), str):
        pytest.fail("topics of the marker mocketmq is a text; allowed: a list of names", pytrace=False)


def _listed(value: Any) -> Sequence[Any]:
    """Return seeds as a list; a marker may name a single file."""
    return [value] if isinstance(value, (str, os.PathLike)) else value


def _text(value: Any) -> str:
    """Return an option as text; levels may be a list of durations, and brokers is a number."""
    return " ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
