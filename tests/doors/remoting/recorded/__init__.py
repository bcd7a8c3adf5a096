"""Requests that unmodified remoting clients sent to a real broker; see README.md."""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from mocketmq.remoting.wire.codes import RequestCode

PRIORITIES = Path(__file__).with_name("priorities-java-5.5.txt")
"""Priority messages sent, popped and acknowledged by Java's client."""

ALL_KEPT = {RequestCode.SEND_MESSAGE_V2, RequestCode.POP_MESSAGE}


class RecordedRequest(NamedTuple):
    """A request of a client, with the version that the client claims."""

    code: int
    version: int
    ext: Mapping[str, str]
    body: bytes


def record(file: Path, sent: Iterable[RecordedRequest]) -> None:
    """Write all sends and pops, and one of the other requests with the same code and the same fields."""
    kept: dict[object, RecordedRequest] = {}
    for number, one in enumerate(sent):
        kind = (number,) if one.code in ALL_KEPT else (one.code, *sorted(one.ext))
        kept.setdefault(kind, one)
    file.write_text("".join(f"{tuple(one)!r}\n" for one in kept.values()), "utf-8")


def read(file: Path) -> list[RecordedRequest]:
    """Return the requests in a file."""
    return [RecordedRequest(*ast.literal_eval(line)) for line in file.read_text("utf-8").splitlines()]
