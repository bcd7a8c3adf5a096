"""What the broker shows of failing or hanging consumers, for comparison with their own counts."""

import asyncio
import re
from typing import Any, NamedTuple

from mocketmq import Client
from mocketmq.testing.broker import Broker
from mocketmq.testing.failed_test import story_of


class Shown(NamedTuple):
    """What the broker shows of a message: its state, its life, and lines in a failed test's report."""

    state: str
    life: list[Any]
    report: list[str]


async def shown(control: Client, message_id: str) -> Shown:
    """Ask the broker in each way that a user can."""
    history = await control.message(message_id)
    events = [one for one in await control.events(max_events=1_000) if one["message_id"] == message_id]
    expected = [one for one in history["life"] if one["kind"] not in ("due", "visible")]
    assert [(one["kind"], one["group"], one["at_ms"]) for one in events] == [
        (one["kind"], one["group"], one["at_ms"]) for one in expected
    ]
    report = await asyncio.to_thread(_report, control.url)
    return Shown(history["state"], history["life"], report.splitlines())


def _report(url: str) -> str:
    """Return the lines that the plugin adds to the report of a failed test."""
    with Broker(url) as broker:
        return story_of(broker)


def kinds(shown: Shown, group: str) -> list[str]:
    """Return the kinds of the group's events, in order."""
    return [one["kind"] for one in shown.life if one["group"] == group]


def check_takes(shown: Shown, group: str, attempts: int) -> None:
    """Check that life and report show as many takes as the consumer made attempts."""
    assert kinds(shown, group).count("taken") == attempts
    told = [line for line in shown.report if re.search(rf"taken by {re.escape(group)}\b", line)]
    assert len(told) == attempts
