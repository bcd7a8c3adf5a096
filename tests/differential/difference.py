"""Differences between two answers."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.differential.op import Op, Seen


class Difference(NamedTuple):
    """The path to a difference within an operation's result, both values there, and both complete results."""

    op: Op
    path: tuple[str, ...]
    theirs: Any
    ours: Any
    seen: tuple[Seen, Seen]

    def __str__(self) -> str:
        return (
            f"{self.op}\n  at {'.'.join(self.path)}\n"
            f"    RocketMQ: {self.theirs!r}\n    mocketmq: {self.ours!r}"
        )

    @property
    def kind(self) -> tuple[str, ...]:
        """The kind of the difference; different operations can have differences of the same kind."""
        return (self.op.name, *("#" if step.isdigit() else step for step in self.path))

    @property
    def codes(self) -> tuple[int | None, int | None]:
        """The results of RocketMQ and mocketmq."""
        theirs, ours = self.seen
        return theirs.get("code"), ours.get("code")

    def given(self, name: str) -> Any:
        """Return the operation's argument of this name."""
        return self.op.args.get(name)


def differences(op: Op, theirs: Seen, ours: Seen) -> list[Difference]:
    """Yield all differences, each at its innermost path."""
    return [Difference(op, *found, (theirs, ours)) for found in _parted((), theirs, ours)]


def _parted(path: tuple[str, ...], theirs: Any, ours: Any) -> Iterator[tuple[tuple[str, ...], Any, Any]]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(theirs.keys() | ours.keys()):
            yield from _parted((*path, key), theirs.get(key), ours.get(key))
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            yield from _parted((*path, str(number)), one, other)
    elif theirs != ours:
        yield path, theirs, ours
