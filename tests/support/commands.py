"""Commands of the remoting protocol, compared and changed by their fields."""

from typing import Any, Final

from mocketmq.remoting.wire.command import Command

_NAMES: Final = (
    *("code", "opaque", "flag", "ext", "body", "remark", "language", "version", "serialization"),
    "frame_bytes",
)


def fields(command: Command) -> dict[str, Any]:
    """The fields that a reader of frames sets, by name."""
    return {name: getattr(command, name) for name in _NAMES}


def changed(command: Command, **changes: object) -> Command:
    """The command with other values in some fields."""
    return Command(**(fields(command) | changes))
