"""Where two answers part."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.differential.op import Op, Seen


class Difference(NamedTuple):
    """A path into what was seen of one operation, what stands there, and the whole of it."""

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
        """What it has in common with differences of other operations."""
        return (self.op.name, *("#" if step.isdigit() else step for step in self.path))

    @property
    def codes(self) -> tuple[int | None, int | None]:
        """What RocketMQ and mocketmq answered."""
        theirs, ours = self.seen
        return theirs.get("code"), ours.get("code")

    def given(self, name: str) -> Any:
        """What the operation was given by this name."""
        return self.op.args.get(name)


def differences(op: Op, theirs: Seen, ours: Seen) -> list[Difference]:
    """All of them, at the innermost places."""
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
