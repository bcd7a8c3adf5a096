"""The findings of a replay of requests: how many answers it compared, and how they differ."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from mocketmq.recording.requests.answer_difference import AnswerDifference
from mocketmq.recording.requests.request_file import EventLine, RequestEvent

MOST_KINDS: Final = 1_000
"""Maximum number of kinds of differences that are kept; further kinds are only counted."""
_ID: Final = re.compile("[0-9A-Za-z+=_-]{16,}")


class Finding:
    """A kind of difference: an example, the line of the example's request, and a count."""

    def __init__(self, door: str, operation: str, line: int, text: str) -> None:
        self.door = door
        self.operation = operation
        self.line = line
        self.text = text
        self.count = 0

    def as_dict(self) -> dict[str, Any]:
        """Return the finding for JSON."""
        return dict(vars(self))


class DoorCount(NamedTuple):
    """The numbers of a door's answers that were compared, and that differ."""

    compared: int
    differing: int


class Findings:
    """The differences by door, operation and place in responses. ``notes`` counts the requests left out."""

    def __init__(self) -> None:
        self.notes: Counter[str] = Counter()
        self.kinds: dict[tuple[str, str, str], Finding] = {}
        self._compared: Counter[str] = Counter()
        self._differing: Counter[str] = Counter()

    @property
    def compared(self) -> int:
        """Number of answers that were compared."""
        return self._compared.total()

    @property
    def differing(self) -> int:
        return self._differing.total()

    @property
    def doors(self) -> dict[str, DoorCount]:
        return {
            door: DoorCount(count, self._differing[door]) for door, count in sorted(self._compared.items())
        }

    def add_answer(self, asked: EventLine, different: Sequence[AnswerDifference]) -> None:
        door, operation = asked.event.door, operation_of(asked.event)
        self._compared[door] += 1
        self._differing[door] += bool(different)
        for path, text in different:
            key = door, operation, path
            if key not in self.kinds:
                if len(self.kinds) == MOST_KINDS:
                    self.notes["further kinds of differences"] += 1
                    continue
                self.kinds[key] = Finding(door, operation, asked.number, text)
            self.kinds[key].count += 1


def operation_of(event: RequestEvent) -> str:
    """Return the operation of a request: the name of its code, or its method and path without ids."""
    form = event.content
    if "rpc" in form:
        return str(form["rpc"])
    if "name" in form:
        topic = form.get("ext", {}).get("topic") or form.get("ext", {}).get("b")
        return f"{form['name']} {topic}" if topic else str(form["name"])
    path = form["path"].partition("?")[0]
    return f"{form['method']} {_ID.sub('…', path)}"
