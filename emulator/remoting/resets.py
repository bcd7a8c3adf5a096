"""Resetting offsets: 222 (sheet 2.10)."""

from typing import Final, NamedTuple

from emulator.remoting.channel import queue_offsets
from emulator.remoting.codes import RequestCode
from emulator.remoting.fastjson import dumps, object_keys
from emulator.remoting.handler import Call, Family, Reply, Request


class ResetOffset(NamedTuple):
    """2.10; ``timestamp`` in milliseconds, -1 for the end of the queue."""

    topic: str
    group: str
    timestamp: int
    is_force: bool


async def reset(call: Call[ResetOffset]) -> Reply:
    """Let a group go on from where a topic was at a time; its clients are told."""
    header = call.header
    moved = await call.broker.offsets.reset(
        header.group, header.topic, header.timestamp, is_forced=header.is_force
    )
    return Reply(body=dumps({"offsetTable": object_keys(queue_offsets(moved))}))


RESETS: Final = Family(
    "Resetting offsets", {RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Request(ResetOffset, reset)}
)
