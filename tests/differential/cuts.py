"""Plays that end early, because real time decided an answer, and how many may."""

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, NamedTuple

from mocketmq.remoting.wire.codes import ResponseCode
from tests.differential.difference import Difference
from tests.differential.op import Op

_TOO_SLOW: Final = (
    (ResponseCode.POLLING_TIMEOUT, "pop message is timeout too much"),  # over 500 ms between two of its steps
    (ResponseCode.SYSTEM_BUSY, "start flow control for a while"),  # its threads or its disk cannot keep up
    (ResponseCode.SYSTEM_ERROR, "create mapped file failed, server is busy or broken"),  # it waits up to 5 s
)
"""RocketMQ's answers to a request that it would have served on an idle machine."""


class Reason(StrEnum):
    """Reason for a cut, as the summary prints it."""

    CHANCE = "as real time decided an order or an answer"
    LATE = "as RocketMQ said that it was too slow"


class Cut(NamedTuple):
    """The operation at which a play ended, and the reason."""

    op: Op
    reason: Reason


def is_too_slow(difference: Difference) -> bool:
    """Whether RocketMQ, unlike mocketmq, answers here that it was too slow to serve the request."""
    *place, name = difference.path
    if name != "code":
        return False
    answer: Any = difference.seen[0]
    for step in place:
        answer = answer[int(step)] if isinstance(answer, list) else answer[step]
    remark = answer.get("remark") or ""
    return any(difference.theirs == code and words in remark for code, words in _TOO_SLOW)


def require_few(cuts: Sequence[Cut], plays: int) -> None:
    """Raise AssertionError if so many of the plays were cut short that the others prove too little."""
    most = 2 + plays * 5 // 100
    assert len(cuts) <= most, (
        f"{len(cuts)} of {plays} plays were cut short, more than {most}: compare on a machine with less to do"
    )
